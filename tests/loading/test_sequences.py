"""Columns of the sequences in batches, against the table of sequences and plain numpy."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import outofcore
from outofcore.errors import BudgetError, ParamsError, StoreError
from outofcore.loading.dataset import ZarrDataset
from outofcore.loading.loader import loader
from outofcore.loading.sequences import SequenceColumns
from outofcore.order.plain import Shuffle
from outofcore.order.weighted import Weighted
from outofcore.store.reader import open_store
from tests.loading.conftest import WINDOWS, MakeStore, write_store

ASKED = ("label", "length", "sequence")


def expected(path: Path, rows: npt.NDArray[np.int64]) -> dict[str, list[Any]]:
    """Label, length and number of the sequence that holds each row, by repeating each sequence for its rows."""
    table = open_store(path).sequences("train")
    length = table["length"].read()
    number = np.repeat(np.arange(len(length)), length)[rows]
    return {
        "label": table["label"].read()[number].tolist(),
        "length": length[number].tolist(),
        "sequence": number.tolist(),
    }


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("residency", ["ram", "mapped", "streamed", "hybrid"])
def test_each_sample_comes_with_the_columns_of_its_sequence(make_store: MakeStore, window: str, residency: Any) -> None:
    path = make_store(codec="none")
    batches = loader(
        path,
        "train",
        50,
        tensors=("id",),
        columns=ASKED,
        window=WINDOWS[window],
        residency=residency,
        shuffle=Shuffle(pool_blocks=4),
    )
    samples = 0
    for batch in batches:
        rows = batch["id"].reshape(len(batch["id"]), -1)[:, -1 if window == "reach" else 0]
        assert {name: batch[name].tolist() for name in ASKED} == expected(path, rows.numpy())
        samples += len(rows)
    assert samples == batches.samples


class Labelled:
    """A reading that takes the label of each row's sequence."""

    fields, columns = ("id",), ("label",)

    def __call__(self, rows: Any, draws: object) -> dict[str, torch.Tensor]:
        del draws
        return {"id": torch.from_numpy(rows["id"]), "taken": torch.from_numpy(rows["label"])}


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_reading_takes_columns_as_if_each_row_had_them(make_store: MakeStore, tmp_path: Path, window: str) -> None:
    paths = [make_store(), write_store(tmp_path / "more.zarr", [40, 0, 7, 200, 90], first=10_000)]
    lengths = [open_store(path).sequences("train")["length"].read() for path in paths]
    labels = [open_store(path).sequences("train")["label"].read() for path in paths]
    known = dict(zip(range(3000), np.repeat(labels[0], lengths[0]).tolist(), strict=True))
    known |= dict(zip(range(10_000, 10_337), np.repeat(labels[1], lengths[1]).tolist(), strict=True))
    shared: dict[str, Any] = {"window": WINDOWS[window], "columns": ("sequence",)}
    batches = [
        *loader(paths, "train", 50, tensors=Labelled(), residency="streamed", shuffle=Shuffle(pool_blocks=4), **shared),
        *loader(paths, "train", 50, tensors=Labelled(), residency="ram", **shared),
        ZarrDataset(paths, tensors=Labelled(), **shared)[::17],
    ]
    for batch in batches:
        assert batch["taken"].flatten().tolist() == [known[row] for row in batch["id"].flatten().tolist()]
        assert batch["sequence"].shape == batch["id"].shape[:1]


def test_ranks_padding_and_drawn_samples(make_store: MakeStore) -> None:
    path = make_store()
    options: dict[str, Any] = {"tensors": ("id",), "columns": ASKED}
    for own in (
        [loader(path, "train", 64, rank=rank, world_size=4, last="pad", **options) for rank in range(4)],
        [loader(path, "train", 64, shuffle=Weighted(column="length"), **options)],
    ):
        for batch in (batch for each in own for batch in each):
            assert {name: batch[name].tolist() for name in ASKED} == expected(path, batch["id"].numpy())


def test_a_column_named_part_would_hide_the_part(make_store: MakeStore) -> None:
    path = make_store([300, 64], parts=("monday", "tuesday"))
    with pytest.raises(ParamsError, match="columns: 'part' is the place"):
        loader(path, tensors=("id",), columns=("part",))


def test_a_dataset_has_them_too(make_store: MakeStore) -> None:
    path = make_store()
    rows = [2999, 0, 300, 301, 5]
    for window, row in (("rows", "id"), ("reach", "id")):
        dataset = ZarrDataset(path, tensors=("id",), columns=ASKED, window=WINDOWS[window])
        for each in (dataset, pickle.loads(pickle.dumps(dataset))):
            batch = each[rows]
            assert {name: batch[name].tolist() for name in ASKED} == expected(path, np.array(rows)), row
    single = ZarrDataset(path, tensors=("id",), columns=ASKED)[300]
    assert {name: [single[name].item()] for name in ASKED} == expected(path, np.array([300]))


def test_the_elo_of_chess_games_comes_with_their_planes(tmp_path: Path) -> None:
    game = '[Event "a"]\n[Result "1-0"]\n[WhiteElo "{}"]\n[BlackElo "{}"]\n\n1. {} e5 2. Nf3 Nc6 3. Nc3 1-0\n\n'
    (tmp_path / "games.pgn").write_text(game.format(2851, 2700, "e4") + game.format(2400, 2500, "d4"))
    splits = {"val": 0.0, "test": 0.0}
    outofcore.convert("chess", tmp_path / "games.pgn", tmp_path / "chess.zarr", splits=splits)
    tensors = outofcore.reading(tmp_path / "chess.zarr", elo=True)
    (batch,) = loader(tmp_path / "chess.zarr", shuffle=False, columns=("white_elo", "black_elo"), tensors=tensors)
    assert batch["planes"].shape == (10, 12, 8, 8)
    assert batch["to_move"].tolist() == [0, 1, 0, 1, 0] * 2
    assert batch["elo"].tolist() == [[2851, 2700], [2700, 2851]] * 2 + [[2851, 2700]] + (
        [[2400, 2500], [2500, 2400]] * 2 + [[2400, 2500]]
    )
    assert batch["white_elo"].tolist() == [2851] * 5 + [2400] * 5
    assert batch["black_elo"].tolist() == [2700] * 5 + [2500] * 5


def test_what_cannot_be_is_refused(make_store: MakeStore) -> None:
    path = make_store()
    for columns, error, message in (
        (("name",), ParamsError, "columns: train/sequences/name holds text, which no tensor can; use 'sequence'"),
        (("elo",), StoreError, "elo"),
        ("label", ParamsError, "columns: expected a tuple of names, got 'label'"),
        (("label", "label"), ParamsError, "columns: expected each name once"),
        (5, ParamsError, "columns: expected a tuple of names, got 5"),
        (None, ParamsError, "columns: expected a tuple of names, got None"),
    ):
        for make in (loader, ZarrDataset):
            with pytest.raises(error, match=re.escape(message)):
                make(path, "train", tensors=("id",), columns=columns)  # type: ignore[operator]


def test_a_name_that_the_tensors_use_is_refused(make_store: MakeStore) -> None:
    class Labels:
        fields = ("id",)

        def __call__(self, rows: Any, draws: object) -> dict[str, torch.Tensor]:
            del draws
            return {"label": torch.from_numpy(rows["id"])}

    with pytest.raises(ParamsError, match="columns: the tensors already contain 'label'"):
        loader(make_store(), tensors=Labels(), columns=("label",))
    with pytest.raises(ParamsError, match="columns: the tensors already contain 'label'"):
        ZarrDataset(make_store(), tensors=Labels(), columns=("label",))[[0]]


def test_the_budget_counts_them(make_store: MakeStore) -> None:
    path = make_store([3] * 20_000)
    least = []
    for columns in ((), ("sequence",), ("sequence", "label")):
        with pytest.raises(BudgetError) as refused:
            loader(path, "train", 16, tensors=("id",), columns=columns, memory="1KB", threads=1)
        named = re.search(r"least that works is ([\d.]+) (\w+)", str(refused.value))
        assert named
        least.append(float(named[1]) * {"kB": 1e3, "MB": 1e6}[named[2]])
    # First rows are int64, labels int16; numbers need not be held. Lengths are, until first rows are checked.
    assert 8 * 20_000 < least[1] - least[0] < 24 * 20_000
    assert least[2] - least[1] == pytest.approx(2 * 20_000, rel=0.2)


def test_nothing_is_read_that_the_budget_does_not_hold(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_store([3] * 20_000)
    monkeypatch.setattr(SequenceColumns, "read", lambda _: pytest.fail("read before the budget was checked"))
    with pytest.raises(BudgetError, match="a memory budget of 300 kB is too small"):
        loader(
            path, "train", 16, tensors=("id",), columns=ASKED, memory="300KB", threads=1, shuffle=Shuffle(pool_blocks=1)
        )
    with pytest.raises(BudgetError, match="does not hold the 1 chunks of one sample; the least that works is"):
        ZarrDataset(path, tensors=("id",), columns=ASKED, memory="300KB")
