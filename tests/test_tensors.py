"""What a program of one's own reads is what training reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from outofcore import loader, open_store, reading
from outofcore.errors import ParamsError
from tests.training.chess_run import write_store


def test_it_makes_what_the_params_ask_for(tmp_path: Path) -> None:
    store = open_store(write_store(tmp_path / "chess.zarr"))
    params = tmp_path / "params.yaml"
    for planes in (12, 18):
        params.write_text(f"chess:\n  raw: games\n  tensors: {{planes: {planes}}}\n")
        batch = next(iter(loader(store, "train", 32, tensors=reading(store, params), memory="64MiB")))
        assert batch["planes"].shape == (32, planes, 8, 8)
    with pytest.raises(ParamsError, match="no such file"):
        reading(store, tmp_path / "other.yaml")
