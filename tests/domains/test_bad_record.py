"""A record at which a reader raises costs that record, wherever it is and whatever else its unit holds."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outofcore.domains.registry import get_domain
from outofcore.domains.units import UNREADABLE, unit_converter
from outofcore.raw.files import find_files
from outofcore.raw.unit import NO_AUDIT, Unit, UnitResult
from tests.cases import long_cases
from tests.domains import test_small_files
from tests.property.hostile import kind_of, section_of


@dataclass(frozen=True)
class Breaking:
    """A converter that raises where one of some records is."""

    convert: Any
    bad: frozenset[bytes]

    def __call__(self, unit: Unit) -> UnitResult:
        result: UnitResult = self.convert(unit)
        if self.bad & {key.tobytes() for key in result.keys}:
            message = "no\nreason"
            raise OverflowError(message)
        return result


@pytest.mark.parametrize("name", ["sgf", "txt", "parquet", *long_cases("pgn", "jsonl")])
def test_a_record_that_breaks_the_reader_is_one_reject(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = kind_of(name)
    section, raw, dice = section_of(kind, tmp_path), tmp_path / "raw", random.Random(name)
    raw.mkdir(exist_ok=True)
    if name == "parquet":
        for number, seed in enumerate(kind.seeds):
            (raw / f"{number}.parquet").write_bytes(seed)
    else:
        monkeypatch.setattr(test_small_files, "FILES", 12)
        test_small_files.write(kind, raw, seed=7)
        (raw / f"long{kind.suffix}").write_bytes(b"".join(kind.seeds)[:30_000])
    domain = get_domain(kind.domain)
    files = find_files(raw, section.match, domain.suffixes, section=domain.name)
    convert = unit_converter(domain, section, NO_AUDIT)
    broken = 0
    for unit in domain.units(files, section):
        if broken > 6:
            break
        expected = convert(unit)
        if not len(expected.keys) or expected.continues or expected.unfinished:
            continue
        bad = frozenset(key.tobytes() for key in dice.choices(expected.keys, k=2))
        monkeypatch.setattr(domain, "converter", lambda *_, bad=bad: Breaking(convert.convert, bad))
        result = unit_converter(domain, section, NO_AUDIT)(unit)
        monkeypatch.undo()
        kept = np.array([key.tobytes() not in bad for key in expected.keys])
        broken += int((~kept).sum())
        rows = np.repeat(kept, expected.sequences["length"])
        assert result.found == expected.found
        assert result.keys.tolist() == expected.keys[kept].tolist()
        places = [unit.places[file] for file in expected.places.tolist()]
        assert [unit.places[file] for file in result.places.tolist()] == [*compress(places, kept)]
        if kept.any():
            for column, values in expected.sequences.items():
                np.testing.assert_array_equal(result.sequences[column], values[kept])
            for field, values in expected.rows.items():
                np.testing.assert_array_equal(result.rows[field], values[rows])
        told = Counter((unit.places[each.file], each.reason, each.offset) for each in result.rejects)
        told -= Counter((unit.places[each.file], each.reason, each.offset) for each in expected.rejects)
        places = [*compress(places, ~kept)]
        offsets = expected.sequences["offset"][~kept].tolist() if "offset" in expected.sequences else None
        assert sorted(place for place, _, _ in told.elements()) == sorted(places)
        assert {reason for _, reason, _ in told} == {UNREADABLE}
        if offsets is not None:
            assert sorted((place, offset) for place, _, offset in told.elements()) == sorted(
                zip(places, offsets, strict=True)
            )
        assert all(
            "raised OverflowError: no reason" in each.detail for each in result.rejects if each.reason == UNREADABLE
        )
    assert broken >= 2
