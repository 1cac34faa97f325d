"""How fast shuffled batches come where a row is wide: windows of tokens, or frames with responses.

    python bench/loader_wide.py text
    python bench/loader_wide.py frames --peers peers/bin/python     (see bench/peers.txt)

As ``bench/loader.py`` has it for positions, on made-up input. ``text``: windows of 513 tokens of one long sequence,
drawn so that few words are frequent and most are rare, with zstd; batches of 64, as ``int64``. ``frames``: pictures of
36 x 64 bytes of made recordings, with 16 responses each, with lz4; batches of 256, as they are.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from loader import PEERS, measure, summary, table, versions_of
from loader_peers import sizes
from loader_sets import CELLS, HEIGHT, LENGTH, SETS, WIDTH, Batch, RowSet
from made_store import make_store
from neural_sessions import TRIAL, gabor_noise, natural_texture, show_trial
from outofcore.loading.loader import loader
from outofcore.store.schema import Field
from record import save
from serving import Engine, serve

WAYS = ("streamed", "ram", "gather", "items", "items, 2 workers")
MEMORY = {"streamed": "128MiB", "ram": "8GiB"}
VOCABULARY = 16_384
Epoch = Callable[[], Iterator[int]]


def make_text(folder: Path, windows: int) -> None:
    """Tokens of which the n-th most frequent comes 1 / n times as often as the first, as words do (Zipf's law)."""
    generator = np.random.default_rng(0)
    chances = 1 / np.arange(1, VOCABULARY + 1)
    tokens = generator.choice(VOCABULARY, windows * LENGTH + 1, p=chances / chances.sum()).astype(np.uint16)
    field = Field(name="tokens", dtype="uint16", doc="ids")
    make_store(
        folder / "store.zarr",
        (field,),
        {"train": len(tokens)},
        lambda _, start, stop: {"tokens": tokens[start:stop]},
        len(tokens),
        chunk_rows=65_536,
    )
    np.save(folder / "tokens.npy", np.lib.stride_tricks.sliding_window_view(tokens, LENGTH + 1)[::LENGTH])


def make_frames(folder: Path, rows: int) -> None:
    """Frames of the trials of made recordings, and responses that are noise; lz4, as recordings have by default."""
    generator = np.random.default_rng(0)
    texture, gabors = natural_texture(generator), gabor_noise(generator)
    columns = {
        "frame": np.lib.format.open_memmap(folder / "frame.npy", "w+", np.uint8, (rows, HEIGHT, WIDTH)),
        "response": generator.normal(size=(rows, CELLS)).astype(np.float32),
    }
    for trial, start in enumerate(range(0, rows, TRIAL)):
        shown = show_trial(trial % 3, texture, gabors, generator)
        columns["frame"][start : start + TRIAL] = shown[: rows - start]
    np.save(folder / "response.npy", columns["response"])
    fields = (
        Field(name="frame", dtype="uint8", shape=(HEIGHT, WIDTH), doc="a picture"),
        Field(name="response", dtype="float32", shape=(CELLS,), doc="of each neuron"),
    )
    make_store(
        folder / "store.zarr",
        fields,
        {"train": rows},
        lambda _, start, stop: {name: column[start:stop] for name, column in columns.items()},
        TRIAL,
        codec="lz4",
        chunk_rows=128,
    )


MADE = {"text": (make_text, {"length": LENGTH + 1, "stride": LENGTH, "mode": "pack"}), "frames": (make_frames, None)}


class Reading:
    """A set's rows to tensors, for the loader."""

    def __init__(self, kind: RowSet) -> None:
        self.fields = tuple(kind.row.names or ())
        self._read = kind.read

    def __call__(self, rows: dict[str, np.ndarray[Any, Any]], _: np.ndarray[Any, Any]) -> Batch:
        """Tensors of columns; nothing is drawn."""
        return self._read(rows)


class Items(Dataset[dict[str, Any]]):
    """A mapped file a field, a row at a time."""

    def __init__(self, columns: dict[str, np.ndarray[Any, Any]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: np.array(column[row]) for name, column in self.columns.items()}


def engine(way: str, name: str, folder: Path) -> Epoch:
    kind = SETS[name]
    if way in MEMORY:
        residency: Any = way
        window: Any = MADE[name][1]
        batches = loader(
            folder / "store.zarr",
            "train",
            kind.batch,
            window=window,
            tensors=Reading(kind),
            memory=MEMORY[way],
            residency=residency,
        )
        return lambda: sizes(batches)
    mapped = None if way == "gather" else "r"
    columns = {field: np.load(folder / f"{field}.npy", mmap_mode=mapped) for field in kind.row.names or ()}
    if way == "gather":
        return lambda: sizes(gathered(kind, columns))
    workers = 2 if way.endswith("2 workers") else 0
    items = DataLoader(
        Items(columns), kind.batch, shuffle=True, num_workers=workers, collate_fn=partial(collated, kind)
    )
    return lambda: sizes(items)


def gathered(kind: RowSet, columns: dict[str, np.ndarray[Any, Any]]) -> Iterator[Batch]:
    """Rows of a permutation from memory, whole batches at a time."""
    order = np.random.default_rng(0).permutation(len(next(iter(columns.values()))))
    for at in range(0, len(order), kind.batch):
        rows = order[at : at + kind.batch]
        yield kind.read({name: np.take(column, rows, axis=0) for name, column in columns.items()})


def collated(kind: RowSet, rows: list[dict[str, Any]]) -> Batch:
    return kind.read({name: np.stack([row[name] for row in rows]) for name in rows[0]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=MADE)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--peers", type=Path, help="a Python that has bench/peers.txt installed")
    parser.add_argument("--peer-rows", type=int, default=30_000)
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    parser.add_argument("--serve", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        torch.set_num_threads(2)
        serve(lambda: engine(given.serve, given.kind, given.folder))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        MADE[given.kind][0](folder, given.rows)
        peers: list[Engine] = []
        if given.peers:
            rows = str(min(given.peer_rows, given.rows))
            script = [str(given.peers), str(Path(__file__).with_name("loader_peers.py"))]
            peers = [
                Engine(each, [*script, each, given.kind, temporary, f"{temporary}/{each}", rows]) for each in PEERS
            ]
        command = [sys.executable, __file__, given.kind, "--folder", temporary, "--serve"]
        engines = [*(Engine(way, [*command, way]) for way in WAYS), *peers]
        try:
            measure(engines, given.rounds, given.seconds)
        finally:
            for each in engines:
                each.end()
        gather = next(each for each in engines if each.name == "gather")
        unit = median(each["samples_per_second"] for each in gather.figures[:-1])
        figures = {each.name: summary(each, unit) for each in engines}
        stored = sum(file.stat().st_size for file in (folder / "store.zarr").rglob("*") if file.is_file())
    kind = SETS[given.kind]
    save(
        given.out,
        f"loader_{given.kind}",
        f"shuffled batches of wide rows: {given.kind}",
        table(figures, given.kind),
        facts=(
            f"{given.rows:,} rows of {kind.row.itemsize:,} bytes, {stored / 1e6:,.0f} MB as a store",
            f"batches of {kind.batch}, a budget of {MEMORY['streamed']}",
            f"medians of {given.rounds} rounds",
        ),
        details={"ways": figures, "stored_bytes": stored},
        versions=versions_of(given.peers) if given.peers else {},
    )


if __name__ == "__main__":
    main()
