"""From a raw file to a trained model in five minutes, on made-up games of chess, saying what is done and why.

``make tour``, or ``python stages/tour.py``. It works in a new folder outside of this repository. On a terminal it waits
for Enter between the steps.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent, fill

WIDTH = 96
REFUSED = """
import numpy as np
import outofcore

frames = np.broadcast_to(np.uint8(0), (10**9, 64, 64))  # an array that only claims to be 4 TB
try:
    outofcore.write_store("frames.zarr", {"frames": frames})
except outofcore.OutOfCoreError as error:
    print(error)
"""
PLANES = """
import outofcore

position = outofcore.ZarrDataset("data/stores/chess.zarr", "train")[40]
for names in ("PNBRQK", "pnbrqk"):
    print("  ".join(f"{name:8}" for name in names))
    first = "PNBRQKpnbrqk".index(names[0])
    for rank in reversed(range(8)):
        rows = position["planes"][first : first + 6, rank].tolist()
        print("  ".join("".join("#" if square else "." for square in row) for row in rows))
print(f"target {int(position['target'])}: the move played; value {float(position['value']):g}: for the side to move")
"""
BATCHES = """
from outofcore import loader, open_store

store = open_store("data/stores/chess.zarr")
batches = loader(store, split="train", batch_size=256, shuffle=True, seed=0, memory="64MiB")
first = next(iter(batches))
for name, tensor in first.items():
    print(f"{name:12} {str(tuple(tensor.shape)):16} {tensor.dtype}")
state = batches.state_dict()
print(f"{len(batches)} batches per epoch; the state after the first takes {len(str(state))} characters")
"""


@dataclass(frozen=True)
class Step:
    """A step of the tour."""

    title: str
    why: str  # for somebody who has not seen it
    command: tuple[str, ...]  # what a user would type
    until: str = ""  # file at whose appearance the command is stopped, as by Ctrl-C


STEPS = (
    Step(
        "A project",
        """A folder with a pipeline (dvc.yaml), its settings (params.yaml) and a DVC cache of its own. Nothing of this
        repository is used but the installed package.""",
        ("outofcore", "init", ".", "--domains", "chess"),
    ),
    Step(
        "Raw input",
        """A few hundred made-up games as PGN, with what real files hold: a duplicate, an illegal move, a game without a
        result, comments, clocks. For your own, set chess.raw in params.yaml to a file or folder, compressed or not.""",
        ("dvc", "repro", "-q", "sample@chess"),
    ),
    Step(
        "What it looks like",
        """Text, game after game. To find position 10,000, you would have to read all games before it and play their
        moves.""",
        ("python", "-c", "print(open('data/sample/chess/games.pgn', encoding='latin-1').read(700))"),
    ),
    Step(
        "Before anything is written: does it fit?",
        """A sample of the input is converted in memory and scaled up. Needs are listed for each filesystem, DVC's own
        copy included, along with the memory that training takes.""",
        ("outofcore", "plan", "chess"),
    ),
    Step(
        "What does not fit is refused",
        """Here is an array that needs more disk than you have. The error says what is needed, what is free, and what to
        do; nothing has been written.""",
        ("python", "-c", REFUSED),
    ),
    Step(
        "Conversion",
        """A fast engine parses the games in parallel. python-chess reads a share of them as well, and a difference
        would stop the conversion. Duplicates and bad games are counted by reason. The store appears whole and sealed,
        or not at all, and is the same, bit for bit, on any machine.""",
        ("dvc", "repro", "convert@chess"),
    ),
    Step(
        "What is in the store",
        """Found = accepted + rejected, always. Each field with its size on disk, the settings that made it, and the
        files that it came from.""",
        ("outofcore", "info", "data/stores/chess.zarr"),
    ),
    Step(
        "A position, as it is stored",
        """The board in half a byte per square, castling and en passant, the move played, the result.""",
        ("outofcore", "show", "data/stores/chess.zarr", "--row", "40", "--count", "1"),
    ),
    Step(
        "The same position, as a model sees it",
        """Planes are made from the squares when a batch is put together: one for each kind of piece, those of the side
        to move first, seen from its side. None of them is stored.""",
        ("python", "-c", PLANES),
    ),
    Step(
        "Batches, within a budget",
        """You set a number of bytes. Before reading, the loader checks that it can stay within it. Each position comes
        once per epoch, in an order that depends only on seed and epoch; a saved state resumes at the next batch.""",
        ("python", "-c", BATCHES),
    ),
    Step(
        "Training, stopped in the middle",
        """A small network predicts move and result. Soon after it has begun, this tour presses Ctrl-C for you; DVC then
        reports that the stage failed.""",
        ("dvc", "repro", "train@chess"),
        until="plots/chess/train/plots/metrics/train/loss.tsv",
    ),
    Step(
        "The same command again",
        """It resumes at the next batch, and ends with the weights that it would have had without the stop. Next to each
        figure is what you get without a model.""",
        ("dvc", "repro", "train@chess"),
    ),
    Step(
        "What the run took",
        """resumed_from_step is where the second run began. DVC keeps figures, stores and models of every run by the
        settings that made them.""",
        ("grep", "-E", "resumed|seconds|wait|peak_memory", "metrics/chess/train_run.json"),
    ),
    Step(
        "Everything on one page",
        """Boards, distributions, sizes, curves, and every chart as a table. From here: 'dvc exp run -S
        chess.filters.min_elo=2000' for another data set along with this one, and docs/getting-started.md for your own
        games, texts and recordings.""",
        ("python", "stages/report.py"),
    ),
)


def main(folder: Path) -> None:
    for number, step in enumerate(STEPS, 1):
        shown = " ".join(map(shlex.quote, step.command)) if step.command[1] != "-c" else f"python: {step.command[2]}"
        say(f"\n{number}/{len(STEPS)}  {step.title}\n")
        say(fill(" ".join(dedent(step.why).split()), WIDTH))
        say(f"\n$ {shown.strip()}\n")
        if run(step, folder):
            say(f"this step failed; the lines above say why. The project is in {folder}")
            raise SystemExit(1)
        if sys.stdin.isatty() and sys.stdout.isatty() and number < len(STEPS):
            input("\nEnter for the next step ")
    say(f"\nThe project is in {folder}: open {folder}/reports/index.html, change params.yaml, run 'dvc repro' there.")


def run(step: Step, folder: Path) -> int:
    """Exit code of the command, 0 for one that was stopped."""
    if not step.until:
        return subprocess.run(step.command, cwd=folder, check=False).returncode  # noqa: S603 - the commands are above
    with subprocess.Popen(step.command, cwd=folder, start_new_session=True) as running:  # noqa: S603
        try:
            while running.poll() is None and not (folder / step.until).exists():
                time.sleep(0.05)
        finally:  # after Ctrl-C too, which does not reach the command: it is in a session of its own
            stopped = running.poll() is None
            if stopped:
                os.killpg(running.pid, signal.SIGINT)
            running.wait()
    return 0 if stopped else running.returncode


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main(Path(tempfile.mkdtemp(prefix="outofcore-tour-")))
    except (KeyboardInterrupt, EOFError):
        say("\nstopped")
        raise SystemExit(130) from None
