"""Games for tests: converting bytes, and playing by the plain words of the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sgfmill import boards

from outofcore.domains.go import DOMAIN
from outofcore.domains.go.params import GoSection
from outofcore.domains.go.source import units
from outofcore.raw.files import find_files
from outofcore.raw.unit import AuditRate, Reject, UnitResult

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass
class Converted:
    """What all units of an input gave, one after another."""

    found: int = 0
    rows: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    sequences: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    keys: list[bytes] = field(default_factory=list)
    rejects: list[tuple[str, Reject]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    audited: int = 0
    differences: list[str] = field(default_factory=list)
    raw_bytes: int = 0

    @property
    def reasons(self) -> list[str]:
        return [reject.reason for _, reject in self.rejects]

    def of(self, game: int) -> dict[str, npt.NDArray[Any]]:
        """Rows of one game."""
        ends = np.cumsum(self.sequences["length"])
        start = ends[game] - self.sequences["length"][game]
        return {name: rows[start : ends[game]] for name, rows in self.rows.items()}

    def same(self, other: Converted) -> bool:
        """Whether everything that reaches a store, and everything counted, is equal."""
        tables = ((self.rows, other.rows), (self.sequences, other.sequences))
        return (
            self.keys == other.keys
            and all(mine.keys() == theirs.keys() for mine, theirs in tables)
            and all(
                np.array_equal(mine[name], theirs[name], equal_nan=mine[name].dtype.kind == "f")
                for mine, theirs in tables
                for name in mine
            )
            and [reject for _, reject in self.rejects] == [reject for _, reject in other.rejects]
            and (self.found, self.counts, self.audited) == (other.found, other.counts, other.audited)
        )


def convert(raw: Path, block: int = 1 << 20, one_in: int = 1, most: int = 16_384, **settings: Any) -> Converted:
    """Convert a file or folder, at most ``most`` games at a time; one game in ``one_in`` is audited."""
    section = GoSection.model_validate({"raw": str(raw), **settings})
    files = find_files(raw, "**/*", DOMAIN.suffixes, section="go")
    converter, whole = DOMAIN.converter(section, AuditRate(one_in, one_in)), Converted()
    parts: list[UnitResult] = []
    for unit in units(files, section, block, most):
        result = converter(unit)
        result = replace(result, found=result.found + len(unit.rejects), rejects=(*result.rejects, *unit.rejects))
        parts.append(result)
        whole.found += result.found
        whole.raw_bytes += unit.raw_bytes
        whole.keys += [key.tobytes() for key in result.keys]
        rejects = sorted(result.rejects, key=lambda reject: (reject.file, reject.offset))
        whole.rejects += [(unit.places[reject.file][1], replace(reject, file=0)) for reject in rejects]
        whole.counts.update(result.counts)
        whole.counts.update({name: int(values.sum()) for name, values in result.stored_counts.items()})
        whole.audited += result.audited
        whole.differences += result.differences
        assert result.found == len(result.keys) + len(result.rejects)
        assert int(result.sequences["length"].sum()) == len(result.rows["move"])
    for table in ("rows", "sequences"):
        names = getattr(parts[0], table)
        joined = {name: np.concatenate([getattr(part, table)[name] for part in parts]) for name in names}
        setattr(whole, table, joined)
    return whole


def text(*moves: str, size: int = 9, root: str = "") -> bytes:
    """A game of moves such as ``"Bcc"``, ``"W"`` for a pass."""
    return f"(;GM[1]SZ[{size}]{root}{''.join(f';{move[0]}[{move[1:]}]' for move in moves)})".encode()


def stones(rows: Mapping[str, npt.NDArray[Any]], frame: int) -> npt.NDArray[np.int64]:
    """Boards (rows, frame, frame): 0 empty, 1 black, 2 white, from the top left."""
    bits = np.unpackbits(rows["stones"], axis=-1, count=frame * frame).reshape(-1, 2, frame, frame).astype(np.int64)
    return np.asarray(bits[:, 0] + 2 * bits[:, 1])


Move = tuple[int, tuple[int, int] | None]
"""Colour (0 Black, 1 White) and point (row and column from the top left), None for a pass."""


def sgf_of(moves: list[Move], size: int, root: str = "") -> bytes:
    told = ["BW"[colour] + ("" if point is None else LETTERS[point[1]] + LETTERS[point[0]]) for colour, point in moves]
    return text(*told, size=size, root=root)


@dataclass
class Position:
    """A position and the move in it, as the rules tell it."""

    board: list[list[str | None]]
    colour: int
    point: tuple[int, int] | None
    ko: tuple[int, int] | None


def play_by_the_rules(
    moves: list[Move], size: int, *, stops: bool = False, suicide_allowed: bool = False, superko: int = 0
) -> tuple[list[Position], str]:
    """Play on sgfmill's board; positions before each move, and the reason why the game is rejected, if it is.

    With ``stops`` a game ends before its first illegal move instead.
    """
    board = boards.Board(size)
    positions: list[Position] = []
    seen: list[Any] = []
    ko: tuple[int, tuple[int, int]] | None = None

    def flat(next_: int) -> Any:
        return tuple(map(tuple, board.board)), next_ if superko == 2 else 0

    for colour, point in moves:
        forbidden = ko[1] if ko and ko[0] != colour else None
        upright = [row[:] for row in reversed(board.board)]
        positions.append(Position(upright, colour, point, forbidden))
        seen.append(flat(colour))
        ko = None
        if point is None:
            continue
        row, column = size - 1 - point[0], point[1]
        illegal = ""
        if board.get(row, column) is not None:
            illegal = "occupied"
        elif point == forbidden:
            illegal = "ko"
        else:
            taken = board.play(row, column, "bw"[colour])
            ko = (colour, (size - 1 - taken[0], taken[1])) if taken else None
            if board.get(row, column) is None and not suicide_allowed:
                illegal = "suicide"
            elif superko and flat(1 - colour) in seen:
                illegal = "superko"
        if illegal and not stops:
            return [], illegal
        if illegal:
            positions.pop()
            break
    return positions, "" if positions else "too_short"
