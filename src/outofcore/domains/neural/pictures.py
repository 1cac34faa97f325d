"""Filters as pictures: one PNG per session, lags from left to right, neurons from top to bottom."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from torch import Tensor

MOST_FILTERS = 32
# Approximate width of a sheet; filter pixels are scaled to reach it.
SHEET_WIDTH, LARGEST_SCALE = 1200, 12


def filter_pictures(filters: Mapping[str, Tensor]) -> dict[str, bytes]:
    """PNG files by name, from filters (filters, lags, planes, height, width) by name.

    Planes are averaged; the first 32 filters are drawn.
    """
    return {name: png(_sheet(each.float().mean(2).cpu().numpy()[:MOST_FILTERS])) for name, each in filters.items()}


def _sheet(filters: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """All filters on one sheet, each scaled by its largest absolute weight; mid-grey is 0."""
    count, lags, height, width = filters.shape
    sheet = np.full((count * (height + 1) - 1, lags * (width + 1) - 1), 255, np.uint8)
    for row, each in enumerate(filters):
        grey = 127.5 + 127.5 * each / max(float(np.abs(each).max()), 1e-12)
        for column, lag in enumerate(np.rint(grey).astype(np.uint8)):
            top, left = row * (height + 1), column * (width + 1)
            sheet[top : top + height, left : left + width] = lag
    scale = min(max(SHEET_WIDTH // sheet.shape[1], 1), LARGEST_SCALE)
    return sheet.repeat(scale, 0).repeat(scale, 1)


def png(grey: npt.NDArray[np.uint8]) -> bytes:
    """A grey picture (height, width) as PNG (ISO/IEC 15948), 8 bits per pixel, no filter."""
    height, width = grey.shape
    lines = np.zeros((height, width + 1), np.uint8)
    lines[:, 1:] = grey

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(lines.tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
