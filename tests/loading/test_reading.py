"""What a program of one's own reads is what training reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import outofcore
from outofcore import ZarrDataset, loader, open_store, reading
from outofcore.errors import DamagedStore, ParamsError, StoreError
from tests.training.chess_run import write_store

pytestmark = pytest.mark.xdist_group("report")

SHAPES = {
    "chess": {"planes": (12, 8, 8), "target": (), "value": ()},
    "go": {"planes": (3, 19, 19), "move": (), "to_play": ()},
    "text": {"inputs": (256,), "targets": (256,)},
    "neural": {"stim": (32, 7, 7), "condition": ()},
}
"""Some tensors of a sample, with the default settings of each domain."""


@pytest.fixture(scope="module")
def stores(project: Path) -> Path:
    return project / "data" / "stores"


def test_it_makes_what_the_params_ask_for(tmp_path: Path) -> None:
    store = open_store(write_store(tmp_path / "chess.zarr"))
    params = tmp_path / "params.yaml"
    for planes in (12, 18):
        params.write_text(f"chess:\n  raw: games\n  tensors: {{planes: {planes}}}\n")
        batch = next(iter(loader(store, "train", 32, tensors=reading(store, params), memory="64MiB")))
        assert batch["planes"].shape == (32, planes, 8, 8)
    assert reading(store.root, params) == reading(store, params)
    with pytest.raises(ParamsError, match="no such file"):
        reading(store, tmp_path / "other.yaml")
    with pytest.raises(ParamsError, match="expected a store, or where it is"):
        reading(5, params)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["loader", "dataset"])
def test_only_samples_to_train_on_are_augmented(tmp_path: Path, how: str) -> None:
    store = open_store(write_store(tmp_path / "chess.zarr"))
    params = tmp_path / "params.yaml"

    def planes(split: str, *, mirror: bool) -> torch.Tensor:
        params.write_text(f"chess:\n  raw: games\n  tensors: {{mirror: {str(mirror).lower()}}}\n")
        tensors = reading(store, params)
        if how == "dataset":
            return ZarrDataset(store, split, tensors=tensors)[range(200)]["planes"]
        return next(iter(loader(store, split, 200, shuffle=False, tensors=tensors, memory="64MiB")))["planes"]

    assert torch.equal(planes("val", mirror=True), planes("val", mirror=False))
    assert not torch.equal(planes("train", mirror=True), planes("train", mirror=False))


@pytest.mark.parametrize("name", SHAPES)
def test_every_domain_gives_ready_tensors_by_itself(stores: Path, name: str) -> None:
    with loader(stores / f"{name}.zarr", "train", 16) as batches:
        batch = next(iter(batches))
    for field, shape in SHAPES[name].items():
        assert batch[field].shape[1:] == shape, field
    part = "monday" if name == "neural" else None
    dataset = ZarrDataset(stores / f"{name}.zarr", "train", part=part)
    assert set(dataset[0]) == set(batch) - {"part"}
    for field, tensor in dataset[1:4].items():
        assert torch.equal(tensor, torch.stack([dataset[number][field] for number in (1, 2, 3)]))
    assert repr(dataset) == f"ZarrDataset('{stores / name}.zarr', 'train'): {len(dataset):,} samples"


def test_no_chunk_is_read_to_open_a_loader_of_ready_tensors(tmp_path: Path) -> None:
    store = write_store(tmp_path / "chess.zarr")
    for shard in store.glob("train/*/c.0*"):
        shard.write_bytes(bytes(shard.stat().st_size))
    with loader(store, "train", 16) as batches, pytest.raises(DamagedStore):
        next(iter(batches))


def test_text_windows_move_in_training_only(stores: Path) -> None:
    for split, moves in (("train", True), ("val", False)):
        firsts = []
        with loader(stores / "text.zarr", split, 16, shuffle=False) as batches:
            for epoch in range(4):
                batches.set_epoch(epoch)
                firsts.append(next(iter(batches))["inputs"][0].tolist())
        assert (len(set(map(tuple, firsts))) > 1) == moves


def test_settings_by_name(stores: Path) -> None:
    store = open_store(stores / "neural.zarr")
    with loader(store, "train", 16, tensors=reading(store, lags=7)) as batches:
        assert next(iter(batches))["stim"].shape[1] == 7
    with pytest.raises(ParamsError, match=r"unknown key neural.tensors.lag; did you mean 'lags'"):
        reading(store, lag=7)
    with pytest.raises(ParamsError, match=r"window: these tensors need windows of 7 rows, got 5"):
        loader(store, "train", 16, tensors=reading(store, lags=7), window={"length": 5, "mode": "never"})
    with pytest.raises(ParamsError, match=r"part: expected one of monday, tuesday, wednesday"):
        ZarrDataset(store, "train")


def test_tensors_of_columns_that_a_store_lacks_say_what_to_do(stores: Path, tmp_path: Path) -> None:
    """As a store of an earlier version lacks the scoring of a game."""
    store = open_store(stores / "go.zarr")
    planes, table = reading(store, features="planes8"), store.rows("train")
    bare = outofcore.write_store(tmp_path / "bare", {name: table[name].read() for name in planes.fields})
    with pytest.raises(StoreError, match=r"bare: .*: no field 'black_rank', which these tensors .*\. Convert again"):
        loader(bare, "train", 16, tensors=planes)


def test_stored_fields_on_request(stores: Path) -> None:
    store = open_store(stores / "text.zarr")
    with loader(store, "train", 64, shuffle=False, tensors="stored") as batches:
        assert np.array_equal(next(iter(batches))["tokens"], store.rows("train")["tokens"].read()[:64])
    with pytest.raises(ParamsError, match=r"\"stored\", got 'raw'"):
        loader(store, "train", 64, tensors="raw")  # type: ignore[arg-type]


def test_a_data_loader_passes_batches_on(stores: Path) -> None:
    with loader(stores / "chess.zarr", "val", 16, shuffle=False) as batches:
        passed = [batch["target"] for batch in DataLoader(batches, batch_size=None)]
        assert len(passed) == len(batches)
        batches.set_epoch(0)
        assert torch.equal(torch.cat(passed), torch.cat([batch["target"] for batch in batches]))
