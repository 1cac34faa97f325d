"""The encoding of a game decides which of its bytes are brackets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.domains.go.sgf.encoding import codec_of, is_certain, masked
from tests.domains.go.conftest import ConvertText
from tests.domains.go.games import convert

HIDING = {
    "cp932": (
        ("Shift_JIS", "Windows-31J", " x-sjis ", "Shift JIS", '"Shift_JIS"', "MS_Kanji", "SJIS", "csShiftJIS", "cp932"),
        "表ソ能予申十貼構暴噂充従ゼアー",
    ),
    "gb18030": (("GBK", "GB2312", "GB-2312", "gb18030", "windows-936", "x-gbk"), "歕漒塢媆昞燶乗俓孿檁賊"),
    "cp950": (("Big5", "x-big5", "windows-950", "CP950", "big5-eten"), "功許蓋餐吒吭沔坼娉珮豹"),
    "iso2022_jp_2": (("ISO-2022-JP", "csISO2022JP"), "表ソ能予申棋碁院"),
}
OTHERS = {"utf-8": "柯洁表ソ許é", "latin-1": "éüßåÉ", "cp949": "이세돌박정환", "euc_jp": "本因坊秀策表"}
POINTS = [f"{x}{y}" for y in "abcdefghi" for x in "abcdefghi"]


def sgf(words: list[str], at: list[int], charset: str) -> str:
    """A game of ten moves whose properties hold the words."""
    root = f"(;GM[1]SZ[9]{charset}PB[{words[0]}]PW[{words[1]}]"
    moves = [f";{'BW'[n % 2]}[{POINTS[7 * n]}]" + f"C[{words[2]}]" * (n in at) for n in range(10)]
    return root + "".join(moves[:5]) + "(" + "".join(moves[5:]) + ")(;W[ii];B[hh]))"


@pytest.mark.parametrize("codec", HIDING)
def test_every_alias_finds_the_moves_and_the_names(convert_text: ConvertText, codec: str) -> None:
    names, letters = HIDING[codec]
    usable = [letter for letter in letters if len(letter.encode(codec, "ignore")) >= 2]
    assert codec == "iso2022_jp_2" or any(letter.encode(codec)[-1] in b"[\\]" for letter in usable)
    texts = [
        sgf([letter, 2 * letter, letter], [n % 10, 4], f"CA[{name}]").replace("SZ[9]", f"SZ[9]KM[{number}.5]")
        for number, name in enumerate(names)
        for n, letter in enumerate(usable)
    ]
    converted = convert_text("\n".join(texts).encode(codec), filters={"duplicates": "keep"})
    assert converted.reasons == converted.differences == []
    assert converted.sequences["black"].tolist() == usable * len(names)
    assert converted.sequences["length"].tolist() == [10] * len(texts)
    assert converted.audited == len(texts)
    assert {codec_of(name.encode()) for name in names} == {codec}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.data())
def test_no_game_is_read_wrongly_whatever_it_declares(tmp_path: Path, data: st.DataObject) -> None:
    games = []
    for _ in range(data.draw(st.integers(1, 3))):
        codec = data.draw(st.sampled_from([*HIDING, *OTHERS]))
        letters = HIDING[codec][1] if codec in HIDING else OTHERS[codec]
        letters = "".join(letter for letter in letters if letter.encode(codec, "ignore")) + "ab"
        words = data.draw(st.lists(st.text(letters, min_size=1, max_size=4), min_size=3, max_size=3))
        charset = data.draw(st.sampled_from(["", "CA[UTF-8]", "CA[ISO-8859-1]", "CA[no-such]", "CA[EUC-KR]"]))
        games.append(sgf(words, data.draw(st.lists(st.integers(0, 9), max_size=2)), charset).encode(codec))
    raw = tmp_path / "games.sgf"
    raw.write_bytes(data.draw(st.sampled_from([b"\n", b"", b" "])).join(games))
    block = data.draw(st.sampled_from([1, 50, 1 << 20]))
    converted = convert(raw, block, filters={"sizes": [9], "duplicates": "keep"})
    assert converted.differences == []
    for number in range(len(converted.keys)):
        rows = converted.of(number)
        assert rows["move"].tolist() == [7 * n for n in range(10)]
        assert rows["state"][:, 0].tolist() == [0, 1] * 5
    assert converted.found == len(games)
    assert set(converted.reasons) <= {"unknown_encoding"}


@pytest.mark.parametrize("charset", ["", "CA[UTF-8]", "CA[ISO-8859-1]", "CA[no-such]"])
@pytest.mark.parametrize("codec", ["cp932", "gb18030", "cp950"])
def test_a_missing_or_wrong_name_costs_no_game_whose_brackets_show_its_encoding(
    convert_text: ConvertText, codec: str, charset: str
) -> None:
    letter = next(letter for letter in HIDING[codec][1] if letter.encode(codec)[-1:] == b"\\")
    converted = convert_text(sgf([letter, "x", letter], [3, 4, 9], charset).encode(codec))
    assert converted.reasons == []
    assert converted.sequences["black_bytes"][0].encode("latin-1") == letter.encode(codec)
    assert converted.sequences["length"].tolist() == [10]


@given(st.sampled_from(list(HIDING)), st.data())
def test_masks_hide_what_is_part_of_a_character(codec: str, data: st.DataObject) -> None:
    letters = "".join(letter for letter in HIDING[codec][1] if letter.encode(codec, "ignore"))
    words = data.draw(st.lists(st.text(letters + "[]\\a"), max_size=5))
    raw = "".join(words).encode(codec)
    hidden = masked(raw, codec)
    assert len(hidden) == len(raw)
    assert bytes(byte for byte in hidden if byte in b"[]\\").decode() == "".join(
        c for c in "".join(words) if c in "[]\\"
    )


def test_utf8_is_certain_and_others_are_not() -> None:
    assert is_certain("PB[柯洁]".encode())
    assert is_certain(b"PB[x]")
    assert not is_certain("PB[表]".encode("cp932"))
    assert not is_certain("PB[表]".encode("iso2022_jp"))


@pytest.mark.parametrize(
    "name",
    [b"UTF-16", b"utf-7", b"hex", b"rot13", b"idna", b"unicode_escape", b"punycode", b"\xff", b"EBCDIC-CP-BE", b""],
)
def test_declared_encodings_that_do_not_count(name: bytes) -> None:
    assert codec_of(name) is None
