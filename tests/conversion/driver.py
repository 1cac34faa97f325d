"""Converts samples of domains, or other raw files of one, in a process of its own: ``ADDRESS OUT RAW NAME...``.

Without an address it converts on this machine, where another machine setting does not say otherwise. Prints a line of
JSON a domain: its store's digest, seconds, and the memory that this process took at most.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from outofcore.display.console import one_line_errors
from outofcore.domains.registry import get_domain
from outofcore.params import load_params
from outofcore.settings.machine import load_machine
from outofcore.space.guard import Guard
from tests.conversion.lines import convert

PARAMS = Path(__file__).resolve().parents[2] / "params.yaml"


def main(address: str, out: str, raw: Path, names: list[str]) -> None:
    machine = load_machine()
    for name in names:
        section, domain = load_params(PARAMS).section(name), get_domain(name)
        guard = Guard(name, 0, 0)
        started = time.perf_counter()
        with guard.writing(Path(out)):
            outcome = convert(
                raw / name,
                Path(out) / name,
                domain,
                section,
                address=address,
                workers=machine.workers,
                watch=guard.watch,
                scratch=machine.scratch,
            )
        facts = {
            "name": name,
            "digest": outcome.seal.digest,
            "rows": sum(outcome.figures["rows"].values()),
            "resumed_units": outcome.resumed_units,
            "seconds": round(time.perf_counter() - started, 2),
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with one_line_errors():
        main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
