"""SGF text in any encoding: bytes are kept, and decoded by a rule that is stored with them."""

from __future__ import annotations

import re
from enum import IntEnum

from outofcore.domains.go.sgf.encoding import codec_of, decodes

_ESCAPED = re.compile(rb"\\(\r\n|\n\r|.)", re.DOTALL)
_ESCAPED_TEXT = re.compile(r"\\(\r\n|\n\r|.)", re.DOTALL)
_BREAKS = (b"\n", b"\r", b"\r\n", b"\n\r")
_SPACES = re.compile(r"\s+")
_PLAIN = re.compile(rb"[\x00!-\[\]-~]*")  # ASCII without spaces and backslashes, joined by NUL
# A character of two to four bytes with continuation bytes overwritten by question marks.
_CUT = re.compile(
    rb"[\xc2-\xdf]\?|[\xe0-\xef](?:\?[\x80-\xbf?]|[\x80-\xbf]\?)|[\xf0-\xf4](?=[\x80-\xbf]{0,2}\?)[\x80-\xbf?]{3}"
)
_WIDE = re.compile(rb"[\xe0-\xf4][\x80-\xbf]{2}")  # of UTF-8; in other encodings such bytes are rare
_CUT_CHARACTER = "\ufffd".encode()


class NameRule(IntEnum):
    """How text was decoded: the first rule that fits."""

    ASCII = 0
    """All bytes are ASCII."""
    UTF16 = 1
    """The file is UTF-16."""
    DECLARED = 2
    """According to the game's CA property."""
    UTF8 = 3
    """Valid UTF-8 that is undeclared, or has characters of three bytes, whatever is declared."""
    DAMAGED_UTF8 = 4
    """UTF-8 in which question marks overwrote bytes of characters; each becomes U+FFFD."""
    GB18030 = 5
    """Nearly all pairs of bytes are common Chinese characters."""
    LATIN1 = 6
    """Nothing else fits: one character per byte."""
    UNDECLARED = 7
    """The only encoding of Shift-JIS, GB18030 and Big5 in which the brackets of the game are whole."""


def unescaped(raw: bytes) -> bytes:
    """SGF escapes resolved: a backslash is dropped, together with a line break that follows it."""
    if b"\\" not in raw:
        return raw
    return _ESCAPED.sub(lambda match: b"" if match[1] in _BREAKS else match[1], raw)


def decode(
    values: tuple[bytes, ...], charset: bytes, *, utf16: bool = False, codec: str = ""
) -> tuple[tuple[str, ...], NameRule]:
    """Decode the values of one game, all by one rule; never fails.

    ``charset`` is the CA property, ``codec`` the encoding by which the brackets of the game were read, if not ASCII.
    """
    joined = b"\0".join(values)
    if not codec and _PLAIN.fullmatch(joined) and joined.count(b"\0") == len(values) - 1:
        return tuple(joined.decode("ascii").split("\0")), NameRule.ASCII
    if codec and not (joined.isascii() and b"\x1b" not in joined and b"~{" not in joined and b"\x0e" not in joined):
        rule = NameRule.DECLARED if codec_of(charset) == codec else NameRule.UNDECLARED
        if rule is NameRule.DECLARED or not _is_unsure(joined, codec):
            return tuple(
                _simple(_ESCAPED_TEXT.sub(_resolved, value.decode(codec, "replace"))) for value in values
            ), rule
    plain = tuple(unescaped(value) for value in values)
    whole = b"\n".join(plain)
    if whole.isascii():
        return tuple(_simple(value.decode("ascii")) for value in plain), NameRule.ASCII
    encoding, rule = _codec(whole, codec_of(charset) if charset else None, utf16=utf16)
    if rule is NameRule.DAMAGED_UTF8:
        plain = tuple(_CUT.sub(_CUT_CHARACTER, value) for value in plain)
    return tuple(_simple(value.decode(encoding, "replace")) for value in plain), rule


def _is_unsure(raw: bytes, codec: str) -> bool:
    """Whether the bytes decode in another of the three encodings as well, and are not plainly Chinese."""
    others = [other for other in ("gb18030", "cp932", "cp950") if other != codec and decodes(raw, other)]
    return bool(others) and not (codec == "gb18030" and _is_chinese(raw))


def _resolved(escape: re.Match[str]) -> str:
    return "" if escape[1] in ("\n", "\r", "\r\n", "\n\r") else escape[1]


def _simple(text: str) -> str:
    return text if text.isalnum() else _SPACES.sub(" ", text).strip()


def _codec(whole: bytes, declared: str | None, *, utf16: bool) -> tuple[str, NameRule]:
    if utf16:
        return "utf-8", NameRule.UTF16
    valid = decodes(whole, "utf-8")
    if declared and decodes(whole, declared) and not (valid and _WIDE.search(whole)):
        return declared, NameRule.DECLARED
    if valid:
        return "utf-8", NameRule.UTF8
    if _is_damaged_utf8(whole):
        return "utf-8", NameRule.DAMAGED_UTF8
    if _is_chinese(whole):
        return "gb18030", NameRule.GB18030
    return "latin-1", NameRule.LATIN1


def _is_damaged_utf8(raw: bytes) -> bool:
    """Whether valid non-ASCII UTF-8 remains besides the overwritten characters."""
    rest = _CUT.sub(b"", raw)
    return decodes(rest, "utf-8") and not rest.isascii()


def _is_chinese(raw: bytes) -> bool:
    """Whether at least four of five byte pairs are GB 2312 characters, mostly of its common level."""
    if not decodes(raw, "gb18030"):
        return False
    common = rare = other = 0
    at = 0
    while at < len(raw):
        lead = raw[at]
        if lead < 0x80:
            at += 1
            continue
        trail = raw[at + 1]
        plain = trail >= 0xA1
        common += plain and (0xB0 <= lead <= 0xD7 or 0xA1 <= lead <= 0xA9)
        rare += plain and 0xD8 <= lead <= 0xF7
        other += not (plain and 0xA1 <= lead <= 0xF7)
        at += 2 if trail >= 0x40 else 4
    return common >= 2 * rare and common + rare >= 4 * other and common > 0
