"""Single bits changed in stores, and who notices: ``python -m tests.property.bit_changes 1000``."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from outofcore.errors import StoreError
from outofcore.store.codecs import CodecName
from outofcore.store.reader import open_store
from outofcore.store.verify import verify
from tests.loading.conftest import write_store

CODECS: tuple[CodecName, ...] = get_args(CodecName)


@dataclass(frozen=True)
class Change:
    """One bit that was changed, and what was said."""

    file: str  # relative to the store
    verified: str  # by verify, "" if it noticed nothing
    read: str  # by reading everything


def small_store(folder: Path, codec: CodecName) -> Path:
    """Several shards, with fields that compress and fields that do not."""
    return write_store(folder, [50] * 60, codec=codec, shard_rows=512)


def change(store: Path, dice: random.Random) -> Change:
    """Change one bit, in a file chosen by its size, look who notices, and change it back."""
    files = [path for path in sorted(store.rglob("*")) if path.is_file()]
    (path,) = dice.choices(files, [path.stat().st_size for path in files])
    place, bit = dice.randrange(path.stat().st_size), dice.randrange(8)
    flip(path, place, bit)
    try:
        return Change(path.relative_to(store).as_posix(), "; ".join(verify(store).problems), read_all(store))
    finally:
        flip(path, place, bit)


def flip(path: Path, place: int, bit: int) -> None:
    """Change a bit of a file."""
    with path.open("r+b") as stream:
        stream.seek(place)
        (value,) = stream.read(1)
        stream.seek(place)
        stream.write(bytes([value ^ 1 << bit]))


def read_all(path: Path) -> str:
    """Open a store and read every chunk, as a loader does; the error, if there is one."""
    try:
        store = open_store(path)
        store.sources.read()
        for split in store.splits:
            store.rows(split).read()
            store.sequences(split).read()
    except StoreError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Change so many bits, in turn over the codecs, and print what was found."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("changes", type=int)
    count = parser.parse_args().changes
    found: Counter[tuple[str, str]] = Counter()
    dice = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="bits") as folder:
        stores = {codec: small_store(Path(folder) / f"{codec}.zarr", codec) for codec in CODECS}
        for number in range(count):
            codec = CODECS[number % 3]
            changed = change(stores[codec], dice)
            kind = "shard" if "/c." in changed.file else changed.file.rpartition("/")[2]
            found[codec, kind] += 1
            for who in ("verified", "read"):
                found[f"{who} missed", kind] += not getattr(changed, who)
        for codec, store in stores.items():
            assert verify(store).problems == (), codec
            shutil.rmtree(store)
    for key, number in sorted(found.items()):
        sys.stdout.write(f"{key[0]:16} {key[1]:10} {number}\n")


if __name__ == "__main__":
    main()
