"""Programs and commands of the pages, as a reader has them: raw files of their own, and stores made of these.

Blocks of a page are run from top to bottom in one folder and one program. Of shell blocks, the commands of outofcore
are run; DVC, pip and git are not: ``test_commands`` runs what needs a project. What reads published input is in blocks
of another kind (``bash``).
"""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import outofcore
from outofcore.cli import app
from tests.corpus import TEXTS, Records
from tests.pipeline.conftest import ROOT

pytestmark = pytest.mark.xdist_group("report")

OWN = {"chess": "games", "go": "sgf", "text": "corpus", "neural": "recordings"}
"""Folders of the reader's raw files, by domain."""
GAMES = 60
BLOCK = re.compile(r"```(python|sh)\n(.*?)```", re.DOTALL)
ELSEWHERE = ("export", "dvc", "git", "pip", "make")
PAGES = (
    "README.md",
    *(f"docs/{name}.md" for name in ("chess", "go", "text", "neural", "coming-from", "faq", "loading")),
)


@pytest.fixture
def reader(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a few raw files of all domains, arrays, and stores to read as one."""
    monkeypatch.chdir(tmp_path)
    samples = project / "data/sample"
    for name in OWN.values():
        (tmp_path / name).mkdir()
    games = (samples / "chess/games.pgn").read_text().split("[Event ")
    (tmp_path / "games" / "games.pgn").write_text("[Event ".join(games[: GAMES + 1]))
    (tmp_path / "sgf" / "1.sgf").symlink_to(samples / "go" / "1.sgf")
    for path in samples.glob("text/*"):
        (tmp_path / "corpus" / path.name).symlink_to(path)
    write_recording(tmp_path / "recordings")
    with warnings.catch_warnings(action="ignore"):  # pynwb warns of its own ways
        write_nwb(tmp_path / "rec.nwb")
    (tmp_path / "data").symlink_to(project / "data")
    for number, name in enumerate(("jan", "feb", "mar", "twic")):
        outofcore.write_store(tmp_path / f"{name}.zarr", {"number": np.arange(5000) + number})
    np.save(tmp_path / "frames.npy", np.zeros((600, 64, 64), np.float16))
    np.save(tmp_path / "subject.npy", np.arange(600) // 10)
    return tmp_path


def write_recording(folder: Path) -> None:
    """A session with an entry per bin, as most labs have it."""
    draw = np.random.default_rng(3)
    stim, trial = draw.integers(0, 256, (1200, 6, 8), np.uint8), np.arange(1200) // 40
    np.savez(folder / "monday.npz", stim=stim, robs=draw.poisson(1.0, (1200, 3)).astype(np.float32), trial=trial)


def write_nwb(path: Path) -> None:
    """A film of 20 s, the spikes of three neurons, and a trial per second."""
    import pynwb  # takes seconds

    draw = np.random.default_rng(5)
    film = draw.integers(0, 256, (1200, 8, 6), np.uint8)
    session = pynwb.NWBFile("session", "a", datetime(2020, 1, 1, tzinfo=UTC))
    session.add_stimulus(
        pynwb.image.ImageSeries("movie", data=film, unit="n.a.", rate=60.0, starting_time=0.0, format="raw")
    )
    for _ in range(3):
        session.add_unit(spike_times=np.sort(draw.uniform(0, 20, 400)))
    for second in range(20):
        session.add_trial(start_time=float(second), stop_time=second + 1.0)
    with pynwb.NWBHDF5IO(path, "w") as file:
        file.write(session)


def link_stores(project: Path, reader: Path, programs: str) -> None:
    """Stores that the page does not make itself."""
    for domain in OWN:
        made = re.search(rf'convert\("{domain}"|outofcore convert {domain} ', programs)
        if not made:
            (reader / f"{domain}.zarr").symlink_to(project / f"data/stores/{domain}.zarr")


def commands(block: str) -> Iterator[list[str]]:
    """The commands of a shell block, one by one."""
    for line in block.replace("\\\n", " ").splitlines():
        for command in line.partition("  #")[0].split(" && "):
            if words := shlex.split(command, comments=True):
                yield words


def run_shell(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for first, *rest in commands(block):
        if first == "cd":
            monkeypatch.chdir(rest[0])
        elif first not in ELSEWHERE:
            assert first == "outofcore", first
            result = CliRunner().invoke(app, rest)
            assert result.exit_code == 0, f"{rest}: {result.output}{result.exception!r}"


@pytest.mark.parametrize("page", PAGES)
def test_snippets_run(page: str, project: Path, reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert blocks
    link_stores(project, reader, "".join(block for _, block in blocks))
    names = {"__name__": "program", "dataset": Records(TEXTS)}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, page, "exec"), names)
        else:
            run_shell(block, monkeypatch)


def test_messages_are_quoted_as_they_are(project: Path, reader: Path) -> None:
    """The page of symptoms is found by the words of the messages."""
    page = " ".join((ROOT / "docs/faq.md").read_text(encoding="utf-8").lower().split())
    store = project / "data/stores/chess.zarr"
    batches = outofcore.loader(store, "train", 64)
    state = batches.state_dict()
    (reader / "half.zarr").mkdir()
    huge = {"frames": np.broadcast_to(np.uint8(0), (10**12, 64, 64))}
    calls: dict[str, Callable[[], object]] = {
        "a memory budget": lambda: outofcore.loader(store, memory="1MiB"),
        "is too small": lambda: outofcore.loader(store, memory="1MiB"),
        "the saved state belongs to another": lambda: outofcore.loader(store, seed=1).load_state_dict(state),
        "is not a sealed store": lambda: outofcore.open_store(reader / "half.zarr"),
        "not enough room, nothing was written": lambda: outofcore.write_store(reader / "huge.zarr", huge),
        "unknown key chess.filters.min_ello; did you mean 'min_elo'?": lambda: outofcore.convert(
            "chess", reader / "games", reader / "new.zarr", filters={"min_ello": 2000}
        ),
    }
    for words, call in calls.items():
        with pytest.raises(outofcore.OutOfCoreError, match=re.escape(words)):
            call()
        assert words in page
