"""Batches from raw text, against windows cut from whole documents in plain Python."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outofcore.domains.sections import SplitSection
from outofcore.domains.splits import assign
from outofcore.domains.text import DOMAIN
from outofcore.domains.text.documents import reading
from outofcore.domains.text.params import SUFFIXES
from outofcore.domains.text.source import placed_units
from outofcore.domains.text.tokens.engine import FastEngine
from outofcore.errors import AuditError, BudgetError, RawInputError, StateError
from outofcore.raw.files import find_files
from outofcore.raw.unit import AuditRate
from tests.domains.text.conftest import PROSE

MEMORY = 1 << 30
SPLITS = {"val": 0.25, "test": 0.0}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Documents short and long, in units of some hundred bytes."""
    monkeypatch.setattr(reading, "BLOCK_BYTES", 700)
    raw = tmp_path / "raw"
    raw.mkdir()
    texts = [PROSE[number % 90 :] * (1 + number % 5) + str(number) for number in range(60)]
    (raw / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts[:30]))
    (raw / "b.txt").write_text("|".join(texts[30:50]), encoding="utf-8", newline="")
    for number in range(50, 60):
        (raw / f"c{number}.txt").write_text(texts[number] * 3, encoding="utf-8", newline="")
    return raw


def make(section_of, folder: Path, split="train", *, keys=None, batch_size=5, seed=0, samples=None, **options):
    """A stream; an epoch of ``samples`` windows, where the text begins anew only in the split train."""
    source = {"separator": "|"}
    keys = {"source": source, "filters": {"duplicates": "keep"}, "mode": "stream", "splits": SPLITS} | (keys or {})
    keys["stream"] = keys.get("stream", {}) | {"max_examples": samples}
    section = section_of(folder, train={"batch_size": batch_size, "seed": seed, "val_examples": samples}, **keys)
    files = find_files(folder, "**/*", SUFFIXES, section="text")
    options = {"shuffle": True, "memory": MEMORY, "threads": 1, "device": None} | options
    return DOMAIN.stream(files, section, split, **options)


def windows(batches) -> list[tuple[int, ...]]:
    return [
        (*row, last)
        for batch in batches
        for row, last in zip(batch["inputs"].tolist(), batch["targets"][:, -1].tolist(), strict=True)
    ]


def expected(
    convert, folder: Path, length: int, step: int, *, across: bool, source: Any = None
) -> list[list[tuple[int, ...]]]:
    """The windows of an epoch of training, for each number of tokens below ``step`` by which they may begin later.

    They are as many for each; inside a document they move as far as it allows.
    """
    found = convert(folder, source=source or {"separator": "|"}, filters={"duplicates": "keep"})
    split = assign(np.frombuffer(b"".join(found.keys), np.uint8).reshape(-1, 16), SplitSection(**SPLITS))
    chosen = [document for document, number in zip(found.documents, split, strict=True) if number == 0]
    assert 10 < len(chosen) < len(found.documents)
    epochs: list[list[tuple[int, ...]]] = [[] for _ in range(step)]
    for tokens in [[token for document in chosen for token in document]] if across else chosen:
        last = len(tokens) - length
        count = max((last - (step - 1)) // step + 1, int(last >= 0 and not across))
        room = min(step - 1, last - (count - 1) * step)
        for phase, epoch in enumerate(epochs):
            moved = phase if across else phase % (room + 1)
            epoch += [tuple(tokens[moved + start : moved + start + length]) for start in range(0, count * step, step)]
    return epochs


@pytest.mark.parametrize(("across", "stride"), [(True, None), (True, 3), (False, None), (False, 5), (True, 40)])
def test_an_epoch_gives_every_window_once(section_of, convert, folder: Path, across: bool, stride: int | None):
    tensors = {"seq_len": 16, "stride": stride, "across_documents": across}
    keys = {"tensors": tensors, "stream": {"shuffle_windows": 37}}
    wanted = expected(convert, folder, 17, stride or 16, across=across)
    ordered = make(section_of, folder, keys=keys, shuffle=False)
    assert {ordered.samples} == set(map(len, wanted))
    starts = [wanted.index(windows(ordered)) for _ in range(6)]
    assert len(set(starts)) > 2
    shuffled = make(section_of, folder, keys=keys, threads=3)
    for start in starts:
        found = windows(shuffled)
        assert len(found) == shuffled.samples == ordered.samples
        if not across:  # else documents are in another order, and windows across them are others
            assert sorted(found) == sorted(wanted[start])
            assert found != wanted[start]
    assert len(shuffled) == -(-ordered.samples // 5)


def test_the_order_depends_on_seed_and_epoch_alone(section_of, folder: Path):
    keys = {"tensors": {"seq_len": 12, "stride": 7}, "stream": {"shuffle_windows": 25}}
    stream = make(section_of, folder, keys=keys, seed=1, threads=1)
    first, second = windows(stream), windows(stream)
    assert stream.epoch == 1
    assert first != second
    again = make(section_of, folder, keys=keys, seed=1, threads=4, batch_size=9)
    assert windows(again) == first
    again.set_epoch(1)
    assert windows(again) == second
    assert windows(make(section_of, folder, keys=keys, seed=2)) != first
    at_most = make(section_of, folder, "val", keys=keys, shuffle=False, samples=10)
    assert len(windows(at_most)) == 10


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    batch=st.integers(1, 40),
    after=st.integers(0, 60),
    across=st.booleans(),
    stride=st.sampled_from([None, 5, 30]),
    samples=st.sampled_from([None, 90, 1500]),
    pool=st.sampled_from([1, 7, 64]),
)
def test_a_stream_goes_on_after_the_last_batch_received(
    section_of, folder, batch, after, across, stride, samples, pool
):
    tensors = {"seq_len": 16, "stride": stride, "across_documents": across}
    keys = {"tensors": tensors, "stream": {"shuffle_windows": pool}}

    def fresh():
        return make(section_of, folder, keys=keys, batch_size=batch, samples=samples, seed=3, threads=2)

    stream = fresh()
    whole = windows(stream)
    assert len(whole) == stream.samples
    stream.set_epoch(0)
    begun = []
    for number, each in enumerate(stream):
        if number == after:
            break
        begun.append(each)
        state = json.loads(json.dumps(stream.state_dict()))
    stream.close()
    if not begun:
        return
    resumed = fresh()
    resumed.load_state_dict(state)
    rest = windows(resumed)
    if len(windows(begun)) < len(whole):
        assert windows(begun) + rest == whole
    else:
        assert resumed.epoch == 1
        assert len(rest) == len(whole)


@pytest.mark.parametrize("place", ["first", "middle", "shorter"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_state_is_of_one_text(section_of, tmp_path: Path, monkeypatch, place: str, shuffle: bool):
    monkeypatch.setattr(reading, "BLOCK_BYTES", 700)
    words = [f"word{number:05} " for number in range(4000)]
    (tmp_path / "a.txt").write_text("".join(words))

    def opened():
        keys = {"source": {"separator": " "}, "tensors": {"seq_len": 16}, "stream": {"shuffle_windows": 200}}
        return make(section_of, tmp_path, keys=keys, shuffle=shuffle, threads=2)

    stream = opened()
    batches = iter(stream)
    for _ in range(len(stream) * 2 // 3):
        next(batches)
    state = json.loads(json.dumps(stream.state_dict()))
    wanted = next(batches)["inputs"].tolist()
    stream.close()
    resumed = opened()
    resumed.load_state_dict(state)
    assert next(iter(resumed))["inputs"].tolist() == wanted
    resumed.close()
    size = (tmp_path / "a.txt").stat().st_size
    if place == "first":
        words[:20] = reversed(words[:20])
    elif place == "middle":
        words[1000:1020] = reversed(words[1000:1020])
    else:
        words = [" " * (size // 2), *words[: len(words) // 2]]
    (tmp_path / "a.txt").write_text("".join(words))
    assert (tmp_path / "a.txt").stat().st_size == size
    other = opened()
    other.load_state_dict(state)
    with pytest.raises(StateError, match="has read other text than"):
        next(iter(other))


def test_more_windows_than_the_text_has_begin_it_again(section_of, folder: Path):
    keys = {"tensors": {"seq_len": 16, "stride": 1, "across_documents": False}}
    once = make(section_of, folder, keys=keys)
    wanted = sorted(windows(once))
    stream = make(section_of, folder, keys=keys, samples=2 * once.samples)
    found = windows(stream)
    assert sorted(found[: len(wanted)]) == sorted(found[len(wanted) :]) == wanted
    assert found[: len(wanted)] != found[len(wanted) :]
    whole = make(section_of, folder, "val", keys=keys)
    assert make(section_of, folder, "val", keys=keys, samples=2 * whole.samples).samples == whole.samples > 3
    assert make(section_of, folder, "val", keys=keys, samples=3).samples == 3


def test_a_long_text_is_the_documents_of_a_conversion(section_of, convert, folder: Path):
    source = {"separator": "|", "longest_document": 600}
    assert convert(folder, source=source).counts["divisions"] > 3
    for across in (True, False):
        keys = {"tensors": {"seq_len": 16, "across_documents": across}, "source": source}
        stream = make(section_of, folder, keys=keys, shuffle=False)
        assert windows(stream) in expected(convert, folder, 17, 16, across=across, source=source)


def test_a_device_without_streams_is_waited_for(section_of, folder: Path, monkeypatch):
    """Memory that is not pinned may be used again before a copy that nobody waits for has read it."""
    copied, copy = [], torch.Tensor.to

    def noting(tensor, device, **options):
        copied.append(options)
        return copy(tensor, device, **options)

    monkeypatch.setattr(torch.Tensor, "to", noting)
    stream = make(section_of, folder, device=torch.device("meta"))
    batch = next(iter(stream))
    stream.close()
    assert {tensor.device.type for tensor in batch.values()} == {"meta"}
    assert copied
    assert not any(options.get("non_blocking") for options in copied)


def test_threads_begin_with_the_first_batch_and_end_with_the_stream(section_of, folder: Path):
    def running() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("text-stream")]

    with make(section_of, folder, threads=3) as stream:
        batches = iter(stream)
        assert not running()
        assert stream.tally.found == 0
        next(batches)
        assert running()
    assert not running()


def test_only_so_much_is_tokenized_ahead(section_of, folder: Path, monkeypatch):
    begun: list[int] = []

    def counted(*inputs):
        for unit in placed_units(*inputs):
            begun.append(len(unit.payload))
            yield unit

    monkeypatch.setattr("outofcore.domains.text.windows.placed_units", counted)
    keys = {"tensors": {"seq_len": 16}, "stream": {"shuffle_windows": 1}}
    stream = make(section_of, folder, keys=keys, threads=1, shuffle=False)
    total, begun[:] = len(begun) if stream.samples else 0, []
    batches = iter(stream)
    next(batches)
    stream.close()
    assert len(begun) <= 10 < total


def test_what_cannot_be_is_said(section_of, folder: Path, monkeypatch):
    with pytest.raises(BudgetError, match=r"streaming needs [\d,]+ bytes, for pools of 8,192 windows and 4 units"):
        make(section_of, folder, memory=10 << 20)
    with pytest.raises(RawInputError, match=r"window of 500,001 tokens in the split train, found none in 60 documents"):
        windows(
            make(
                section_of, folder, keys={"tensors": {"seq_len": 500_000}, "stream": {"shuffle_windows": 1}}, samples=10
            )
        )
    stream, other = make(section_of, folder, samples=20), make(section_of, folder, samples=20, seed=1)
    with pytest.raises(StateError, match="belongs to other raw text, another tokenizer, other params, another split"):
        other.load_state_dict(stream.state_dict())
    wrong = make(section_of, folder, samples=20)
    monkeypatch.setattr("outofcore.domains.text.windows.AUDITED", AuditRate())
    encode = FastEngine.encode
    monkeypatch.setattr(FastEngine, "encode", lambda *inputs: (encode(*inputs)[0] + 1, encode(*inputs)[1]))
    with pytest.raises(AuditError, match=r"the engine and its oracle differ: [^:]+, document at \d+: \d+ ids against"):
        windows(wrong)
