from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outofcore.cli import app
from outofcore.domains.planning import Outlook
from outofcore.domains.text.memory import training_memory
from outofcore.domains.text.plan import memory_table
from outofcore.machine import Machine


def outlook(**keys) -> Outlook:
    values = {
        "files": (),
        "machine": Machine(workers=2, micro_batch=8),
        "rows": 1_000_000_000,
        "store_bytes": 10**9,
        "free_bytes": 10**12,
        "process_bytes": {"adamw": 5 * 10**8, "adamw8bit": 6 * 10**8}.__getitem__,
    }
    return Outlook(**values | keys)


def test_every_part_is_told_for_every_way_of_reading(section_of, tmp_path: Path):
    section = section_of(tmp_path, train={"parameters": 1_000_000})
    table = memory_table(section, outlook())
    rows = {row["part"]: row for row in table.rows}
    tokens = 900_000_000
    for way, residency in (("loaded", "loaded"), ("streamed", "streamed"), ("raw text", "raw")):
        found = training_memory(section, 400, residency=residency, tokens=tokens, micro_batch=8, threads=2)
        parts = ("data", "model", "gradients", "optimizer", "activations")
        assert [rows[part][way] for part in parts] == [getattr(found, part) for part in parts]
        assert rows["in all"][way] == found.total + 5 * 10**8
        assert rows["of it on an accelerator"][way] == found.total - found.data
    assert f"{tokens:,} tokens" in table.title
    assert rows["in all"]["last run"] is None
    assert len(table.notes) == 1


def test_the_library_of_an_optimizer_counts(section_of, tmp_path: Path):
    table = memory_table(section_of(tmp_path, train={"optimizer": "adamw8bit"}), outlook())
    assert {row["part"]: row["loaded"] for row in table.rows}["interpreter and libraries"] == 6 * 10**8


def test_the_last_run_stands_beside_it(section_of, tmp_path: Path):
    ran = {
        "steps": 88,
        "parameters": 12345,
        "peak_memory_bytes": 726_306_816,
        "peak_device_bytes": 0,
        "device": "cpu",
        "micro_batch": 0,
    }
    table = memory_table(section_of(tmp_path), outlook(last_run=ran))
    assert {row["part"]: row.get("last run") for row in table.rows}["in all"] == 726_306_816
    assert "12,345 parameters, another model than this one, 88 steps on cpu, micro-batch whole" in table.notes[1]


def test_outofcore_plan_prints_it(tmp_path: Path, tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.txt").write_text("One more sentence about the sea. " * 500)
    (tmp_path / "params.yaml").write_text(
        json.dumps({"text": {"raw": "raw", "tokenizer": {"path": str(tokenizer_path)}, "train": {"preset": "test"}}})
    )
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(app, ["plan", "text"])
    assert told.exit_code == 0, told.output
    for word in ("gradients", "activations", "raw text", "interpreter and libraries"):
        assert word in told.stdout
    facts = json.loads(CliRunner().invoke(app, ["plan", "text", "--json"]).stdout)
    memory = {row["part"]: row for row in facts["domains"][0]["training_memory"]}
    assert 10**8 < memory["interpreter and libraries"]["loaded"] < 2 * 10**9
    assert memory["model"]["streamed"] > 0
    advised = facts["domains"][0]["advice"]
    assert [row["preset"] for row in advised] == ["small", "medium", "large", "large"]
    assert all(row["takes"] < row["memory"] for row in advised)
