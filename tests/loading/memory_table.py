"""What a loader holds at most against its budget, by shape of the data; each reading in a process of its own.

Pages of mapped files are not counted: they belong to the system, which takes them back where others need memory.
``python -m tests.loading.memory_table FOLDER`` prints the whole table; the stores, some hundred megabytes, are made in
the folder. Tests run some rows of it with smaller stores.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zarr

import outofcore
from outofcore.domains.registry import get_domain
from outofcore.errors import BudgetError
from outofcore.order.mixture import Mixture
from outofcore.order.plain import Shuffle
from outofcore.settings.sizes import format_bytes, parse_bytes
from tests.processes import CONTEXT

Shape = Callable[[Path, int], dict[str, Any]]
MIB = 2**20


def _written(folder: Path, name: str, codec: str, make: Callable[[], Any], **more: Any) -> Path:
    place = folder / f"{name}_{codec}"
    if not place.exists():
        outofcore.write_store(place, {"x": make()}, codec=codec, **more)
    return place


def _random(*shape: int) -> Any:
    return np.random.default_rng(0).integers(0, 200, shape, dtype=np.uint8)


def narrow(folder: Path, size: int, codec: str) -> dict[str, Any]:
    return {"data": _written(folder, "narrow", codec, lambda: _random(size * MIB // 16, 16)), "batch_size": 4096}


def wide(folder: Path, size: int, codec: str) -> dict[str, Any]:
    store = _written(folder, "wide", codec, lambda: _random(size * 2, MIB // 2), chunk_rows=16)
    return {"data": store, "batch_size": 8, "shuffle": Shuffle(pool_blocks=4)}


def windows(folder: Path, size: int, codec: str) -> dict[str, Any]:
    return {**narrow(folder, size, codec), "batch_size": 64, "window": {"length": 1000, "stride": 300}}


def _tokens(folder: Path, size: int, **settings: Any) -> dict[str, Any]:
    place = folder / "tokens.bin"
    if not place.exists():
        ids = np.random.default_rng(0).integers(0, 50_000, size * MIB // 2).astype(np.uint16)
        ids[::700] = 50_001
        ids.tofile(place)
    store = outofcore.open_tokens(place, "uint16", end_of_document=50_001)
    return {"data": store, "batch_size": 64, "tensors": outofcore.reading(store, seq_len=2048, **settings)}


def packed(folder: Path, size: int, codec: str) -> dict[str, Any]:
    del codec
    return _tokens(folder, size, across_documents="best_fit")


def reset(folder: Path, size: int, codec: str) -> dict[str, Any]:
    del codec
    return _tokens(folder, size, reset_at_documents=True)


def _converted(folder: Path, domain: str, codec: str, **settings: Any) -> dict[str, Any]:
    raw, place = folder / domain, folder / f"{domain}_{codec}"
    if not raw.exists():  # the same for every codec
        raw.mkdir()
        get_domain(domain).sample(raw, np.random.default_rng(0))
    if not place.exists():
        outofcore.convert(domain, raw, place, store={"codec": codec})
    return {"data": place, "batch_size": 512, "tensors": outofcore.reading(place, **settings)}


def legal_masks(folder: Path, size: int, codec: str) -> dict[str, Any]:
    del size
    return _converted(folder, "chess", codec, legal_mask=True)


def symmetries(folder: Path, size: int, codec: str) -> dict[str, Any]:
    del size
    return _converted(folder, "go", codec, symmetries=True)


def frames(folder: Path, size: int, codec: str) -> dict[str, Any]:
    store = _written(folder, "frames", codec, lambda: _random(size * 64, 64, 64).astype(np.float32))
    return {"data": store, "batch_size": 128, "window": {"length": 8, "stride": 8}}


def _images(folder: Path, size: int, codec: str) -> dict[str, Any]:
    return {
        "data": _written(folder, "images", codec, lambda: _random(size * 85, 3, 64, 64)),
        "batch_size": 256,
    }


def map_4(folder: Path, size: int, codec: str) -> dict[str, Any]:
    return {**_images(folder, size, codec), "map": lambda batch: {"x": batch["x"].float() / 255}}


def map_16(folder: Path, size: int, codec: str) -> dict[str, Any]:
    return {**_images(folder, size, codec), "map": lambda batch: {"x": batch["x"].float().repeat(1, 4, 1, 1) * 2}}


def foreign(folder: Path, size: int, codec: str) -> dict[str, Any]:
    del codec
    place = folder / "foreign.zarr"
    if not place.exists():
        group, rows = zarr.open_group(place, mode="w"), size * 500
        group.create_array("a", data=_random(rows, 1000), chunks=(100, 1000))
        group.create_array("b", data=_random(rows, 900), chunks=(rows, 100))
    return {"data": place, "batch_size": 256}


def shards(folder: Path, size: int, codec: str) -> dict[str, Any]:
    """Chunks of which rows begin in the middle."""
    del codec
    place, rows = folder / "shards.zarr", size * 500
    if not place.exists():
        values = _random(rows, 4000)
        zarr.create_array(place, data=values, chunks=(100, 4000), shards=(1000, 4000))
    opened = outofcore.open_zarr(place, rows=(33, rows))
    return {"data": opened, "batch_size": 16, "shuffle": Shuffle(pool_blocks=4)}


def fifty_sources(folder: Path, size: int, codec: str) -> dict[str, Any]:
    values = _random(size * 200 + 50, 64)
    stores = {f"s{k}": _written(folder, f"s{k}", codec, values[k : k + size * 200].copy) for k in range(50)}
    return {"data": stores, "batch_size": 256, "shuffle": Mixture({name: 1 + k % 3 for k, name in enumerate(stores)})}


SHAPES = {
    shape.__name__: shape
    for shape in (
        *(narrow, wide, windows, packed, reset, legal_masks, symmetries, frames, map_4, map_16, foreign),
        shards,
        fifty_sources,
    )
}
CODEC = {"mapped": "none"}  # by residency
RESIDENCIES = ("streamed", "hybrid", "ram", "mapped")


def measured(folder: Path, name: str, residency: str, threads: int, memory: str, size: int) -> tuple[int, int]:
    """Budget, and bytes by which this process grew; a budget of 0 is the least that is accepted."""
    options = SHAPES[name](folder, size, CODEC.get(residency, "lz4"))
    options |= {"residency": residency, "threads": threads}
    few = {"batch_size": 4, "threads": 1}  # loads the machine code, and leaves little memory behind
    few |= {"shuffle": replace(options.get("shuffle", Shuffle()), pool_blocks=1)}
    for _, batch in zip(range(2), outofcore.loader(**options | few, memory="4GiB"), strict=False):
        del batch
    budget = parse_bytes(memory)
    try:
        loader = outofcore.loader(**options, memory=budget or 1)
    except BudgetError as refusal:
        named = re.search(r"least that works is ([\d.]+ \w+)", str(refusal))
        if named is None:
            raise
        budget = parse_bytes(named[1]) * 101 // 100
        loader = outofcore.loader(**options, memory=budget)
    before = anonymous_bytes()
    most, over = [before], threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            most[0] = max(most[0], anonymous_bytes())

    with ThreadPoolExecutor(1) as watcher:
        watcher.submit(watch)
        for _ in range(2):
            for batch in loader:
                torch.is_tensor(batch)
        over.set()
    return budget, most[0] - before


def anonymous_bytes() -> int:
    """Resident bytes of this process that no file backs."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return sum(1024 * int(kilobytes) for kilobytes in re.findall(r"^Rss(?:Anon|Shmem):\s+(\d+)", status, re.MULTILINE))


def in_a_process(folder: Path, *arguments: object) -> tuple[int, int]:
    """:func:`measured` in a process of its own, of a store that this one makes: that leaves memory behind."""
    name, residency, *_, size = arguments
    SHAPES[str(name)](folder, int(str(size)), CODEC.get(str(residency), "lz4"))
    result = folder / "measured"
    process = CONTEXT.Process(target=_note, args=(result, folder, *arguments))
    process.start()
    process.join()
    if process.exitcode:
        raise ChildProcessError(f"{name} {residency}: ended with {process.exitcode}")
    budget, grown = result.read_text().split()
    return int(budget), int(grown)


def _note(result: Path, *arguments: Any) -> None:
    budget, grown = measured(*arguments)
    result.write_text(f"{budget} {grown}")


def main(folder: Path, *arguments: str) -> None:
    for name in arguments or SHAPES:
        for residency in RESIDENCIES:
            for threads in (2, 8):
                for memory in ("0", "256MiB"):
                    try:
                        budget, grown = in_a_process(folder, name, residency, threads, memory, 64)
                    except ChildProcessError as error:
                        sys.stdout.write(f"{name:14} {residency:9} {threads} {memory:7} {error}\n")
                        continue
                    mark = "ABOVE" if grown > budget else ""
                    sizes = f"{format_bytes(budget):>8} {format_bytes(grown):>8} {grown / budget:5.2f} {mark}"
                    sys.stdout.write(f"{name:14} {residency:9} {threads} {memory:7} {sizes}\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
