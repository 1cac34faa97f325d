"""The catalogue that stands for a store in mode stream, and the loaders of a training without one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from outofcore.domains.text import DOMAIN
from outofcore.errors import ParamsError, RawInputError
from outofcore.inspect.store import card_of
from outofcore.pipeline import write_catalogue
from outofcore.project.entries import project_store
from outofcore.settings.machine import Machine
from outofcore.store.reader import open_store
from outofcore.store.verify import verify
from outofcore.training.loaders import open_streams

CPU = torch.device("cpu")


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.txt").write_text(f"{number} sentences about the sea. " * (20 + number))
    (folder / "wrong.txt").write_bytes(b"\xff")
    monkeypatch.chdir(tmp_path)
    return folder


def streamed(section_of, raw: Path, **keys):
    keys = {"tensors": {"seq_len": 16}, "splits": {"val": 0.3}} | keys
    return section_of(raw, mode="stream", train={"batch_size": 4, "val_examples": 8}, **keys)


def listed(section, *, threads: int = 1) -> str:
    digest: str = write_catalogue(DOMAIN, section, Path("rejects.csv"), threads=threads)["digest"]
    return digest


def test_a_catalogue_is_a_store_without_rows(section_of, raw: Path):
    section = streamed(section_of, raw)
    assert DOMAIN.streamed(section)
    assert not DOMAIN.streamed(section_of(raw))
    assert project_store(DOMAIN) == Path("data/stores/text.zarr")
    digest = listed(section)
    catalogue = open_store(project_store(DOMAIN))
    assert verify(catalogue.root).problems == ()
    card = card_of(catalogue)
    assert (card.digest, sum(card.rows.values()), len(card.sources)) == (digest, 0, 41)
    assert card.params["stream"] == section.stream.model_dump()
    assert Path("rejects.csv").read_text().count("\n") == 1


def test_a_catalogue_depends_on_what_is_streamed_alone(section_of, raw: Path):
    section = streamed(section_of, raw)
    digest = listed(section)
    assert listed(section, threads=4) == digest
    assert listed(streamed(section_of, raw, store={"codec": "none"})) == digest
    others = [{"source": {"separator": "\n"}}, {"stream": {"shuffle_windows": 7}}, {"splits": {"seed": 1}}]
    assert len({listed(streamed(section_of, raw, **keys)) for keys in others} | {digest}) == 4
    (raw / "3.txt").write_text("Other text, of the same length or not.")
    assert listed(section) != digest


def test_both_splits_are_streamed_and_what_was_read_is_counted(section_of, raw: Path):
    section = streamed(section_of, raw)
    listed(section)
    catalogue = open_store(project_store(DOMAIN))
    train, val = open_streams(DOMAIN, section, catalogue, Machine(workers=2), CPU)
    assert sum(len(batch["inputs"]) for batch in train) == train.samples > 100
    assert sum(len(batch["inputs"]) for batch in val) == 8
    assert train.tally.figures() == {"found": 41, "accepted": 40, "rejected": {"invalid_utf8": 1}}
    assert sum(len(batch["inputs"]) for batch in train) == train.samples  # read once more, counted once
    assert train.tally.found == 41


def test_several_ranks_are_refused(section_of, raw: Path, monkeypatch: pytest.MonkeyPatch):
    """Each of them would read and train on the same batches."""
    section = streamed(section_of, raw)
    listed(section)
    catalogue = open_store(project_store(DOMAIN))
    for name, value in {"TORCHELASTIC_RUN_ID": "a", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(ParamsError, match=r"text\.mode: stream: expected one rank, got 2; use one, or mode store"):
        open_streams(DOMAIN, section, catalogue, Machine(), CPU)


def test_other_files_than_those_of_the_catalogue_are_refused(section_of, raw: Path):
    section = streamed(section_of, raw)
    listed(section)
    (raw / "later.txt").write_text("One more.")
    catalogue = open_store(project_store(DOMAIN))
    with pytest.raises(RawInputError, match=r"other files than those that data/stores/text\.zarr lists"):
        open_streams(DOMAIN, section, catalogue, Machine(), CPU)
