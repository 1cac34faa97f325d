"""Mutated inputs of every kind, in processes of their own: ``python -m tests.property.fuzz_runs 20000``.

A process that ends without a result (a crash of a library) or hangs is told with the seed that it worked on, and
the next one goes on behind it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.property.hostile import KINDS, ROOT

BATCH = 500
STILL_SECONDS = 900
"""Of a clock; the time of a processor is bounded in the process itself."""


def feed(kind: str, first: int, count: int) -> dict[str, Any]:
    """Feed so many files of a kind; what came of it, all processes together."""
    fed, outcomes, records, wrong, slowest, memory = 0, Counter[str](), Counter[str](), [], 0.0, 0
    seed = first
    while seed < first + count:
        batch = min(BATCH, first + count - seed)
        found, last = _process(kind, seed, batch)
        if found is None and last < seed:
            message = f"{kind}: a process ended before its first file; see 'python -m tests.property.hostile'"
            raise RuntimeError(message)
        if found is None:
            wrong.append({"seed": last, "what": "the process has ended, or hangs"})
            outcomes["process lost"] += 1
            fed += last - seed + 1
            seed = last + 1
            continue
        fed += found["fed"]
        outcomes.update(found["outcomes"])
        records.update(found["records"])
        wrong += found["wrong"]
        slowest, memory = max(slowest, found["slowest_seconds"]), max(memory, found["memory_above_usual"])
        seed += batch
    return {
        "kind": kind,
        "fed": fed,
        "outcomes": dict(outcomes),
        "records": dict(records),
        "slowest_seconds": slowest,
        "memory_above_usual": memory,
        "wrong": wrong,
    }


def _process(kind: str, first: int, count: int) -> tuple[dict[str, Any] | None, int]:
    """Run one process: its result, if there is one, and the last seed that it has begun."""
    command = [sys.executable, "-m", "tests.property.hostile", kind, str(first), str(count)]
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as printed:
        running = subprocess.Popen(command, cwd=ROOT, stdout=printed, stderr=told, text=True)
        size, since = 0, time.monotonic()
        while running.poll() is None:
            time.sleep(0.2)
            grown = told.seek(0, 2)
            if grown != size:
                size, since = grown, time.monotonic()
            elif time.monotonic() - since > STILL_SECONDS:
                running.kill()
        told.seek(0)
        seeds = [int(line.split()[1]) for line in told if line.startswith(f"{kind} ")]
        printed.seek(0)
        text = printed.read()
    return (json.loads(text) if running.returncode == 0 else None), max([first - 1, *seeds])


def main() -> None:
    """Feed so many files, in equal parts of every kind, and print what came of them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("files", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    results = []
    for kind in arguments.kinds:
        found = feed(kind, arguments.first, -(-arguments.files // len(arguments.kinds)))
        results.append(found)
        shown = {key: value for key, value in found.items() if key != "wrong"}
        sys.stdout.write(f"{json.dumps(shown)}\n")
        for each in found["wrong"]:
            sys.stdout.write(f"    {json.dumps(each)}\n")
        sys.stdout.flush()
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=2) + "\n")
    sys.exit(any(found["wrong"] for found in results))


if __name__ == "__main__":
    main()
