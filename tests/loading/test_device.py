"""Work on a device: its order over streams, its memory, and the index of a device."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from outofcore.errors import BudgetError, ParamsError
from outofcore.loading.arguments import named_device
from outofcore.loading.loader import loader
from outofcore.system import device as module
from outofcore.system.device import split_batches
from tests.loading.conftest import MakeStore


class Fake:
    """A device whose streams run apart: what one has written, another may use once a thread has waited for it."""

    def __init__(self) -> None:
        self._here = threading.local()
        self.consumer = self.Stream()
        self.written: dict[int, tuple[Fake.Stream, int]] = {}  # by address: the stream, and its number of works by then
        self.marked: dict[int, set[Fake.Stream]] = {}  # by address: streams that its memory waits for when it is freed
        self.marks: list[str] = []  # the threads that marked a tensor

    class Stream:
        def __init__(self, _: Any = None) -> None:
            self.works = self.done = 0

    class Event:
        def record(self, stream: Any) -> None:
            self.stream, self.works = stream, stream.works

        def synchronize(self) -> None:
            self.stream.done = max(self.works, self.stream.done)

    def current(self, _: Any = None) -> Fake.Stream:
        return getattr(self._here, "stream", self.consumer)

    @contextmanager
    def stream(self, stream: Fake.Stream) -> Iterator[None]:
        before, self._here.stream = self.current(), stream
        try:
            yield
        finally:
            self._here.stream = before

    def use(self, *tensors: torch.Tensor) -> None:
        """Fail if this thread's stream may run before what wrote these."""
        here = self.current()
        for tensor in tensors:
            stream, works = self.written.get(tensor.untyped_storage().data_ptr(), (here, 0))
            assert stream is here or stream.done >= works, "used before it was written"

    def mark(self, tensor: torch.Tensor, stream: Fake.Stream) -> None:
        self.marked.setdefault(tensor.untyped_storage().data_ptr(), set()).add(stream)
        self.marks.append(threading.current_thread().name)

    def wrote(self, tensor: torch.Tensor) -> torch.Tensor:
        here = self.current()
        here.works += 1
        self.written[tensor.untyped_storage().data_ptr()] = here, here.works
        self.marked.pop(tensor.untyped_storage().data_ptr(), None)  # new memory, perhaps at an address of old memory
        return tensor


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The processor as such a device."""
    fake, split = Fake(), torch.split_with_sizes_copy

    def split_copy(tensor: torch.Tensor, counts: list[int]) -> list[torch.Tensor]:
        fake.use(tensor)
        return [fake.wrote(piece) for piece in split(tensor, counts)]

    monkeypatch.setattr(module, "_WITH_STREAMS", {"cpu"})
    for name, what in (("Stream", Fake.Stream), ("Event", Fake.Event), ("stream", fake.stream)):
        monkeypatch.setattr(torch.cuda, name, what)
    monkeypatch.setattr(torch.cuda, "current_stream", fake.current)
    monkeypatch.setattr(torch, "split_with_sizes_copy", split_copy)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_, **__: fake.wrote(tensor))
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: fake.mark(tensor, stream))
    return fake


@pytest.mark.parametrize("residency", ["ram", "streamed"])
@pytest.mark.parametrize("batch_size", [32, 3000])
def test_a_batch_is_written_before_the_consumers_stream_has_it(
    make_store: MakeStore, fake: Fake, residency: Any, batch_size: int
) -> None:
    batches = loader(
        make_store(),
        batch_size=batch_size,
        memory="8MiB",
        tensors=("id",),
        residency=residency,
        device="cpu",
        threads=3,
    )
    seen = []
    for batch in batches:
        fake.use(*batch.values())
        assert all(tensor.untyped_storage().data_ptr() in fake.written for tensor in batch.values())
        seen += batch["id"].tolist()
    assert sorted(seen) == list(range(3000))
    assert fake.consumer.works == 0  # nothing of the loader's is queued among the consumer's work


@pytest.mark.parametrize("residency", ["ram", "streamed"])
def test_memory_of_a_batch_waits_for_the_stream_that_took_it(make_store: MakeStore, fake: Fake, residency: Any) -> None:
    """Whichever that is; on the stream on which it was opened, the consumer's thread calls torch for no tensor."""
    other, count, here = Fake.Stream(), 0, threading.current_thread().name
    batches = loader(make_store(), batch_size=8, memory="8MiB", residency=residency, device="cpu", threads=1)
    for stream in (fake.consumer, other):
        with fake.stream(stream):
            for batch in batches:
                assert all(stream in fake.marked[tensor.untyped_storage().data_ptr()] for tensor in batch.values())
                count += 1
        assert (here in fake.marks) == (stream is other)
    assert count == 2 * 375


@pytest.mark.parametrize("elements", [5, 40_000])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint16, torch.int64, torch.bfloat16, torch.float64])
def test_what_is_saved_of_a_batch_is_not_its_group(elements: int, dtype: torch.dtype) -> None:
    numbers = torch.arange(12 * elements).remainder(7).to(dtype)
    wide = numbers.reshape(12, 1, elements)
    for tensor, unit in ((numbers, elements), (wide, 1), (wide.transpose(1, 2), 1), (numbers.reshape(-1, 12).T, 1)):
        counts = [5 * unit, 4 * unit, 0, 3 * unit]
        batches = split_batches({"a": tensor}, counts)
        for batch, expected in zip(batches, torch.split(tensor, counts), strict=True):
            assert torch.equal(batch["a"], expected)
            assert batch["a"].dtype == dtype
            saved = io.BytesIO()
            torch.save(batch, saved)
            assert len(saved.getvalue()) < expected.nbytes + 2000


def test_a_small_batch_that_is_kept_does_not_hold_its_group() -> None:
    group = torch.arange(1000.0)
    batch = split_batches({"a": group}, [10] * 100)[0]
    group.zero_()
    assert batch["a"].tolist() == list(range(10))


def test_a_device_without_memory_is_one_line(make_store: MakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = loader(make_store(), memory="8MiB", tensors=("id",), residency="ram", device="cpu")

    def full(*_: object, **__: object) -> None:
        message = "CUDA out of memory. Tried to allocate"
        raise torch.OutOfMemoryError(message)

    monkeypatch.setattr(torch, "from_numpy", full)
    with pytest.raises(BudgetError, match="device cpu: no memory left") as caught:
        list(batches)
    assert len(str(caught.value).splitlines()) == 1


def test_a_device_gets_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    class Made:
        device = torch.device("cuda:0")

    assert named_device(None) is None
    assert named_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch, "empty", lambda *_, **__: Made)
    assert named_device("cuda") == named_device(torch.device("cuda")) == torch.device("cuda:0")


@pytest.mark.parametrize("device", ["gpu", "cuda:99", 0, "mps:7"])
def test_a_device_that_is_not_there_is_refused(device: Any) -> None:
    with pytest.raises(ParamsError, match="device: expected a device of this machine"):
        named_device(device)
