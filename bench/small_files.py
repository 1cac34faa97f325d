"""What does it cost if every record is a file of its own?

    python bench/small_files.py players.pgn.zst players.tar.zst novels.tar.zst --tokenizer data/tokenizers/text.json

The same games and documents are converted, with the settings of ``params.yaml``, from one file, from a folder with a
file for each, and from an archive (tar.gz) of that folder. Documents are the paragraphs of longer ones.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from conversion import UNITS, go_games, whole
from harness.results import arguments, save, speed_rows
from harness.sides import Side, compare
from harness.stores import files_of, section_of
from outofcore.domains.chess.pgn.games import game_starts
from outofcore.domains.registry import get_domain
from outofcore.domains.text.tokens.learn import texts

SHORTEST = 200  # bytes of a paragraph
NAMES = {"chess": "chess", "go": "Go", "text": "text"}
ONE = "{}, one file of all records"
ENDINGS = {"chess": ".pgn", "go": ".sgf", "text": ".txt"}


def records_of(domain: str, raw: Path) -> Iterator[bytes]:
    """Games, or paragraphs."""
    section = section_of(domain, raw, {"source": {"newlines": "lf"}} if domain == "text" else {})
    files = files_of(domain, section)
    if domain == "text":
        for file in files:
            for document in texts(file, section):
                yield from (part for part in b"".join(document).split(b"\n\n") if len(part) >= SHORTEST)
        return
    units = (unit for unit in get_domain(domain).units(files, section) if unit.payload)
    if domain == "go":
        yield from go_games(units)
        return
    for unit in units:
        starts = game_starts(np.frombuffer(unit.payload, np.uint8)).tolist()
        for start, end in zip(starts, [*starts[1:], len(unit.payload)], strict=True):
            yield unit.payload[start:end]


def write(domain: str, records: Iterable[bytes], folder: Path) -> dict[str, Path]:
    """Write the records in all three ways, and return where they are."""
    apart = folder / "apart"
    apart.mkdir(parents=True)
    together = folder / f"all{'.jsonl' if domain == 'text' else ENDINGS[domain]}"
    with together.open("wb") as out:
        for number, record in enumerate(records):
            (apart / f"{number:06}{ENDINGS[domain]}").write_bytes(record)
            out.write(json.dumps({"text": record.decode()}).encode() if domain == "text" else record)
            out.write(b"\n\n" if domain == "chess" else b"\n")
    archive = folder / "archive.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(apart.iterdir()):
            tar.add(path, path.name)
    return {ONE: together, "{}, a folder with a file each": apart, "{}, an archive with a file each": archive}


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    for domain in ENDINGS:
        parser.add_argument(domain, type=Path, help=f"raw {domain}")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--records", type=int, default=20_000, help="at most, of each")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    rows, details, facts = [], {}, []
    for domain, name in NAMES.items():
        changes: dict[str, Any] = {}
        if domain == "text":
            changes = {"tokenizer": {"path": str(options.tokenizer.resolve())}}
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            records = list(islice(records_of(domain, getattr(options, domain).resolve()), options.records))
            places = write(domain, records, Path(folder))
            given = {"domain": domain, "changes": changes, "workers": options.workers}
            sides = [
                Side(way.format(name), whole, {**given, "raw": raw}, ahead=0, seconds=0, rehearsed=False)
                for way, raw in places.items()
            ]
            measured = compare(sides, options.rounds, 0)
        if domain == "text":
            for each in measured.values():
                each.rates = [rate / 1e6 for rate in each.rates]
        against = dict.fromkeys(measured, ONE.format(name))
        rows += speed_rows(measured, UNITS[domain], against, memory=False, short="one file", table="small_files")
        details[domain] = measured
        facts.append(f"{len(records):,} {'paragraphs' if domain == 'text' else f'games of {name}'}")
    facts.append(f"{options.workers} workers, medians of {options.rounds} rounds")
    save(options.out, "small_files", "a file for every record", rows, facts=facts, details=details)


if __name__ == "__main__":
    main()
