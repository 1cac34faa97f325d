"""All questions, one after another: on made-up input, or on yours.

    python bench/run.py
    python bench/run.py --chess players.pgn.zst --go players.tar.zst --text novels.tar.zst --full
    python bench/run.py --only loading_chess --peers peers/bin/python

Writes ``bench/results/<name>.json`` and ``bench/results/table.md``. The documents show the files in ``bench/figures``:
copy a result there and run ``python bench/table.py``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.raw import Inputs
from harness.sides import environment, tell
from table import all_of, read_results

HERE = Path(__file__).parent
RESULTS = HERE / "results"
TEXT = "{text} --tokenizer {tokenizer} --megabytes"
# The program and its input, what a quick run adds, and what the time of the documents' figures allows.
QUESTIONS = {
    "conversion_chess": ("conversion chess {chess}", "--games 500", ""),
    "conversion_go": ("conversion go {go}", "--games 200", ""),
    "conversion_text": (f"conversion text {TEXT}", "100", "4200"),
    "loading_chess": ("loading chess {store}", "--rounds 3 --seconds 1", ""),
    "loading_text": (f"loading text {TEXT}", "100 --rounds 3 --seconds 1", "1000"),
    "loading_frames": ("loading frames", "--rows 50000 --rounds 3 --seconds 1", ""),
    "in_place": ("rivals.in_place", "--share 0.1 --rounds 1 --seconds 1", ""),
    "remote": ("remote {store}", "--rounds 1", ""),
    "memory": ("memory", "--gigabytes 0.4", "--gigabytes 4"),
    "lag_windows": ("lag_windows", "--gigabytes 0.2 --rounds 3 --seconds 1", "--gigabytes 12"),
}
WITH_PEERS = ("loading_chess", "loading_text", "loading_frames", "in_place")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("chess", "go", "text"):
        parser.add_argument(f"--{name}", type=Path, help=f"raw {name}; made up by default")
    parser.add_argument("--full", action="store_true", help="take the time that the figures of the documents took")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--peers", type=Path, help="a Python that has bench/rivals/peers.txt installed, for loading")
    given = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        inputs = Inputs(Path(folder), given.chess, given.go, given.text)
        for name in given.only:
            program, quick, full = QUESTIONS[name]
            words = f"{program} {full if given.full else quick}".split()
            tell(" ".join(words))
            arguments = [str(inputs[word[1:-1]]) if word.startswith("{") else word for word in words[1:]]
            if name in WITH_PEERS and given.peers:
                arguments += ["--peers", str(given.peers)]
            command = [sys.executable, "-m", words[0], *arguments, "--out", str(RESULTS)]
            if subprocess.run(command, check=False, env=environment()).returncode:
                failed.append(name)
    results = read_results(RESULTS)
    (RESULTS / "table.md").write_text(
        "\n".join(f"## {result['title']}\n\n{all_of(result)}\n" for result in results.values()), encoding="utf-8"
    )
    tell(f"bench/results/table.md{''.join(f'; {name} failed' for name in failed)}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
