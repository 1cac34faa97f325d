"""The guard against regressions names what has become slower."""

from __future__ import annotations

import json

import quick
import run
from tests.pipeline.conftest import ROOT


def test_a_ratio_far_below_the_committed_one_has_fallen() -> None:
    shown, fell = quick.compared({"a": 0.69, "b": 0.71, "new": 3.0}, {"a": 1.0, "b": 1.0})
    assert shown.header == ["figure", "now", "committed", "ratio"]
    assert shown.cells == [["a", "0.69", "1", "0.69"], ["b", "0.71", "1", "0.71"], ["new", "3", "", ""]]
    assert fell == ["a: 0.69, expected at least 0.7"]


def test_the_committed_ratios_say_where_they_were_taken() -> None:
    committed = json.loads((ROOT / "bench" / "quick.json").read_text(encoding="utf-8"))
    assert committed["note"]
    assert {"processor", "cores", "memory_bytes", "system", "versions"} == set(committed["machine"])
    assert all(ratio > 0 for ratio in committed["ratios"].values())


def test_every_question_is_asked() -> None:
    asked = {program.split()[0] for program, *_ in run.QUESTIONS.values()}
    programs = {path.stem for path in (ROOT / "bench").glob("*.py")}
    assert programs - asked == {"gpu", "maia", "quick", "run", "table"}
    assert asked - programs == {"rivals.in_place"}
