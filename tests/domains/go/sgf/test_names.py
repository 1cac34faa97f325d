"""Text in whatever encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outofcore.domains.go.sgf.encoding import NameRule, decode, unescaped


@pytest.mark.parametrize(
    ("raw", "charset", "text", "rule"),
    [
        (b"Honinbo Shusaku", b"", "Honinbo Shusaku", NameRule.ASCII),
        (b" two\n  lines ", b"", "two lines", NameRule.ASCII),
        (b"a\\]b\\\\c\\\nd", b"UTF-8", "a]b\\cd", NameRule.ASCII),
        ("古力".encode("gb2312"), b"GB2312", "古力", NameRule.DECLARED),
        ("井山 裕太".encode("cp932"), b"Shift_JIS", "井山 裕太", NameRule.DECLARED),
        ("이세돌".encode("cp949"), b"EUC-KR", "이세돌", NameRule.DECLARED),
        ("Jürgen".encode("latin-1"), b"ISO-8859-1", "Jürgen", NameRule.DECLARED),
        ("柯洁".encode(), b"", "柯洁", NameRule.UTF8),
        ("柯洁".encode(), b"no such thing", "柯洁", NameRule.UTF8),
        *(("柯洁".encode(), charset, "柯洁", NameRule.UTF8) for charset in (b"EUC-KR", b"GBK", b"latin-1")),
        ("対局".encode(), b"Shift_JIS", "対局", NameRule.UTF8),
        ("毛".encode("gbk"), b"GBK", "毛", NameRule.DECLARED),  # also a character of UTF-8
        ("这是从压长星定式演变而来".encode("gb18030"), b"", "这是从压长星定式演变而来", NameRule.GB18030),
        ("Jürgen Müßig".encode("latin-1"), b"", "Jürgen Müßig", NameRule.LATIN1),
        ("éèêë àù".encode("latin-1"), b"UTF-8", "éèêë àù", NameRule.LATIN1),
        (b"\xff\xfe\x80", b"", "ÿþ\x80", NameRule.LATIN1),
    ],
)
def test_one_value(raw: bytes, charset: bytes, text: str, rule: NameRule) -> None:
    assert decode((raw,), charset) == ((text,), rule)


def test_characters_that_a_server_cut() -> None:
    values = ("周睿羊".encode().replace(b"\x9d", b"?"), "9段".encode())
    assert b"?" in values[0]
    assert decode(values, b"") == (("周�羊", "9段"), NameRule.DAMAGED_UTF8)
    cut_end = "李喆".encode()[:-1] + b"?"
    assert decode((cut_end, "9段".encode()), b"")[0][0] == "李�"
    assert decode(("É?".encode("latin-1"),), b"")[1] is NameRule.LATIN1


def test_all_values_of_a_game_by_one_rule() -> None:
    values = ("Müller".encode("latin-1"), "柯洁".encode("gb18030"), b"plain")
    texts, rule = decode(values, b"")
    assert rule is NameRule.LATIN1
    assert texts[2] == "plain"


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=4).map(tuple), st.binary(max_size=12), st.booleans())
def test_never_fails(values: tuple[bytes, ...], charset: bytes, utf16: bool) -> None:
    texts, rule = decode(values, charset, utf16=utf16)
    assert len(texts) == len(values)
    "".join(texts).encode("utf-8")
    assert decode(values, charset, utf16=utf16) == (texts, rule)


@given(
    st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=0xFFFF, exclude_categories=["C", "Z"]), min_size=1)
)
def test_utf8_comes_back(text: str) -> None:
    raw = text.replace("\\", "\\\\").replace("]", "\\]").encode()
    assert decode((raw,), b"UTF-8")[0][0] == text


def test_a_codec_that_showed_the_brackets_decodes_before_escapes() -> None:
    assert decode(("表\\]ソ".encode("cp932"),), b"Windows-31J", codec="cp932") == (("表]ソ",), NameRule.DECLARED)
    assert decode(("ﾊﾞ表".encode("cp932"),), b"", codec="cp932")[1] in (NameRule.UNDECLARED, NameRule.LATIN1)
    assert decode(("功许".encode("hz"),), b"HZ-GB-2312", codec="hz") == (("功许",), NameRule.DECLARED)


@pytest.mark.parametrize(
    ("raw", "text"),
    [(b"a\\]b", b"a]b"), (b"a\\\\", b"a\\"), (b"a\\\r\nb", b"ab"), (b"a\\:b", b"a:b"), (b"a\\", b"a\\")],
)
def test_escapes(raw: bytes, text: bytes) -> None:
    assert unescaped(raw) == text
