"""How fast SGF becomes a store: beside sgfmill doing the same, and the converter alone.

    python bench/convert_go.py players.tar.zst --workers 2 --games 400 --rounds 5 --out bench/results

``outofcore`` is the whole way from files to a sealed store, audits by sgfmill included. ``reference`` is what one would
write with sgfmill: parse a game, play it, turn the board into an array before every move; it converts games drawn at
random from those of the same input. Both are measured in turn, in one run, ``--rounds`` times; figures are medians.
``converter`` is our parsing and playing alone, output discarded. The first round of all, which compiles, does not
count. ``--first`` cuts the input to so many games.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml
from sgfmill import boards, sgf, sgf_moves

from converting import convert_files
from outofcore.domains.go import DOMAIN
from outofcore.domains.go.params import GoSection
from outofcore.raw.files import RawFile, find_files
from outofcore.raw.unit import NO_AUDIT, Unit
from record import Row, save

OURS = "outofcore: files to a sealed store"
_CODES = {None: 0, "b": 1, "w": 2}


def whole(files: Sequence[RawFile], section: GoSection, workers: int) -> dict[str, Any]:
    """Files to a sealed store, thrown away afterwards."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        made = convert_files(DOMAIN, section, files, Path(folder) / "go.zarr", workers)
    names = ("found", "accepted", "rejected", "audited", "audit_differences", "bytes_raw", "bytes_store")
    return {
        **{name: made.figures[name] for name in names},
        "positions": made.rows,
        "bytes_per_position": round(made.figures["bytes_store"] / made.rows, 2),
        "seconds": made.seconds,
        "positions_per_second": made.rows / made.seconds,
        "peak_memory_bytes": made.memory.peak_bytes,
    }


def reference(games: Sequence[bytes]) -> dict[str, Any]:
    """Parse, play, board to array, by sgfmill; a game that it cannot read costs only itself."""
    started = time.perf_counter()
    positions = refused = 0
    for text in games:
        try:
            positions += len(_arrays(text)[0])
        except ValueError:
            refused += 1
    seconds = time.perf_counter() - started
    return {"positions": positions, "refused": refused, "positions_per_second": positions / seconds}


def _arrays(text: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]:
    game = sgf.Sgf_game.from_bytes(text)
    board, plays = sgf_moves.get_setup_and_moves(game)
    before, moves = [], []
    for colour, move in plays:
        before.append(_array(board))
        moves.append(-1 if move is None else move[0] * board.side + move[1])
        if move is not None:
            board.play(*move, colour)
    return np.array(before), np.array(moves, np.int16)


def _array(board: boards.Board) -> npt.NDArray[np.uint8]:
    return np.array([[_CODES[stone] for stone in row] for row in board.board], np.uint8)


def alone(units: Sequence[Unit], section: GoSection, workers: int) -> dict[str, Any]:
    """Parsing and playing without duplicates, splits, compression, checksums and files."""
    converter = DOMAIN.converter(section, NO_AUDIT)

    def rows(unit: Unit) -> int:
        return len(converter(unit).rows["move"])

    started = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        positions = sum(pool.map(rows, units))
    return {"positions": positions, "positions_per_second": positions / (time.perf_counter() - started)}


def texts(units: Iterator[Unit]) -> Iterator[bytes]:
    """The games of an input as they stand there."""
    for unit in units:
        for start, end in zip(unit.detail["starts"].tolist(), unit.detail["ends"].tolist(), strict=True):
            yield unit.payload[start:end]


def draw(games: Iterator[bytes], count: int) -> list[bytes]:
    """So many games, each equally likely to be among them (Vitter 1985, algorithm R)."""
    generator = np.random.default_rng(0)
    drawn: list[bytes] = []
    for number, text in enumerate(games):
        if len(drawn) < count:
            drawn.append(text)
        elif (place := int(generator.integers(number + 1))) < count:
            drawn[place] = text
    return drawn


def cut(raw: Path, games: int, section: GoSection) -> Path:
    """The first games of the input as a plain file beside it in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="convert_go."))
    path = folder / "first.sgf"
    with path.open("wb") as file:
        for number, text in enumerate(texts(DOMAIN.units(_files(raw), section))):
            if number == games:
                break
            file.write(text + b"\n")
    return path


def _files(raw: Path) -> list[RawFile]:
    return find_files(raw, "**/*", DOMAIN.suffixes, section="go")


def _section() -> GoSection:
    params = yaml.safe_load(Path("params.yaml").read_text())["go"]
    params["filters"] |= {"sizes": [19]}
    return GoSection.model_validate(params)


def _medians(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all rounds agree on, and the median of what they measured; of memory the most."""
    figures = dict(rounds[0])
    for name in figures:
        values = [each[name] for each in rounds]
        if name == "peak_memory_bytes":
            figures[name] = max(values)
        elif isinstance(figures[name], float) and name != "bytes_per_position":
            figures[name] = round(median(values), 2 if name == "seconds" else None)
    return figures


def table(ours: dict[str, Any], theirs: dict[str, Any], bare: dict[str, Any], times: float) -> list[Row]:
    """The figures, the reference as the unit; how many times it is the median over the rounds."""
    unit = theirs["positions_per_second"]
    rows = [
        Row(label=label, value=speed, unit="positions/s", ratio=ratio, against="sgfmill", table="conversion")
        for label, speed, ratio in (
            (OURS, ours["positions_per_second"], times),
            ("sgfmill: parse, play, board to array", unit, 1.0),
            ("our parser and board alone", bare["positions_per_second"], bare["positions_per_second"] / unit),
        )
    ]
    rows.append(Row(label=OURS, value=ours["seconds"], unit="seconds", table="conversion"))
    rows.append(Row(label=OURS, value=ours["peak_memory_bytes"] / 1e6, unit="peak MB", table="conversion"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=Path, help="an SGF file, a folder or an archive")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--games", type=int, default=400, help="games that the reference converts")
    parser.add_argument("--first", type=int, help="only the first so many games of the input")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    options = parser.parse_args()
    section = _section()
    raw = cut(options.input, options.first, section) if options.first else options.input
    files = _files(raw)
    games = draw(texts(DOMAIN.units(files, section)), options.games)
    whole(files, section, options.workers)
    ours, theirs, bare = [], [], []
    for number in range(options.rounds):
        ours.append(whole(files, section, options.workers))
        theirs.append(reference(games))
        units = [unit for unit in DOMAIN.units(files, section) if unit.payload]
        bare.append(alone(units, section, options.workers))
        del units
        ratio = ours[-1]["positions_per_second"] / theirs[-1]["positions_per_second"]
        print(f"round {number + 1}: {ratio:.1f} times", flush=True)
    ratios = [
        one["positions_per_second"] / other["positions_per_second"] for one, other in zip(ours, theirs, strict=True)
    ]
    figures, slow, fast = _medians(ours), {"games": len(games), **_medians(theirs)}, _medians(bare)
    save(
        options.out,
        "convert_go",
        "Go, from SGF",
        table(figures, slow, fast, median(ratios)),
        facts=(
            f"{figures['found']:,} games in {figures['bytes_raw'] / 1e6:,.0f} MB of files",
            f"{figures['accepted']:,} accepted with {figures['positions']:,} positions",
            f"{figures['audited']:,} games audited",
            f"{figures['bytes_per_position']} bytes per position in the store, medians of {options.rounds} rounds",
        ),
        details={"workers": options.workers, "outofcore": figures, "reference": slow, "converter": fast},
        versions={"sgfmill": version("sgfmill")},
    )
    if options.first:
        raw.unlink()
        raw.parent.rmdir()


if __name__ == "__main__":
    main()
