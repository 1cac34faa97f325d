"""The command line as a user meets it: answers, exit codes, one line for a mistake."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from outofcore.cli import app
from outofcore.display.console import visible
from outofcore.inspect.terminal import verify_visibly
from outofcore.store.verify import verify
from tests.conversion.lines import convert
from tests.lines_project import DrawnLines, call, folder, line_with, lines, store
from tests.space.conftest import dvc, no_settings_of_the_user, project
from tests.store.forging import forge_seal

__all__ = ["folder", "lines", "no_settings_of_the_user", "store"]  # fixtures


def test_info_is_the_stores_card(store: Path, folder: Path) -> None:
    text = call("info", store).stdout
    facts = json.loads(call("info", store, "--json").stdout)
    records = sum((folder / "raw" / name).read_text().count("\n") for name in ("a.txt", "b.txt"))
    assert facts["found"] == records == facts["accepted"] + sum(facts["rejected"].values())
    rejected = sum(facts["rejected"].values())
    assert f"{records} found = {facts['accepted']} accepted + {rejected} rejected" in text
    assert set(facts["rejected"]) == {"duplicate", "empty", "no_number"}
    assert line_with(text, "no_number")[1] == str(facts["rejected"]["no_number"])
    assert line_with(text, "val")[1:] == [f"{facts['rows']['val']:,}", f"{facts['sequences']['val']:,}"]
    assert facts["digest"] == verify(store).digest
    assert facts["digest"] in text
    assert [source["name"] for source in facts["sources"]] == ["a.txt", "b.txt"]
    assert sum(source["found"] for source in facts["sources"]) == records
    assert line_with(text, "a.txt")[0] == "a.txt"
    assert line_with(text, "store.codec") == ["store.codec", "zstd"]
    assert line_with(text, "filters.duplicates") == ["filters.duplicates", "drop"]
    assert text.rstrip().splitlines()[-2:] == ["the first number:", facts["sample"]]


def test_info_of_token_ids_takes_the_dtype_that_its_message_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    np.arange(3000, dtype=np.uint16).tofile(path)
    asked = call("info", path, code=2).output
    option = re.findall(r"--dtype uint16", asked)[0].split()
    (field,) = json.loads(call("info", path, *option, "--json").stdout)
    assert field["rows"] == 3000
    assert "uint16" in field.values()
    assert "not sealed" in call("info", path, *option).output


def test_info_of_a_recording_lists_its_arrays_by_the_names_that_settings_take(tmp_path: Path) -> None:
    path = tmp_path / "monday.h5"
    with h5py.File(path, "w") as file:
        file["stim"], file["cells/robs"], file["note"] = np.zeros((40, 6, 8), np.uint8), np.zeros((40, 3)), "calm"
    rows = json.loads(call("info", path, "--json").stdout)
    assert {row["name"]: (row["type"], row["shape"]) for row in rows} == {
        "stim": ("uint8", "40 x 6 x 8"),
        "cells/robs": ("float64", "40 x 3"),
        "note": ("text", "one"),
    }
    assert line_with(call("info", path).stdout, "cells/robs") == ["cells/robs", "float64", "40", "x", "3"]


def test_info_states_the_bytes_of_each_field(store: Path) -> None:
    facts = json.loads(call("info", store, "--json").stdout)
    fields = {field["name"]: field for field in facts["fields"]}
    assert list(fields) == [
        "number",
        "sequences/length",
        "sequences/offset",
        "sequences/start",
        "sequences/text",
    ]
    assert fields["number"]["raw_bytes"] == 4 * sum(facts["rows"].values())
    on_disk = sum(file.stat().st_size for file in store.rglob("number/c.*"))
    assert fields["number"]["stored_bytes"] == on_disk
    assert fields["sequences/text"]["raw_bytes"] is None
    sealed = [file for file in store.rglob("*") if file.is_file() and file.name != "seal.json"]
    assert (facts["files"], facts["bytes"]) == (len(sealed), sum(file.stat().st_size for file in sealed))
    assert list(facts["rows"]) == ["train", "val", "test"]


@pytest.mark.parametrize("command", ["info", "verify"])
def test_what_is_no_store_is_one_line(command: str) -> None:
    result = call(command, "nowhere.zarr", code=2 if command == "info" else 1)
    assert "nowhere.zarr: does not exist" in result.output
    assert "Traceback" not in result.output
    if command == "info":
        assert result.stdout == ""
        assert len(result.stderr.splitlines()) == 1


def test_a_whole_store_passes(store: Path) -> None:
    result = call("verify", store, store)
    assert result.stdout.count("data/stores/lines.zarr: whole, ") == 2
    (verdict, _) = json.loads(call("verify", store, store, "--json").stdout)
    assert (verdict["whole"], verdict["problems"], verdict["way_back"]) == (True, [], "")


def test_a_changed_bit_is_found_and_where_and_the_way_back_is_told(store: Path) -> None:
    shard = next(store.rglob("number/c.*"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 4
    shard.write_bytes(content)
    result = call("verify", store, code=1)
    assert str(shard.relative_to(store)) in result.stdout
    assert "damaged; to restore: convert again\n" in result.stdout
    Path(".dvc").mkdir()
    assert "damaged; to restore: delete it and its links in DVC's cache" in call("verify", store, code=1).stdout
    (verdict,) = json.loads(call("verify", store, "--json", code=1).stdout)
    assert not verdict["whole"]


def test_no_name_or_text_of_a_file_commands_the_terminal(
    folder: Path, lines: DrawnLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J.txt"
    (folder / "raw" / "a.txt").rename(folder / "raw" / hostile)
    (folder / "raw" / f"{hostile}.lz4").write_bytes(b"x")
    convert(folder / "raw", folder, lines)
    monkeypatch.setattr(DrawnLines, "draw", lambda *_: hostile)
    for told in (
        call("info", "lines.zarr"),
        call("show", "lines.zarr"),
        call("plan"),
        call("info", f"{hostile}.zarr", code=2),
    ):
        assert r"\x1b]0;owned\x07\x1b[2J.txt" in told.output
        assert "\x1b" not in told.output
        assert "\x07" not in told.output


@pytest.mark.parametrize("name", ["[/x].zarr", "[red]a[/red].zarr", "\x1b[2J:x:.zarr"])
def test_the_bar_of_a_check_shows_the_path_as_it_is(store: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    target = store.parent / name
    target.parent.mkdir(exist_ok=True)
    assert not verify_visibly(store.rename(target)).problems
    told = re.sub(r"\x1b\[\??[\d;]*[A-Zhlm]", "", terminal.getvalue().replace("\x1b[2J", "CLEARED"))
    assert f"verify data/stores/{visible(name)}" in told
    assert "CLEARED" not in told


def test_a_text_is_shown_as_it_is_stored(folder: Path, lines: DrawnLines, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "raw" / "a.txt").rename(folder / "raw" / ":x:[b].txt")
    convert(folder / "raw", folder, lines)
    monkeypatch.setattr(DrawnLines, "draw", lambda *_: ":smile: [i]")
    told = call("info", "lines.zarr").output
    assert ":x:[b].txt" in told
    assert ":smile: [i]" in told
    assert ":smile: [i]" in call("show", "lines.zarr").output


@pytest.mark.parametrize(
    ("params", "arguments", "message"),
    [
        ("", (), "params.yaml"),
        ("lines: {raw: nowhere}\n", (), "lines.raw: expected a file or a folder, found nothing at nowhere"),
        ("lines: {raw: raw, filtres: {}}\n", (), "unknown key lines.filtres"),
        ("lines: {raw: raw}\n", ("chss",), "no domain 'chss'"),
        ("{}\n", (), "expected a section of a domain, found none"),
    ],
)
def test_a_mistake_in_the_params_is_one_line(
    folder: Path, params: str, arguments: tuple[str, ...], message: str
) -> None:
    (folder / "params.yaml").write_text(params)
    result = call("plan", *arguments, code=2)
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("folder")
def test_a_mistake_in_the_machines_settings_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTOFCORE_WORKERS", "many")
    result = call("plan", code=2)
    assert result.stderr == "error: OUTOFCORE_WORKERS: expected a whole number from 1, got 'many'\n"


def test_committed_lists_what_the_cache_lacks(tmp_path: Path) -> None:
    root = project(tmp_path / "p", "[cache]\n    type = hardlink,symlink\n", files=2)
    assert dvc(root, "repro", "-q").returncode == 0
    whole = call("committed", "--folder", root).stdout
    assert whole == "DVC's cache holds everything that the lock files state\n"
    lost = hashlib.md5((root / "out.zarr/c.0").read_bytes()).hexdigest()
    (root / ".dvc/cache/files/md5" / lost[:2] / lost[2:]).unlink()
    text = call("committed", "--folder", root, code=1).stdout
    assert text.startswith("out.zarr/c.0")
    assert ": not in DVC's cache\nmake room, then 'dvc commit'" in text
    found = json.loads(call("committed", "write", "--folder", root, "--json", code=1).stdout)
    assert (len(found["lacking"]), found["absent"]) == (1, [])
    assert call("committed", "out.zarr", "--folder", root, code=1).stdout == text
    assert "expected a stage or an output" in call("committed", "wrote", "--folder", root, code=2).stderr
    assert dvc(root, "commit", "-f").returncode == 0
    assert call("committed", "--folder", root).stdout == whole
    shutil.rmtree(root / ".dvc/cache")
    assert call("committed", "--folder", root, code=1).stdout.startswith("out.zarr/: not in DVC's cache\n")
    shutil.rmtree(root / "out.zarr")
    assert call("committed", "--folder", root).stdout.startswith("never run or pulled here: out.zarr/")
    assert "never run" in call("committed", "write", "--folder", root, code=1).stdout
    (root / "dvc.lock").write_text((root / "dvc.lock").read_text()[:60])
    assert "git checkout dvc.lock" in call("committed", "--folder", root, code=2).stderr


def test_outside_of_dvc_is_a_mistake(tmp_path: Path) -> None:
    assert "found no .dvc folder" in call("committed", "--folder", tmp_path, code=2).stderr


COMMANDS = [str(command.name) for command in app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples_of_the_command(command: str) -> None:
    text = call(command, "--help").stdout
    examples = re.findall(rf"^ +(?:[\w ]+&& )?outofcore {command}\b", text[text.index("Examples:") :], re.MULTILINE)
    assert examples


def test_a_long_path_is_one_word_of_one_line_where_no_terminal_is(store: Path) -> None:
    path = store.rename(store.with_name(f"{'games of a year ' * 14}.zarr"))
    for command in ("info", "verify"):
        text = call(command, path).stdout
        assert sum(str(path) in line for line in text.splitlines()) == 1
        assert "\x1b" not in text
        assert all(line == line.rstrip() for line in text.splitlines())


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command line in a process of its own; none is left running."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from outofcore.cli import main; main()", *map(str, arguments)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_a_mistake_shows_no_traceback(started: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = started("info", tmp_path)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err.startswith(f"error: {tmp_path}: is not a sealed store")
    assert err.count("\n") == 1


def reads(process: subprocess.Popen[str], file: Path) -> bool:
    """Whether a process has a file open."""
    links = Path(f"/proc/{process.pid}/fd")
    try:
        return any(link.readlink() == file for link in links.iterdir())
    except FileNotFoundError:  # closed meanwhile
        return False


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files of another process are seen on Linux alone")
def test_ctrl_c_is_one_line(started: Callable[..., subprocess.Popen[str]], store: Path) -> None:
    listed = next(store.rglob("number/c.*"))
    name, shard = listed.relative_to(store).as_posix(), listed.resolve()
    os.truncate(shard, 2**40)  # a hole that takes hours to read
    forge_seal(store, lambda files: files.update({name: (2**40, files[name][1])}))
    process = started("verify", store)
    while not reads(process, shard):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert err == "stopped\n"
    assert "Traceback" not in out + err


STOP = "import os, signal, sys\ndef stop(*_): os.kill(os.getpid(), signal.SIGINT)\n"
STOPS = {
    "imports": "class Stop:\n    def find_spec(self, name, *_): name != 'typer' or stop()\n"
    "sys.meta_path.insert(0, Stop())\nfrom outofcore.cli import main\nmain()",
    "options": "import outofcore.cli\noutofcore.cli.typer.echo = stop\noutofcore.cli.main()",
}


@pytest.mark.parametrize("moment", STOPS)
def test_ctrl_c_before_a_command_works_is_one_line(moment: str) -> None:
    command = [sys.executable, "-c", STOP + STOPS[moment], "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "stopped\n")


FIRST_LINE = """
import os, sys
from outofcore.cli import app
class Terminal:
    def isatty(self):
        return True
    def write(self, text):
        os.write(1, f"{text}{sorted({'numba', 'torch', 'zarr'} & sys.modules.keys())}".encode())
        os._exit(0)
sys.stderr = Terminal()
app(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("plan", "plan: a sample of the input is converted in memory, nothing is written"),
        ("convert chess games/ chess.zarr", "convert chess: games/ to chess.zarr"),
        ("train chess.zarr runs/first", "train: chess.zarr into runs/first"),
        ("evaluate runs/first chess.zarr", "evaluate: runs/first on the test split of chess.zarr"),
        ("predict models/chess game.pgn", "predict: game.pgn with models/chess"),
    ],
)
def test_a_command_says_at_a_terminal_what_begins_before_the_large_imports(arguments: str, line: str) -> None:
    command = [sys.executable, "-c", FIRST_LINE, *arguments.split()]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{line}\n[]"
