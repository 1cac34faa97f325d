"""What would it take to convert what no machine here can hold?

    python bench/scale.py --chess Kramnik.pgn --text tinyshakespeare.txt --neural data/sample/neural

Every constant is measured in this run, on this machine, and named. The plan multiplies.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from harness.results import Row, arguments, save
from harness.stores import files_of, section_of
from outofcore.conversion.assemble import Assembler
from outofcore.conversion.executors import open_executor
from outofcore.conversion.seen import SeenKeys
from outofcore.conversion.splits import SPLITS
from outofcore.domains.registry import get_domain
from outofcore.raw.unit import NO_AUDIT
from outofcore.sizes import format_bytes
from outofcore.store.seal import Seal, read_seal
from outofcore.store.target import Target
from outofcore.store.writer import StoreWriter

CONSTANTS = {
    "raw_bytes_a_row": "raw bytes per row",
    "decoded_bytes_a_row": "decoded bytes per row",
    "store_bytes_a_row": "store bytes per row",
    "rows_a_sequence": "rows per sequence",
    "machine_rows_a_second": "rows per second, one machine's writer (keys, splits, encoding, digests)",
    "worker_rows_a_second": "rows per second, one worker (parsing)",
    "unit_and_result_bytes": "bytes of a unit and its rows",
}
OF_THE_MACHINE = {
    "sha256_bytes_a_second": "SHA-256, bytes per second",
    "md5_bytes_a_second": "MD5, bytes per second",
    "keys_a_second": "duplicate keys per second",
    "key_bytes_peak": "bytes per key, at the peak",
    "seal_bytes_a_file": "bytes per file in the seal",
    "seal_read_seconds_a_file": "seconds per file to read the seal",
    "stat_seconds": "seconds per file to stat it",
    "calls_a_second": "calls per second through a Dask scheduler",
}
PLANNED = {
    "raw_bytes": "raw (given)",
    "rows": "rows",
    "units": "units",
    "store_bytes": "store",
    "shard_rows": "`shard_rows` (given)",
    "files": "files in DVC",
    "mean_file_bytes": "size of a file",
    "seal_bytes": "seal",
    "open_seconds": "opening, apart from the list",
    "hashing_days_one_core": "hashing, one core",
    "worker_days": "the workers' own work",
    "driver_days": "the driver's own work",
    "scheduler_days": "scheduler",
    "driver_bytes_in_flight": "driver, units in flight",
    "driver_bytes_of_keys": "driver, duplicate keys",
    "driver_network_bytes_a_second": "driver, network per second",
}
DOMAINS = ("chess", "text", "neural")
DAY = 86400.0


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    since = time.perf_counter()
    return work(), time.perf_counter() - since


def median(work: Callable[[], object], times: int = 5) -> float:
    return float(np.median([timed(work)[1] for _ in range(times)]))


def measure_conversion(name: str, raw: Path, tokenizer: Path | None) -> dict[str, float]:
    """What a unit of a domain is, and how fast a worker and the driver are."""
    domain = get_domain(name)
    section = section_of(name, raw, {"tokenizer": {"path": str(tokenizer)}} if name == "text" and tokenizer else {})
    files = files_of(name, section)
    units, convert = list(domain.units(files, section)), domain.converter(section, NO_AUDIT)
    convert(units[0])  # compiled before it is timed
    results, parsing = timed(lambda: [convert(unit) for unit in units])
    rows = sum(len(next(iter(result.rows.values()))) for result in results)
    sequences = sum(len(result.keys) for result in results)
    raw_bytes = sum(file.bytes for file in files)

    def assemble(folder: str) -> int:
        with ThreadPoolExecutor(1) as encoders:
            schemas = domain.schemas(section, files)
            writer = StoreWriter(Path(folder) / "work", schemas, section.store.layout(), SPLITS, encoders)
            assembler = Assembler(writer, section.splits, drop_duplicates=True)
            for unit, result in zip(units, results, strict=True):
                assembler.add(unit, result)
            zero = {name: np.zeros(1, np.int64) for name in ("bytes", "found", "accepted", "rejected")}
            names = {name: np.array([""], object) for name in ("name", "digest")}
            with Target(Path(folder) / "store") as target:
                seal = writer.commit(target, {}, {**zero, **names})
            return sum(size for size, _ in seal.files.values())

    with tempfile.TemporaryDirectory() as folder:
        stored, writing = timed(lambda: assemble(folder))
    return {
        "raw_bytes_a_unit": raw_bytes / len(units),
        "rows_a_sequence": rows / sequences,
        "raw_bytes_a_row": raw_bytes / rows,
        "decoded_bytes_a_row": sum(array.nbytes for result in results for array in result.rows.values()) / rows,
        "store_bytes_a_row": stored / rows,
        "machine_rows_a_second": rows / writing,
        "worker_rows_a_second": rows / parsing,
        "unit_and_result_bytes": float(np.mean([len(pickle.dumps(pair)) for pair in zip(units, results, strict=True)])),
    }


def measure_hashing(size: int = 64 << 20) -> dict[str, float]:
    """Bytes a second of the digests of seals (SHA-256) and of DVC (MD5), one core."""
    block = os.urandom(1 << 20) * (size >> 20)
    return {
        "sha256_bytes_a_second": size / median(lambda: hashlib.sha256(block).digest()),
        "md5_bytes_a_second": size / median(lambda: hashlib.md5(block, usedforsecurity=False).digest()),
    }


def measure_seal(files: int = 100_000) -> dict[str, float]:
    """What a file costs in the seal and when a store is opened."""
    listed = {
        f"train/field{n % 30:02d}/c.{n // 30}.0": (n, hashlib.sha256(str(n).encode()).hexdigest()) for n in range(files)
    }
    seal = Seal(listed)
    text, writing = timed(seal.text)
    reading = median(lambda: read_seal(text, "x"), 3)
    return {
        "seal_bytes_a_file": len(text) / files,
        "seal_write_seconds_a_file": writing / files,
        "seal_read_seconds_a_file": reading / files,
        "stat_seconds": median(lambda: [os.stat(__file__) for _ in range(10_000)]) / 10_000,  # noqa: PTH116
    }


def measure_keys(count: int = 1_000_000) -> dict[str, float]:
    """Memory of a key that is remembered, at its peak, and keys a second."""
    random = np.random.default_rng(0)
    batches = [random.integers(0, 256, (2000, 16), dtype=np.uint8) for _ in range(count // 2000)]
    seen = SeenKeys()
    tracemalloc.start()
    _, seconds = timed(lambda: [seen.add(batch) for batch in batches])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"key_bytes_peak": peak / count, "keys_a_second": count / seconds}


def measure_scheduler(calls: int = 1000) -> dict[str, float]:
    """Calls a second through a Dask scheduler, with no work in them."""
    with open_executor("dask", 1) as executor:
        executor.submit(abs, -1).result()
        _, seconds = timed(lambda: [future.result() for future in [executor.submit(abs, -n) for n in range(calls)]])
    return {"calls_a_second": calls / seconds}


def plan(known: dict[str, float], machine: dict[str, float], **of: float) -> dict[str, Any]:
    """What a conversion takes: ``known`` is of its domain, ``machine`` of any, ``of`` is what is asked."""
    rows, raw, workers = of["rows"], of["raw_bytes"], of["workers"]
    stored = rows * known["store_bytes_a_row"]
    units = rows * known["raw_bytes_a_row"] / known["raw_bytes_a_unit"]
    files = of["parts"] * of["fields"] * max(rows / of["parts"] / of["shard_rows"] + 1.5, 3)
    digests = 1 / machine["sha256_bytes_a_second"] + 1 / machine["md5_bytes_a_second"]
    return {
        **{name: float(f"{value:.4g}") for name, value in of.items()},
        "units": round(units),
        "store_bytes": round(stored),
        "files": round(files),
        "mean_file_bytes": round(stored / files),
        "seal_bytes": round(files * machine["seal_bytes_a_file"]),
        "open_seconds": round(files * (machine["seal_read_seconds_a_file"] + machine["stat_seconds"]), 1),
        "hashing_days_one_core": round((raw + stored) * digests / DAY, 2),
        "worker_days": round(rows / known["worker_rows_a_second"] / workers / DAY, 2),
        "driver_days": round(rows / known["machine_rows_a_second"] / DAY, 2),
        "scheduler_days": round(units / machine["calls_a_second"] / DAY, 2),
        "driver_bytes_in_flight": round((2 * workers + 2) * known["unit_and_result_bytes"]),
        "driver_bytes_of_keys": round(rows / known["rows_a_sequence"] * machine["key_bytes_peak"]),
        "driver_network_bytes_a_second": round(
            known["machine_rows_a_second"] / rows * units * known["unit_and_result_bytes"]
        ),
    }


def main() -> None:
    parser = arguments(__doc__)
    for name in DOMAINS:
        parser.add_argument(f"--{name}", type=Path, required=True, help=f"raw {name} to measure on")
    parser.add_argument("--tokenizer", type=Path, help="of the text; the one that params.yaml names by default")
    given = parser.parse_args()
    known = {name: measure_conversion(name, getattr(given, name), given.tokenizer) for name in DOMAINS}
    machine = {**measure_hashing(), **measure_seal(), **measure_keys(), **measure_scheduler()}
    constants = {
        of: {name: float(f"{value:.4g}") for name, value in figures.items()}
        for of, figures in {**known, "machine": machine}.items()
    }
    sessions = 1000
    plans = {
        "lichess, 7e9 games": plan(
            known["chess"],
            machine,
            rows=7e9 * known["chess"]["rows_a_sequence"],
            raw_bytes=2.5e12,
            workers=128,
            fields=40,
            shard_rows=2**26,
            parts=1,
        ),
        "15 trillion tokens": plan(
            known["text"],
            machine,
            rows=1.5e13,
            raw_bytes=1.5e13 * known["text"]["raw_bytes_a_row"] / 3,
            workers=128,
            fields=1,
            shard_rows=2**30,
            parts=1,
        ),
        "1,000 neural sessions of an hour at 60 bins per second": plan(
            known["neural"],
            machine,
            rows=sessions * 3600 * 60,
            raw_bytes=sessions * 3600 * 60 * known["neural"]["raw_bytes_a_row"],
            workers=128,
            fields=6,
            shard_rows=2**16,
            parts=sessions,
        ),
    }
    found = {"constants": constants, "plans": plans}
    facts = ("constants of this run, multiplied", "128 workers")
    save(given.out, "scale", "what nobody here can hold", table(found), facts=facts, details=found)


def table(found: dict[str, dict[str, Any]]) -> list[Row]:
    """Constants and plans."""
    rows = []
    for domain in DOMAINS:
        for name, label in CONSTANTS.items():
            rows.append(Row(label=label, value=found["constants"][domain][name], of=domain, table="constants"))
    for name, label in OF_THE_MACHINE.items():
        rows.append(Row(label=label, value=found["constants"]["machine"][name], of="one machine", table="machine"))
    for name, planned in found["plans"].items():
        for key, label in PLANNED.items():
            rows.append(Row(label=label, value=_shown(key, planned[key]), of=name, table="plans"))
    return rows


def _shown(key: str, value: float) -> float | str:
    """Bytes and days for people."""
    if key.endswith("_days") or "_days_" in key:
        return f"{value:.1f} days" if value >= 0.1 else f"{value * 24:.2g} hours"
    if key.endswith("_seconds"):
        return f"{value} s"
    return format_bytes(round(value)) if "bytes" in key else value


if __name__ == "__main__":
    main()
