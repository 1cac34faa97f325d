"""How fast shuffled batches of positions come, beside memory and beside what people use instead.

    python bench/loader.py data/stores/chess.zarr --rounds 5
    python bench/loader.py data/stores/chess.zarr --peers peers/bin/python     (see bench/peers.txt)

Batches of 1,024 positions, shuffled, as planes. Each way runs in a process of its own; they measure in turn, a few
seconds at a time, ``--rounds`` times; figures are medians. ``growth`` is the anonymous memory that the process and its
children have at most, beyond what they had before the loader was opened; shared pages count once.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from outofcore.domains.chess.schema import SCHEMA
from outofcore.sizes import parse_bytes
from outofcore.store.reader import Store, open_store
from outofcore.store.schema import Layout, Schema
from outofcore.store.writer import StoreWriter
from record import Row, memory_row, save
from serving import Engine

OWN = (
    "streamed",
    "mapped",
    "ram",
    "gather",
    "gather bits",
    "memmap",
    "items",
    "items, 2 workers",
    "streamed 32 MiB",
    "streamed 256 MiB",
    "streamed 1 GiB",
)
BUDGETS = {
    "streamed": "128MiB",
    "streamed 32 MiB": "32MiB",
    "streamed 256 MiB": "256MiB",
    "streamed 1 GiB": "1GiB",
}
PEERS = ("datasets", "litdata", "mosaicml-streaming", "webdataset", "grain")
FIELDS = ("boards", "state", "move", "result", "ply")
SLAB = 1 << 18


def write_arrays(store: Store, folder: Path) -> None:
    """The rows of the training split as ``.npy`` files."""
    table = store.rows("train")
    for name in FIELDS:
        array = table[name]
        out = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", array.dtype, (len(table), *array.shape[1:]))
        for start in range(0, len(table), SLAB):
            out[start : start + SLAB] = array.read(start, min(start + SLAB, len(table)))
        out.flush()


def write_plain(store: Store, path: Path) -> None:
    """The training split once more, without compression, so that it can be mapped."""
    wanted = tuple(field for field in SCHEMA.rows if field.name in FIELDS)
    table, lengths = store.rows("train"), store.sequences("train")["length"].read()
    layout = Layout(codec="none", chunk_rows=table["move"].chunk_rows, shard_rows=table["move"].shard_rows)
    with ThreadPoolExecutor(2) as encoders:
        schema = Schema(rows=wanted, sequences=())
        writer = StoreWriter(path.with_suffix(".work"), {"": schema}, layout, ("train",), encoders)
        for start in range(0, len(table), SLAB):
            stop = min(start + SLAB, len(table))
            writer.append_rows("", "train", {name: table[name].read(start, stop) for name in FIELDS})
        starts = np.cumsum(lengths) - lengths
        writer.append_sequences("", "train", {"start": starts, "length": lengths})
        sources = {name: store.sources[name].read() for name in store.sources.fields}
        writer.commit(path, {"domain": "chess", "parts": [""], "splits": ["train"]}, sources)


def measure(engines: Sequence[Engine], rounds: int, seconds: float) -> None:
    """Let each engine measure in turn, again and again."""
    for number in range(rounds + 1):
        for engine in engines:
            if not engine.failed:
                engine.measure(seconds, watch=number == rounds)
        print(f"round {number + 1} of {rounds + 1}", file=sys.stderr)


def summary(engine: Engine, unit: float) -> dict[str, Any]:
    """Medians of an engine; ``unit`` is the speed that others are compared with."""
    if not engine.figures:
        return {"failed": True}
    speeds = [each["samples_per_second"] for each in engine.figures if "samples_per_second" in each]
    speed = median(speeds)
    return {
        "samples_per_second": round(speed),
        "of_gather": round(speed / unit, 3),
        "growth_mb": round(engine.figures[-1]["growth_bytes"] / 1e6),
        "all": [round(each) for each in speeds],
    }


def table(figures: dict[str, dict[str, Any]], kind: str = "chess") -> list[Row]:
    """The figures, gathering from memory as the unit."""
    rows = []
    for name, each in figures.items():
        if each.get("failed"):
            rows.append(Row(label=name, value="could not be run", unit="samples/s"))
            continue
        speed, held = each["samples_per_second"], each["growth_mb"]
        rows.append(Row(label=name, value=speed, unit="samples/s", ratio=each["of_gather"], against="`gather`"))
        rows.append(Row(label=name, value=held, unit="MB held"))
        if name in BUDGETS:
            rows.append(memory_row(f"{kind}: {name.split()[0]}", held * 1e6, parse_bytes(BUDGETS[name])))
    return rows


def versions_of(python: Path) -> dict[str, str]:
    """Versions of the libraries beside it, in their environment."""
    script = f"from importlib.metadata import version; [print(name, version(name)) for name in {PEERS!r}]"
    found = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in found.splitlines())


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("store", type=Path, help="a chess store")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    arguments.add_argument("--ways", nargs="*", default=OWN, choices=OWN)
    arguments.add_argument("--peers", type=Path, help="a Python that has bench/peers.txt installed")
    arguments.add_argument("--peer-rows", type=int, default=200_000)
    arguments.add_argument("--work", type=Path, help="folder for arrays and copies; a temporary one by default")
    arguments.add_argument("--out", type=Path, default=Path("bench/results"))
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        plain, arrays = work / "plain.zarr", work / "arrays"
        store = open_store(given.store)
        if not arrays.exists():
            arrays.mkdir(parents=True)
            write_arrays(store, arrays)
        if not plain.exists():
            write_plain(store, plain)
        here = Path(__file__).parent
        places = [str(given.store), str(plain), str(arrays)]
        # Peers first: making their data takes minutes, and processes that stand idle for so long lose cached pages.
        peers: list[Engine] = []
        if given.peers:
            rows = min(given.peer_rows, len(store.rows("train")))
            script = [str(given.peers), str(here / "loader_peers.py")]
            peers = [Engine(peer, [*script, peer, "chess", str(arrays), str(work / peer), str(rows)]) for peer in PEERS]
        own = [Engine(way, [sys.executable, str(here / "loader_engines.py"), way, *places]) for way in given.ways]
        engines = [*own, *peers]
        try:
            measure(engines, given.rounds, given.seconds)
        finally:
            for engine in engines:
                engine.end()
        beside = next((each for each in engines if each.name == "gather"), engines[0])
        unit = median(each["samples_per_second"] for each in beside.figures[:-1])
        figures = {engine.name: summary(engine, unit) for engine in engines}
        rows_read = len(store.rows("train"))
    save(
        given.out,
        "loader",
        "chess: shuffled positions as planes",
        table(figures),
        facts=(f"{rows_read:,} positions, batches of 1,024", f"medians of {given.rounds} rounds"),
        details={"ways": figures},
        versions=versions_of(given.peers) if given.peers else {},
    )


if __name__ == "__main__":
    main()
