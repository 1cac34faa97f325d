"""A conversion takes over what the sample of its forecast has converted: the same bytes, counts and audits, once."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from outofcore.conversion.estimate import Estimate, estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion
from outofcore.domains.domain import Domain
from outofcore.domains.go.play import oracle
from outofcore.domains.registry import get_domain
from outofcore.domains.text.tokens.learn import make_tokenizer
from outofcore.domains.units import ConvertedUnits
from outofcore.errors import AuditError
from outofcore.raw.files import RawFile, find_files
from outofcore.raw.unit import Unit, UnitResult


class Case:
    """The sample of a domain, with what its converter is called with."""

    def __init__(self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.domain: Domain = get_domain(name)
        self.folder, self.raw, self.converted = folder, folder / "raw", list[str]()
        self.raw.mkdir()
        self.domain.sample(self.raw, np.random.default_rng(1))
        settings: dict[str, Any] = {"raw": str(self.raw), "audit": {"records": 20}}
        if name == "text":
            settings["tokenizer"] = {"path": str(folder / "tokenizer.json"), "vocab_size": 512}
        self.section: Any = self.domain.section.model_validate(settings)
        if name == "text":
            (folder / "tokenizer.json").write_text(make_tokenizer(self.section, self.files), encoding="utf-8")
        converter = import_module(f"outofcore.domains.{name}.convert").Converter
        convert: Callable[[Any, Unit], UnitResult] = converter.__call__

        def watched(self_: Any, unit: Unit) -> UnitResult:
            self.converted.append(f"{unit.name} {unit.offset}")
            return convert(self_, unit)

        monkeypatch.setattr(converter, "__call__", watched)

    @property
    def files(self) -> list[RawFile]:
        return find_files(self.raw, "**/*", self.domain.suffixes, section=self.domain.name)

    def forecast(self, sampled: ConvertedUnits) -> Estimate:
        with open_executor("threads", 2) as executor:
            return estimate(self.domain, self.section, self.files, executor, sampled=sampled)

    def figures(self, name: str, forecast: Estimate, sampled: ConvertedUnits | None = None) -> dict[str, Any]:
        """Of a conversion, with the digest of its store and what the oracle has read."""
        store, rejects = self.folder / f"{name}.zarr", self.folder / f"{name}.csv"
        conversion = Conversion(self.domain, self.section, self.files, store, rejects)
        executor = open_executor("threads", 2)
        return conversion.run(forecast, executor=executor, workers=2, watch=lambda *_: None, sampled=sampled).figures


@pytest.mark.parametrize("name", ["chess", "go", "text"])
def test_a_small_input_is_converted_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, sampled = Case(name, tmp_path, monkeypatch), ConvertedUnits()
    forecast = case.forecast(sampled)
    units = sorted(case.converted)
    taken = case.figures("taken", forecast, sampled)
    assert sorted(case.converted) == units
    plain = case.figures("plain", forecast)
    assert sorted(case.converted) == sorted(2 * units)
    assert taken == plain
    assert taken["audited"] >= 15
    assert (tmp_path / "taken.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()


def test_what_takes_too_much_memory_is_converted_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outofcore.domains.units.KEPT_BYTES", 1000)
    case, sampled = Case("chess", tmp_path, monkeypatch), ConvertedUnits()
    forecast = case.forecast(sampled)
    units = len(case.converted)
    case.figures("store", forecast, sampled)
    assert len(case.converted) == 2 * units


def test_a_difference_in_a_unit_of_the_sample_fails_the_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, sampled = Case("chess", tmp_path, monkeypatch), ConvertedUnits()
    forecast = case.forecast(sampled)
    monkeypatch.setattr("outofcore.domains.chess.oracle.difference", lambda *_, **__: "e4, by python-chess e5")
    with pytest.raises(AuditError, match="by python-chess e5"):
        case.figures("store", forecast, sampled)
    assert not (tmp_path / "store.zarr").exists()


def test_a_game_at_which_the_oracle_fails_costs_that_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, sampled = Case("go", tmp_path, monkeypatch), ConvertedUnits()
    read = oracle.read_events

    def failing(tree: bytes, size: int) -> Any:
        if crc32(tree[:200]) % 2:
            raise ValueError(tree[:20])
        return read(tree, size)

    monkeypatch.setattr(oracle, "read_events", failing)
    forecast = case.forecast(sampled)
    taken = case.figures("taken", forecast, sampled)
    assert taken["rejected"]["unreadable"] > 1
    assert taken == case.figures("plain", forecast)
    assert (tmp_path / "taken.csv").read_bytes() == (tmp_path / "plain.csv").read_bytes()


def test_nothing_of_an_earlier_tokenizer_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, sampled = Case("text", tmp_path, monkeypatch), ConvertedUnits()
    forecast = case.forecast(sampled)
    before = case.figures("before", forecast)
    smaller = case.section.tokenizer.model_copy(update={"vocab_size": 300})
    tokenizer = make_tokenizer(case.section.model_copy(update={"tokenizer": smaller}), case.files)
    (tmp_path / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    changed = case.figures("changed", forecast, sampled)
    assert changed == case.figures("plain", forecast)
    assert changed["digest"] != before["digest"]


def test_a_file_that_changes_after_the_forecast_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, sampled = Case("chess", tmp_path, monkeypatch), ConvertedUnits()
    forecast = case.forecast(sampled)
    before = case.figures("before", forecast)
    for file in case.files:
        text = file.path.read_bytes()
        file.path.write_bytes(text.replace(b'[Result "1-0"]', b'[Result "0-1"]').replace(b" 1-0\n", b" 0-1\n"))
    changed = case.figures("changed", forecast, sampled)
    assert changed == case.figures("plain", forecast)
    assert changed["digest"] != before["digest"]
