"""How fast a store of Go games is read: beside gathering from memory, and beside parsing SGF when it is asked for.

    python bench/load_go.py players.tar.zst --rounds 5 --out bench/results

The input is converted first. Then, in one run and in turn, ``--rounds`` times:

``streamed``    shuffled batches of planes and moves, decoded from the zstd store on disk, in the budget of ``--memory``
``gathered``    the same planes and moves from arrays of the whole split in memory: ``rows[permutation]``, then the same
                reading
``style``       batches of 18 players x 9 games x 10 positions of theirs, all players of the store at once
``parsed``      the same batches without a store: a player's file is parsed by sgfmill when he is drawn and is not among
                the players that are kept, games are played by sgfmill up to the positions that are drawn

Of ``parsed`` there are two rows: 50 players kept, and so few that three draws out of four parse a file, as with 50 of
200 players. Figures are medians over the rounds; memory is the growth of the proportional set size.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import yaml
from sgfmill import boards, sgf, sgf_moves

from converting import convert_files
from outofcore.domains.go import DOMAIN
from outofcore.domains.go.learn.players import entries, find_players, read_games
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.tensors import GoReading, make_reading
from outofcore.loading.loader import loader
from outofcore.raw.files import find_files
from outofcore.sizes import parse_bytes
from outofcore.store.reader import Store, open_store
from record import Row, memory_row, save

FEATURES = ("planes3", "history8", "alphagozero18")
PLAYERS, GAMES, POSITIONS, FIRST_MOVES = 18, 9, 10, 50
KEPT, RELOADED = 50, 0.75  # players, and draws out of all that parse a file where 200 have one each
STYLE = {
    "style": "from the store, all players",
    f"parsed_{KEPT}_kept": f"parsed by sgfmill, {KEPT} players kept",
}
_CODES = {None: 0, "b": 1, "w": 2}
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
Play = tuple[str, tuple[int, int] | None]


def shared_once() -> int:
    """Proportional set size of this process, in bytes."""
    found = _PSS.search(Path("/proc/self/smaps_rollup").read_text())
    assert found is not None
    return 1024 * int(found[1])


def per_second(count: int, work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def make_store(raw: Path, folder: Path, chunk_rows: int | None) -> tuple[Store, GoSection]:
    params = yaml.safe_load(Path("params.yaml").read_text())["go"]
    params["filters"] |= {"sizes": [19]}
    params["splits"] = {"val": 0.1, "test": 0.05, "seed": 0}
    params["train"] |= {"task": "style", "players": "files", "min_games": 20}
    params["store"] |= {"chunk_rows": chunk_rows} if chunk_rows else {}
    section = GoSection.model_validate(params)
    files = find_files(raw, "**/*", DOMAIN.suffixes, section="go")
    convert_files(DOMAIN, section, files, folder / "go.zarr")
    return open_store(folder / "go.zarr"), section


def gathered(
    rows: dict[str, np.ndarray[Any, Any]], reading: GoReading, size: int, seed: int
) -> Iterator[dict[str, torch.Tensor]]:
    """Shuffled batches as one would make them of arrays in memory."""
    order = np.random.default_rng(seed).permutation(len(rows["move"]))
    back = np.arange(1 - reading.reach, 1)
    for start in range(0, len(order) - size + 1, size):
        index = order[start : start + size]
        if reading.reach > 1:
            index = np.maximum(index[:, None] + back, 0)
        yield reading({name: array[index] for name, array in rows.items()}, np.zeros(size, np.uint64))


def take(batches: Iterator[Any], count: int) -> None:
    for _ in range(count):
        next(batches)


def positions(
    store: Store, section: GoSection, features: str, size: int, batches: int, rounds: int, memory: str
) -> dict[str, Any]:
    """Streamed from the store against gathered from memory."""
    tensors = section.tensors.model_copy(update={"features": features})
    train = section.train.model_copy(update={"task": "policy"})
    reading = make_reading(store.attributes, section.model_copy(update={"tensors": tensors, "train": train}))
    table = store.rows("train")
    rows = {name: table[name].read() for name in reading.fields}
    window = {"length": reading.reach, "mode": "reach"} if reading.reach > 1 else None
    stream = loader(store, "train", size, tensors=reading, window=window, memory=memory, residency="streamed")
    sides: dict[str, Iterator[Any]] = {"streamed": _endless(stream), "gathered": gathered(rows, reading, size, 0)}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, side in sides.items():
            rate = per_second(size * batches, partial(take, side, batches))
            if number:  # the first round compiles and fills pages
                rates[name].append(rate)
    stream.close()
    sample = next(gathered(rows, reading, size, 1))
    ratios = [one / other for one, other in zip(rates["streamed"], rates["gathered"], strict=True)]
    return {
        **{f"{name}_per_second": round(median(values)) for name, values in rates.items()},
        "streamed_to_gathered": round(median(ratios), 2),
        "reading_alone_per_second": round(median(_reading_alone(rows, reading, size) for _ in range(rounds))),
        "bytes_a_sample": sum(tensor.nbytes for tensor in sample.values()) // size,
    }


def _reading_alone(rows: dict[str, np.ndarray[Any, Any]], reading: GoReading, size: int) -> float:
    """How fast gathered rows become tensors."""
    index = np.arange(size)
    if reading.reach > 1:
        index = np.maximum(index[:, None] + np.arange(1 - reading.reach, 1), 0)
    batch, draws = {name: array[index] for name, array in rows.items()}, np.zeros(size, np.uint64)

    def work() -> None:
        for _ in range(50):
            reading(batch, draws)

    return per_second(50 * size, work)


class Parsed:
    """Players' files, parsed by sgfmill when they are asked for; the players drawn last are kept.

    Parameters
    ----------
    files
        A file a player.
    kept
        Players that are kept.
    """

    def __init__(self, files: list[Path], kept: int) -> None:
        self.draws = self.reloads = 0
        self._files = files
        self._kept = kept
        self._players: OrderedDict[int, list[list[Play]]] = OrderedDict()
        self._generator = np.random.default_rng(0)

    def fill(self) -> None:
        """Parse as many players as are kept."""
        for player in range(self._kept):
            self.games(player)

    def games(self, player: int) -> list[list[Play]]:
        """The moves of all games of a player."""
        self.draws += 1
        if player not in self._players:
            self.reloads += 1
            if len(self._players) >= self._kept:
                self._players.popitem(last=False)
            self._players[player] = _parse(self._files[player])
        self._players.move_to_end(player)
        return self._players[player]

    def batch(self) -> np.ndarray[Any, Any]:
        """Boards (players * games * positions, 19, 19)."""
        shown = []
        for player in self._generator.choice(len(self._files), PLAYERS, replace=False).tolist():
            games = self.games(player)
            for game in self._generator.choice(len(games), GAMES, replace=False).tolist():
                # A player's own moves are every second one; which colour he has does not change the work.
                own = range(0, min(len(games[game]), FIRST_MOVES), 2)
                shown += _boards(games[game], set(self._generator.choice(own, min(POSITIONS, len(own)), replace=False)))
        return np.array(shown)


def _parse(path: Path) -> list[list[Play]]:
    games = []
    for line in path.read_bytes().split(b"\n"):
        if b"(;" in line:
            try:
                games.append(sgf_moves.get_setup_and_moves(sgf.Sgf_game.from_bytes(line[line.index(b"(;") :]))[1])
            except ValueError:
                continue
    return games


def _boards(moves: list[Play], places: set[int]) -> list[np.ndarray[Any, Any]]:
    board, shown = boards.Board(19), []
    for place, (colour, move) in enumerate(moves[: max(places) + 1]):
        if place in places:
            shown.append(np.array([[_CODES[stone] for stone in row] for row in board.board], np.uint8))
        if move is not None:
            try:
                board.play(*move, colour)
            except ValueError:  # a stone on a stone: such a game is no game
                break
    return shown


def unpacked(raw: Path, folder: Path) -> list[Path]:
    """The players' files in a folder, as they lay before they were put into a store."""
    paths = []
    for file in find_files(raw, "**/*", DOMAIN.suffixes, section="go"):
        for number, member in enumerate(file.members(DOMAIN.suffixes)):
            path = folder / f"{len(paths)}.{number}.sgf"
            path.write_bytes(member.stream.read())
            paths.append(path)
    return paths


def style(
    store: Store, section: GoSection, files: list[Path], batches: int, rounds: int, memory: str
) -> dict[str, Any]:
    """Batches of players, games and positions: from the store, and from files."""
    names = find_players(store, section.train)
    drawn = entries(read_games(store, "train", names), POSITIONS, FIRST_MOVES)
    shape = {"groups": PLAYERS, "entries": GAMES, "rows": POSITIONS}
    size = PLAYERS * GAMES * POSITIONS
    reading = make_reading(store.attributes, section)
    before = shared_once()
    stream = loader(store, "train", balanced={**drawn, **shape}, tensors=reading, memory=memory)
    ours = _endless(stream)
    take(ours, batches)
    figures: dict[str, Any] = {"style": {"players": len(names), "memory_bytes": shared_once() - before}}
    few = round((1 - RELOADED) * len(files))
    sides: dict[str, Parsed] = {}
    for kept in (KEPT, few):
        before = shared_once()
        side = Parsed(files, min(kept, len(files)))
        seconds = 1 / per_second(1, side.fill)
        side.draws = side.reloads = 0
        sides[f"parsed_{kept}_kept"] = side
        figures[f"parsed_{kept}_kept"] = {"memory_bytes": shared_once() - before, "seconds_to_fill": round(seconds, 1)}
    rates: dict[str, list[float]] = {name: [] for name in figures}
    for _ in range(rounds):
        rates["style"].append(per_second(batches * size, lambda: take(ours, batches)))
        for name, side in sides.items():
            rates[name].append(per_second(size, side.batch))
    stream.close()
    for name, values in rates.items():
        figures[name]["samples_per_second"] = round(median(values))
    for name, side in sides.items():
        figures[name]["reloaded"] = round(side.reloads / side.draws, 2)
        figures[name]["times_as_fast"] = round(
            median(one / other for one, other in zip(rates["style"], rates[name], strict=True))
        )
    return figures


def _endless(stream: Any) -> Iterator[Any]:
    while True:
        yield from stream


def table(result: dict[str, Any]) -> list[Row]:
    """The figures: planes beside gathering them, batches of players beside parsing."""
    rows = []
    for name in FEATURES:
        found = result[name]
        memory, ratio = "gathered from memory", found["streamed_to_gathered"]
        streamed, gathered_ = found["streamed_per_second"], found["gathered_per_second"]
        rows.append(Row(label=f"{name}, streamed", value=streamed, unit="positions/s", ratio=ratio, against=memory))
        rows.append(Row(label=f"{name}, gathered from memory", value=gathered_, unit="positions/s"))
    own = result["style"]["style"]["samples_per_second"]
    for name, found in result["style"].items():
        label = STYLE.get(name, "parsed by sgfmill, a quarter of the players kept")
        speed = found["samples_per_second"]
        rows.append(
            Row(label=label, value=speed, unit="positions/s", ratio=own / speed, against="slower", table="style")
        )
        rows.append(Row(label=label, value=found["memory_bytes"] / 1e6, unit="MB held", table="style"))
        again = f"{100 * found['reloaded']:.0f} %" if "reloaded" in found else "none"
        rows.append(Row(label=label, value=again, of="players parsed again", table="style"))
    return [
        *rows,
        memory_row("Go: batches of players", result["style"]["style"]["memory_bytes"], parse_bytes(result["memory"])),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", type=Path, help="a folder or an archive with a file a player")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=400, help="batches of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--style-rounds", type=int, default=3)
    parser.add_argument("--chunk-rows", type=int, help="of the store; else as in params.yaml")
    parser.add_argument("--memory", default="512MiB", help="budget of each loader")
    parser.add_argument("--out", type=Path, default=Path("bench/results"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        store, section = make_store(options.input, Path(folder), options.chunk_rows)
        files = unpacked(options.input, Path(folder))
        result: dict[str, Any] = {
            "input": options.input.name,
            "batch_size": options.batch_size,
            "chunk_rows": section.store.chunk_rows,
            "memory": options.memory,
        }
        result["style"] = style(store, section, files, 50, options.style_rounds, options.memory)
        for features in FEATURES:
            result[features] = positions(
                store, section, features, options.batch_size, options.batches, options.rounds, options.memory
            )
    save(
        options.out,
        "load_go",
        "Go: planes, and batches of players",
        table(result),
        facts=(
            f"batches of {options.batch_size:,} positions",
            f"batches of players: {PLAYERS} x {GAMES} games x {POSITIONS} positions",
            f"{result['style']['style']['players']} players; a budget of {options.memory}",
        ),
        details=result,
        versions={"sgfmill": version("sgfmill")},
    )


if __name__ == "__main__":
    main()
