"""The command line as a user meets it: answers, exit codes, one line for a mistake."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from typer.testing import CliRunner, Result

from outofcore.cli import app
from outofcore.conversion.estimate import Estimate
from outofcore.conversion.executors import open_executor
from outofcore.conversion.run import Conversion, convert
from outofcore.domains.domain import Section
from outofcore.domains.registry import DOMAINS
from outofcore.domains.sections import TrainSection
from outofcore.raw.files import find_files
from outofcore.store.reader import Store
from outofcore.store.schema import Columns
from outofcore.store.verify import verify
from tests.conversion.lines import Lines, LinesSection, write_lines
from tests.space.conftest import MIB, Disk, disk, dvc, no_settings_of_the_user, project
from tests.store.forging import forge_seal

ROOT = Path(__file__).parents[1]

__all__ = ["disk", "no_settings_of_the_user"]  # fixtures


class TrainedSection(LinesSection):
    """The section of a domain with a model."""

    train: TrainSection = TrainSection()


@dataclass(frozen=True)
class DrawnLines(Lines):
    """Lines of numbers that can be drawn, and a model of 1,000 weights."""

    section: type[Section] = TrainedSection

    def task(self, store: Store, section: Any) -> nn.Module:
        del store, section
        return nn.Linear(1000, 1, bias=False)

    def draw(self, rows: Columns, attributes: Mapping[str, Any] | None = None) -> str:
        assert attributes is not None
        return f"<{rows['number'][0]}>"


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> DrawnLines:
    """The domain, known under its name, and no settings of this machine."""
    module = types.ModuleType("tests.drawn_lines")
    domain = DrawnLines()
    vars(module)["DOMAIN"] = domain
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(DOMAINS, "lines", module.__name__)
    for name in list(os.environ):
        if name.startswith("OUTOFCORE_"):
            monkeypatch.delenv(name)
    return domain


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with raw input and params, without DVC."""
    folder = tmp_path / "project"
    write_lines(folder / "raw", np.random.default_rng(5))
    (folder / "params.yaml").write_text("lines:\n  raw: raw\n")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def store(folder: Path, lines: DrawnLines) -> Path:
    """A store converted from that input."""
    section = LinesSection()
    files = find_files(folder / "raw", "**/*", lines.suffixes, section="lines")
    path = Path("data/stores/lines.zarr")
    convert(
        Conversion(lines, section, files, path, Path("rejects.csv")),
        Estimate(0, 0, 0, 0),
        executor=open_executor("threads", 1),
        workers=1,
        watch=lambda _: None,
    )
    return path


def call(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def line_with(text: str, word: str) -> list[str]:
    """The words of the only line that begins with a word."""
    (line,) = [line for line in text.splitlines() if line.startswith(word)]
    return line.split()


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
    assert "to get it back: DVC knows of no data/stores/lines.zarr; convert again" in result.stdout
    (verdict,) = json.loads(call("verify", store, "--json", code=1).stdout)
    assert not verdict["whole"]


def test_a_damaged_store_that_dvc_has_whole(store: Path) -> None:
    Path(".dvc").mkdir()
    Path(".dvc/config").write_text("[core]\n    no_scm = true\n[cache]\n    type = copy\n")
    Path("dvc.yaml").write_text("stages:\n  convert:\n    cmd: 'true'\n    outs: [data/stores/lines.zarr]\n")
    assert dvc(Path.cwd(), "commit", "-f", "-q").returncode == 0
    (store / "seal.json").chmod(0o644)
    (store / "seal.json").write_text("{")
    result = call("verify", store, code=1)
    assert "'dvc checkout -f data/stores/lines.zarr'" in result.stdout
    assert dvc(Path.cwd(), "checkout", "-f", "-q", str(store)).returncode == 0
    call("verify", store)


def test_plan_states_needs_free_and_verdict(folder: Path) -> None:
    text = call("plan").stdout
    facts = json.loads(call("plan", "lines", "--json").stdout)
    assert facts["fits"]
    (domain,) = facts["domains"]
    raw = sum(file.stat().st_size for file in (folder / "raw").iterdir())
    assert (domain["files"], domain["estimate"]["raw_bytes"]) == (2, raw)
    (filesystem,) = facts["filesystems"]
    assert domain["weights"] is None
    needed = domain["estimate"]["store_bytes"]
    assert filesystem["margin"] == -(-needed // 5)
    assert filesystem["needed"] == needed + filesystem["margin"] + filesystem["reserve"]
    assert "no DVC project here" in text
    assert "fits" in line_with(text, filesystem["mount"] + " ")
    assert line_with(text, "disk_margin") == ["disk_margin", "0.2", "default"]
    assert sorted(path.name for path in folder.iterdir()) == ["params.yaml", "raw"]


def test_plan_tells_what_the_conversion_would_reject(folder: Path) -> None:
    for file in (folder / "raw").iterdir():
        file.write_text("no number\n\n")
    text = call("plan", code=1).stdout
    assert "lines: none of the sample's records is accepted: no_number 2, empty 2" in text
    (domain,) = json.loads(call("plan", "--json", code=1).stdout)["domains"]
    assert domain["estimate"]["rejected"] == {"no_number": 2, "empty": 2}
    (folder / "raw" / "c.txt").write_text("1 2 3\n")
    assert "lines: rejected of the sample: no_number 2, empty 2" in call("plan").stdout


def test_what_is_left_out_is_named_in_the_plan_and_in_the_metrics(folder: Path, capsys: pytest.CaptureFixture) -> None:
    (folder / "raw" / "linked").symlink_to(folder)
    (folder / "raw" / "more.txt.lz4").write_bytes(b"x")
    text = call("plan").stdout
    assert "lines: left out of the raw input:\n  linked: a link to a folder, " in text
    assert "\n  more.txt.lz4: compressed as nothing here can decompress it; " in text
    (planned,) = json.loads(call("plan", "--json").stdout)["domains"]
    assert list(planned["left_out"]) == ["linked", "more.txt.lz4"]
    runpy.run_path(str(ROOT / "stages" / "convert.py"))["main"]("lines")
    figures = json.loads((folder / "metrics/lines/convert.json").read_text())
    assert figures["left_out"] == planned["left_out"]
    assert "left out of raw: 2, the first linked (a link to a folder, " in capsys.readouterr().err


def test_no_name_or_text_of_a_file_commands_the_terminal(
    folder: Path, lines: DrawnLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J.txt"
    (folder / "raw" / "a.txt").rename(folder / "raw" / hostile)
    (folder / "raw" / f"{hostile}.lz4").write_bytes(b"x")
    files = find_files(folder / "raw", "**/*", lines.suffixes, section="lines")
    conversion = Conversion(lines, LinesSection(), files, Path("x.zarr"), Path("x.csv"))
    execution = {"executor": open_executor("threads", 1), "workers": 1, "watch": lambda _: None}
    convert(conversion, Estimate(0, 0, 0, 0), **execution)
    monkeypatch.setattr(DrawnLines, "draw", lambda *_: hostile)
    for told in (call("info", "x.zarr"), call("show", "x.zarr"), call("plan"), call("info", f"{hostile}.zarr", code=2)):
        assert r"\x1b]0;owned\x07\x1b[2J.txt" in told.output
        assert "\x1b" not in told.output
        assert "\x07" not in told.output


def test_plan_tells_where_settings_come_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "machine.yaml").write_text("workers: 1\n")
    monkeypatch.setenv("OUTOFCORE_DISK_MARGIN", "0.5")
    text = call("plan").stdout
    assert line_with(text, "workers") == ["workers", "1", "machine.yaml"]
    assert line_with(text, "disk_margin") == ["disk_margin", "0.5", "OUTOFCORE_DISK_MARGIN"]


def test_the_estimate_is_near_what_is_written(store: Path) -> None:
    facts = json.loads(call("plan", "--json").stdout)
    actual = json.loads(call("info", store, "--json").stdout)["bytes"]
    assert facts["domains"][0]["estimate"]["store_bytes"] == pytest.approx(actual, rel=1)


@pytest.mark.usefixtures("store")
def test_where_a_store_stands_the_plan_counts_the_model_as_well() -> None:
    (domain,) = json.loads(call("plan", "--json").stdout)["domains"]
    assert domain["weights"] == 4000
    needs = {need["purpose"]: need["bytes"] for need in domain["needs"]}
    assert (needs["checkpoints"], needs["model"]) == (24_000, 4000)
    assert "4.00 kB" in call("plan").stdout


def test_plan_counts_the_copy_that_dvc_makes(folder: Path) -> None:
    (folder / ".dvc").mkdir()
    (folder / ".dvc" / "config").write_text("[cache]\n    type = copy\n")
    facts = json.loads(call("plan", "--json").stdout)
    (domain,) = facts["domains"]
    copies = {need["purpose"]: need["bytes"] for need in domain["needs"]}
    if domain["in_workspace"] == "copy":
        assert copies["DVC's copy"] == copies["store"] == domain["estimate"]["store_bytes"]
    four = json.loads(call("plan", "--json", "--experiments", "4").stdout)
    grown = [plan["filesystems"][0]["needed"] - plan["filesystems"][0]["reserve"] for plan in (facts, four)]
    assert grown[1] == pytest.approx(4 * grown[0], rel=0.001)


@pytest.mark.root
def test_plan_refuses_what_does_not_fit(disk: Disk, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = disk("tmpfs", 1)
    raw = [" ".join(map(str, row)) for row in np.random.default_rng(0).integers(-(2**31), 2**31, (30000, 11))]
    (folder / "raw" / "c.txt").write_text("\n".join(raw) + "\n")
    (small / "params.yaml").write_text(f"lines:\n  raw: {folder / 'raw'}\n")
    with monkeypatch.context() as inside:
        inside.chdir(small)
        result = call("plan", code=1)
        facts = json.loads(call("plan", "--json", code=1).stdout)
    assert "REFUSED" in line_with(result.stdout, f"{small} (tmpfs) ")
    assert f"{small} (tmpfs): ways out" in result.stdout
    ways = [line for line in result.stdout.splitlines() if line.startswith("  - ")]
    assert len(ways) == 3
    assert "stricter lines.filters" in ways[0]
    assert not facts["fits"]
    assert len(facts["filesystems"][0]["ways_out"]) == 3
    assert sorted(path.name for path in small.iterdir()) == ["params.yaml"]


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


def test_committed_tells_what_the_cache_holds(tmp_path: Path) -> None:
    root = project(tmp_path / "p", "[cache]\n    type = hardlink,symlink\n", files=2)
    assert "no lock file states an output yet" in call("committed", "--folder", root).stdout
    assert dvc(root, "repro", "-q").returncode == 0
    assert line_with(call("committed", "--folder", root).stdout, "out.zarr") == [
        "out.zarr",
        "write",
        "2.10",
        "MB",
        "2",
        "yes",
    ]
    for listing in (root / ".dvc" / "cache" / "files" / "md5").glob("*/*.dir"):
        listing.unlink()
    text = call("committed", "--folder", root, code=1).stdout
    assert line_with(text, "out.zarr  ")[-1] == "no"
    assert "lacks its list of files" in text
    (output,) = json.loads(call("committed", "--folder", root, "--json", code=1).stdout)["outputs"]
    assert (output["bytes"], output["files"]) == (2 * MIB, 2)


def test_outside_of_dvc_is_a_mistake(tmp_path: Path) -> None:
    assert "found no .dvc folder" in call("committed", "--folder", tmp_path, code=2).stderr


@pytest.mark.parametrize("command", ["info", "verify", "plan", "committed"])
def test_help_shows_examples(command: str) -> None:
    text = call(command, "--help").stdout
    assert "Examples:" in text
    assert f"outofcore {command}" in text
    assert "--json" in text


def test_lines_are_not_broken_where_no_terminal_is(store: Path) -> None:
    text = call("info", store).stdout
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) > 60
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
    out, err = process.communicate(timeout=60)
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
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_is_one_line(started: Callable[..., subprocess.Popen[str]], store: Path, number: signal.Signals) -> None:
    listed = next(store.rglob("number/c.*"))
    name, shard = listed.relative_to(store).as_posix(), listed.resolve()
    os.truncate(shard, 2**40)  # a hole that takes hours to read
    forge_seal(store, lambda files: files.update({name: (2**40, files[name][1])}))
    process = started("verify", store)
    while not reads(process, shard):
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("stopped")
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
