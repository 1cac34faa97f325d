from __future__ import annotations

import zlib

import numpy as np
import torch

from outofcore.domains.neural import DOMAIN
from outofcore.domains.neural.gallery import filter_pictures, png


def test_a_bin_is_drawn():
    frame = np.zeros((4, 6), np.uint8)
    frame[:2, :3] = 255
    rows = {"stim": frame[None], "robs": np.array([[2.0, 0, 1.5]]), "dfs": np.array([[1, 0, 1]])}
    assert DOMAIN.draw(rows) == "@@@   \n      \nresponses: 2 - 1.5"
    signed = {**rows, "stim": torch.tensor(frame[None] - 100.0).bfloat16().view(torch.uint16).numpy()}
    assert DOMAIN.draw(signed, {"params": {"source": {"stimulus_dtype": "bfloat16"}}}) == DOMAIN.draw(rows)
    blank = {"stim": np.zeros((1, 1, 1), np.float32), "robs": np.ones((1, 30)), "dfs": np.ones((1, 30))}
    assert DOMAIN.draw(blank).endswith("and 18 more")


def unpack(picture):
    """Pixels of an 8-bit grey PNG without filters, by the chunks of the format."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    place, body, shape = 8, b"", (0, 0)
    while place < len(picture):
        size = int.from_bytes(picture[place : place + 4])
        kind, content = picture[place + 4 : place + 8], picture[place + 8 : place + 8 + size]
        assert int.from_bytes(picture[place + 8 + size : place + 12 + size]) == zlib.crc32(kind + content)
        if kind == b"IHDR":
            shape = int.from_bytes(content[4:8]), int.from_bytes(content[:4])
        body += content if kind == b"IDAT" else b""
        place += 12 + size
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(shape[0], shape[1] + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def test_pictures_are_png():
    grey = np.random.default_rng(0).integers(0, 256, (13, 7)).astype(np.uint8)
    assert np.array_equal(unpack(png(grey)), grey)


def test_filters_on_a_sheet():
    filters = torch.zeros(2, 3, 1, 4, 5)
    filters[0, 1, 0, 2, 3], filters[1, 2, 0, 0, 0] = 2.0, -1.0
    sheet = unpack(filter_pictures({"monday": filters})["monday"])
    assert sheet.shape == ((2 * 5 - 1) * 12, (3 * 6 - 1) * 12)
    assert sheet[2 * 12, (6 + 3) * 12] == 255
    assert sheet[5 * 12, 12 * 12] == 0
    assert sheet[0, 0] == 128
    wide = unpack(filter_pictures({"core": torch.randn(40, 32, 1, 36, 64)})["core"])
    assert wide.shape == (32 * 37 - 1, 32 * 65 - 1)
