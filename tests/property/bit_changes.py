"""Single bits changed in stores, and who notices: ``python -m tests.property.bit_changes 1000``."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from outofcore.errors import StoreError
from outofcore.store.codecs import CodecName
from outofcore.store.reader import open_store
from outofcore.store.schema import Field, Layout, Schema
from outofcore.store.target import Target
from outofcore.store.verify import verify
from outofcore.store.writer import StoreWriter

CODECS: tuple[CodecName, ...] = get_args(CodecName)
SCHEMA = Schema(
    rows=(
        Field(name="noise", dtype="uint8", shape=(7,), doc="random bytes"),
        Field(name="steps", dtype="int32", doc="numbers that repeat"),
    ),
    sequences=(Field(name="name", dtype="string", doc="text"), Field(name="label", dtype="int16", doc="a number")),
)


@dataclass(frozen=True)
class Change:
    """One bit that was changed, and what was said.

    Attributes
    ----------
    file
        The file, relative to the store.
    verified, read
        What ``verify`` and reading everything said of it; "" where they noticed nothing.
    """

    file: str
    verified: str
    read: str


def write_store(folder: Path, codec: CodecName, rows: int = 3000) -> Path:
    """A small store of several shards, with fields that compress and fields that do not."""
    generator = np.random.default_rng(7)
    layout = Layout(codec=codec, level=1, chunk_rows=64, shard_rows=512)
    with ThreadPoolExecutor(1) as encoders:
        writer = StoreWriter(folder.with_suffix(".work"), {"": SCHEMA}, layout, ("train", "val"), encoders)
        for split, count in (("train", rows), ("val", rows // 10)):
            sequences = count // 50
            writer.append(
                "",
                split,
                {
                    "noise": generator.integers(0, 256, (count, 7), np.uint8),
                    "steps": np.arange(count, dtype=np.int32) // 9,
                },
                {
                    "length": np.full(sequences, 50, np.int64),
                    "name": np.array([f"sequence {number}" for number in range(sequences)], object),
                    "label": generator.integers(0, 9, sequences).astype(np.int16),
                },
            )
        counts = {name: np.ones(1, np.int64) for name in ("bytes", "found", "accepted", "rejected")}
        names = {name: np.array(["x"], object) for name in ("name", "digest")}
        with Target(folder) as target:
            writer.commit(target, {"domain": "none", "parts": [""], "splits": ["train", "val"]}, {**counts, **names})
    return folder


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
        stores = {codec: write_store(Path(folder) / f"{codec}.zarr", codec) for codec in CODECS}
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
