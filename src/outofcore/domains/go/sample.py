"""Generate a small set of games: eight players with distinct habits, and oddities of real files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from outofcore.domains.go.play.board import CELLS, EMPTY, NO_KO, OUTSIDE, STRIDE, clear, new_board, play, put
from outofcore.ndarrays import Doubles

GUEST_GAMES = 40
"""Games of each player against guests; games between two players are in both files."""
_DECISION = 2.5  # inverse temperature of their choices


@dataclass(frozen=True)
class Player:
    name: str
    corners: tuple[float, float, float, float]  # preference for top left, top right, bottom left, bottom right
    line: float  # favourite line, counted from the edge
    close: float  # preference for answering near the opponent's last move
    reach: float  # how near


PLAYERS = (
    Player("anchor", (3, 1, 0, 0), 3.0, 0.5, 2.0),
    Player("brook", (0, 3, 1, 0), 4.0, 2.5, 1.0),
    Player("cinder", (0, 0, 3, 1), 2.0, 1.5, 2.5),
    Player("delta(P)", (1, 0, 0, 3), 3.5, 0.2, 4.0),
    Player("棋手", (2, 0, 2, 0), 4.5, 1.0, 3.0),
    Player("fjord", (0, 2, 0, 2), 2.5, 3.0, 1.5),
    Player("grove", (2, 2, 0, 0), 3.0, 2.0, 2.0),
    Player("höhe", (0, 0, 2, 2), 4.0, 0.8, 1.5),
)
_GUEST = Player("guest", (1, 1, 1, 1), 3.0, 1.0, 2.0)


def write_sample(folder: Path, generator: np.random.Generator) -> None:
    """Write the files into an empty folder; deterministic for a seeded generator.

    They include a first line that is a name, games of 9 x 9 and 19 x 19, handicap in the root and in the second node,
    HA without stones, passes in both spellings, komi in hundredths, two encodings, games in the files of both players,
    a game cut off in a value, and a stone played on a stone.
    """
    games: list[list[bytes]] = [[] for _ in PLAYERS]
    for one in range(len(PLAYERS)):
        for _ in range(GUEST_GAMES):
            games[one].append(_game(PLAYERS[one], _GUEST, generator))
        for other in range(one + 1, len(PLAYERS)):
            shared = _game(PLAYERS[one], PLAYERS[other], generator)
            games[one].append(shared)
            games[other].append(shared)
    games[2].append(b"(;GM[1]SZ[19]PB[cinder]PW[guest];B[pd];W[dp];B[pp];W[dd];B[pj]C[the line breaks off")
    games[3].append(b"(;GM[1]SZ[9]PB[delta(P)]PW[guest];B[ee];W[cc];B[ee];W[gg])")
    for number, own in enumerate(games):
        order = generator.permutation(len(own))
        lines = [own[place] for place in order]
        if number == 0:
            lines.insert(0, PLAYERS[0].name.encode())
        (folder / f"{number + 1}.sgf").write_bytes(b"\n".join(lines) + b"\n")


def _game(one: Player, other: Player, generator: np.random.Generator) -> bytes:
    sides = (one, other) if generator.random() < 0.5 else (other, one)
    size = 9 if generator.random() < 0.25 else 19
    handicap: Literal["", "root", "second", "named"] = ""
    if size == 19 and generator.random() < 0.15:
        handicap = ("root", "second", "named")[int(generator.integers(3))]
    moves = int(generator.integers(30, 55) if size == 9 else generator.integers(60, 110))
    played = _play(sides, size, moves, generator, handicap=bool(handicap))
    stones = "AB[pd][dp]"
    charset, codec = ("GB18030", "gb18030") if "棋手" in (one.name, other.name) else ("UTF-8", "utf-8")
    komi = ("6.5", "650", "3.75", "0")[int(generator.integers(4))]
    result = ("B+R", "W+R", "B+2.5", "W+0.5", "0", "W+T", "Void", "?")[int(generator.integers(8))]
    day = int(generator.integers(1, 29))
    root = f"GM[1]FF[4]CA[{charset}]SZ[{size}]KM[{komi}]PB[{sides[0].name}]PW[{sides[1].name}]BR[5d]WR[3d]"
    root += f"DT[2020-02-{day:02d}]RE[{result}]" + ("HA[2]" if handicap else "")
    if handicap in ("root", "second"):
        root += stones if handicap == "root" else f";{stones}"
    return f"(;{root}{played})".encode(codec)


def _play(
    sides: tuple[Player, Player], size: int, moves: int, generator: np.random.Generator, *, handicap: bool
) -> str:
    """Moves in SGF; an occasional pass, and two at the end."""
    board = new_board(size)
    clear(board, size)
    colour, last, ko = 0, -1, int(NO_KO)
    if handicap:
        colour = 1
        for star in (4 * STRIDE + 16, 16 * STRIDE + 4):
            put(board, star, 0)
    likings = [_liking(player, size) for player in sides]
    played = []
    for _ in range(moves):
        cell = _choose(sides[colour], likings[colour], board.cells, colour, last, ko, generator)
        if cell is None or generator.random() < 0.005:
            played.append((colour, "tt" if size == 19 else ""))
            ko, last = NO_KO, -1
        else:
            before = board._replace(cells=board.cells.copy(), bits=board.bits.copy(), digest=board.digest.copy())
            _, lost, ko = play(board, cell, colour)
            if lost:
                board = before
                ko, last = NO_KO, -1
                played.append((colour, ""))
            else:
                played.append((colour, chr(96 + cell % STRIDE) + chr(96 + cell // STRIDE)))
                last = cell
        colour = 1 - colour
    played += [(colour, ""), (1 - colour, "")]
    return "".join(f";{'BW'[side]}[{point}]" for side, point in played)


def _liking(player: Player, size: int) -> Doubles:
    """A player's preference for each cell, regardless of the position."""
    rows, columns = np.divmod(np.arange(CELLS), STRIDE)
    middle = (size + 1) / 2
    edge = np.minimum(np.minimum(rows, columns), np.minimum(size + 1 - rows, size + 1 - columns))
    corner = np.asarray(player.corners)[2 * (rows > middle) + (columns > middle)]
    liking: Doubles = corner - np.abs(edge - player.line * (0.75 if size == 9 else 1))
    return liking


def _choose(
    player: Player,
    liking: Doubles,
    cells: npt.NDArray[np.int8],
    colour: int,
    last: int,
    ko: int,
    generator: np.random.Generator,
) -> int | None:
    """Draw an empty cell that is not ko or surrounded by own stones."""
    empty = np.flatnonzero(cells == EMPTY)
    around = cells[empty[:, None] + np.array([-STRIDE, -1, 1, STRIDE])]
    empty = empty[(empty != ko) & ~((around == colour) | (around == OUTSIDE)).all(1)]
    if not len(empty):
        return None
    weight = liking[empty].copy()
    if last >= 0:
        distance = np.hypot(empty // STRIDE - last // STRIDE, empty % STRIDE - last % STRIDE)
        weight += 2 * player.close * np.exp(-((distance - player.reach) ** 2))
    # Gumbel-max trick: the argmax of weight plus noise samples from the softmax of the weights.
    return int(empty[np.argmax(_DECISION * weight + generator.gumbel(size=len(empty)))])
