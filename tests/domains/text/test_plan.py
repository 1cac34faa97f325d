from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from outofcore.domains.planning import Outlook
from outofcore.domains.reading import RAW
from outofcore.domains.text import DOMAIN
from outofcore.domains.text.advice import ADVICE, advice_table, applied
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.settings.machine import Machine
from outofcore.training.memory_forecast import PROCESS_BYTES, Forecast, fit_of, parts_table


def forecast(section: TextSection, *, rows: int = 1_000_000_000, micro_batch: int = 8, workers: int = 2) -> Forecast:
    machine = Machine(workers=workers, micro_batch=micro_batch)
    return Forecast(DOMAIN, section, DOMAIN.schemas(section, ()), rows, machine)


@pytest.mark.parametrize("number", range(len(ADVICE)), ids=[advice["machine"] for advice in ADVICE])
def test_advice_fits_half_of_its_machine(section_of, tmp_path: Path, monkeypatch, number: int):
    monkeypatch.setattr(Tokenizer, "size", 50_257)  # of GPT-2
    advice = ADVICE[number]
    section = applied(advice, section_of(tmp_path))
    TextSection.model_validate(section.model_dump())
    found = forecast(section, rows=10**10, micro_batch=advice["micro_batch"])
    totals = found.total
    assert totals["streamed"] - PROCESS_BYTES < advice["memory"] / 2
    assert totals[RAW] - PROCESS_BYTES < advice["memory"] / 2


def test_the_parts_of_a_model_of_a_million_parameters(section_of, tmp_path: Path):
    section = section_of(tmp_path, train={"parameters": 1_000_000, "batch_size": 64})
    found = forecast(section, rows=1_111_111_111, workers=1)
    assert found.data["loaded"] > 2 * 10**9
    assert found.data["streamed"] < 180 * 10**6  # what the loaders ask for: two pools of each split
    assert found.data[RAW] < 300 * 10**6
    model = found.model
    assert 3.5e6 < model.model == model.gradients <= 4e6
    assert model.optimizer == 2 * model.model
    assert model.total == model.model + model.gradients + model.optimizer + model.activations
    assert found.total == {way: size + model.total + PROCESS_BYTES for way, size in found.data.items()}


def test_what_each_saving_saves(section_of, tmp_path: Path):
    def memory(micro_batch: int = 16, **train):
        keys = {"train": {"parameters": 1_000_000, "batch_size": 64} | train}
        return forecast(section_of(tmp_path, **keys), micro_batch=micro_batch).model

    plain = memory()
    assert memory(optimizer="adamw8bit").optimizer < 0.3 * plain.optimizer
    mixed = memory(precision="bf16-mixed")
    assert mixed.model == plain.model
    assert mixed.activations < 0.85 * plain.activations
    assert memory(4).activations < memory(0).activations


def test_every_part_is_told_for_every_way_of_reading(section_of, tmp_path: Path):
    found = forecast(section_of(tmp_path, train={"parameters": 1_000_000}))
    table = parts_table(found, fit_of(found, 10**10))
    rows = {row["part"]: row for row in table.rows}
    for way in ("loaded", "streamed", RAW):
        parts = ("model", "gradients", "optimizer", "activations")
        assert rows["data"][way] == found.data[way]
        assert [rows[part][way] for part in parts] == [getattr(found.model, part) for part in parts]
        assert rows["in all"][way] == found.data[way] + found.model.total + PROCESS_BYTES
        assert rows["of it on an accelerator"][way] == found.model.total
    assert table.title.startswith("training fits: at least ")
    assert "900,000,000 tokens" in table.title
    assert len(table.notes) == 1
    assert parts_table(found, fit_of(found, 10**8)).title.startswith("training does NOT fit: at least ")


def test_the_memory_setting_limits_the_loaders_and_not_the_process(section_of, tmp_path: Path):
    found = forecast(section_of(tmp_path, train={"parameters": 1_000_000}))
    limited = replace(found, machine=replace(found.machine, memory=2 * found.least_of_a_loader))
    assert limited.machine.memory < PROCESS_BYTES
    assert parts_table(limited, fit_of(limited, 10**10)).title.startswith("training fits: at least ")
    below = replace(found, machine=replace(found.machine, memory=2 * found.least_of_a_loader - 2))
    assert parts_table(below, fit_of(below, 10**10)).title.startswith("training does NOT fit: a loader takes at least ")


def test_ranks_share_the_memory_and_the_batch(section_of, tmp_path: Path):
    alone = forecast(section_of(tmp_path, train={"parameters": 1_000_000}))
    alone = replace(alone, machine=replace(alone.machine, micro_batch=0))  # the whole batch at a time
    four = replace(alone, ranks=4)
    assert 4 * four.model.samples == alone.model.samples
    assert four.model.states == alone.model.states
    assert 4 * four.given_to_a_loader == alone.given_to_a_loader
    assert four.least_of_a_loader < alone.least_of_a_loader
    table = parts_table(four, fit_of(four, 10**10))
    rows = {row["part"]: row["streamed"] for row in table.rows}
    assert rows["in all"] == four.data["streamed"] + 4 * (four.model.total + PROCESS_BYTES)
    assert rows["in all"] == sum(rows[part] for part in rows if part not in ("in all", "of it on an accelerator"))
    assert " samples at a time in each of 4 ranks" in table.title


def test_the_model_on_an_accelerator_takes_no_memory_of_the_machine(section_of, tmp_path: Path):
    found = forecast(section_of(tmp_path))
    usable = PROCESS_BYTES + found.data["streamed"]
    assert parts_table(found, fit_of(found, usable)).title.startswith("training does NOT fit: ")
    assert parts_table(found, fit_of(found, usable, accelerator=True)).title.startswith("training fits: ")


def test_raw_text_counts_only_where_it_is_streamed(section_of, tmp_path: Path):
    large = {"store": {"chunk_rows": 2**20, "shard_rows": 2**20}}  # so that the store takes more than raw text
    store, stream = forecast(section_of(tmp_path, **large)), forecast(section_of(tmp_path, mode="stream"))
    assert store.data["streamed"] > store.data[RAW]
    assert store.least == store.total["streamed"]
    assert stream.least == stream.total[RAW]
    assert list(stream.data) == [RAW]


def test_advice_leaves_out_sizes_that_the_vocabulary_exceeds(section_of, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(Tokenizer, "size", 200_000)
    # What they take does not matter here.
    monkeypatch.setattr("outofcore.domains.text.advice.ADVICE", [row | {"seq_len": 8} for row in ADVICE])
    found = forecast(section_of(tmp_path, train={"preset": "large"}))
    outlook = Outlook(
        files=(), machine=found.machine, memory=10**10, free_bytes=0, loaders=found.loaders_of, takes=found.takes
    )
    assert [row["preset"] for row in advice_table(found.section, outlook).rows] == ["medium", "large", "large"]
