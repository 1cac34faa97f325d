"""The loader's order over shards that do not exist: memory, and time to the first batch."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import psutil

from outofcore.loading.order import Cut, EpochOrder, Order
from outofcore.loading.permutation import scatter
from outofcore.loading.sampling.plain import Plain, cut_samples
from outofcore.loading.windows import Window, Windows

Result = TypeVar("Result")
# Bytes that the loader keeps for each chunk while it streams: place of each field's chunk in its shard (offset and
# length) and its address, and per chunk slot, holders, and two flags.
PER_CHUNK, PER_CHUNK_AND_FIELD = 18, 24
# Peak of the order as it is held, for each block, from the runs below; what does not fit is not run.
BYTES_A_BLOCK = 24
# The proof of the budget counts the chunks of each block, for each shift that an epoch may have; beyond this, minutes.
MOST_PROVED = 2_000_000


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    since = time.perf_counter()
    return work(), time.perf_counter() - since


class Keyed(EpochOrder):
    """The same cut, but the order of blocks is computed where it is needed and never held."""

    def pool_blocks(self, pool: int) -> Any:  # noqa: D102 - as in the class above it
        begin, end = self._first_block(pool), min(self._first_block(pool + 1), self.full_blocks)
        numbers = scatter(np.arange(begin, end, dtype=np.int64), self.full_blocks, self.seed, self.number, 1)
        return self.shift + self.cut.block * numbers, np.full(end - begin, self.cut.block, np.int64)


def first_and_resumed(kind: type[EpochOrder], cut: Cut) -> dict[str, Any]:
    """Time to the first pool of an epoch and of a resumed one, and memory, of one way to order blocks."""
    shift = Order(cut, 0).epoch(1).shift
    tracemalloc.start()
    first, first_seconds = timed(lambda: kind(cut, 0, 1, shift).samples(0))
    resumed = kind(cut, 0, 1, shift)
    _, resume_seconds = timed(lambda: resumed.samples(resumed.pool_of(cut.samples // 10 * 7)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "first_pool_seconds": round(first_seconds, 4),
        "resume_seconds": round(resume_seconds, 4),
        "peak_bytes": peak,
        "samples_of_a_pool": len(first),
    }


def simulate(rows: int, chunk_rows: int, window: Window | None, fields: int) -> dict[str, Any]:
    """The order of a split of so many rows: what is held, and the time to the first pool."""
    windows = Windows(rows, window)
    cut = cut_samples(windows, chunk_rows, shuffle=True, pool_blocks=64, block_rows=None)
    chunks, blocks = -(-rows // chunk_rows), cut.samples // cut.block
    tables = chunks * (PER_CHUNK + fields * PER_CHUNK_AND_FIELD)
    found: dict[str, Any] = {"rows": rows, "samples": windows.samples, "chunks": chunks, "blocks": blocks}
    found |= {"tables_bytes": tables, "keyed": first_and_resumed(Keyed, cut)}
    if blocks * BYTES_A_BLOCK > psutil.virtual_memory().available / 2:
        return {
            **found,
            "held": f"not run: about {blocks * BYTES_A_BLOCK / 1e9:.0f} GB, more than half of what is free",
        }
    found["held"] = first_and_resumed(EpochOrder, cut)
    if blocks * len(cut.shifts) > MOST_PROVED:
        return found
    sampler = Plain(windows, cut, 0, chunk_rows)
    tracemalloc.start()
    _, seconds = timed(lambda: sampler.pool_chunks(1))
    found["proof_of_the_budget"] = {"seconds": round(seconds, 3), "peak_bytes": tracemalloc.get_traced_memory()[1]}
    tracemalloc.stop()
    return found


def simulate_orders() -> dict[str, Any]:
    """Positions and tokens by the billion."""
    simulate(10**7, 4096, None, 6)  # compiled before it is timed
    return {
        "5e9 positions": simulate(5 * 10**9, 4096, None, 6),
        "5e10 positions": simulate(5 * 10**10, 4096, None, 6),
        "5e11 positions": simulate(5 * 10**11, 4096, None, 6),
        "5e11 positions in chunks of 65,536": simulate(5 * 10**11, 65536, None, 6),
        "1.5e13 tokens": simulate(15 * 10**12, 65536, Window(length=2048, stride=2048), 1),
        "1.5e13 tokens in chunks of 1,048,576": simulate(15 * 10**12, 2**20, Window(length=2048, stride=2048), 1),
    }
