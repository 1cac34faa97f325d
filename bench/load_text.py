"""How fast windows of tokens become batches: beside drawing them from a memory-mapped file of tokens.

    python bench/load_text.py novels.tar.zst --tokenizer data/tokenizers/text.json --megabytes 1000 --out bench/results

The text is made as for ``convert_text.py`` and converted once for each codec. Batches of 64 windows of 512 tokens,
inputs and targets, shuffled. Every way stands in a process of its own; they take turns of some seconds, so that what
else the machine does hits all of them, and a figure is the median of their turns. ``cpu`` is the processor time of a
window, over all threads: noise on a shared machine hardly shows in it. ``memory`` is what the process takes at most
beyond what it took with everything imported; pages of mapped files are given apart, the system takes them back when it
needs them.

``memmap``: the habit of the field. All tokens in one file of ``uint16`` that is mapped; for each window a random place,
a slice for the input and one for the target, each made ``int64``, all stacked by torch. Places are drawn with
replacement: some tokens come often in what would be an epoch, some never.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from convert_text import make_text, whole
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tensors import make_reading
from outofcore.loading.loader import loader
from outofcore.loading.memory import Kind
from outofcore.sizes import parse_bytes
from outofcore.store.reader import open_store
from record import Row, memory_row, save

LENGTH, BATCH = 512, 64
CODECS = ("none", "lz4", "zstd")
MEMMAP = "memmap"
WAYS: dict[str, tuple[str, Kind]] = {
    **{f"{codec}, streamed": (codec, "streamed") for codec in CODECS},
    "none, mapped": ("none", "mapped"),
    "zstd, in memory": ("zstd", "ram"),
}
KEYS = ("Pss_Anon", "Pss_Shmem", "Pss_File")


def mapped_batches(path: Path) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    tokens = np.memmap(path, np.uint16, "r")
    while True:
        starts = torch.randint(len(tokens) - LENGTH, (BATCH,)).tolist()
        inputs = [torch.from_numpy(tokens[start : start + LENGTH].astype(np.int64)) for start in starts]
        targets = [torch.from_numpy(tokens[start + 1 : start + 1 + LENGTH].astype(np.int64)) for start in starts]
        yield torch.stack(inputs), torch.stack(targets)


def stored_batches(folder: Path, way: str, memory: str) -> Iterator[dict[str, torch.Tensor]]:
    codec, residency = WAYS[way]
    store = open_store(folder / codec / "text.zarr")
    section = TextSection.model_validate({"raw": "raw", "tensors": {"seq_len": LENGTH}})
    batches = loader(
        store,
        "train",
        BATCH,
        window={"length": LENGTH + 1, "stride": LENGTH, "mode": "pack"},
        phase=True,
        tensors=make_reading(store.attributes, section),
        memory="100 GB" if residency == "ram" else memory,
        residency=residency,
    )
    while True:
        yield from batches


def serve(folder: Path, way: str, memory: str, seconds: float) -> None:
    """What a child does: a turn for each line that it is given."""
    before = pages()
    batches = mapped_batches(folder / "tokens.bin") if way == MEMMAP else stored_batches(folder, way, memory)
    for _ in range(200):
        next(batches)
    most = dict.fromkeys(KEYS, 0)
    for _ in sys.stdin:
        windows, started, worked = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - started < seconds:
            for _ in range(20):
                next(batches)
            windows += 20 * BATCH
        wall, cpu = time.perf_counter() - started, time.process_time() - worked
        now = pages()
        most = {key: max(most[key], now[key] - before[key]) for key in KEYS}
        turn = {"windows_per_second": windows / wall, "cpu_us": cpu / windows * 1e6, "pages": most}
        print(json.dumps(turn), flush=True)


def pages() -> dict[str, int]:
    """Bytes of this process by kind of page."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    facts = {name: int(value.split()[0]) * 1024 for name, _, value in (line.partition(":") for line in lines)}
    return {key: facts[key] for key in KEYS}


class Child:
    """A way in a process of its own."""

    def __init__(self, folder: Path, way: str, memory: str, seconds: float) -> None:
        command = [sys.executable, __file__, "--serve", way, "--folder", str(folder), "--memory", memory]
        self._process = subprocess.Popen(
            [*command, "--seconds", str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.turns: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def turn(self) -> None:
        """Let it read for some seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.turns.append(json.loads(self._process.stdout.readline()))

    def figures(self) -> dict[str, Any]:
        """Medians over its turns."""
        rates = [turn["windows_per_second"] for turn in self.turns]
        held = self.turns[-1]["pages"]
        return {
            "windows_per_second": round(statistics.median(rates)),
            "slowest_turn": round(min(rates)),
            "fastest_turn": round(max(rates)),
            "cpu_us": round(statistics.median(turn["cpu_us"] for turn in self.turns), 2),
            "memory_mb": round((held["Pss_Anon"] + held["Pss_Shmem"]) / 1e6, 1),
            "mapped_pages_mb": round(held["Pss_File"] / 1e6, 1),
        }


def prepare(source: Path, tokenizer: Path, megabytes: int, folder: Path) -> dict[str, Any]:
    """Text, a store for each codec, and the file of tokens."""
    raw = folder / "raw"
    make_text(source, raw, megabytes * 10**6)
    made = {}
    for codec in CODECS:
        keys = {"raw": str(raw), "tokenizer": {"path": str(tokenizer)}, "store": {"codec": codec}}
        (folder / codec).mkdir()
        tell(f"converting with {codec}")
        made[codec] = whole(TextSection.model_validate(keys), 2, folder / codec)
    tokens = open_store(folder / "none" / "text.zarr").rows("train")["tokens"]
    with (folder / "tokens.bin").open("wb") as file:
        for start in range(0, len(tokens), 1 << 24):
            file.write(tokens.read(start, min(len(tokens), start + (1 << 24))).tobytes())
    return {"tokens": len(tokens), "bytes_a_token": {codec: made[codec]["bytes_per_row"] for codec in CODECS}}


def measure(folder: Path, memory: str, turns: int, seconds: float) -> dict[str, dict[str, Any]]:
    ways = {}
    for way in (MEMMAP, *WAYS):
        tell(f"opening {way}")
        ways[way] = Child(folder, way, memory, seconds)
    try:
        for turn in range(turns):
            for way, child in ways.items():
                tell(f"turn {turn + 1}: {way}")
                child.turn()
        return {way: child.figures() for way, child in ways.items()}
    finally:
        for child in ways.values():
            child.__exit__()


def table(result: dict[str, Any]) -> list[Row]:
    """The figures, the mapped file of tokens as the unit."""
    habit, rows = result["ways"][MEMMAP], []
    for way, found in result["ways"].items():
        speed, work = found["windows_per_second"], found["cpu_us"]
        against: dict[str, Any] = {"against": "the mapped file"}
        rows += [
            Row(label=way, value=speed, unit="windows/s", ratio=speed / habit["windows_per_second"], **against),
            Row(label=way, value=work, unit="core us per window"),
            Row(label=way, value=found["memory_mb"], unit="MB held"),
            Row(label=way, value=found["mapped_pages_mb"], unit="MB of mapped pages"),
        ]
        if way.endswith("streamed"):
            rows.append(memory_row(f"text: {way}", found["memory_mb"] * 1e6, parse_bytes(result["memory_budget"])))
    return rows


def tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--memory", default="128MiB", help="budget of the streamed ways")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--folder", type=Path, help="where to work; by default a folder that is removed afterwards")
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.folder, options.serve, options.memory, options.seconds)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        result = {
            **prepare(options.source, options.tokenizer, options.megabytes, Path(name)),
            "memory_budget": options.memory,
            "ways": measure(Path(name), options.memory, options.turns, options.seconds),
        }
    stored = ", ".join(f"{codec} {size:.3g}" for codec, size in result["bytes_a_token"].items())
    save(
        options.out,
        "load_text",
        "text: windows of tokens",
        table(result),
        facts=(
            f"{result['tokens']:,} tokens, batches of {BATCH} windows of {LENGTH}",
            f"bytes per token in the store: {stored}",
            f"medians of {options.turns} turns",
        ),
        details=result,
    )


if __name__ == "__main__":
    main()
