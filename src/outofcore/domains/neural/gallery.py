"""Pictures of recordings (frames with responses and gaps; rates, repeats and trials) and of filters."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from outofcore.domains.gallery import Distribution, Passage, Picture, binned, column, spread
from outofcore.domains.neural.transforms import bfloat16_values
from outofcore.ndarrays import Bytes, Doubles
from outofcore.store.reader import Store
from outofcore.store.schema import Columns

if TYPE_CHECKING:
    from torch import Tensor

SESSIONS, BINS, FRAMES, NEURONS = 3, 48, 8, 24
COUNTED_BINS = 1 << 16
WIDTH, FRAME_WIDTH, FRAME_GAP, RASTER_HEIGHT = 480, 54, 6.857, 120
MOST_FILTERS = 32
# Approximate width of a sheet; filter pixels are scaled to reach it.
SHEET_WIDTH, LARGEST_SCALE = 1200, 12


def pictures(store: Store) -> Sequence[Picture | Passage]:
    """First bins of a trial for up to three sessions; several trials if they are short."""
    drawings = []
    for part in store.parts[:SESSIONS]:
        for split, number, start, length in spread(store, 1, part):
            table, several = store.rows(split, part), length < FRAMES
            rows = table.read(start, min(start + (BINS if several else min(length, BINS)), len(table)))
            framed = "stim" in rows
            stored_as = str(table["stim"].attributes.get("stored_as", "")) if framed else ""
            bins, neurons = rows["robs"].shape
            masked = int((rows["dfs"] == 0).sum())
            shown = f"{min(neurons, NEURONS)} of {neurons:,} neurons" if neurons > NEURONS else f"{neurons} neurons"
            where = f"{part or 'Session'}, {'trials from' if several else 'trial'} {number:,} of {split}"
            drawings.append(
                Picture(
                    title=f"{where}: {f'{min(bins, FRAMES)} of ' * framed}{bins} "
                    f"{'frames; below' if framed else 'bins'}, {shown}, a line each, "
                    "darker for stronger, hatched where nothing counts",
                    alt=f"{'Stimulus frames' if framed else 'Responses'} of {bins} bins"
                    f"{' above the responses' * framed} of {shown}, darker for stronger; "
                    f"{masked:,} responses do not count",
                    svg="".join(_trial(rows, stored_as)),
                )
            )
    return drawings


def distributions(store: Store) -> Sequence[Distribution]:
    """Mean responses of neurons, and trial lengths."""
    rates = np.concatenate([_mean_responses(store, part) for part in store.parts])
    unit = "spikes a second" if _bin_seconds(store, store.parts[0]) else "mean response a bin"
    return [
        binned("Mean response of the neurons", unit, "neurons", rates),
        binned("Length of the trials", "bins", "trials", column(store, "length")),
    ]


def _bin_seconds(store: Store, part: str) -> float | None:
    """Seconds of a bin, if bins have a width and hold whole spikes."""
    whole = store.rows(store.splits[0], part)["robs"].dtype.kind == "u"
    clock = store.part_attributes(part).get("clock")
    return float(clock["bin_width_ns"]) / 1e9 if clock and whole else None


def _mean_responses(store: Store, part: str) -> Doubles:
    """Mean response of each neuron over the first bins that count."""
    for split in store.splits:
        table = store.rows(split, part)
        if len(table):
            stop = min(COUNTED_BINS, len(table))
            counts = table["dfs"].read(0, stop) > 0
            sums = (table["robs"].read(0, stop) * counts).sum(0, dtype=np.float64)
            means: Doubles = sums / np.maximum(counts.sum(0), 1)
            return means / (_bin_seconds(store, part) or 1.0)
    return np.zeros(0)


def _trial(rows: Columns, stored_as: str) -> Iterator[str]:
    """SVG: frames from left to right; below, one line per neuron and one column per bin, hatched where masked."""
    bins, neurons = len(rows["robs"]), min(rows["robs"].shape[1], NEURONS)
    frames = grey_frames(rows["stim"], stored_as) if "stim" in rows else np.empty((0, 0, 1), np.uint8)
    top = FRAME_WIDTH * min(max(frames.shape[1] / frames.shape[2], 0.2), 2.0) + 10
    width, height = WIDTH / bins, RASTER_HEIGHT / neurons
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + RASTER_HEIGHT:g}">'
    yield '<defs><pattern id="h" width="4" height="4" patternUnits="userSpaceOnUse">'
    yield '<path d="M0 4L4 0" stroke="#c2410c"/></pattern></defs>'
    yield f'<rect width="{WIDTH}" height="{top + RASTER_HEIGHT:g}" fill="#ffffff"/>'
    for place in range(min(FRAMES, len(frames))):
        at = place * bins // FRAMES if bins >= FRAMES else place
        left = place * (FRAME_WIDTH + FRAME_GAP)
        box = f'x="{left + 0.5:g}" y="0.5" width="{FRAME_WIDTH - 1}" height="{top - 11:g}"'
        data = base64.b64encode(png(frames[at])).decode()
        yield f'<image {box} style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
        yield f'<rect {box} fill="none" stroke="#1e3a8a"/>'
    responses, counts = rows["robs"][:, :neurons].astype(np.float64), rows["dfs"][:, :neurons] > 0
    low = np.minimum(responses.min(0), 0)
    span = np.maximum((responses - low).max(0), 1e-12)
    for neuron in range(neurons):
        for bin_ in range(bins):
            box = f'x="{bin_ * width:.4g}" y="{top + neuron * height:.4g}" width="{width:.4g}" height="{height:.4g}"'
            if not counts[bin_, neuron]:
                yield f'<rect {box} fill="url(#h)"/>'
                continue
            strength = (responses[bin_, neuron] - low[neuron]) / span[neuron]
            if strength > 0:
                yield f'<rect {box} fill="#1e3a8a" fill-opacity="{strength:.2g}"/>'
    yield f'<path d="M0 {top:g}H{WIDTH}" stroke="#888888"/></svg>'


def grey_frames(stimulus: npt.NDArray[Any], stored_as: str) -> Bytes:
    """Frames as grey pictures (bins, height, width): channels averaged, a line becomes a row."""
    values = bfloat16_values(stimulus) if stored_as == "bfloat16" else stimulus.astype(np.float64)
    if values.ndim < 3:
        values = values.reshape(len(values), 1, -1)
    values = values.reshape(len(values), -1, *values.shape[-2:]).mean(1)
    low, high = float(values.min()), float(values.max())
    grey = (values - low) * (255 / (high - low)) if high > low else np.full(values.shape, 127.0)
    return np.rint(grey).astype(np.uint8)


def filter_pictures(filters: Mapping[str, Tensor]) -> dict[str, bytes]:
    """PNG files by name of the first 32 filters (filters, lags, planes, height, width), planes averaged."""
    return {
        name: png(_sheet(kernels.float().mean(2).cpu().numpy()[:MOST_FILTERS])) for name, kernels in filters.items()
    }


def _sheet(filters: npt.NDArray[np.float32]) -> Bytes:
    """All filters on one sheet, each scaled by its largest absolute weight; mid-grey is 0."""
    count, lags, height, width = filters.shape
    sheet = np.full((count * (height + 1) - 1, lags * (width + 1) - 1), 255, np.uint8)
    for row, kernel in enumerate(filters):
        grey = 127.5 + 127.5 * kernel / max(float(np.abs(kernel).max()), 1e-12)
        for number, lag in enumerate(np.rint(grey).astype(np.uint8)):
            top, left = row * (height + 1), number * (width + 1)
            sheet[top : top + height, left : left + width] = lag
    scale = min(max(SHEET_WIDTH // sheet.shape[1], 1), LARGEST_SCALE)
    return sheet.repeat(scale, 0).repeat(scale, 1)


def png(grey: Bytes) -> bytes:
    """A grey picture (height, width) as PNG (ISO/IEC 15948), 8 bits per pixel, no filter."""
    height, width = grey.shape
    lines = np.zeros((height, width + 1), np.uint8)
    lines[:, 1:] = grey

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
