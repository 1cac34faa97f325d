"""Conversions of text that are killed at random moments: ``python -m tests.domains.text.kills 50``.

The text has documents of all sizes; most is divided into documents of some kilobytes, so that kills fall inside texts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion, ConversionResult
from outofcore.domains.text import DOMAIN, source
from outofcore.domains.text.documents import reading
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.raw.files import find_files

ROOT = Path(__file__).parents[3]
CHECKPOINT_SECONDS = 0.02


@dataclass(frozen=True)
class Killed:
    """A conversion that was killed, and the one after it.

    Attributes
    ----------
    units, resumed
        Units in all, and those that the second one did not convert again.
    whole, reused
        Shards of rows that were whole after the kill, and those of them that are files of the store in the end.
    same
        Whether store and rejects are those of a conversion that nobody killed.
    """

    units: int
    resumed: int
    whole: int
    reused: int
    same: bool


def make_text(folder: Path) -> None:
    """Raw files, and a tokenizer learnt from them."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    story = "".join(
        f"Sentence {number} of many, and one more about the sea and the harbour.\n" for number in range(1500)
    )
    for number in range(6):
        (raw / f"long{number}.txt").write_text(story[number * 1000 :])
    (raw / "again.txt").write_text(story)
    (raw / "wrong.txt").write_bytes(story[:30_000].encode() + b"\xff" + story[:30_000].encode())
    lines = [json.dumps({"text": story[number * 50 : number * 50 + 40 * (1 + number % 9)]}) for number in range(1500)]
    (raw / "short.jsonl").write_text("\n".join(lines) + "\n{}\n")
    section = section_of(folder)
    (folder / "text.json").write_text(make_tokenizer(section, find_files(raw, "**/*", DOMAIN.suffixes, section="text")))


def section_of(folder: Path) -> TextSection:
    return TextSection.model_validate(
        {
            "raw": str(folder / "raw"),
            "source": {"longest_document": 15_000},
            "tokenizer": {"vocab_size": 400, "path": str(folder / "text.json")},
            "store": {"chunk_rows": 512, "shard_rows": 16_384},
        }
    )


def run(folder: Path, name: str, watch: Any = lambda *_: None) -> ConversionResult:
    """Convert, in small units."""
    reading.BLOCK_BYTES = source.BLOCK_BYTES = 20_000  # type: ignore[attr-defined]
    section = section_of(folder)
    files = find_files(section.raw, section.match, DOMAIN.suffixes, section="text")
    conversion = Conversion(DOMAIN, section, files, folder / name / "text.zarr", folder / name / "rejects.csv")
    return conversion.run(
        Estimate(0, 0, 0, 0),
        executor=open_executor("threads", 2),
        workers=2,
        watch=watch,
        checkpoint_seconds=CHECKPOINT_SECONDS,
    )


def child(folder: Path, name: str) -> None:
    """Convert, and say so after each unit."""
    run(folder, name, lambda *_: os.write(1, b"."))


def kill(folder: Path, name: str, dice: random.Random, units: int, expected: tuple[str, bytes]) -> Killed:
    """Start a conversion, kill it after some unit, convert again."""
    program = (
        f"from tests.domains.text.kills import child; from pathlib import Path; child(Path({str(folder)!r}), {name!r})"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.read(dice.randrange(units))
        time.sleep(dice.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
    whole = shards(folder / name / "text.zarr.work" / "store")
    outcome = run(folder, name)
    store = folder / name / "text.zarr"
    kept = shards(store)
    found = (outcome.seal.digest, (folder / name / "rejects.csv").read_bytes())
    reused = sum(kept.get(shard) == facts for shard, facts in whole.items())
    shutil.rmtree(folder / name)
    return Killed(units, outcome.resumed_units, len(whole), reused, found == expected)


def shards(store: Path) -> dict[str, tuple[int, int]]:
    """Finished shards of tokens: place, and what tells a file that nobody wrote again."""
    found = [path for path in store.rglob("tokens/c.*") if path.suffix != ".partial"]
    return {str(path.relative_to(store)): (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def whole_run(folder: Path) -> tuple[int, tuple[str, bytes]]:
    """Units, digest and rejects of a conversion that nobody kills."""
    units: list[tuple[int, ...]] = []
    outcome = run(folder, "whole", lambda *bytes_now: units.append(bytes_now))
    return len(units), (outcome.seal.digest, (folder / "whole" / "rejects.csv").read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_text(folder)
        units, expected = whole_run(folder)
        found = [kill(folder, f"killed{number}", dice, units, expected) for number in range(options.kills)]
    print(f"{len(found)} kills in conversions of {units} units")
    print(f"the same bytes afterwards: {sum(each.same for each in found)}")
    print(f"went on from a checkpoint: {sum(each.resumed > 0 for each in found)}")
    print(f"units not converted again: {sum(each.resumed for each in found)} of {units * len(found)}")
    print(
        f"whole shards after the kill: {sum(each.whole for each in found)}, used: {sum(each.reused for each in found)}"
    )


if __name__ == "__main__":
    main()
