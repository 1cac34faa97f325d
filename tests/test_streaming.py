"""Batches from raw text and a tokenizer for it, as a user's program asks for them."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from torch.utils.data import DataLoader

import outofcore
from outofcore.domains.text import DOMAIN
from outofcore.errors import BudgetError, ParamsError, RawInputError, StateError
from outofcore.params import load_params
from outofcore.pipeline import write_catalogue
from outofcore.project.entries import project_store
from outofcore.settings.machine import Machine
from outofcore.training.loaders import open_streams
from tests.corpus import TEXTS, Endless, Records, corpus, elsewhere, tokenizer

__all__ = ["corpus", "elsewhere", "tokenizer"]  # fixtures

ROOT = Path(__file__).parents[1]
ALL = {"splits": {"val": 0.0, "test": 0.0}}


def same(first: Any, second: Any) -> None:
    """Assert that batches have the same names, dtypes, shapes and values."""
    first, second = list(first), list(second)
    assert len(first) == len(second) > 0
    for ours, theirs in zip(first, second, strict=True):
        assert list(ours) == list(theirs)
        for name, tensor in ours.items():
            assert (tensor.dtype, tensor.shape) == (theirs[name].dtype, theirs[name].shape)
            assert torch.equal(tensor, theirs[name])


def rows(batches: Any) -> list[tuple[int, ...]]:
    """The windows of batches, each with its last target."""
    return [
        (*row, last)
        for batch in batches
        for row, last in zip(batch["inputs"].tolist(), batch["targets"][:, -1].tolist(), strict=True)
    ]


def documents(tokenizer: Path) -> list[list[int]]:
    """The tokens of each text by the reference library, with the one that ends a document."""
    reference = tokenizers.Tokenizer.from_file(str(tokenizer))
    end = reference.token_to_id("<|endoftext|>")
    return [[*reference.encode(text, add_special_tokens=False).ids, end] for text in TEXTS]


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize(
    "tensors",
    [
        {"seq_len": 24},
        {"seq_len": 24, "stride": 7, "reset_at_documents": True},
        {"seq_len": 16, "across_documents": False},
    ],
    ids=["packed", "overlapping", "within documents"],
)
def test_batches_are_those_of_a_store(
    corpus: Path, tokenizer: Path, elsewhere: Path, split: str, tensors: dict[str, Any]
) -> None:
    splits = {"val": 0.2, "test": 0.2}
    outofcore.convert("text", corpus, "text.zarr", tokenizer=tokenizer, splits=splits)
    assert not list(elsewhere.glob("*.tokenizer.json"))
    makes = outofcore.reading("text.zarr", **tensors)
    store = outofcore.loader("text.zarr", split, 8, shuffle=False, tensors=makes, memory="64MiB")
    stream = outofcore.stream("text", corpus, split, 8, tokenizer=tokenizer, shuffle=False, splits=splits, **tensors)
    for _ in range(4):  # in training, the windows of each epoch begin elsewhere
        same(stream, store)
    assert stream.epoch == store.epoch == 3
    assert len(stream) == len(store)
    assert stream.samples == store.samples


def test_windows_are_those_of_the_reference_library(corpus: Path, tokenizer: Path) -> None:
    tokens = [token for document in documents(tokenizer) for token in document]
    in_order = outofcore.stream("text", corpus, tokenizer=tokenizer, shuffle=False, seq_len=32, **ALL)
    starts = set()
    for _ in range(5):
        epoch = rows(in_order)
        (start,) = [start for start in range(32) if tuple(tokens[start : start + 33]) == epoch[0]]
        assert epoch == [tuple(tokens[first : first + 33]) for first in range(start, len(tokens) - 63 + start, 32)]
        starts.add(start)
    assert len(starts) > 2


def test_every_window_inside_the_documents_comes_once(corpus: Path, tokenizer: Path) -> None:
    settings = {"seq_len": 12, "stride": 1, "across_documents": False, "shuffle_windows": 50, **ALL}
    apart = [
        tuple(document[start : start + 13]) for document in documents(tokenizer) for start in range(len(document) - 12)
    ]
    shuffled = outofcore.stream("text", corpus, tokenizer=tokenizer.parent, **settings)
    first, second = rows(shuffled), rows(shuffled)
    other_seed = rows(outofcore.stream("text", corpus, tokenizer=tokenizer, seed=1, **settings))
    assert sorted(first) == sorted(second) == sorted(other_seed) == sorted(apart)
    assert len({tuple(each) for each in (first, second, other_seed, apart)}) == 4


def test_the_stage_streams_the_same(corpus: Path, tokenizer: Path, elsewhere: Path) -> None:
    settings = {
        "raw": str(corpus),
        "mode": "stream",
        "tokenizer": {"path": str(tokenizer)},
        "splits": {"val": 0.3},
        "tensors": {"seq_len": 16},
        "stream": {"shuffle_windows": 64, "max_examples": 300},
        "train": {"batch_size": 8, "seed": 5, "val_examples": 30},
    }
    (elsewhere / "params.yaml").write_text(json.dumps({"text": settings}))
    section = load_params().section("text")
    write_catalogue(DOMAIN, section, Path("rejects.csv"), threads=1)
    catalogue = outofcore.open_store(project_store(DOMAIN))
    train, val = open_streams(DOMAIN, section, catalogue, Machine(workers=2), torch.device("cpu"))
    same(train, outofcore.stream("text", corpus, "train", 8, params="params.yaml", seed=5))
    assert len(train) == len(outofcore.stream("text", corpus, "train", 8, params="params.yaml", tokenizer=tokenizer))
    same(val, outofcore.stream("text", corpus, "val", 8, params="params.yaml", seed=5, shuffle=False))


def test_a_saved_state_resumes_at_the_next_batch(corpus: Path, tokenizer: Path) -> None:
    def fresh(batch_size: int = 8) -> Any:
        return outofcore.stream(
            "text", corpus, "train", batch_size, tokenizer=tokenizer, seq_len=40, shuffle_windows=33
        )

    stream = fresh()
    whole, states = [], []
    for batch in stream:
        whole.append(batch)
        states.append(json.dumps(stream.state_dict()))
    following = list(stream)
    assert stream.epoch == 1
    for number, state in enumerate(states):
        with fresh() as resumed:
            resumed.load_state_dict(json.loads(state))
            assert resumed.epoch == (number == len(whole) - 1)
            same(resumed, whole[number + 1 :] or following)
    other = fresh(batch_size=5)
    other.load_state_dict(json.loads(states[2]))
    assert rows(other) == rows(whole[3:])
    with pytest.raises(StateError, match="belongs to other raw text"):
        outofcore.stream("text", corpus, "val", 8, tokenizer=tokenizer, seq_len=40).load_state_dict(stream.state_dict())
    with pytest.raises(StateError, match="expected a stream's state, got one without epoch"):
        fresh().load_state_dict({})
    with pytest.raises(StateError, match="of version 2 of the order of a stream, expected version 3"):
        fresh().load_state_dict(stream.state_dict() | {"version": 2})


def test_a_tokenizer_replaced_later_changes_nothing(corpus: Path, tokenizer: Path, tmp_path: Path) -> None:
    mine = tmp_path / "tokenizer.json"
    shutil.copy(tokenizer, mine)
    stream = outofcore.stream("text", corpus, tokenizer=mine, seq_len=8)
    outofcore.train_tokenizer(corpus, mine, vocab_size=300)
    same(stream, outofcore.stream("text", corpus, tokenizer=tokenizer, seq_len=8))


def test_a_state_of_another_dataset_of_the_hub_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    states = []
    for revision in ("0" * 40, "1" * 40):
        (tmp_path / "a.hub").write_text(f"dataset: someone/texts\nrevision: '{revision}'\n")
        states.append(outofcore.stream("text", tmp_path / "a.hub", tokenizer=tokenizer, seq_len=8).state_dict())
    stream = outofcore.stream("text", tmp_path / "a.hub", tokenizer=tokenizer, seq_len=8)
    stream.load_state_dict(states[1])
    with pytest.raises(StateError, match="belongs to other raw text"):
        stream.load_state_dict(states[0])
    with pytest.raises(StateError, match="expected a stream's state, got None"):
        stream.load_state_dict(None)  # type: ignore[arg-type]


def test_it_is_an_object_like_a_loader(corpus: Path, tokenizer: Path) -> None:
    def fresh() -> Any:
        return outofcore.stream("text", corpus, tokenizer=tokenizer, seq_len=20, batch_size=4)

    stream = fresh()
    assert repr(stream) == "TextStream(train: batches of 4 windows of 20 tokens)"
    copy = pickle.loads(pickle.dumps(stream))
    first = iter(stream)
    batch = next(first)
    with pytest.raises(ParamsError, match="a stream that is being read cannot be pickled"):
        pickle.dumps(stream)
    second = iter(stream)
    with pytest.raises(ParamsError, match="this iteration ended when another one over the same stream began"):
        next(first)
    assert stream.epoch == 1
    next(second)
    same([next(iter(copy))], [batch])
    copy.close()
    with stream:
        for _ in stream:
            break
    assert list(second) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("text-stream")]
    stream.set_epoch(0)
    same(DataLoader(stream, batch_size=None), fresh())
    with pytest.raises(ParamsError, match="num_workers=0"):
        next(iter(DataLoader(fresh(), batch_size=None, num_workers=1)))
    assert stream.tally.figures() == {"found": len(TEXTS), "accepted": len(TEXTS), "rejected": {}}


@pytest.mark.parametrize("column", ["text", "body"])
def test_a_dataset_is_streamed_like_files(corpus: Path, tokenizer: Path, column: str) -> None:
    settings: dict[str, Any] = {"tokenizer": tokenizer, "seq_len": 24, "shuffle": False}
    records = Records(TEXTS, column)
    batches = list(outofcore.stream("text", corpus, **settings))
    same(outofcore.stream("text", records, column=column, **settings), batches)
    same(outofcore.stream("text", list(records), column=column, **settings), batches)


def test_a_dataset_of_the_library(corpus: Path, tokenizer: Path) -> None:
    datasets = pytest.importorskip("datasets")
    records = datasets.IterableDataset.from_generator(lambda: iter(Records(TEXTS)))
    settings: dict[str, Any] = {"tokenizer": tokenizer, "seq_len": 24, "shuffle": False}
    same(outofcore.stream("text", records, **settings), outofcore.stream("text", corpus, **settings))


def test_a_dataset_without_an_end_gives_batches_at_once(tokenizer: Path) -> None:
    settings: dict[str, Any] = {"tokenizer": tokenizer, "seq_len": 8, "shuffle_windows": 64}
    with outofcore.stream("text", Records(Endless()), **settings) as stream:
        assert len(list(itertools.islice(stream, 40))) == 40
    once = outofcore.stream("text", Records(Endless()), max_examples=100, **settings)
    assert sum(len(batch["inputs"]) for batch in once) == 100
    assert len(once) == 2


def test_what_a_dataset_holds_is_checked(tokenizer: Path) -> None:
    def batches(records: Any) -> Any:
        return list(outofcore.stream("text", records, tokenizer=tokenizer, seq_len=8))

    with pytest.raises(ParamsError, match=r"a column of the dataset \(id, body\), got 'text'"):
        batches(Records(TEXTS, "body"))
    with pytest.raises(ParamsError, match="expected records with a column 'text', got '0: sea"):
        batches(TEXTS)
    with pytest.raises(ParamsError, match="again in each epoch, got a generator"):
        batches(record for record in Records(TEXTS))
    with pytest.raises(ParamsError, match="expected a file, a folder, or what iterates over records, got 5"):
        batches(5)
    stream = outofcore.stream("text", Records([None, b"bytes", *TEXTS]), tokenizer=tokenizer, seq_len=8)
    assert rows(stream)
    assert stream.tally.figures()["rejected"] == {"no_text": 2}


def test_a_dataset_that_fails_is_not_taken_for_its_end(tokenizer: Path) -> None:
    class Broken(Records):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            yield from super().__iter__()
            message = "the connection\nwas lost"
            raise ValueError(message)

    stream = outofcore.stream("text", Broken(TEXTS), tokenizer=tokenizer, seq_len=8)
    told = "cannot be read any further: ValueError: the connection was lost"
    with pytest.raises(RawInputError, match=told):
        list(stream)
    with pytest.raises(RawInputError, match=told):
        outofcore.train_tokenizer(Broken(TEXTS), tokenizer.with_name("never.json"))
    assert not tokenizer.with_name("never.json").exists()


def test_memory_is_checked_before_reading(corpus: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(memory: str, **options: Any) -> Any:
        return outofcore.stream("text", corpus, tokenizer=tokenizer, seq_len=8, memory=memory, **options)

    with pytest.raises(BudgetError, match=r"streaming needs [\d,]+ bytes, .* in 1 threads, and may take 33,554,432"):
        stream("32MiB")
    with pytest.raises(BudgetError, match="in 8 threads"):
        stream("256MiB", threads=8)
    needed = []
    for reset in (False, True):  # a batch of four tensors instead of two, and the one before it
        with pytest.raises(BudgetError) as error:
            stream("1MiB", batch_size=1000, reset_at_documents=reset)
        needed.append(int(re.findall(r"needs ([\d,]+) bytes", str(error.value))[0].replace(",", "")))
    assert needed[1] - needed[0] == 2 * 2 * 1000 * 9 * 8
    monkeypatch.setattr("outofcore.streaming.usable_cores", lambda: type("Cores", (), {"value": 8}))
    same(stream("128MiB"), stream("1GiB", threads=1))


@pytest.mark.usefixtures("elsewhere")
def test_mistakes_are_one_line(corpus: Path, tokenizer: Path) -> None:
    mistakes: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        (("chess", corpus), {}, r"only text can be streamed, got 'chess'; convert it first"),
        (("checkers", corpus), {}, "no domain 'checkers'"),
        (("text", corpus, "training"), {}, "split: expected one of train, val, test, got 'training'"),
        (("text", corpus, "train", 0), {}, "batch_size: expected a whole number"),
        ((), {"seq_length": 5}, r"unknown key text.tensors.seq_length; did you mean 'seq_len'"),
        ((), {"train": {"seed": 3}}, "expected no setting 'train': it is given as batch_size and seed"),
        ((), {"mode": "store"}, "expected no setting 'mode': it is no setting of a stream"),
        ((), {"seq_len": 0}, r"text.tensors.seq_len: .*greater than or equal to 1, got 0"),
        ((), {"filters": {"min": 3}}, "unknown key text.filters.min"),
        ((), {"splits": {"by": "file"}}, r"splits.by: expected content in mode stream, got file"),
        ((), {"shuffle": "yes"}, "shuffle: expected True or False"),
        ((), {"column": 5}, "column: expected a name"),
        ((), {"tokenizer": None}, r"expected tokenizer=, a tokenizer.json .*train_tokenizer"),
        ((), {"tokenizer": {"vocab_size": 300}}, r"expected tokenizer=, a tokenizer.json .*train_tokenizer"),
        ((), {"tokenizer": "nothing.json"}, r"no tokenizer at nothing.json; .*'outofcore tokenizer RAW nothing.json'"),
        ((), {"tokenizer": corpus}, "no tokenizer at .*corpus/tokenizer.json"),
        ((), {"tokenizer": corpus / "b" / "2.jsonl.gz"}, "expected a tokenizer.json"),
        ((), {"params": "nothing.yaml"}, "nothing.yaml: no such file"),
    ]
    for given, options, told in mistakes:
        with pytest.raises(ParamsError, match=told) as error:
            outofcore.stream(*(given or ("text", corpus)), **{"tokenizer": tokenizer, **options})
        assert "\n" not in str(error.value)
    with pytest.raises(RawInputError, match="found nothing at nowhere"):
        outofcore.stream("text", "nowhere", tokenizer=tokenizer)
