"""Draw the pictures of the documents: ``python docs/pictures/draw.py [FOLDER]``."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import chess.svg
import numpy as np

import outofcore
from outofcore.domains.chess.codes import CODES
from outofcore.domains.chess.draw import board_of, move_of
from outofcore.domains.registry import get_domain
from outofcore.order.plain import LANES, PlainSampler, Shuffle
from outofcore.order.windows import Windows

GAME = """\
[Event "A night at the opera"]
[White "Morphy, Paul"]
[Black "Duke and Count"]
[Date "1858.??.??"]
[Result "1-0"]

1. e4 e5 2. Nf3 d6 3. d4 Bg4 4. dxe5 Bxf3
5. Qxf3 dxe5 6. Bc4 Nf6 7. Qb3 Qe7
8. Nc3 c6 9. Bg5 b5 10. Nxb5 cxb5
11. Bxb5+ Nbd7 12. O-O-O Rd8 13. Rxd7 Rxd7
14. Rd1 Qe6 15. Bxd7+ Nxd7 16. Qb8+ Nxb8
17. Rd8# 1-0
"""
PLY = 30
DARK, GREY, LIGHT, LINE = "#1f2937", "#6b7280", "#f3f4f6", "#9ca3af"
BLOCKS, POOL, SHOWN = 48, 16, 96
CURVES = (("#1d4ed8", 'stroke-width="3"'), (GREY, 'stroke-dasharray="6 4"'), ("#b45309", 'stroke-width="3"'))


def picture(width: int, height: int, parts: Iterator[str]) -> str:
    """An SVG on white, so that it is legible on a dark page too."""
    spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    lines = [
        f'<svg {spaces} viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="14">',
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def text(x: float, y: float, words: str, color: str = DARK, extra: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" fill="{color}" {extra}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, line: str = "none") -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} fill="{fill}" stroke="{line}" stroke-width="0.6"/>'


def arrow(x: float, y: float, length: float, *, down: bool = False) -> str:
    turn = f' transform="rotate(90 {x:g} {y:g})"' if down else ""
    return f'<path d="M{x:g} {y:g}h{length:g}m-7 -5l7 5l-7 5" fill="none" stroke="{GREY}" stroke-width="2"{turn}/>'


def position(folder: Path) -> str:
    """A game in its file, one of its positions in the store, and that position in a batch."""
    (folder / "game.pgn").write_text(GAME)
    outofcore.convert("chess", folder / "game.pgn", folder / "chess.zarr", splits={"val": 0.0, "test": 0.0})
    store = outofcore.open_store(folder / "chess.zarr")
    row = store.rows("train").read(PLY, PLY + 1)
    batches = outofcore.loader(store, "train", PLY + 1, shuffle=False)
    return picture(1000, 330, _position(row, next(iter(batches))))


def _position(row: Any, batch: Any) -> Iterator[str]:
    bold = 'font-weight="600"'
    yield text(20, 30, "raw file: text, read from its start", extra=bold)
    for number, line in enumerate(GAME.splitlines()):
        yield text(20, 60 + 18 * number, line, GREY, 'font-family="monospace" font-size="11"')
    yield arrow(322, 170, 34)
    yield text(375, 30, "store: a row per position", extra=bold)
    board = board_of(row)
    move, san = move_of(row, board)
    arrows = [chess.svg.Arrow(move.from_square, move.to_square, color="#15781bcc")]
    drawn = chess.svg.board(board, arrows=arrows, coordinates=False)
    yield drawn.replace("<svg ", '<svg x="375" y="45" width="240" height="240" ', 1)
    yield text(375, 310, f"board in 32 bytes, move played ({san}), result (1-0)", GREY, 'font-size="12"')
    yield arrow(630, 170, 34)
    yield text(685, 30, "batch: tensors", extra=bold)
    for plane, letter in enumerate(CODES):
        left, top = 685 + 50 * (plane % 6), 62 + 72 * (plane // 6)
        yield text(left, top - 4, letter, GREY, 'font-size="12"')
        yield box(left, top, 44, 44, LIGHT, LINE)
        for rank, file in np.argwhere(batch["planes"][PLY, plane].numpy()).tolist():
            yield box(left + 5.5 * file, top + 5.5 * (7 - rank), 5.5, 5.5, DARK)
    lines = (
        f"planes: a square of 0 and 1 per piece, {tuple(batch['planes'].shape[1:])}",
        f"target: {int(batch['target'][PLY])}, the class of the move {san}",
        f"value: {float(batch['value'][PLY]):g}, the side to move won",
    )
    for number, line in enumerate(lines):
        yield text(685, 215 + 20 * number, line, GREY, 'font-size="12"')


def epoch(folder: Path) -> str:
    """How an epoch takes the rows of a store: blocks, pools, lanes, batches."""
    del folder
    return picture(1000, 460, _epoch())


def _epoch() -> Iterator[str]:
    order = PlainSampler(Windows(BLOCKS * LANES), LANES, 0, Shuffle(pool_blocks=POOL)).epoch(0)
    bold, small, wide = 'font-weight="600"', 'font-size="12"', 960 / BLOCKS

    def color(sample: int) -> str:
        return f"hsl({300 * (sample // LANES) / BLOCKS:.0f} 70% 55%)"

    yield text(20, 28, "1  On disk: rows in the order of the files, cut into blocks; a colour is a block", extra=bold)
    for block in range(BLOCKS):
        yield box(20 + wide * block, 40, wide, 34, color(block * LANES), "#ffffff")
    yield text(
        20, 112, "2  Per epoch: blocks are permuted; a pool of them is in memory, the next is being read", extra=bold
    )
    place = 0
    for pool in range(order.pools):
        starts, _ = order.pool_blocks(pool)
        yield box(20 + wide * place - 2, 122, wide * len(starts) + 4 - 6 * (pool < order.pools - 1), 54, "none", LINE)
        for number, start in enumerate(starts.tolist()):
            yield box(20 + (wide - 0.4) * number + wide * place, 126, wide - 0.4, 34, color(start), "#ffffff")
        state = ("in memory", "being read", "still on disk")[pool]
        yield text(24 + wide * place, 172, f"pool {pool + 1}: {state}", GREY, 'font-size="10"')
        place += len(starts)
    yield text(20, 214, "3  In a pool: 16 lanes, each with rows of its own blocks, shuffled", extra=bold)
    samples = order.samples(0)
    for lane in range(LANES):
        left = 20 + 60 * lane
        yield text(left, 236, f"{lane}", GREY, 'font-size="10"')
        for number, sample in enumerate(samples[lane::LANES].tolist()):
            yield box(left + 3.3 * number, 240, 3.3, 34, color(sample), "none")
            yield box(left + 3.3 * number, 240 + 2 * (sample % LANES), 3.3, 2, "#ffffff")
    yield text(20, 292, "the white mark is a row's place in its block", GREY, small)
    yield text(
        20,
        332,
        "4  Batches: the next row of each lane in turn, so a batch has rows from all blocks in memory",
        extra=bold,
    )
    size = 960 / SHOWN
    for number, sample in enumerate(samples[:SHOWN].tolist()):
        yield box(20 + size * number, 344, size, 34, color(sample), "#ffffff")
    for number in range(3):
        left = 20 + 320 * number
        yield f'<path d="M{left + 1:g} 384v6h318v-6" fill="none" stroke="{GREY}"/>'
        yield text(left + 130, 406, f"batch {number + 1}", GREY, small)
    ranks = "With 2 ranks, one takes the even lanes, the other the odd ones: the batches stay the same"
    yield text(20, 440, f"{ranks}, and each block is read by one rank.", GREY, small)


def filters(folder: Path) -> str:
    """The stimulus that preceded the spikes of a neuron of the sample, and the filter that made them."""
    get_domain("neural").sample(folder, np.random.default_rng(0))
    truth = json.loads((folder / "truth.json").read_text())["monday"]
    names = {"responses": None, "frame_times": "frame_times", "spike_times": "spike_times"}
    names |= {"spike_neurons": "spike_neurons", "trial": "trials"}
    source = {"names": names, "bin_width": truth["bin_width"]}
    outofcore.convert("neural", folder / "monday.h5", folder / "neural.zarr", source=source)
    store = outofcore.open_store(folder / "neural.zarr")
    reading = outofcore.reading(store, lags=len(truth["filters"][0]))
    total: Any = 0
    spikes: Any = 0
    for batch in outofcore.loader(store, "train", 1024, shuffle=False, tensors=reading):
        responses = batch["robs"].long() * batch["dfs"].long()
        signs = (batch["stim"] > 0).long() * 2 - 1
        total = total + np.einsum("bn,b...->n...", responses.numpy(), signs.numpy())
        spikes = spikes + responses.sum(0).numpy()
    return picture(1000, 330, _filters(total, spikes, np.array(truth["filters"])))


def _filters(total: Any, spikes: Any, truth: Any) -> Iterator[str]:
    neuron = int(np.argmax(spikes))
    average = total[neuron].reshape(truth[neuron].shape)
    yield text(
        20,
        30,
        f"A neuron of the sample: the average of the stimulus before its {int(spikes[neuron]):,} spikes, by lag",
        extra='font-weight="600"',
    )
    shown = (("spike-triggered", "average", average), ("filter", "that made the spikes", truth[neuron]))
    for row, (*words, values) in enumerate(shown):
        top, largest = 62 + 132 * row, float(np.abs(values).max())
        for number, line in enumerate(words):
            yield text(20, top + 45 + 16 * number, line, DARK, 'font-size="12"')
        for lag, frame in enumerate(values):
            left = 170 + 165 * lag
            for y, x in np.ndindex(frame.shape):
                share = float(frame[y, x]) / largest
                other = round(255 * (1 - abs(share)))
                fill = f"rgb(255,{other},{other})" if share > 0 else f"rgb({other},{other},255)"
                yield box(left + 17 * x, top + 17 * y, 17, 17, fill, "#e5e7eb")
            if not row:
                before = len(values) - 1 - lag
                yield text(
                    left, top - 6, f"{before} bins before" if before else "the bin itself", GREY, 'font-size="12"'
                )


def memory(folder: Path) -> str:
    """Memory over an epoch, as ``bench/memory.py`` has measured it."""
    del folder
    result = json.loads((Path(__file__).parents[2] / "bench/figures/memory.json").read_text(encoding="utf-8"))
    return picture(1000, 340, _memory(result["details"]["curves"], result["facts"][0]))


def _memory(curves: dict[str, list[tuple[float, float]]], data: str) -> Iterator[str]:
    left, right, top, bottom, most = 70, 500, 60, 290, 2500
    yield text(20, 30, f"Memory while an epoch is read: {data}", extra='font-weight="600"')
    for size in range(0, most + 1, 500):
        y = bottom - (bottom - top) * size / most
        yield f'<path d="M{left} {y:g}H{right}" stroke="#e5e7eb"/>'
        yield text(
            left - 8, y + 4, f"{size:,} MB" if size == most else f"{size:,}", GREY, 'font-size="12" text-anchor="end"'
        )
    for share in range(0, 100, 25):
        x = left + (right - left) * share / 100
        yield text(x, bottom + 20, f"{share} %", GREY, 'font-size="12" text-anchor="middle"')
    yield text(right - 18, bottom + 20, "100 % of the epoch", GREY, 'font-size="12"')
    label_y = bottom + 18
    for (name, curve), (color, style) in zip(curves.items(), CURVES, strict=True):
        points = [(left + (right - left) * share, bottom - (bottom - top) * size / most) for share, size in curve]
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        yield f'<path d="M{line}" fill="none" stroke="{color}" {style}/>'
        end = points[-1][1]
        label_y = min(label_y - 18, end + 4)
        yield f'<path d="M{right + 2} {end:.1f}L{right + 16} {label_y - 4:.1f}" stroke="{color}"/>'
        yield text(right + 20, label_y, f"{name}: at most {max(size for _, size in curve):,.0f} MB", color)


PICTURES: dict[str, Callable[[Path], str]] = {
    "position": position,
    "epoch": epoch,
    "filters": filters,
    "memory": memory,
}
"""Each draws in a folder for what it makes on the way."""


def main(folder: Path) -> None:
    for name, draw in PICTURES.items():
        with tempfile.TemporaryDirectory() as scratch:
            (folder / f"{name}.svg").write_text(draw(Path(scratch)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
