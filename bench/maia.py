"""Do networks that others published, and never trained on a batch of ours, predict human moves as their authors say?

    python bench/maia.py games.pgn maia-1100.pb.gz maia-1500.pb.gz maia-1900.pb.gz

The weights are those of https://github.com/CSSLab/maia-chess, in the format of lc0, each trained on games of players of
one rating; about half of the moves are said to be predicted. Positions are those of its authors: from ply 10, with 30
seconds on the clock. If planes, history, side, castling or codes of moves were wrong, no network could do this: the
controls take the seven boards before away, and turn the board upside down.
"""

from __future__ import annotations

import gzip
import struct
import tempfile
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import outofcore
from harness.results import Row, arguments, save
from outofcore.domains.chess.moves import uci, vocabulary

BATCH = 512
FIRST_PLY, LEAST_CLOCK = 10, 30
BAND = 200  # of ratings, in a column
LEAST_OF_BAND = 500  # positions
IMPOSSIBLE = -1e9
Kernel = tuple[Tensor, Tensor]  # weights and bias


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("games", type=Path)
    parser.add_argument("weights", type=Path, nargs="+")
    parser.add_argument("--positions", type=int, default=20_000)
    given = parser.parse_args()
    networks = {path.name.removesuffix(".pb.gz"): Maia(path) for path in given.weights}
    middle = list(networks.values())[len(networks) // 2]
    sides: dict[str, Callable[[Tensor], Tensor]] = dict(networks)
    name = f"{list(networks)[len(networks) // 2]}, "
    sides[f"{name}without the boards before"] = lambda planes: middle(without_history(planes))
    sides[f"{name}board upside down"] = lambda planes: middle(planes.flip(2))
    elo, hits = judged(given.games, sides, given.positions)
    bands = [low for low in range(0, 4000, BAND) if np.count_nonzero(in_band(elo, low)) >= LEAST_OF_BAND]
    rows = []
    for label, hit in hits.items():
        rows.append(Row(label=label, value=percent(hit), of="all", table="maia"))
        for low in bands:
            of = f"{low} to {low + BAND - 1}"
            rows.append(Row(label=label, value=percent(hit[in_band(elo, low)]), of=of, table="maia"))
    facts = [f"{len(elo):,} positions from ply {FIRST_PLY}, with {LEAST_CLOCK} s or more on the clock"]
    details = {label: hit.mean() for label, hit in hits.items()}
    save(
        given.out, "maia", "chess: moves of humans that published networks predict", rows, facts=facts, details=details
    )


def judged(games: Path, sides: dict[str, Callable[[Tensor], Tensor]], most: int) -> tuple[np.ndarray, dict]:
    """The mover's rating in each of so many positions, and whether each side predicts the human's move."""
    words, cells = [uci(int(code)) for code in vocabulary("uci").codes], policy_cells()
    table = torch.tensor([cells.get(name.removesuffix("n"), -1) for name in words])
    batches = list[list[np.ndarray]]()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "games.zarr"
        outofcore.convert("chess", games, store, splits={"val": 0.0, "test": 0.0})
        tensors = outofcore.reading(
            store, planes=119, view="mover", targets="uci", elo=True, legal_mask=True, fields=["clock"]
        )
        for batch in outofcore.loader(store, "train", BATCH, tensors=tensors, memory="512MiB"):
            kept = (batch["ply"] >= FIRST_PLY) & ~(batch["clock"] < LEAST_CLOCK)
            planes, target, legal = lc0(batch["planes"][kept]), batch["target"][kept], batch["legal"][kept].bool()
            index = castling_to_rooks(table.clamp(min=0).repeat(len(planes), 1), planes, words, cells)
            impossible = ~legal | (table < 0)
            with torch.inference_mode():
                chosen = [
                    side(planes).gather(1, index).masked_fill(impossible, IMPOSSIBLE).argmax(1) == target
                    for side in sides.values()
                ]
            batches.append([batch["elo"][kept][:, 0].numpy(), *(hit.numpy() for hit in chosen)])
            if sum(len(columns[0]) for columns in batches) >= most:
                break
    elo, *hits = (np.concatenate(columns) for columns in zip(*batches, strict=True))
    return elo, dict(zip(sides, hits, strict=True))


def in_band(elo: np.ndarray, low: int) -> np.ndarray:
    return (elo >= low) & (elo < low + BAND)


def percent(hit: np.ndarray) -> str:
    return f"{hit.mean():.1%}".replace("%", " %")


def lc0(planes: Tensor) -> Tensor:
    """The 112 planes of lc0 from the 119 of AlphaZero, (batch, 112, 8, 8): both are in the mover's view.

    Of eight boards 12 pieces and a repetition; castling by side and wing; whose turn; moves without progress; ones.
    """
    of_119, of_112 = planes.float(), torch.zeros(len(planes), 112, 8, 8)
    for back in range(8):
        of_112[:, 13 * back : 13 * back + 13] = of_119[:, 14 * back : 14 * back + 13]
    own_king, own_queen, their_king, their_queen = (of_119[:, plane] for plane in range(114, 118))
    for plane, value in enumerate((own_queen, own_king, their_queen, their_king, 1 - of_119[:, 112], of_119[:, 118])):
        of_112[:, 104 + plane] = value
    of_112[:, 111] = 1
    return of_112


def without_history(planes: Tensor) -> Tensor:
    """Planes of lc0 with the last board alone."""
    planes = planes.clone()
    planes[:, 13:104] = 0
    return planes


def policy_cells() -> dict[str, int]:
    """The cell of lc0's 80 x 8 x 8 policy by move in UCI, in the mover's view; a promotion to a knight is not named."""
    rays = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
    jumps = [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)]
    steps = [(file * far, rank * far, "") for file, rank in rays for far in range(1, 8)] + [
        (*jump, "") for jump in jumps
    ]
    steps += [(file, 1, piece) for file in (-1, 0, 1) for piece in "rbq"]
    cells = {}
    for (plane, (file, rank, piece)), row, column in product(enumerate(steps), range(8), range(8)):
        if 0 <= column + file < 8 and 0 <= row + rank < 8 and (not piece or row == 6):
            move = f"{'abcdefgh'[column]}{row + 1}{'abcdefgh'[column + file]}{row + rank + 1}{piece}"
            cells[move] = plane * 64 + row * 8 + column
    return cells


def castling_to_rooks(index: Tensor, planes: Tensor, words: Sequence[str], cells: dict[str, int]) -> Tensor:
    """Cells by move and position, with castling as lc0 writes it: the king takes its rook."""
    king_at_home = planes[:, 5, 0, 4] == 1
    for move, to_rook in (("e1g1", "e1h1"), ("e1c1", "e1a1")):
        index[king_at_home, words.index(move)] = cells[to_rook]
    return index


class Maia:
    """A residual network with squeeze and excitation, from a file of weights of lc0; gives the logits of its policy."""

    def __init__(self, file: Path) -> None:
        weights = fields(fields(gzip.decompress(file.read_bytes()))[10][0])
        self.input = convolution(weights[1][0])
        self.tower = list[tuple[Kernel, Kernel, list[Tensor]]]()
        for block in map(fields, weights[2]):
            squeeze = fields(block[3][0])
            excite = [layer(squeeze[number][0]) for number in (1, 2, 3, 4)]
            self.tower.append((convolution(block[1][0]), convolution(block[2][0]), excite))
        self.policy = convolution(weights[11][0]), convolution(weights[3][0])

    def __call__(self, planes: Tensor) -> Tensor:
        """Logits (batch, 80 * 64) of lc0's planes."""
        hidden = functional.relu(functional.conv2d(planes, *self.input, padding=1))
        for first, second, (down, down_bias, up, up_bias) in self.tower:
            new = functional.conv2d(functional.relu(functional.conv2d(hidden, *first, padding=1)), *second, padding=1)
            squeezed = functional.relu(functional.linear(new.mean((2, 3)), down.reshape(len(down_bias), -1), down_bias))
            scale, shift = functional.linear(squeezed, up.reshape(len(up_bias), -1), up_bias).chunk(2, 1)
            hidden = functional.relu(torch.sigmoid(scale)[:, :, None, None] * new + shift[:, :, None, None] + hidden)
        first, second = self.policy
        return functional.conv2d(
            functional.relu(functional.conv2d(hidden, *first, padding=1)), *second, padding=1
        ).flatten(1)


def convolution(message: bytes) -> Kernel:
    """A kernel of 3 x 3 with the normalisation behind it folded in."""
    parts = {number: layer(values[0]) for number, values in fields(message).items()}
    means = parts.get(3)
    count = len(parts[2] if means is None else means)
    weights, bias = parts[1].reshape(count, -1, 3, 3), parts.get(2, torch.zeros(count))
    if means is None:
        return weights, bias
    scale = parts.get(5, torch.ones(count)) / torch.sqrt(parts[4] + 1e-5)
    return weights * scale[:, None, None, None], parts.get(6, torch.zeros(count)) - scale * (means - bias)


def layer(message: bytes) -> Tensor:
    """Numbers kept in 16 bits between two bounds."""
    parts = fields(message)
    low, high = parts[1][0], parts[2][0]
    return torch.from_numpy(np.frombuffer(parts[3][0], "<u2").astype(np.float32) / 65535 * (high - low) + low)


def fields(message: bytes) -> dict[int, list[Any]]:
    """Values of the fields of a message of Protocol Buffers, by number."""
    at, values = 0, dict[int, list[Any]]()

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            at, byte = at + 1, message[at]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            value: Any = varint()
        else:
            size = {1: 8, 2: 0, 5: 4}[kind] or varint()
            value, at = message[at : at + size], at + size
            if kind == 5:
                (value,) = struct.unpack("<f", value)
        values.setdefault(number, []).append(value)
    return values


if __name__ == "__main__":
    main()
