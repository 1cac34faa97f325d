"""The encoding of a game: which of its bytes are brackets, and what its texts are.

In some encodings the later bytes of a character can be ``[``, ``]`` or a backslash. Read as ASCII, such a byte swallows
the moves after it. Each candidate encoding is tried: the whole game must decode, and its brackets must be those of SGF.
Texts are kept as bytes, and decoded by a rule that is stored with them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

LONGEST = 256
"""Characters or bytes of the texts that are remembered together."""
AMBIGUOUS = "?"
"""Instead of a codec: the encoding of the game cannot be known, and its moves depend on it."""

_WIDER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "cp950",
    "iso2022_jp": "iso2022_jp_2",
}
"""Codecs by name, each replaced by the wider one that programs mean."""
_ALIASES = {
    "windows31j": "cp932",
    "gb231280": "gb18030",
    "eucgb": "gb18030",
    "big5eten": "cp950",
    "ksc56011987": "cp949",
    "unicode11utf8": "utf-8",
}
_PAIRS = {
    "gb18030": re.compile(rb"[\x81-\xfe](?:[0-9][\x81-\xfe][0-9]|[\x40-\xfe])", re.DOTALL),
    "cp932": re.compile(rb"[\x81-\x9f\xe0-\xfc][\x40-\xfc]", re.DOTALL),
    "cp950": re.compile(rb"[\x81-\xfe][\x40-\xfe]", re.DOTALL),
    "big5hkscs": re.compile(rb"[\x81-\xfe][\x40-\xfe]", re.DOTALL),
    "johab": re.compile(rb"[\x84-\xf9][\x31-\xfe]", re.DOTALL),
    "iso2022_jp_2": re.compile(rb"\x1b\$\(?[@ABCD].*?(?=\x1b\([BJ])", re.DOTALL),
    "iso2022_kr": re.compile(rb"\x0e[^\x0f]*\x0f", re.DOTALL),
    "hz": re.compile(rb"~\{(?:[!-}][!-~])*~\}", re.DOTALL),
}
"""Codecs whose characters can contain brackets, with the bytes of such characters."""
_PAIRS |= dict.fromkeys(("shift_jis_2004", "shift_jisx0213"), _PAIRS["cp932"])
_DECLARED_ONLY = ("johab", "big5hkscs", "hz", "iso2022_kr", "shift_jis_2004", "shift_jisx0213")
_ASCII_HIDES = (b"\x1b$", b"~{", b"\x0e")
_NO_CHARSETS = frozenset(("idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf_7"))
_PRINTABLE = bytes(range(32, 127))
_CHARSET = re.compile(rb"(?<![A-Z])CA\s*\[([\x20-Z^-~]+)\]")
_SYNTAX = bytes(range(0x5B, 0x5E))  # [ \ ]
_HIDDEN = 0x7F  # replaces a byte that is no bracket; no syntax of SGF
_RISKY = re.compile(rb"[\x80-\xff][\[\\\]]")
_TOKEN = re.compile(rb"[A-Za-z]+\s*(?=\[)|\[(?P<value>(?:[^\\\]]|\\.)*)\]|[\s();]+", re.DOTALL)
_SWALLOWED = re.compile(rb"(?<!\\)(?:[A-Z]\s*|\]\s*|\x7f)\[")  # a property inside of a value
_SWALLOWS = re.compile(
    rb"[\x80-\xff]\\\][\s();]*(?:[A-Z]+\s*)?\["
)  # a character's backslash before the closing bracket


_ESCAPED = re.compile(rb"\\(\r\n|\n\r|.)", re.DOTALL)
_BREAKS = (b"\n", b"\r", b"\r\n", b"\n\r")
_SPACES = re.compile(r"\s+")
_PLAIN = re.compile(rb"[\x00!-\[\]-~]*")  # ASCII without spaces and backslashes, joined by NUL
# A character of two to four bytes with continuation bytes overwritten by question marks.
_CUT = re.compile(
    rb"[\xc2-\xdf]\?|[\xe0-\xef](?:\?[\x80-\xbf?]|[\x80-\xbf]\?)|[\xf0-\xf4](?=[\x80-\xbf]{0,2}\?)[\x80-\xbf?]{3}"
)
_WIDE = re.compile(rb"[\xe0-\xf4][\x80-\xbf]{2}")  # of UTF-8; in other encodings such bytes are rare
_GB2312 = tuple(
    re.compile(rb"[%s][\xa1-\xfe]" % leads) for leads in (rb"\xa1-\xa9\xb0-\xd7", rb"\xd8-\xf7", rb"\xa1-\xf7")
)
"""Common characters, rare ones, and all."""
_CUT_CHARACTER = "\ufffd".encode()


class NameRule(IntEnum):
    """How text was decoded: the first rule that fits."""

    ASCII = 0  # all bytes are ASCII
    UTF16 = 1  # the file is UTF-16
    DECLARED = 2  # according to the game's CA property
    UTF8 = 3  # valid UTF-8 that is undeclared, or has characters of three bytes, whatever is declared
    DAMAGED_UTF8 = 4  # UTF-8 in which question marks overwrote bytes of characters; each becomes U+FFFD
    GB18030 = 5  # nearly all pairs of bytes are common Chinese characters
    LATIN1 = 6  # nothing else fits: one character per byte
    UNDECLARED = 7  # the only encoding of Shift-JIS, GB18030 and Big5 in which the brackets of the game are whole


class Brackets(NamedTuple):
    """The brackets of a game under one encoding."""

    faults: int  # bytes outside of values that are no SGF, properties inside of values, and an end that is missing
    tokens: tuple[int, ...]  # where properties, values and delimiters begin


def remembered(read: Function) -> Function:
    """Have a pure function of texts, given by position, remember the results of short ones.

    These come again in game after game; a long one is rare, and thousands would fill memory.
    """
    known = lru_cache(maxsize=4096)(read)

    @wraps(read)
    def remembering(*texts: Any, **options: Any) -> Any:
        return (known if sum(map(len, texts)) <= LONGEST else read)(*texts, **options)

    return cast("Function", remembering)


@remembered
def codec_of(charset: bytes) -> str | None:
    """Python's codec for a declared encoding, widened where customary; None unless a known superset of ASCII."""
    try:
        name = charset.decode("ascii").strip().strip("\"'").lower()
    except UnicodeDecodeError:
        return None
    plain = re.sub(r"[^a-z0-9]", "", re.sub(r"^(?:x-|cs(?=[a-z]))", "", name))
    name = re.sub(r"^(?:x-)?(?:windows|ms|ibm)-?(\d{3,4})$", r"cp\1", name).removeprefix("x-")
    name = _ALIASES.get(plain, name)
    for spelling in (name, plain):
        try:
            codec = codecs.lookup(spelling)
            if codec.name.replace("-", "_") in _NO_CHARSETS:
                return None
            if codec.name != "hz" and _PRINTABLE.decode(codec.name) != _PRINTABLE.decode("ascii"):
                return None
        except (LookupError, ValueError):
            continue
        return _WIDER.get(codec.name, codec.name)
    return None


def declared(game: bytes) -> str | None:
    """The codec that a game's CA property names, even where an earlier character hides the property."""
    match = _CHARSET.search(game)
    return codec_of(match[1]) if match else None


def masked(game: bytes, codec: str) -> bytes:
    """The game with every byte of a character that looks like syntax replaced; lengths stay the same."""
    return _PAIRS[codec].sub(_mask, game)


def _mask(character: re.Match[bytes]) -> bytes:
    raw = character[0]
    if raw[0] >= 0x80:
        return raw if raw[1] not in _SYNTAX else bytes((raw[0], _HIDDEN))
    return bytes((_HIDDEN,)) * len(raw)  # a run of characters between escape sequences


def is_certain(text: bytes) -> bool:
    """Whether no character of the text can contain syntax: UTF-8 without escape sequences."""
    return is_by_character(text) and (decodes(text, "utf-8") or not _RISKY.search(text))


def is_by_character(text: bytes) -> bool:
    """Whether no escape sequence gives the bytes that follow it another meaning."""
    return not any(sign in text for sign in _ASCII_HIDES)


def may_swallow(game: bytes) -> bool:
    """Whether a backslash may be the last byte of a character, and the bracket after it one that closes a value."""
    return bool(_SWALLOWS.search(game))


def decodes(raw: bytes, codec: str, *, final: bool = True) -> bool:
    """Whether the bytes are valid in an encoding; unless they are ``final``, the last character may be cut."""
    try:
        codecs.getincrementaldecoder(codec)().decode(raw, final)
    except UnicodeError:
        return False
    return True


def candidates(game: bytes) -> list[str]:
    """Codecs under which brackets of the game may be parts of characters, the declared one first."""
    named = declared(game)
    others = [codec for codec in _PAIRS if codec not in _DECLARED_ONLY and codec != named]
    return [*([named] if named in _PAIRS else []), *others]


def layout(game: bytes, *, closed: bool) -> Brackets:
    """The brackets of a masked game, and whether its last parenthesis closes it."""
    known, faults, tokens = 0, 0, []
    for token in _TOKEN.finditer(game):
        known += token.end() - token.start()
        tokens.append(token.start())
        if token["value"] is not None:
            faults += len(_SWALLOWED.findall(token["value"]))
    return Brackets(len(game) - known + faults + (not closed), tuple(tokens))


def choose(readings: Mapping[str, Brackets], game: bytes) -> str:
    """The codec whose reading has the fewest faults, ``""`` for that of plain bytes, or :data:`AMBIGUOUS`.

    ``readings`` are those that decode strictly. Where several are as good, they must agree on every bracket, or one
    must be declared.
    """
    least = min(reading.faults for reading in readings.values())
    best = [codec for codec, reading in readings.items() if reading.faults == least]
    named = declared(game)
    if named in best:
        return named
    if len({readings[codec].tokens for codec in best}) > 1:
        return AMBIGUOUS
    if "" in best:
        return AMBIGUOUS if may_swallow(game) and readings[""].faults else ""
    return best[0]


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
            decoded = (value.decode(codec, "replace").encode() for value in values)
            return tuple(_simple(unescaped(value).decode()) for value in decoded), rule
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
    characters = _PAIRS["gb18030"].findall(raw)
    common, rare, known = (sum(map(bool, map(level.match, characters))) for level in _GB2312)
    return common >= 2 * rare and common + rare >= 4 * (len(characters) - known) and common > 0
