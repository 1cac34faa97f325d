"""What does the order of samples cost for billions of rows: memory, and time to the first batch?

    python bench/order_at_scale.py

The loader's own classes run over shards that do not exist.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from harness.results import Row, arguments, save
from outofcore.loading.order import EpochOrder, PlainSampler, cut_samples
from outofcore.loading.windows import Window, Windows
from outofcore.sizes import format_bytes

# Bytes that the loader keeps for each chunk while it streams: place of each field's chunk in its shard (offset and
# length) and its address, and per chunk slot, holders, and two flags.
PER_CHUNK, PER_CHUNK_AND_FIELD = 18, 24


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    since = time.perf_counter()
    return work(), time.perf_counter() - since


def simulate(rows: int, chunk_rows: int, window: Window | None, fields: int) -> dict[str, Any]:
    """The order of a split of so many rows: what is held, and the time to the first pool."""
    windows = Windows(rows, window)
    cut = cut_samples(windows, chunk_rows, shuffle=True, pool_blocks=64, block_rows=None)
    chunks = -(-rows // chunk_rows)
    shift = cut.epoch(0, 1).shift
    tracemalloc.start()
    _, proof = timed(lambda: PlainSampler(windows, cut, 0, chunk_rows).pool_chunks(1))
    first, first_pool = timed(lambda: EpochOrder(cut, 0, 1, shift).samples(0))
    resumed = EpochOrder(cut, 0, 1, shift)
    _, resuming = timed(lambda: resumed.samples(resumed.pool_of(cut.samples // 10 * 7)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "rows": rows,
        "samples": windows.samples,
        "chunks": chunks,
        "blocks": cut.samples // cut.block,
        "tables_bytes": chunks * (PER_CHUNK + fields * PER_CHUNK_AND_FIELD),
        "proof_seconds": round(proof, 4),
        "first_pool_seconds": round(first_pool, 4),
        "resume_seconds": round(resuming, 4),
        "peak_bytes": peak,
        "samples_of_a_pool": len(first),
    }


def main() -> None:
    given = arguments(__doc__).parse_args()
    tokens = Window(length=2048, stride=2048)
    simulate(10**7, 4096, None, 6)  # compiled before it is timed
    found = {
        "1e7 positions": simulate(10**7, 4096, None, 6),
        "1e9 positions": simulate(10**9, 4096, None, 6),
        "4e9 positions": simulate(4 * 10**9, 4096, None, 6),
        "5e10 positions": simulate(5 * 10**10, 4096, None, 6),
        "5e11 positions": simulate(5 * 10**11, 4096, None, 6),
        "5e11 positions in chunks of 65,536": simulate(5 * 10**11, 65536, None, 6),
        "1.5e13 tokens": simulate(15 * 10**12, 65536, tokens, 1),
        "1.5e13 tokens in chunks of 1,048,576": simulate(15 * 10**12, 2**20, tokens, 1),
    }
    rows = []
    for name, simulated in found.items():
        of: dict[str, Any] = {"label": name, "table": "order"}
        rows += [
            Row(value=simulated["blocks"], of="blocks", **of),
            Row(value=format_bytes(simulated["tables_bytes"]), of="tables by chunk", **of),
            Row(value=simulated["proof_seconds"], of="budget check", unit="s", **of),
            Row(value=simulated["first_pool_seconds"], of="first pool", unit="s", **of),
            Row(value=simulated["resume_seconds"], of="resuming", unit="s", **of),
            Row(value=format_bytes(simulated["peak_bytes"]), of="order in memory", **of),
        ]
    save(given.out, "order_at_scale", "the order of samples at scale", rows, details=found)


if __name__ == "__main__":
    main()
