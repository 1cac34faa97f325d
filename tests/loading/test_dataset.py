"""The store as a torch dataset, in torch's own hands."""

from __future__ import annotations

import pickle
import shutil
import threading
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, RandomSampler, Subset, default_collate

from outofcore.errors import BudgetError, DamagedStore, ParamsError
from outofcore.loading.chunk_cache import ChunkCache
from outofcore.loading.dataset import ZarrDataset
from outofcore.order.windows import Window
from tests.loading.conftest import MakeStore, rows_of


def test_samples_by_number(make_store: MakeStore) -> None:
    data = ZarrDataset(make_store())
    assert len(data) == 3000
    for index in (0, 63, 64, 2999, -1):
        sample = data[index]
        number = np.int64(index % 3000)
        assert sample["id"] == number
        assert sample["picture"].tolist() == rows_of(np.array(number))["picture"].tolist()
    with pytest.raises(IndexError, match="no sample 3000; there are 3,000"):
        data[3000]


@pytest.mark.parametrize("memory", ["64MiB", "8kB"])
@pytest.mark.parametrize(
    "window",
    [None, Window(length=100, stride=9), {"length": 50, "mode": "never"}, {"length": 40, "mode": "reach"}],
)
def test_batches_in_any_order_whatever_fits(make_store: MakeStore, window: Any, memory: str) -> None:
    data = ZarrDataset(make_store(), window=window, memory=memory, tensors=("id", "half"))
    everything = ZarrDataset(make_store(), window=window, tensors=("id", "half"))[range(len(data))]
    chosen = np.random.default_rng(0).integers(0, len(data), 500)
    batch = data[chosen]
    for name, values in everything.items():
        assert torch.equal(batch[name], values[chosen])


@pytest.mark.parametrize("start", ["spawn", "fork", pytest.param("forkserver", marks=pytest.mark.long), None])
def test_in_a_dataloader(make_store: MakeStore, start: str | None) -> None:
    data = ZarrDataset(make_store(), tensors=("id", "half"))
    data[5]  # the parent has read already
    workers = 2 if start == "fork" else 1  # the others import everything anew in each
    options: dict[str, Any] = {"num_workers": workers, "multiprocessing_context": start} if start else {}
    batches = list(DataLoader(data, batch_size=128, shuffle=True, **options))
    ids = torch.cat([batch["id"] for batch in batches])
    assert len(batches) == 24
    assert sorted(ids.tolist()) == list(range(3000))
    assert torch.equal(torch.cat([batch["half"] for batch in batches]), (ids % 65521).to(torch.int32))


def test_with_subset_concat_and_samplers(make_store: MakeStore) -> None:
    data = ZarrDataset(make_store(), tensors=("id",))
    part = DataLoader(Subset(data, range(100, 200)), batch_size=30)
    assert torch.cat([batch["id"] for batch in part]).tolist() == list(range(100, 200))
    both: Any = ConcatDataset([data, Subset(data, range(10))])
    joined = DataLoader(both, batch_size=1000)
    assert torch.cat([batch["id"] for batch in joined]).tolist() == [*range(3000), *range(10)]
    drawn = DataLoader(data, batch_size=100, sampler=RandomSampler(data, replacement=True, num_samples=300))
    assert [len(batch["id"]) for batch in drawn] == [100, 100, 100]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_collate_function_gets_samples(make_store: MakeStore, workers: int) -> None:
    data = ZarrDataset(make_store(), tensors=("id", "half"))

    def collate(samples: Any) -> Any:
        assert len(samples) == len(list(samples)) == len(samples[:]) == 100
        assert samples[-1]["id"] == samples[99]["id"]
        with pytest.raises(IndexError):
            samples[100]
        stacked = {name: torch.stack([sample[name] for sample in samples]) for name in samples[0]}
        assert all(torch.equal(default_collate(samples)[name], stacked[name]) for name in stacked)
        assert torch.equal(default_collate(list(samples))["id"], stacked["id"])
        return stacked

    fork = {"multiprocessing_context": "fork"} if workers else {}
    loaded = DataLoader(data, batch_size=100, collate_fn=collate, num_workers=workers, **fork)
    assert torch.cat([batch["id"] for batch in loaded]).tolist() == list(range(3000))


def test_a_copy_in_another_process_opens_the_store_itself(make_store: MakeStore) -> None:
    data = ZarrDataset(make_store(), window=Window(length=3), tensors=("id",))
    data[0]
    content = pickle.dumps(data)
    assert len(content) < 1000
    assert pickle.loads(content)[5]["id"].tolist() == [5, 6, 7]


def test_random_choices_follow_torchs_seed(make_store: MakeStore) -> None:
    class Noise:
        fields = ("id",)

        def __call__(self, rows: Any, draws: Any) -> dict[str, torch.Tensor]:
            return {"noise": torch.from_numpy(draws.view(np.int64)), "id": torch.from_numpy(rows["id"])}

    data = ZarrDataset(make_store(), tensors=Noise())
    torch.manual_seed(3)
    once = data[[1, 2]]["noise"]
    assert not torch.equal(once, data[[1, 2]]["noise"])
    torch.manual_seed(3)
    assert torch.equal(once, data[[1, 2]]["noise"])


def test_memory_for_less_than_a_sample(make_store: MakeStore) -> None:
    with pytest.raises(BudgetError, match="does not hold the 3 chunks of one sample; the least that works is 1"):
        ZarrDataset(make_store(), window=Window(length=70), memory=1000, tensors=("id",))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"data": 5}, "data"),
        ({"split": 5}, "split"),
        ({"tensors": "planes"}, "tensors"),
        ({"tensors": "id"}, "tensors: expected .* names of fields"),
        ({"window": {"length": 5, "mode": "x"}}, "window.mode"),
        ({"window": {"size": 5}}, "window: expected keys among"),
        ({"part": ("",)}, "part"),
        ({"memory": "much"}, "memory"),
    ],
)
def test_wrong_arguments_are_named(make_store: MakeStore, options: dict[str, Any], named: str) -> None:
    with pytest.raises(ParamsError, match=named):
        ZarrDataset(**{"data": make_store(), **options})


@pytest.mark.parametrize("index", [1.5, "5", None, [1.0, 2.5], [True, False], np.zeros((2, 2), int)])
def test_numbers_of_samples_are_whole(make_store: MakeStore, index: Any) -> None:
    with pytest.raises(ParamsError, match="indices: expected"):
        ZarrDataset(make_store(), tensors=("id",))[index]


def test_numbers_of_samples_come_in_many_forms(make_store: MakeStore) -> None:
    data = ZarrDataset(make_store(), tensors=("id",))
    for index in ([5, 3], (5, 3), np.array([5, 3], np.uint8), torch.tensor([5, 3]), [torch.tensor(5), np.int8(3)]):
        assert data[index]["id"].tolist() == [5, 3]
    assert data[torch.tensor(5)]["id"] == 5  # type: ignore[index]
    assert data[[]]["id"].tolist() == []


def test_two_threads_may_begin_at_once(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    data = ZarrDataset(make_store(), tensors=("id",))
    ids: list[int] = []
    second = threading.Thread(target=lambda: ids.append(int(data[7]["id"])))

    def slow(*arguments: Any) -> ChunkCache:
        monkeypatch.undo()
        second.start()
        second.join(0.2)  # it must wait until the cache is made
        return ChunkCache(*arguments)

    monkeypatch.setattr("outofcore.loading.dataset.ChunkCache", slow)
    assert data[5]["id"] == 5
    second.join()
    assert ids == [7]


def test_damage_is_an_error_every_time(make_store: MakeStore, tmp_path: Any) -> None:
    copied = shutil.copytree(make_store(), tmp_path / "copy.zarr")
    shard = copied / "train" / "half" / "c.1"
    content = bytearray(shard.read_bytes())
    content[-30] ^= 1
    shard.write_bytes(content)
    data = ZarrDataset(copied, tensors=("half", "id"))
    for _ in range(2):
        with pytest.raises(DamagedStore, match="train/half"):
            data[range(3000)]
    assert data[0]["id"] == 0


@pytest.mark.parametrize("name", ["full", "drop_last", "weights"])
def test_an_argument_that_only_a_loader_has_is_advised_for_a_loader(make_store: MakeStore, name: str) -> None:
    argument: Any = {name: True}
    with pytest.raises(ParamsError, match=rf"unknown argument '{name}'; write .* in outofcore\.loader\(\.\.\.\)$"):
        ZarrDataset(make_store([8]), tensors=("id",), **argument)
