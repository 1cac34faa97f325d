"""Fixtures that all tests share."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# A time limit for an example fails on a loaded machine.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")
# What a shell starts in the background ignores Ctrl-C, and so do its children: the tests of Ctrl-C need it back.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Tests run side by side: a thread that waits must not keep a core busy.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Machine code is keyed by its sources: copies of the project, in other processes, need not compile the same again.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / "build" / "numba"))
REAL_FSYNC = os.fsync


def fsync(handle: int) -> None:
    """Do not wait for the disk, which takes minutes in all: what is synced, and when, tests see by the calls."""
    os.fstat(handle)  # as for any file that is open


os.fsync = fsync


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes minutes, so that no worker waits at the end."""
    items.sort(key=lambda item: not {"docs", "pipeline", "training"} & set(item.path.parts[-2:]))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of published games, texts and recordings that OUTOFCORE_REAL_DATA names; skips the test without it."""
    named = os.environ.get("OUTOFCORE_REAL_DATA")
    if not named:
        pytest.skip("set OUTOFCORE_REAL_DATA to a folder of published games, texts and recordings")
    assert Path(named).is_dir(), f"OUTOFCORE_REAL_DATA names {named}, which is no folder"
    return Path(named)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's folder with the samples of all domains; tests that use it share it, in the group "report"."""
    from tests.samples import write_project  # what it imports takes seconds

    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, in which nothing temporary may be left; one thread."""
    import torch  # takes seconds

    folder, temporary = tmp_path / "elsewhere", tmp_path / "temporary"
    for each in (folder, temporary):
        each.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield folder
    torch.set_num_threads(threads)
    assert not list(temporary.glob("outofcore*"))
