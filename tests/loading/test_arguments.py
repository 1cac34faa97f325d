"""What a loader takes for a number, and what it refuses before it reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outofcore
from outofcore.errors import BudgetError, ParamsError, StoreError
from outofcore.loading.loader import loader
from tests.loading.conftest import ROWS, MakeStore, Plain, identities


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"batch_size": 0}, ParamsError, "batch_size"),
        ({"batch_size": 2.5}, ParamsError, "batch_size"),
        ({"batch_size": True}, ParamsError, "batch_size"),
        ({"batch_size": 2**40}, ParamsError, "batch_size"),
        ({"store": 5}, ParamsError, "store"),
        ({"split": 5}, ParamsError, "split"),
        ({"shuffle": 1}, ParamsError, "shuffle"),
        ({"shuffle": np.zeros(2)}, ParamsError, "shuffle"),
        ({"shuffle": "True"}, ParamsError, "shuffle"),
        ({"seed": -1}, ParamsError, "seed"),
        ({"seed": "x"}, ParamsError, "seed"),
        ({"seed": 2**64}, ParamsError, "seed"),
        ({"memory": None}, ParamsError, "memory"),
        ({"memory": True}, ParamsError, "memory"),
        ({"residency": ["ram"]}, ParamsError, "residency"),
        ({"tensors": "planes"}, ParamsError, "tensors"),
        ({"tensors": Plain}, ParamsError, "tensors"),
        ({"tensors": {"monday": Plain()}}, ParamsError, "tensors: expected a reading for part ''"),
        ({"tensors": {"": 5}}, ParamsError, r"tensors\[''\]"),
        ({"fields": "id"}, ParamsError, "fields"),
        ({"fields": ()}, ParamsError, "fields"),
        ({"fields": ("id", 5)}, ParamsError, "fields"),
        ({"window": 5}, ParamsError, "window"),
        ({"window": {"mode": "x"}}, ParamsError, "window.*length"),
        (
            {"window": {"length": 5, "mode": "x"}},
            ParamsError,
            "window.mode: expected one of pack, never, best_fit, reach",
        ),
        ({"window": {"length": 5, "step": 1}}, ParamsError, "window: expected keys among length.*'step'"),
        ({"window": {"length": 0}}, ParamsError, "window.length"),
        ({"window": {"length": 5, "stride": 1.5}}, ParamsError, "window.stride"),
        ({"phase": 1}, ParamsError, "phase"),
        ({"phase": "yes"}, ParamsError, "phase"),
        ({"pool_blocks": 0}, ParamsError, "pool_blocks"),
        ({"pool_blocks": 1.5}, ParamsError, "pool_blocks"),
        ({"block_rows": 0}, ParamsError, "block_rows"),
        ({"block_rows": 2**70}, ParamsError, "block_rows"),
        ({"weighted": "label"}, ParamsError, "weighted"),
        ({"weighted": {"column": 5}}, ParamsError, "weighted.column"),
        ({"weighted": {"column": "nowhere"}}, StoreError, "nowhere"),
        ({"weighted": {"column": "name"}}, ParamsError, "weighted.column: expected numbers"),
        ({"weighted": {"column": "words"}}, ParamsError, "weighted.column: expected numbers"),
        ({"weighted": {"column": "half", "samples": 0}}, ParamsError, "weighted.samples"),
        ({"weighted": {"column": "half"}, "balanced": {}}, ParamsError, "not both"),
        ({"balanced": {}}, ParamsError, "balanced.*group"),
        ({"part": 5}, ParamsError, "part"),
        ({"part": ()}, ParamsError, "part"),
        ({"part": ("", "")}, ParamsError, "part"),
        ({"part": "monday"}, StoreError, "monday"),
        ({"turns": "random"}, ParamsError, "turns"),
        ({"rank": 7}, ParamsError, "rank and world_size go together, got rank 7 of None"),
        ({"world_size": 2}, ParamsError, "rank and world_size go together"),
        ({"rank": -1, "world_size": 2}, ParamsError, "rank"),
        ({"rank": 0, "world_size": 0}, ParamsError, "world_size"),
        ({"rank": 0.0, "world_size": 2}, ParamsError, "rank"),
        ({"last": None}, ParamsError, "last"),
        ({"device": "gpu"}, ParamsError, "device"),
        ({"device": 5}, ParamsError, "device"),
        ({"device": "xla"}, ParamsError, "device"),
        ({"label": 5}, ParamsError, "label"),
        ({"label": "nowhere"}, StoreError, "nowhere"),
        ({"label": "nowhere", "shuffle": False}, StoreError, "nowhere"),
        ({"threads": -3}, ParamsError, "threads"),
        ({"threads": 0}, ParamsError, "threads"),
        ({"threads": 1.5}, ParamsError, "threads"),
        ({"threads": 10**6}, ParamsError, "threads"),
        ({"batch_size": 7, "rank": 0, "world_size": 8}, ParamsError, "at least one sample for each"),
        ({"lanes": 0}, ParamsError, "lanes: expected a whole number"),
        ({"lanes": 4.0}, ParamsError, "lanes: expected a whole number"),
        ({"rank": 2, "world_size": 2}, ParamsError, "rank 2 of 2"),
        ({"split": "tain"}, StoreError, "no split 'tain'"),
        ({"split": "valid"}, StoreError, r"no split 'valid' \(did you mean 'val'\?\); there are"),
        ({"num_workers": 4}, ParamsError, "unknown argument 'num_workers'; .* threads= sets the number"),
        ({"pin_memory": True}, ParamsError, "unknown argument 'pin_memory'; write device='cuda'"),
        ({"drop_last": True}, ParamsError, "unknown argument 'drop_last'; write last='drop'"),
        ({"seq_len": 64}, ParamsError, "tensors are ready-made for"),
        ({"seq_len": 64, "tensors": "stored"}, ParamsError, "seq_len: expected nothing next to tensors"),
        ({"dtype": "uint16"}, ParamsError, "dtype is for a file of tokens that outofcore did not write"),
        ({"bathc_size": 64}, ParamsError, "unknown argument 'bathc_size'; did you mean 'batch_size'"),
        ({"qwertz": 1}, ParamsError, "unknown argument 'qwertz'$"),
        ({"fields": ("idd",)}, StoreError, "no field 'idd'"),
        ({"memory": "lots"}, ParamsError, "memory"),
        ({"residency": "disk"}, ParamsError, "residency"),
        ({"shuffle": "rows"}, ParamsError, "shuffle"),
        ({"last": "wrap"}, ParamsError, "last"),
        ({"residency": "mapped"}, StoreError, "codec 'none'"),
        ({"residency": "streamed", "shuffle": "full"}, BudgetError, "shuffle='full'"),
        ({"memory": "100kB"}, BudgetError, "least that works"),
        ({"fields": ("id",), "tensors": Plain()}, ParamsError, "not both"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    make_store: MakeStore, options: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named) as raised:
        loader(**{"store": make_store(), "memory": "8MiB", **options})
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_settings_of_a_domain_are_told_where_they_go(tmp_path: Path) -> None:
    (tmp_path / "game.pgn").write_text('[Result "1-0"]\n\n1. e4 e5 1-0\n')
    outofcore.convert("chess", tmp_path / "game.pgn", tmp_path / "chess.zarr")
    with pytest.raises(ParamsError, match=r"argument 'min_elo'; a conversion filters, .*; where= selects"):
        loader(tmp_path / "chess.zarr", min_elo=2000)  # type: ignore[arg-type]
    with pytest.raises(ParamsError, match=r"ZarrDataset\(\): .*; write tensors=.*reading\(store, mirror=True\)"):
        outofcore.ZarrDataset(tmp_path / "chess.zarr", mirror=True)  # type: ignore[arg-type]
    with pytest.raises(ParamsError, match=r"unknown key chess.min_elo; did you mean filters=\{'min_elo': 2000\}\?"):
        outofcore.convert("chess", tmp_path / "game.pgn", tmp_path / "other.zarr", min_elo=2000)


@pytest.mark.parametrize("epoch", [-1, 1.5, "1", True, None])
def test_an_epoch_is_a_whole_number(make_store: MakeStore, epoch: Any) -> None:
    batches = loader(make_store(), memory="8MiB")
    with pytest.raises(ParamsError, match="epoch: expected a whole number"):
        batches.set_epoch(epoch)


def test_numbers_of_numpy_are_numbers(make_store: MakeStore) -> None:
    plain = loader(make_store(), batch_size=100, seed=3, memory="8MiB", window={"length": 5}, fields=("id",))
    same = loader(
        make_store(),
        batch_size=np.int32(100),  # type: ignore[arg-type]
        seed=np.uint64(3),  # type: ignore[arg-type]
        memory=np.int64(2**23),  # type: ignore[arg-type]
        window={"length": np.int64(5)},
        fields=["id"],  # type: ignore[arg-type]
        threads=np.int8(2),  # type: ignore[arg-type]
    )
    assert identities(plain) == identities(same)


@pytest.mark.parametrize("rank", ["RANK", "LOCAL_RANK"])
def test_a_rank_that_has_not_met_the_others_does_not_read_everything(
    make_store: MakeStore, monkeypatch: pytest.MonkeyPatch, rank: str
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader(make_store(), memory="8MiB")  # some other program's variable
    monkeypatch.setenv(rank, "1")
    with pytest.raises(ParamsError, match="initialised before the loader is opened, got one of 2 ranks"):
        loader(make_store(), memory="8MiB")
    assert loader(make_store(), memory="8MiB", rank=0, world_size=1).samples == ROWS
