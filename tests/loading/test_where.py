"""Selected sequences, against loops over the raw columns and rows of each store."""

from __future__ import annotations

import logging
import operator
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outofcore
from outofcore.errors import BudgetError, ParamsError, StateError
from outofcore.loading.dataset import ZarrDataset
from outofcore.loading.iteration import Loader
from outofcore.loading.loader import loader
from outofcore.order.balanced import Balanced
from outofcore.order.mixture import Mixture
from outofcore.order.plain import Shuffle
from outofcore.order.weighted import Weighted
from tests.loading.conftest import (
    WINDOWS,
    MakeStore,
    by_last_row,
    flat,
    identities,
    moving,
    open_once,
    opened_once,
    windows_read,
)

LENGTHS = [[300, 1, 64, 80, 35, 700, 200, 20, 90], [90, 35, 400, 90, 0, 90], [0], [64, 64, 1, 900, 64]]
FIRST = [0, *np.cumsum([sum(lengths) for lengths in LENGTHS]).tolist()]
SOME = "length in (64, 90, 200) or 250 < length < 800 and name != 'sequence 0'"
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Sequence = dict[str, Any]


def holds(sequence: Sequence) -> bool:
    """:data:`SOME` in Python."""
    length = sequence["length"]
    return length in (64, 90, 200) or (250 < length < 800 and sequence["name"] != "sequence 0")


@pytest.fixture
def months(make_store: MakeStore) -> list[Path]:
    """Stores whose rows are numbered through."""
    return [make_store(lengths, first=first, codec="none") for lengths, first in zip(LENGTHS, FIRST, strict=False)]


def opened(stores: Any, **options: Any) -> Loader:
    return loader(
        opened_once(stores),
        **{
            "batch_size": 48,
            "seed": 5,
            "memory": "8MiB",
            "shuffle": Shuffle(pool_blocks=4),
            "tensors": ("id",),
            "where": SOME,
            **options,
        },
    )


def sequences_of(path: Path, first: int) -> list[Sequence]:
    """The sequences of a store by column, with the number of their first row and of their store's."""
    table = open_once(path).sequences("train")
    values = {name: table[name].read().tolist() for name in ("start", "length", "label", "name")}
    sequences = [dict(zip(values, each, strict=True)) for each in zip(*values.values(), strict=True)]
    return [{**each, "row": first + each["start"], "first": first} for each in sequences]


def expected(paths: list[Path], kind: str, firsts: list[int] = FIRST) -> list[list[int]]:
    """The rows of each sample of the selected sequences."""
    window, samples = WINDOWS[kind], []
    for path, first in zip(paths, firsts, strict=False):
        runs: list[list[int]] = []
        for sequence in sequences_of(path, first):
            start, stop = sequence["row"], sequence["row"] + sequence["length"]
            if not holds(sequence):
                continue
            if kind != "never" and runs and runs[-1][1] == start:
                runs[-1][1] = stop
            else:
                runs.append([start, stop])
        for start, stop in runs:
            if window is None:
                samples += [[row] for row in range(start, stop)]
            elif kind == "reach":
                samples += [
                    [max(first, at) for at in range(row - window.length + 1, row + 1)] for row in range(start, stop)
                ]
            else:
                places = range(start, stop - window.length + 1, window.stride)
                samples += [list(range(place, place + window.length)) for place in places]
    return samples


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> tuple[str, Any]:
    """An expression, and a function of a sequence that says in Python whether it holds."""
    kind = draw(st.sampled_from(["compare", "chain", "in", "text", "not", "and", "or"][: 7 if depth else 4]))
    number, column = st.integers(-5, 1000), draw(st.sampled_from(["length", "start", "label"]))
    if kind in ("and", "or"):
        parts = draw(st.lists(conditions(depth - 1), min_size=2, max_size=3))
        text, every = f" {kind} ".join(f"({text})" for text, _ in parts), all if kind == "and" else any
        return text, lambda sequence: every(holds(sequence) for _, holds in parts)
    if kind == "not":
        text, inner = draw(conditions(depth - 1))
        return f"not ({text})", lambda sequence: not inner(sequence)
    first, second = draw(st.sampled_from(sorted(COMPARISONS))), draw(st.sampled_from(sorted(COMPARISONS)))
    one, other = COMPARISONS[first], COMPARISONS[second]
    if kind == "chain":
        low, high = draw(number), draw(number)
        text = f"{low} {first} {column} {second} {high}"
        return text, lambda sequence: one(low, sequence[column]) and other(sequence[column], high)
    if kind == "in":
        values, out = draw(st.lists(number | st.sampled_from([64, 90]), min_size=1, max_size=4)), draw(st.booleans())
        text = f"{column}{' not' if out else ''} in [{', '.join(map(str, values))}]"
        return text, lambda sequence: (sequence[column] in values) != out
    if kind == "text":
        name = f"sequence {draw(st.integers(0, 9))}"
        return f"name {first} {name!r}", lambda sequence: one(sequence["name"], name)
    value = draw(number)
    return f"{column} {first} {value}", lambda sequence: one(sequence[column], value)


@settings(deadline=None, max_examples=60)
@given(condition=conditions(), several=st.booleans())
def test_any_expression_selects_what_a_loop_in_python_does(
    make_store: MakeStore, condition: tuple[str, Any], several: bool
) -> None:
    text, holds = condition
    months = [make_store(lengths, first=first, codec="none") for lengths, first in zip(LENGTHS, FIRST, strict=False)]
    paths = months if several else months[:1]
    sequences = [each for path, first in zip(paths, FIRST, strict=False) for each in sequences_of(path, first)]
    rows = [range(each["row"], each["row"] + each["length"]) for each in sequences if holds(each)]
    assert sorted(identities(opened(paths, where=text))) == flat(list(each) for each in rows)


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("shuffle", [True, Shuffle(full=True), False], ids=["blocks", "full", "in order"])
def test_each_selected_sample_once_wherever_rows_are(months: list[Path], kind: str, shuffle: Any) -> None:
    orders, selected = set(), np.array(expected(months, kind))
    for residency in ("ram", "mapped", "streamed", "hybrid"):
        if shuffle == Shuffle(full=True) and residency in ("streamed", "hybrid"):
            continue
        batches = opened(months, window=WINDOWS[kind], shuffle=shuffle, residency=residency)
        epochs = [windows_read(batches) for _ in range(2)]
        assert all(np.array_equal(by_last_row(epoch), by_last_row(selected)) for epoch in epochs), residency
        orders.add(tuple(epoch.tobytes() for epoch in epochs))
    assert len(orders) == 1
    if shuffle is False:
        assert np.array_equal(epochs[0], selected)
    assert len(windows_read(opened(months, window=moving(WINDOWS[kind])))) if kind != "never" else True


def test_columns_weights_and_the_dataset_are_of_the_selected(months: list[Path]) -> None:
    rows = [each[0] for each in expected(months, "rows")]
    dataset = ZarrDataset(months, tensors=("id",), columns=("length",), where=SOME)
    for each in (dataset, pickle.loads(pickle.dumps(dataset))):
        batch = each[:]
        assert batch["id"].tolist() == rows
        assert set(batch["length"].tolist()) == {64, 90, 200, 400, 700}
    for column in ("half", "length"):
        batches = opened(months, shuffle=Weighted(column=column, samples=3000), columns=("length",))
        for batch in batches:
            assert set(batch["id"].tolist()) <= set(rows)
            assert set(batch["length"].tolist()) <= {64, 90, 200, 400, 700}


def test_a_mixture_is_of_the_selected_of_each_source(months: list[Path]) -> None:
    sources = {"a": months[0], "b": [months[1], months[3]]}
    own = {
        0: {each[0] for each in expected(months[:1], "rows")},
        1: {each[0] for each in expected([months[1], months[3]], "rows", [FIRST[1], FIRST[3]])},
    }
    for kind in WINDOWS:
        batches = opened(
            sources, shuffle=Mixture({"a": 0.5, "b": 0.5}, stop="all"), window=WINDOWS[kind], residency="streamed"
        )
        seen: dict[int, set[int]] = {0: set(), 1: set()}
        for batch in batches:
            last = batch["id"].reshape(len(batch["id"]), -1)[:, -1].tolist()
            for source, row in zip(batch["source"].tolist(), last, strict=True):
                seen[source].add(row)
        if kind == "rows":
            assert seen == own
        assert all(seen[source] <= own[source] for source in own), kind
    with pytest.raises(ParamsError, match="a: expected samples, got none"):
        opened(sources, shuffle=Mixture({"a": 1, "b": 1}), where="label<0")


def test_balanced_entries_with_other_rows_are_left_out(months: list[Path]) -> None:
    sequences = [each for path, first in zip(months, FIRST, strict=False) for each in sequences_of(path, first)]
    long = [each for each in sequences if each["length"] >= 20]
    entries = {
        "group": np.arange(len(long)) % 3,
        "first": np.array([each["row"] for each in long]),
        "count": np.array([each["length"] for each in long]),
        "step": np.ones(len(long), np.int64),
    }
    for window in (None, WINDOWS["reach"]):
        batches = opened(months, shuffle=Balanced(**entries, groups=2, entries=2, rows=4), window=window)
        seen = set(identities(batches)) | set(identities(batches))
        rows = {each[0] for each in expected(months, "rows")}
        assert seen <= rows
        assert {each["row"] for each in long if holds(each)} == {
            each["row"] for each in long if seen & set(range(each["row"], each["row"] + each["length"]))
        }
    with pytest.raises(ParamsError, match="expected at least 2 groups to draw from, got 0"):
        opened(months, shuffle=Balanced(**entries, groups=2, entries=2, rows=4), where="length < 0")


def test_parts_are_selected_each_by_its_own_columns(make_store: MakeStore) -> None:
    path = make_store([300, 64, 30], parts=("monday", "tuesday"))
    batches = loader(path, "train", 32, part=("monday", "tuesday"), tensors=("id",), where="length < 100")
    assert sorted(flat(batch["id"].tolist() for batch in batches)) == sorted([*range(300, 394)] * 2)
    assert batches.state_dict()["layout"]["monday"]["where"] == "length < 100"


def test_the_state_names_the_expression(months: list[Path]) -> None:
    state = opened(months, where="length  in (64,90)").state_dict()
    opened(months, where="(length in (64, 90))").load_state_dict(state)
    for other in (None, "length in (64, 91)"):
        with pytest.raises(StateError, match=re.escape('layout.where "length in (64, 90)"')):
            opened(months, where=other).load_state_dict(state)


def test_notes_say_what_is_selected_and_decoded(months: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    notes = opened(months[0], where="length > 250", shuffle=Shuffle(pool_blocks=8)).notes
    line = "train: 2 of 9 sequences are those where length > 250; an epoch decodes 1.1 rows for each sample"
    assert line in "\n".join(notes)
    with caplog.at_level(logging.WARNING):
        assert list(opened(months, where="length > 9999")) == []
    assert "no samples, so no batches: no sequence of train is one where length > 9999" in caplog.text


def test_only_chunks_of_selected_rows_are_read_and_held(make_store: MakeStore) -> None:
    path = make_store([64] * 1000)
    need = opened(path, where="start < 640", residency="ram", memory="2MiB", tensors=None)
    assert len(identities(need)) == 640
    everything = opened(path, where=None, residency="ram", memory="64MiB", tensors=None)
    identities(everything)
    assert 15 * need.stats.bytes_read < everything.stats.bytes_read
    read = need.stats.bytes_read
    identities(need)
    assert need.stats.bytes_read == read
    with pytest.raises(BudgetError):
        opened(path, where=None, residency="ram", memory="2MiB", tensors=None)


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("elo > 2000", 1, "no column 'elo' in train/sequences, which has "),
        ("length > 3 and nam == 'x'", 16, "no column 'nam'"),
        ("length > '3'", 10, "text compared with a number"),
        ("name in ('x', 3)", 15, "text compared with a number"),
        ("length", 1, "a value where a comparison is expected"),
        ("name == 'é' or length", 16, "a value where a comparison is expected"),
        ("not 3", 5, "a value where a comparison is expected"),
        ("length < {[]}", 10, "'{[]}' cannot be used here"),
        ("length + 1 > 3", 1, "'length + 1' cannot be used here"),
        ("-length > 3", 1, "'-length' cannot be used here"),
        ("length > True", 10, "'True' cannot be used here"),
        ("abs(length) > 3", 1, "'abs(length)' cannot be used here"),
        ("name.upper() == 'X'", 1, "cannot be used here"),
        ("length[0] > 3", 1, "cannot be used here"),
        ("[x for x in name]", 1, "'[x for x in name]' cannot be used here"),
        ("(length := 3) > 2", 1, "cannot be used here"),
        ("length is 3", 11, "a comparison by 'is'"),
        ("length in name", 11, "no list of numbers or texts after 'in'"),
        ("length in ()", 11, "no list"),
        ("length in (3, start)", 15, "'start' cannot be used here"),
        ("length = 3", 1, "invalid syntax"),
        ("length > ", 9, "invalid syntax"),
        ("", 1, ""),
        ("length > 3\0", 1, ""),
        ("(" * 500 + "length > 3" + ")" * 500, 1, ""),
        ("not " * 5000 + "length > 3", 1, ""),
        (3, None, "where: expected a name, got 3"),
    ],
)
def test_what_is_refused_is_one_line_that_says_where(
    months: list[Path], text: Any, place: int | None, what: str
) -> None:
    with pytest.raises(ParamsError) as error:
        opened(months, where=text)
    line = str(error.value)
    assert what in line
    assert "\n" not in line
    if place is not None:
        assert line.startswith("where: ")
        assert "expected comparisons of columns" in line
        assert f"at character {place} of" in line or place == 1


def test_a_field_of_rows_is_named_as_such(tmp_path: Path) -> None:
    rows = {"clock": np.arange(20, dtype=np.int32)}
    outofcore.write_store(tmp_path / "a.zarr", rows, lengths=[5] * 4, splits={"val": 0.25})
    with pytest.raises(ParamsError, match="clock is of each row; where= chooses whole sequences, by "):
        outofcore.loader(tmp_path / "a.zarr", "train", 4, where="clock > 3")
