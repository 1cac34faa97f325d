"""How fast do batches of players, games and positions come from a store of Go, compared with parsing files on request?

    python bench/players.py players.tar.zst

A batch is 18 players x 9 games x 10 positions of theirs. ``from the store`` draws from all players. ``parsed`` does the
same without a store: a player's file is parsed by sgfmill when the player is drawn and is not among those kept, and
games are played by sgfmill up to the positions that are drawn. It keeps 50 players, and a quarter of them.
"""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sgfmill import boards, sgf, sgf_moves

from harness.results import arguments, memory_row, save, speed_rows
from harness.sides import Epoch, Side, compare, once
from harness.stores import convert, files_of, section_of
from outofcore.domains.go import DOMAIN
from outofcore.domains.go.learn.players import entries, find_players, read_games
from outofcore.loading.loader import loader
from outofcore.sizes import parse_bytes
from outofcore.store.reader import open_store

PLAYERS, GAMES, POSITIONS, FIRST_MOVES = 18, 9, 10, 50
KEPT, FEW = 50, 0.25
MEMORY = "512MiB"
CHANGES = {
    "filters": {"sizes": [19]},
    "train": {"task": "style", "players": "files", "min_games": 20},
}
CODES = {None: 0, "b": 1, "w": 2}
Play = tuple[str, tuple[int, int] | None]


def converted(raw: str, folder: str) -> dict[str, Any]:
    return convert("go", section_of("go", raw, CHANGES), Path(folder) / "go.zarr")


def from_store(path: str) -> Epoch:
    """Batches of players by the loader."""
    torch.set_num_threads(1)
    store, section = open_store(path), section_of("go", "raw", CHANGES)
    drawn = entries(read_games(store, "train", find_players(store, section.train)), POSITIONS, FIRST_MOVES)
    shape = {"groups": PLAYERS, "entries": GAMES, "rows": POSITIONS}
    reading = DOMAIN.reading(store.attributes, section)
    batches = loader(store, "train", balanced={**drawn, **shape}, tensors=reading, memory=MEMORY)
    return lambda: (len(next(iter(batch.values()))) for batch in batches)


def parsed(folder: str, kept: int) -> Epoch:
    """Batches of players from their files; the players drawn last are kept."""
    files = sorted(Path(folder).iterdir())
    players: OrderedDict[int, list[list[Play]]] = OrderedDict()
    generator = np.random.default_rng(0)

    def games_of(player: int) -> list[list[Play]]:
        if player not in players:
            if len(players) >= kept:
                players.popitem(last=False)
            players[player] = parse(files[player])
        players.move_to_end(player)
        return players[player]

    def epoch() -> Iterator[int]:
        while True:
            shown = []
            for player in generator.choice(len(files), PLAYERS, replace=False).tolist():
                games = games_of(player)
                for game in generator.choice(len(games), GAMES, replace=False).tolist():
                    # A player's own moves are every second one; the colour does not change the work.
                    own = range(0, min(len(games[game]), FIRST_MOVES), 2)
                    places = generator.choice(own, min(POSITIONS, len(own)), replace=False)
                    shown += played(games[game], set(places.tolist()))
            yield len(np.array(shown))

    for player in range(min(kept, len(files))):
        games_of(player)
    return epoch


def parse(path: Path) -> list[list[Play]]:
    games = []
    for line in path.read_bytes().split(b"\n"):
        if b"(;" in line:
            try:
                games.append(sgf_moves.get_setup_and_moves(sgf.Sgf_game.from_bytes(line[line.index(b"(;") :]))[1])
            except ValueError:
                continue
    return games


def played(moves: list[Play], places: set[int]) -> list[np.ndarray[Any, Any]]:
    """The boards at some places of a game."""
    board, shown = boards.Board(19), []
    for place, (colour, move) in enumerate(moves[: max(places) + 1]):
        if place in places:
            shown.append(np.frombuffer(bytes(map(CODES.__getitem__, chain.from_iterable(board.board))), np.uint8))
        if move is not None:
            try:
                board.play(*move, colour)
            except ValueError:  # a stone on a stone: such a game is no game
                break
    return shown


def unpack(raw: Path, folder: Path) -> int:
    """Write the players' files into a folder, as they were before they were put into a store."""
    folder.mkdir()
    count = 0
    for file in files_of("go", section_of("go", raw)):
        for member in file.members(DOMAIN.suffixes):
            (folder / f"{count:06}.sgf").write_bytes(member.stream.read())
            count += 1
    return count


def main() -> None:
    parser = arguments(__doc__, rounds=3, seconds=5.0)
    parser.add_argument("input", type=Path, help="a folder or an archive with a file per player")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder, raw = Path(name), options.input.resolve()
        once(converted, raw=raw, folder=folder)
        count = unpack(raw, folder / "files")
        sides = [Side("from the store, all players", from_store, {"path": folder / "go.zarr"})]
        for kept in dict.fromkeys((min(KEPT, count), round(FEW * count))):
            label = f"parsed by sgfmill, {kept} of {count} players kept"
            sides.append(Side(label, parsed, {"folder": folder / "files", "kept": kept}, ahead=0, rehearsed=False))
        measured = compare(sides, options.rounds, options.seconds)
    ours = sides[0].name
    rows = speed_rows(measured, "positions/s", dict.fromkeys(measured, ours), short="the store", table="style")
    save(
        options.out,
        "players",
        "Go: batches of players",
        [*rows, memory_row("Go: batches of players", measured[ours].held_bytes, parse_bytes(MEMORY))],
        facts=(
            f"batches of players: {PLAYERS} x {GAMES} games x {POSITIONS} positions",
            f"{count} players; a budget of {MEMORY}; medians of {options.rounds} rounds",
        ),
        details={"sides": measured},
        versions={"sgfmill": version("sgfmill")},
    )


if __name__ == "__main__":
    main()
