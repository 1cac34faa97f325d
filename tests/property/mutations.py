"""Ways in which files go wrong: bits, cuts, repeats, words out of place, huge numbers, other encodings."""

from __future__ import annotations

import bz2
import gzip
import io
import random
import re
import tarfile
import zipfile
from collections.abc import Sequence

import zstandard

NUMBERS = (b"0", b"-1", b"99999999999999999999", b"4294967296", b"1e999", b"-2147483649", b"NaN", b"0x7f", b"65536")
ODD = (b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"\x1a", b"\r", b"\n\n", b"\t")
MOST_BYTES = 200_000
"""A mutated file is cut to so many: the time of one must be bounded."""


def mutate(content: bytes, dice: random.Random, words: Sequence[bytes], others: Sequence[bytes]) -> bytes:
    """Change a file that can be read in one to four ways; pieces are taken from ``others``."""
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        content = dice.choice(_MUTATIONS)(content, dice, words, others)[:MOST_BYTES]
    return content


def flip(content: bytes, dice: random.Random, _words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Change some bits."""
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 4, 32))):
        if changed:
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def overwrite(content: bytes, dice: random.Random, _words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Put other bytes in the place of some."""
    start, stop = _stretch(content, dice, 16)
    return content[:start] + dice.randbytes(stop - start) + content[stop:]


def extreme(content: bytes, dice: random.Random, _words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Put a number at its bounds in the place of 1 to 8 bytes."""
    size = dice.choice((1, 2, 4, 8))
    start = dice.randrange(len(content) + 1)
    number = dice.choice((0, 1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1))
    return content[:start] + number.to_bytes(size, dice.choice(("little", "big"))) + content[start + size :]


def drop(content: bytes, dice: random.Random, _words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Leave some bytes out."""
    start, stop = _stretch(content, dice, max(1, len(content) // 4))
    return content[:start] + content[stop:]


def cut_off(content: bytes, dice: random.Random, _words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Break off."""
    return content[: dice.randrange(len(content) + 1)]


def repeat(content: bytes, dice: random.Random, _words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Say something again, perhaps very often."""
    start, stop = _stretch(content, dice, 256)
    return content[:stop] + content[start:stop] * dice.choice((1, 2, 16, 1000)) + content[stop:]


def insert_word(content: bytes, dice: random.Random, words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Put a word, a number or an odd byte where it does not belong, perhaps very often."""
    start = dice.randrange(len(content) + 1)
    word = dice.choice(dice.choice((words, NUMBERS, ODD)))
    return content[:start] + word * dice.choice((1, 1, 1, 2, 3000)) + content[start:]


def replace_word(content: bytes, dice: random.Random, words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Put one word in the place of another."""
    there = [word for word in words if word in content]
    if not there:
        return content
    return content.replace(dice.choice(there), dice.choice(words), dice.choice((1, 1, -1)))


def replace_number(content: bytes, dice: random.Random, _words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Put an absurd number in the place of one that is written out."""
    found = list(re.finditer(rb"\d+", content[:MOST_BYTES]))
    if not found:
        return content
    place = dice.choice(found)
    return content[: place.start()] + dice.choice(NUMBERS) + content[place.end() :]


def move(content: bytes, dice: random.Random, _words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Put something elsewhere."""
    start, stop = _stretch(content, dice, 256)
    rest = content[:start] + content[stop:]
    place = dice.randrange(len(rest) + 1)
    return rest[:place] + content[start:stop] + rest[place:]


def splice(content: bytes, dice: random.Random, _words: Sequence[bytes], others: Sequence[bytes]) -> bytes:
    """Begin as one file and end as another."""
    other = dice.choice(others)
    return content[: dice.randrange(len(content) + 1)] + other[dice.randrange(len(other) + 1) :]


def encode(content: bytes, dice: random.Random, _words: Sequence[bytes], _others: Sequence[bytes]) -> bytes:
    """Write it in another encoding, or with other ends of lines."""
    text = content.decode("utf-8", "replace")
    made = (
        lambda: text.encode("utf-16"),
        lambda: text.encode("utf-16-be"),
        lambda: text.encode("latin-1", "replace"),
        lambda: b"\xef\xbb\xbf" + content,
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: content.replace(b"\n", b"\r"),
        lambda: content.replace(b"\n", b" "),
    )
    return dice.choice(made)()


_MUTATIONS = (
    flip,
    flip,
    overwrite,
    extreme,
    drop,
    cut_off,
    repeat,
    insert_word,
    insert_word,
    replace_word,
    replace_number,
    move,
    splice,
    encode,
)


def pack(name: str, content: bytes, dice: random.Random) -> tuple[str, bytes]:
    """A file in a compression or an archive: its new name and content."""
    kind = dice.choice((".gz", ".bz2", ".zst", ".zip", ".tar", ".tar.gz"))
    if kind == ".gz":
        return name + kind, gzip.compress(content, mtime=0)
    if kind == ".bz2":
        return name + kind, bz2.compress(content)
    if kind == ".zst":
        return name + kind, zstandard.compress(content)
    inside = dice.choice((name, f"../../{name}", f"/etc/{name}", "a" * 120 + name, f"b/{name}\n"))
    stream = io.BytesIO()
    if kind == ".zip":
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo(inside), content)
        return "x.zip", stream.getvalue()
    with tarfile.open(fileobj=stream, mode="w:gz" if kind == ".tar.gz" else "w") as tar:
        entry = tarfile.TarInfo(inside)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return f"x{kind}", stream.getvalue()


def _stretch(content: bytes, dice: random.Random, most: int) -> tuple[int, int]:
    start = dice.randrange(len(content) + 1)
    return start, min(len(content), start + dice.randint(1, most))
