"""How fast do shuffled batches come, compared with gathering from memory and with other libraries?

    python bench/loading.py chess data/stores/chess.zarr --peers peers/bin/python     (see bench/rivals/peers.txt)
    python bench/loading.py text novels.tar.zst --tokenizer data/tokenizers/text.json
    python bench/loading.py frames

Batches of 1,024 positions as planes, of 64 windows of 512 tokens, and of 256 frames of 36 x 64 with responses, made
by the same code from the same rows. Without input, some is made up. Sides:

* ``streamed``, ``mapped``, ``ram``: a store, read by the loader.
* ``gather``: arrays in memory, rows of a permutation taken in whole batches, by two threads ahead of the consumer and
  by the consumer itself. Every ratio is to the faster of them.
* ``gather bits``: the least work that gives planes.
* ``memmap``: as ``gather``, from ``.npy`` files that are memory-mapped; of text, the usual way: a random place of one
  mapped file of tokens for each window, with replacement.
* ``items``: a torch ``DataLoader`` over mapped files, row by row.
* other libraries, in their own formats, with ``--peers``.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from harness.arrays import (
    CHESS,
    THREADS,
    bits,
    gathered,
    items,
    random_places,
    reading_of,
    window_of,
)
from harness.raw import Inputs, lengthen
from harness.results import Row, arguments, memory_row, save, speed_rows, versions_of
from harness.rows import CELLS, HEIGHT, LENGTH, SETS, WIDTH, sizes
from harness.sessions import TRIAL, make_frames
from harness.sides import Epoch, Measured, Side, compare, once, tell
from harness.stores import convert, copy_sequences, make_store, section_of, write_arrays, write_bitboards
from outofcore.domains.chess.schema import POSITION_COLUMNS
from outofcore.loading.loader import loader
from outofcore.order.plain import Shuffle
from outofcore.settings.sizes import parse_bytes
from outofcore.store.codecs import CodecName
from outofcore.store.reader import open_store
from outofcore.store.schema import Field
from rivals.peers import PEERS, THREADED, peer

CODECS = get_args(CodecName)
FRAME_STORES: dict[str, CodecName] = {"store.zarr": "lz4", "none.zarr": "none"}
TITLES = {
    "chess": "chess: shuffled positions as planes",
    "text": "text: shuffled windows of tokens",
    "frames": "shuffled frames with responses",
}
UNITS = {"chess": "samples/s", "text": "windows/s", "frames": "samples/s"}
GATHER = {"gather, 2 threads": 2, "gather, 1 thread": 1}


def stored(store: str, kind: str, residency: Any, memory: str, pool_blocks: int = 64) -> Epoch:
    """The loader."""
    batches = loader(
        store,
        "train",
        SETS[kind].batch,
        tensors=reading_of(kind),
        window=window_of(kind),
        memory=memory,
        residency=residency,
        shuffle=Shuffle(pool_blocks=pool_blocks),
    )
    return lambda: sizes(batches)


def prepare_chess(given: Path, folder: Path) -> str:
    """A store without compression, and arrays; ``given`` is a store."""
    store = open_store(given)
    fields = tuple(column.field for column in POSITION_COLUMNS if column.field.name in CHESS.fields)
    copy_sequences(store, 0, len(store.sequences("train")), folder / "plain.zarr", fields, "none")
    write_arrays(store, folder / "arrays", CHESS.fields)
    write_bitboards(folder / "arrays")
    return f"{len(store.rows('train')):,} positions"


def chess_sides(store: Path, folder: Path) -> list[Side]:
    of = partial(stored_side, "chess", store)
    return [
        of("streamed", "streamed", "128MiB"),
        stored_side("chess", folder / "plain.zarr", "mapped", "mapped", "128MiB"),
        of("ram", "ram", "8GiB"),
        *gather_sides("chess", folder / "arrays"),
        Side("gather bits", bits, {"arrays": folder / "arrays"}),
        Side("memmap", gathered, {"arrays": folder / "arrays", "kind": "chess", "mapped": True}),
        *item_sides("chess", folder / "arrays"),
        of("streamed 32 MiB", "streamed", "32MiB", pool_blocks=16),
        of("streamed 256 MiB", "auto", "256MiB"),
        of("streamed 1 GiB", "auto", "1GiB"),
    ]


def prepare_text(source: Path, tokenizer: Path, megabytes: int, folder: Path) -> str:
    """A store per codec, all tokens in a file, and windows of them in another."""
    lengthen(source, folder / "raw", megabytes * 10**6)
    sizes = {}
    for codec in CODECS:
        tell(f"converting with {codec}")
        sizes[codec] = once(text_store, folder=folder, tokenizer=tokenizer, codec=codec)["bytes_per_row"]
    store = open_store(folder / "zstd.zarr")
    write_arrays(store, folder / "flat", ("tokens",))
    tokens = np.load(folder / "flat" / "tokens.npy", mmap_mode="r")
    (folder / "arrays").mkdir()
    np.save(folder / "arrays" / "tokens.npy", np.lib.stride_tricks.sliding_window_view(tokens, LENGTH + 1)[::LENGTH])
    per_token = ", ".join(f"{codec} {size:.3g}" for codec, size in sizes.items())
    return f"{len(tokens):,} tokens; bytes per token in the store: {per_token}"


def text_store(folder: str, tokenizer: str, codec: str) -> dict[str, Any]:
    changes = {"tokenizer": {"path": tokenizer}, "store": {"codec": codec}}
    return convert("text", section_of("text", f"{folder}/raw", changes), Path(folder) / f"{codec}.zarr")


def text_sides(folder: Path) -> list[Side]:
    return [
        *(
            stored_side("text", folder / f"{codec}.zarr", f"{codec}, streamed", "streamed", "128MiB")
            for codec in CODECS
        ),
        stored_side("text", folder / "none.zarr", "none, mapped", "mapped", "128MiB"),
        stored_side("text", folder / "zstd.zarr", "zstd, ram", "ram", "100GB"),
        *gather_sides("text", folder / "arrays"),
        Side("memmap, random places", random_places, {"tokens": folder / "flat" / "tokens.npy"}),
        *item_sides("text", folder / "arrays"),
    ]


def prepare_frames(rows: int, folder: Path) -> str:
    """Frames with noise for responses; in lz4, the default of recordings, and uncompressed."""
    columns = make_frames(folder / "arrays", rows, CELLS)
    fields = (
        Field(name="frame", dtype="uint8", shape=(HEIGHT, WIDTH), doc="a picture"),
        Field(name="response", dtype="float32", shape=(CELLS,), doc="of each neuron"),
    )

    def content(_: str, start: int, stop: int) -> dict[str, np.ndarray[Any, Any]]:
        return {name: column[start:stop] for name, column in columns.items()}

    for name, codec in FRAME_STORES.items():
        make_store(folder / name, fields, {"train": rows}, content, TRIAL, codec=codec, chunk_rows=128)
    size = sum(file.stat().st_size for file in (folder / "store.zarr").rglob("*") if file.is_file())
    return f"{rows:,} rows of {SETS['frames'].row.itemsize:,} bytes, {size / 1e6:,.0f} MB as a store"


def frame_sides(folder: Path) -> list[Side]:
    of, plain = (partial(stored_side, "frames", folder / name) for name in FRAME_STORES)
    return [
        of("streamed", "streamed", "128MiB"),
        plain("streamed, none", "streamed", "128MiB"),
        plain("mapped, none", "mapped", "128MiB"),
        of("ram", "ram", "8GiB"),
        *gather_sides("frames", folder / "arrays"),
        *item_sides("frames", folder / "arrays"),
    ]


def stored_side(kind: str, store: Path, name: str, residency: str, memory: str, **more: Any) -> Side:
    return Side(name, stored, {"store": store, "kind": kind, "residency": residency, "memory": memory, **more})


def gather_sides(kind: str, arrays: Path) -> list[Side]:
    of = {"arrays": arrays, "kind": kind}
    return [Side(name, gathered, {**of, "threads": threads}) for name, threads in GATHER.items()]


def item_sides(kind: str, arrays: Path) -> list[Side]:
    of = {"arrays": arrays, "kind": kind}
    return [
        Side("items" if not workers else f"items, {workers} workers", items, {**of, "workers": workers})
        for workers in (0, THREADS)
    ]


def peer_sides(kind: str, folder: Path, python: Path, names: Iterable[str]) -> list[Side]:
    """Each library without workers and with, unless it has threads."""
    field = (SETS[kind].row.names or ())[0]
    rows = len(np.load(folder / "arrays" / f"{field}.npy", mmap_mode="r"))
    of = {"kind": kind, "arrays": folder / "arrays", "rows": rows}
    return [
        Side(
            name if not workers else f"{name}, {workers} workers",
            peer,
            {**of, "name": name, "work": folder / f"{name}{workers}", "workers": workers},
            python=python,
            rehearsed=False,
        )
        for name in names
        for workers in ((0,) if name in THREADED else (0, THREADS))
    ]


def prepare(given: argparse.Namespace, inputs: Inputs, folder: Path) -> tuple[str, list[Side]]:
    """What was made to be read, and its sides."""
    if given.kind == "chess":
        store = given.input or inputs.store
        return prepare_chess(store, folder), chess_sides(store, folder)
    if given.kind == "text":
        source, tokenizer = given.input or inputs.text, given.tokenizer or inputs.tokenizer
        return prepare_text(source, tokenizer, given.megabytes, folder), text_sides(folder)
    return prepare_frames(given.rows, folder), frame_sides(folder)


def main() -> None:
    parser = arguments(__doc__, rounds=5, seconds=2.0)
    parser.add_argument("kind", choices=TITLES)
    parser.add_argument("input", type=Path, nargs="?", help="a chess store, or documents")
    parser.add_argument("--tokenizer", type=Path, help="of text; learnt from it by default")
    parser.add_argument("--megabytes", type=int, default=400, help="of text, repeated")
    parser.add_argument("--rows", type=int, default=200_000, help="of frames")
    parser.add_argument("--peers", type=Path, help="a Python that has bench/rivals/peers.txt installed")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")
    parser.add_argument("--name", help="of the result; loading_KIND by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        inputs = Inputs(folder, text=given.input)
        what, sides = prepare(given, inputs, folder)
        versions = versions_of(given.peers, PEERS) if given.peers else {}
        if versions:
            # First: making their data takes minutes, in which idle processes lose cached pages.
            sides = [*peer_sides(given.kind, folder, given.peers.absolute(), versions), *sides]
        measured = compare(sides, given.rounds, given.seconds)
    measured = dict(sorted(measured.items(), key=lambda side: side[0].split(",")[0] in PEERS))
    save(
        given.out,
        given.name or f"loading_{given.kind}",
        TITLES[given.kind],
        table(given.kind, sides, measured),
        facts=(what, f"batches of {SETS[given.kind].batch:,}", f"medians of {given.rounds} rounds"),
        details={"sides": measured},
        versions=versions,
    )


def table(kind: str, sides: list[Side], measured: dict[str, Measured]) -> list[Row]:
    """Speeds against gathering, and memory against budgets."""
    fastest = max((name for name in GATHER if name in measured), key=lambda name: measured[name].rate, default="")
    against = dict.fromkeys(measured, fastest)
    work = "window" if kind == "text" else ""
    rows = speed_rows(measured, UNITS[kind], against, work=work, short="`gather`")
    rows += [
        memory_row(f"{kind}: {side.name}", measured[side.name].held_bytes, parse_bytes(side.arguments["memory"]))
        for side in sides
        if side.function is stored and "streamed" in side.name and measured[side.name].rates
    ]
    return rows


if __name__ == "__main__":
    main()
