"""Pictures of Go stores: boards with the move played; ranks, komi, lengths, results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from outofcore.domains.boards.gallery import pictures_of
from outofcore.domains.gallery import Distribution, Picture, binned, column, counted
from outofcore.domains.go.draw import LETTERS, played, point_of, points_of
from outofcore.domains.go.schema import MOVE_NUMBER, TO_PLAY
from outofcore.domains.go.sgf.meaning import PROFESSIONAL, UNKNOWN_RANK, ResultKind
from outofcore.ndarrays import Bytes, Doubles
from outofcore.store.reader import Store
from outofcore.store.schema import Columns


def pictures(store: Store) -> Sequence[Picture]:
    """A few positions with the move played."""
    return pictures_of(store, picture)


def picture(store: Store, split: str, number: int, rows: Columns) -> Picture:
    """The position of a row of a game, with the move played."""
    del store, split, number
    state, points = rows["state"][0], points_of(rows)
    black, white = int((points == 1).sum()), int((points == 2).sum())
    return Picture(
        title=f"Move {int(state[MOVE_NUMBER]) + 1}: {played(rows)}",
        alt=f"Go position on {len(points)} x {len(points)}: {black} black and {white} white stones; {played(rows)}",
        svg="".join(_board(points, point_of(rows), int(state[TO_PLAY]))),
    )


def distributions(store: Store) -> Sequence[Distribution]:
    """Known ranks, komi, handicap, length and result of the games."""
    ranks = np.concatenate([column(store, "black_rank"), column(store, "white_rank")]).astype(np.int64)
    ranks = ranks[ranks != UNKNOWN_RANK]
    komi = column(store, "komi").astype(np.float64)
    names = {int(code): code.name.lower() for code in ResultKind}
    charts = [
        binned("Length of the games", "moves", "games", column(store, "length")),
        _numbers("Komi", "points for White", komi[np.isfinite(komi)]),
        _numbers("Handicap", "stones", column(store, "handicap").astype(np.float64)),
        counted("How games ended", "result", "games", column(store, "result"), names),
    ]
    if len(ranks):
        named = {int(rank): _rank(int(rank)) for rank in np.unique(ranks)}
        charts.insert(0, counted("Ranks of the players", "rank", "players", ranks, named))
    return charts


def _numbers(title: str, axis: str, values: Doubles) -> Distribution:
    """One bar per number if there are few."""
    numbers, counts = np.unique(values, return_counts=True)
    if len(numbers) > 16:
        return binned(title, axis, "games", values)
    return Distribution(title, axis, "games", tuple(f"{number:g}" for number in numbers), tuple(counts.tolist()))


def _rank(code: int) -> str:
    if code > PROFESSIONAL:
        return f"{code - PROFESSIONAL}p"
    return f"{code}d" if code > 0 else f"{1 - code}k"


def _board(points: Bytes, move: tuple[int, int] | None, player: int) -> Iterator[str]:
    """SVG of a board, 20 units per field; the move is a stone with a ring."""
    size = len(points)
    last = 20 * size + 10
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {last + 20} {last + 20}">'
    yield f'<rect width="{last + 20}" height="{last + 20}" fill="#dcb35c"/>'
    lines = "".join(f"M30 {30 + 20 * n}H{last}M{30 + 20 * n} 30V{last}" for n in range(size))
    yield f'<path d="{lines}" stroke="#5a4520" fill="none"/>'
    near = 3 if size >= 13 else 2
    stars = (near, size // 2, size - 1 - near) if size % 2 and size > 7 else (near, size - 1 - near)
    for row, column_ in product(stars, stars):
        yield f'<circle cx="{30 + 20 * column_}" cy="{30 + 20 * row}" r="2.5" fill="#5a4520"/>'
    for row, column_ in zip(*np.nonzero(points), strict=True):
        yield _stone(int(row), int(column_), int(points[row, column_]) - 1)
    if move is not None:
        yield _stone(*move, player)
        ring = ("#ffffff", "#000000")[player]
        x, y = 30 + 20 * move[1], 30 + 20 * move[0]
        yield f'<circle cx="{x}" cy="{y}" r="5" fill="none" stroke="{ring}" stroke-width="2"/>'
    yield f'<g font-size="11" font-family="sans-serif" fill="#3a2c12" text-anchor="middle">{_labels(size)}</g></svg>'


def _stone(row: int, column_: int, player: int) -> str:
    fill = ("#111111", "#f8f8f8")[player]
    return f'<circle cx="{30 + 20 * column_}" cy="{30 + 20 * row}" r="9.4" fill="{fill}" stroke="#111111"/>'


def _labels(size: int) -> str:
    columns = "".join(f'<text x="{30 + 20 * n}" y="{20 * size + 26}">{LETTERS[n]}</text>' for n in range(size))
    return columns + "".join(f'<text x="10" y="{34 + 20 * n}">{size - n}</text>' for n in range(size))
