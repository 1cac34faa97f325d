"""What the README must show."""

from __future__ import annotations

import re
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest

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
    assert len(text.split()) <= 1300  # some minutes


def test_links_of_the_packages_page_are_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setuptools = pytest.importorskip("setuptools")
    for name in ("README.md", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    stated = re.sub(r"\[project.urls\]\n(.+\n)*", "", (ROOT / "pyproject.toml").read_text())
    stated += '\n[project.urls]\nRepository = "https://example.org/us/it"\n'
    (tmp_path / "pyproject.toml").write_text(stated)
    given = {}
    monkeypatch.setattr(setuptools, "setup", lambda **options: given.update(options))
    monkeypatch.chdir(tmp_path)
    runpy.run_path("setup.py")
    pages = Path("README.md").read_text(), given["long_description"]
    relative, absolute = (re.findall(r"\]\(([^)\s]+)\)", page) for page in pages)
    version = tomllib.loads(stated)["project"]["version"]
    for link, address in zip(relative, absolute, strict=True):
        folder = "raw" if link.endswith((".svg", ".png")) else "blob"
        stays = link.startswith(("#", "https:"))
        assert address == (link if stays else f"https://example.org/us/it/{folder}/v{version}/{link}")
