"""Independent check with sgfmill, position by position; also reads games that the engine refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from sgfmill import boards, sgf_grammar, sgf_properties

from outofcore.domains.go.draw import frame_of
from outofcore.domains.go.filters import FilterSection
from outofcore.domains.go.schema import KO, MOVE_NUMBER, SIZE, TO_PLAY
from outofcore.ndarrays import Bytes
from outofcore.store.schema import Columns

Node = dict[str, list[bytes]]
Event = tuple[str, Any]
"""A move as (colour, point or None), or setup as ("", points of each kind), in sgfmill's coordinates."""
_COLOURS = {"B": "b", "W": "w"}
_SETUP = ("AB", "AW", "AE")
_BEGIN = re.compile(rb"\(\s*;")
_LETTERS = np.array([None, "b", "w"], object)


def end_of(game: bytes) -> int | None:
    """Where sgfmill finds that the parentheses of the first tree balance; -1 if nowhere, None if it cannot read on."""
    tokens, end = sgf_grammar.tokenise(game) if _BEGIN.match(game) else ([], 0)
    if tokens and tokens.count(("D", b"(")) == tokens.count(("D", b")")):
        return int(end)
    return -1 if tokens and not game[end:].strip() else None


def main_line(game: bytes) -> list[Node] | None:
    """Properties of each main-line node as read by sgfmill, or None; text after the tree is ignored."""
    if not _BEGIN.match(game):  # sgfmill would take the first variation for the game
        return None
    try:
        tree = sgf_grammar.parse_sgf_game(game)
    except ValueError:
        return None
    nodes = list(tree.sequence)
    while tree.children:
        tree = tree.children[0]
        nodes += tree.sequence
    return nodes


def rewritten(game: bytes) -> bytes | None:
    """The main line as plain SGF if sgfmill can read a game that the engine refuses, else None."""
    nodes = main_line(game)
    if nodes is None:
        return None
    text = b"".join(
        b";"
        + b"".join(
            name.encode() + b"".join(b"[" + value + b"]" for value in values) for name, values in node.items() if name
        )
        for node in nodes
    )
    return b"(" + text + b")"


def _expected(stones: Bytes, frame: int, size: int) -> Iterator[list[list[Any]]]:
    """Boards in sgfmill's form, "b", "w" or None by line from the bottom: one list, changed for each position.

    A list per board would take longer than all else that is done here.
    """
    bits = np.unpackbits(stones, axis=-1, count=frame * frame).reshape(-1, 2, frame, frame)
    codes = (bits[:, 0] + 2 * bits[:, 1])[:, :size, :size][:, ::-1]
    changed = np.diff(codes, axis=0, prepend=np.uint8(0)) != 0
    points = zip(*(axis.tolist() for axis in np.nonzero(changed)[1:]), _LETTERS[codes[changed]].tolist(), strict=True)
    board: list[list[Any]] = [[None] * size for _ in range(size)]
    for count in np.count_nonzero(changed, axis=(1, 2)).tolist():
        for line, column, letter in islice(points, count):
            board[line][column] = letter
        yield board


def next_position(rows: Columns) -> Columns | None:
    """The row of the position that the last row's move leads to, with a pass as its move; None after two passes."""
    row = {name: column[-1:].copy() for name, column in rows.items()}
    stones, state, move = row["stones"], row["state"][0], int(row["move"][0])
    frame, size = frame_of(stones.shape[-1]), int(state[SIZE])
    pass_ = frame * frame
    if (rows["move"][-2:] == pass_).sum() == 2:
        return None
    board = boards.Board(size)
    board.board = next(_expected(stones, frame, size))
    state[KO] = -1
    if move != pass_:
        line, column = divmod(move, frame)
        try:
            ko = board.play(size - 1 - line, column, "bw"[state[TO_PLAY]])
        except ValueError:  # a stone on a stone, which the settings may let pass
            return None
        state[KO] = -1 if ko is None else (size - 1 - ko[0]) * frame + ko[1]
    bits = np.zeros((2, frame, frame), np.uint8)
    for colour, point in board.list_occupied_points():
        bits["bw".index(colour), size - 1 - point[0], point[1]] = 1
    stones[0] = np.packbits(bits.reshape(2, -1), axis=-1)
    state[TO_PLAY] = 1 - state[TO_PLAY]
    state[MOVE_NUMBER] += 1
    row["move"][0] = pass_
    return row


def read_events(game: bytes, size: int) -> list[Event] | None:
    """Main-line moves and setup as read by sgfmill, or None."""
    nodes = main_line(game)
    if nodes is None:
        return None
    events: list[Event] = []
    context = sgf_properties.Presenter(size, "UTF-8")
    try:
        for node in nodes:
            if not node.keys().isdisjoint(_SETUP):
                lists = [[value.strip() for value in node.get(name, []) if value.strip()] for name in _SETUP]
                events.append(("", [sgf_properties.interpret_point_list(values, context) for values in lists]))
            for name, values in node.items():
                if name in _COLOURS:
                    events.append((_COLOURS[name], sgf_properties.interpret_go_point(values[0].strip(), size)))
    except ValueError:
        return None
    return events


def compare(where: str, events: list[Event], rows: Columns, filters: FilterSection) -> str | None:
    """Replay the events of a game with sgfmill, and compare every position, mover, ko point and move with its rows.

    ``where`` names the game; ``filters`` are those of the conversion, which may have cut it. Returns the first
    difference, or None.
    """
    size, frame = int(rows["state"][0, SIZE]), filters.frame
    expected, states, moves = _expected(rows["stones"], frame, size), rows["state"].tolist(), rows["move"].tolist()
    board = boards.Board(size)
    ko: tuple[str, tuple[int, int]] | None = None
    number = 0
    for colour, what in events:
        if not colour:
            if number:
                break
            board.apply_setup(*what)
            continue
        if number == len(moves):
            stops = filters.illegal == "stop"
            return None if stops else f"{where}, move {number}: sgfmill continues, the engine has stopped"
        point = frame * frame if what is None else (size - 1 - what[0]) * frame + what[1]
        forbidden = -1
        if ko is not None and ko[0] != colour:
            forbidden = (size - 1 - ko[1][0]) * frame + ko[1][1]
        same = board.board == next(expected)
        mine = (states[number][TO_PLAY], moves[number], states[number][KO])
        theirs = ("bw".index(colour), point, forbidden)
        if not same or mine != theirs:
            return f"{where}, move {number}: {_describe(board, theirs, mine, same=same)}"
        ko = None
        if what is not None:
            taken = board.play(*what, colour)
            ko = None if taken is None else (colour, taken)
        number += 1
    return f"{where}, sgfmill sees {number} moves, the engine {len(moves)}" if number < len(moves) else None


def _describe(board: boards.Board, sgfmill: tuple[int, int, int], engine: tuple[int, int, int], *, same: bool) -> str:
    said = [
        f"{name}: {('Black', 'White')[colour]} plays {move}, ko {ko}"
        for name, (colour, move, ko) in (("sgfmill", sgfmill), ("engine", engine))
    ]
    if same:
        return "; ".join(said)
    lines = ["".join({None: ".", "b": "X", "w": "O"}[stone] for stone in line) for line in reversed(board.board)]
    return "\n".join(["; ".join(said), "the boards differ, sgfmill has:", *lines])
