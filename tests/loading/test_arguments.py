"""What a loader takes for a number, and what it refuses before it reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outofcore
from outofcore.errors import BudgetError, ParamsError, StoreError
from outofcore.loading.loader import loader
from outofcore.order.balanced import Balanced
from outofcore.order.mixture import Mixture
from outofcore.order.plain import InOrder, Shuffle
from outofcore.order.weighted import Weighted
from tests.loading.conftest import ROWS, MakeStore, Plain, identities


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"batch_size": 0}, ParamsError, "batch_size"),
        ({"batch_size": 2**40}, ParamsError, "batch_size"),
        ({"data": 5}, ParamsError, "data"),
        ({"split": 5}, ParamsError, "split"),
        ({"shuffle": np.zeros(2)}, ParamsError, "shuffle"),
        ({"seed": -1}, ParamsError, "seed"),
        ({"seed": 2**64}, ParamsError, "seed"),
        ({"memory": None}, ParamsError, "memory"),
        ({"residency": ["ram"]}, ParamsError, "residency"),
        ({"tensors": "planes"}, ParamsError, "tensors"),
        ({"tensors": Plain}, ParamsError, "tensors"),
        ({"tensors": {"monday": Plain()}}, ParamsError, "tensors: expected a reading for part ''"),
        ({"tensors": {"": 5}}, ParamsError, r"tensors\[''\]"),
        ({"tensors": "id"}, ParamsError, "tensors: expected .* names of fields"),
        ({"tensors": ()}, ParamsError, "tensors"),
        ({"tensors": ("id", 5)}, ParamsError, "tensors"),
        ({"window": 5}, ParamsError, "window"),
        (
            {"window": {"length": 5, "mode": "x"}},
            ParamsError,
            "window.mode: expected one of pack, never, best_fit, reach",
        ),
        ({"window": {"length": 5, "step": 1}}, ParamsError, "window: expected keys among length.*'step'"),
        ({"window": {"length": 0}}, ParamsError, "window.length"),
        ({"window": {"length": 5, "phase": 1}}, ParamsError, "window.phase"),
        ({"shuffle": {"pool_blocks": 0}}, ParamsError, "pool_blocks"),
        ({"shuffle": {"block_rows": 0}}, ParamsError, "block_rows"),
        ({"shuffle": {"pools": 3}}, ParamsError, "shuffle: expected keys among .*pool_blocks.*'pools'"),
        ({"shuffle": "full"}, ParamsError, r"shuffle: expected True, False, or .*Shuffle\(full=True\)"),
        ({"shuffle": Weighted("nowhere")}, StoreError, "nowhere"),
        ({"shuffle": Weighted("name")}, ParamsError, "weighted.column: expected numbers"),
        ({"shuffle": Weighted("words")}, ParamsError, "weighted.column: expected numbers"),
        ({"part": 5}, ParamsError, "part"),
        ({"part": ("", "")}, ParamsError, "part"),
        ({"part": "monday"}, StoreError, "monday"),
        ({"shuffle": {"turns": "random"}}, ParamsError, "turns"),
        ({"rank": 7}, ParamsError, "rank and world_size go together, got rank 7 of None"),
        ({"world_size": 2}, ParamsError, "rank and world_size go together"),
        ({"rank": -1, "world_size": 2}, ParamsError, "rank"),
        ({"rank": 0, "world_size": 0}, ParamsError, "world_size"),
        ({"rank": 0.0, "world_size": 2}, ParamsError, "rank"),
        ({"last": None}, ParamsError, "last"),
        ({"device": "gpu"}, ParamsError, "device"),
        ({"device": "xla"}, ParamsError, "device"),
        ({"threads": 0}, ParamsError, "threads"),
        ({"threads": 10**6}, ParamsError, "threads"),
        ({"batch_size": 7, "rank": 0, "world_size": 8}, ParamsError, "at least one sample for each"),
        ({"shuffle": {"lanes": 0}}, ParamsError, "lanes: expected a whole number"),
        ({"rank": 2, "world_size": 2}, ParamsError, "rank 2 of 2"),
        ({"split": "valid"}, StoreError, r"no split 'valid' \(did you mean 'val'\?\); there are"),
        ({"num_workers": 4}, ParamsError, "unknown argument 'num_workers'; .* threads= sets the number"),
        ({"pin_memory": True}, ParamsError, "unknown argument 'pin_memory'; write device='cuda'"),
        ({"bathc_size": 64}, ParamsError, "unknown argument 'bathc_size'; did you mean 'batch_size'"),
        ({"qwertz": 1}, ParamsError, "unknown argument 'qwertz'$"),
        ({"tensors": ("idd",)}, StoreError, "no field 'idd'"),
        ({"memory": "lots"}, ParamsError, "memory"),
        ({"residency": "disk"}, ParamsError, "residency"),
        ({"last": "wrap"}, ParamsError, "last"),
        ({"residency": "mapped"}, StoreError, "codec 'none'"),
        ({"residency": "streamed", "shuffle": Shuffle(full=True)}, BudgetError, "use shuffle=True, raise memory"),
        ({"memory": "100kB"}, BudgetError, "least that works"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    make_store: MakeStore, options: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named) as raised:
        loader(**{"data": make_store(), "memory": "8MiB", **options})
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"fields": ("id",)}, "write tensors=('id',)"),
        ({"pool_blocks": 8}, "write shuffle=outofcore.Shuffle(pool_blocks=8)"),
        ({"weighted": {"column": "half"}}, "write shuffle=outofcore.Weighted(column)"),
        ({"weights": {"a": 1}}, "write shuffle=outofcore.Mixture({'a': 1})"),
        ({"phase": False}, "write window={'length': ..., 'phase': False}"),
        ({"axis": "time"}, "write outofcore.open_zarr(path, axis='time') for the path"),
        ({"rows": (0, 5)}, "write outofcore.open_zarr(path, rows=(0, 5)) or open_tokens(...) for the path"),
        ({"splits": {"val": 0.1}}, "write outofcore.open_zarr(path, splits={'val': 0.1}) or open_tokens(...) for"),
        ({"dtype": "uint16"}, "write outofcore.open_tokens(path, dtype='uint16') for the path"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_old_name_is_refused_by_what_to_write(make_store: MakeStore, old: dict[str, Any], new: str) -> None:
    with pytest.raises(ParamsError, match=re.escape(f"unknown argument {next(iter(old))!r}; {new}")):
        loader(make_store(), memory="8MiB", **old)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Weighted(column=5), "weighted.column"),  # type: ignore[arg-type]
        (lambda: Weighted("half", samples=0), "weighted.samples"),
        (lambda: Mixture({"a": 1}, stop="last"), "stop: expected one of first, all"),  # type: ignore[arg-type]
        (lambda: Shuffle(full=1), "full"),  # type: ignore[arg-type]
        (lambda: Shuffle(lanes=5000), "lanes"),
        (lambda: InOrder(pool_blocks=0), "pool_blocks"),
        (lambda: Balanced([0], [0, 1], [1], [1], groups=1, entries=1, rows=1), "balanced"),  # type: ignore[arg-type]
    ],
    ids=["column", "samples", "stop", "full", "lanes", "pool_blocks", "lengths"],
)
def test_a_sampling_checks_its_settings(make: Any, named: str) -> None:
    with pytest.raises(ParamsError, match=named):
        make()


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
    plain = loader(make_store(), batch_size=100, seed=3, memory="8MiB", window={"length": 5}, tensors=("id",))
    same = loader(
        make_store(),
        batch_size=np.int32(100),
        seed=np.uint64(3),
        memory=np.int64(2**23),
        window={"length": np.int64(5)},
        tensors=["id"],
        threads=np.int8(2),
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
