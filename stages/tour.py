"""From a raw file to a trained model in five minutes, on the sample of chess, saying what is done and why.

``make tour``, or ``python stages/tour.py``. On a terminal it waits for Enter between the steps.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from textwrap import dedent, fill

WIDTH = 96
BATCHES = """
from outofcore import loader, open_store

store = open_store("data/stores/chess.zarr")
batches = loader(store, split="train", batch_size=256, shuffle=True, seed=0, memory="64MiB")
first = next(iter(batches))
for name, tensor in first.items():
    print(f"{name:12} {str(tuple(tensor.shape)):16} {tensor.dtype}")
state = batches.state_dict()
print(f"{len(batches)} batches an epoch; the state after the first takes {len(str(state))} characters")
"""


@dataclass(frozen=True)
class Step:
    """A step of the tour.

    Attributes
    ----------
    title
        What is done.
    why
        Why, for somebody who has not seen it.
    command
        What a user would type.
    """

    title: str
    why: str
    command: tuple[str, ...]


STEPS = (
    Step(
        "Raw input",
        """A few hundred made-up games as PGN, with what real files hold: a duplicate, an illegal move, a game without a
        result, comments, clocks. Your own would be named by chess.raw in params.yaml, compressed or not.""",
        ("dvc", "repro", "-q", "sample@chess"),
    ),
    Step(
        "What it looks like",
        """A text a game. Nothing in it can be read at random: to find position 10,000 one has to read all that
        comes before it, and play the moves.""",
        ("python", "-c", "print(open('data/sample/chess/games.pgn', encoding='latin-1').read(700))"),
    ),
    Step(
        "Before anything is written: does it fit?",
        """A sample of the input is converted in memory and scaled up. Needs are stated for each filesystem, DVC's own
        copy counted. A run that would not fit is refused before its first byte.""",
        ("outofcore", "plan", "chess"),
    ),
    Step(
        "Conversion",
        """Games are parsed by a fast engine, side by side; python-chess reads a share of them as well, and a difference
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
        "Two positions, as they are stored",
        """Twelve bitboards, castling and en passant, the move played, the result: from these any planes can be made
        when a batch is put together, and none has to be stored.""",
        ("outofcore", "show", "data/stores/chess.zarr", "--count", "2"),
    ),
    Step(
        "Batches, within a budget",
        """The loader gets a number of bytes that it may hold, and proves before it reads that this suffices. Each
        position comes once an epoch, in an order that depends on seed and epoch alone; a saved state resumes with the
        next batch.""",
        ("python", "-c", BATCHES),
    ),
    Step(
        "Training",
        """A small network predicts move and result. Next to each figure is what one gets without a model. Stop it
        with Ctrl-C and run it again: it resumes with the next batch.""",
        ("dvc", "repro", "train@chess"),
    ),
    Step(
        "What came of it",
        """DVC keeps figures, stores and models of every run by the settings that made them. The second time nothing
        runs, because nothing has changed.""",
        ("dvc", "metrics", "show", "metrics/chess/train.json", "metrics/chess/train_run.json", "--md"),
    ),
    Step(
        "One page of all that",
        """Boards, distributions, sizes, curves, and every chart as a table. Then: 'dvc exp run -S
        chess.filters.min_elo=2000 train@chess' for another set in addition to this one, and docs/getting-started.md for
        your own games, texts and recordings.""",
        ("python", "stages/report.py"),
    ),
)


def main() -> None:
    for number, step in enumerate(STEPS, 1):
        shown = " ".join(map(shlex.quote, step.command)) if step.command[1] != "-c" else f"python: {step.command[2]}"
        say(f"\n{number}/{len(STEPS)}  {step.title}\n")
        say(fill(" ".join(dedent(step.why).split()), WIDTH))
        say(f"\n$ {shown.strip()}\n")
        if subprocess.run(step.command, check=False).returncode:  # noqa: S603 - the commands are above
            say("this step failed; the lines above say why, and 'make tour' begins again with what is already there")
            raise SystemExit(1)
        if sys.stdin.isatty() and sys.stdout.isatty() and number < len(STEPS):
            input("\nEnter for the next step ")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, EOFError):
        say("\nstopped")
        raise SystemExit(130) from None
