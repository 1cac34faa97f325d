"""What the README must show."""

from __future__ import annotations

import re

from tests.pipeline.conftest import ROOT

SEARCHED = (
    *("resume", "mid-epoch", "state_dict", "DDP", "torchrun", "FSDP2", "Lightning", "accelerate"),
    *("larger than memory", "S3"),
    *("HDF5", "h5py", "random access", "NWB", "info rec.nwb", "Lichess", "a month", "SGF", "KataGo", "style", "Maia"),
    *(
        "tokenize once",
        "packing",
        "nanoGPT",
        "train.bin",
        "nanochat",
        "Megatron",
        "ERA5",
        "EEG",
        "MNE",
        "Zarr v2",
        "S3",
    ),
)
"""What people type into a search box, and words of it."""


def test_two_commands_are_console_lines() -> None:
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line.split("#")[0].strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    assert {"make run", "make test"} <= set(lines)


def test_what_people_search_for_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert {word for word in SEARCHED if word.lower() not in text.lower()} == set()
    assert len(text.split()) <= 1200  # some minutes
