"""The command ``plan``: what a conversion and a training need, and whether it fits."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from outofcore.domains.registry import get_domain
from outofcore.inspect.terminal import print_plan
from outofcore.params import load_params
from outofcore.plan import plan_domain, plan_run
from outofcore.settings.machine import load_machine
from outofcore.stages import convert
from outofcore.store.reader import open_store
from tests.lines_project import call, folder, line_with, lines, store
from tests.space.conftest import Disk, disk, no_settings_of_the_user

ROOT = Path(__file__).parents[1]

__all__ = ["disk", "folder", "lines", "no_settings_of_the_user", "store"]  # fixtures


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
    assert text.splitlines()[0] == "disk: everything fits"
    assert "DVC" not in text
    assert re.search(
        r"^lines: its conversion takes about \d+ MB of memory .*, and less than a minute$", text, re.MULTILINE
    )
    assert "fits" in line_with(text, filesystem["mount"] + " ")
    assert line_with(text, "disk_margin") == ["disk_margin", "0.2", "default"]
    assert sorted(path.name for path in folder.iterdir()) == ["params.yaml", "raw"]


def test_a_plan_of_raw_files_needs_no_project(folder: Path) -> None:
    def planned(*arguments: str) -> list[dict[str, Any]]:
        domains: list[dict[str, Any]] = json.loads(call("plan", *arguments, "--json").stdout)["domains"]
        for each in domains:
            assert 10**8 < each.pop("conversion_memory") < 10**9  # which is measured, and so is time
            assert 0 <= each["estimate"].pop("seconds") < 60
        return domains

    expected = planned()
    (folder / "params.yaml").unlink()
    assert planned("lines", str(folder / "raw")) == expected
    assert planned("lines", "raw/*.txt") == expected
    assert planned("lines", "raw", "-S", "store.codec=none") != expected
    (elsewhere,) = planned("lines", "raw", str(folder / "other" / "a.zarr"))
    places = {need["purpose"]: need["path"] for need in elsewhere["needs"]}
    assert places["store"] == str(folder / "other" / "a.zarr")
    assert "found nothing at elsewhere" in call("plan", "lines", "elsewhere", code=2).stderr
    assert "no such file; run from the folder that holds params.yaml" in call("plan", "lines", code=2).stderr
    assert "-S: expected DOMAIN and RAW" in call("plan", "-S", "store.codec=none", code=2).stderr


def test_a_plan_of_text_needs_no_tokenizer_and_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(f"document {number} of words " * 30 for number in range(200)))
    monkeypatch.chdir(tmp_path)
    settings = ["-S", "tokenizer.vocab_size=300", "-S", 'source.separator="\\n\\n"']
    (planned,) = json.loads(call("plan", "text", "a.txt", *settings, "--json").stdout)["domains"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    call("convert", "text", "a.txt", "text.zarr", *settings)
    found = sum(len(open_store("text.zarr").sequences(split)) for split in ("train", "val", "test"))
    assert planned["estimate"]["sequences"] == pytest.approx(found, rel=0.05)


def test_plan_tells_what_the_conversion_would_reject(folder: Path) -> None:
    for file in (folder / "raw").iterdir():
        file.write_text("no number\n\n")
    text = call("plan", code=1).stdout
    reasons = r"no_number 2, as a.txt at byte 0: invalid literal .* b'no'; empty 2, as a.txt at byte 10"
    assert re.search(f"lines: in the sample: none of 4 records is accepted: {reasons}$", text, re.MULTILINE)
    (domain,) = json.loads(call("plan", "--json", code=1).stdout)["domains"]
    assert domain["estimate"]["rejected"] == {"no_number": 2, "empty": 2}
    (folder / "raw" / "c.txt").write_text("1 2 3\n")
    assert "lines: rejected of the sample: no_number 2, empty 2" in call("plan").stdout


def test_what_is_left_out_is_named_in_the_plan_and_in_the_metrics(folder: Path, capsys: pytest.CaptureFixture) -> None:
    (folder / "raw" / "linked").symlink_to(folder)
    (folder / "raw" / "more.txt.lz4").write_bytes(b"x")
    for name in ("c4.1.json.gz", "c4.2.json.gz", ".git/a.txt", "._a.txt"):
        (folder / "raw" / name).parent.mkdir(exist_ok=True)
        (folder / "raw" / name).write_bytes(b"x")
    text = call("plan").stdout
    assert "lines: left out of the raw input: .json.gz 2, " in text
    assert "\n  linked: a link to a folder, " in text
    assert "\n  more.txt.lz4: compressed as nothing here can decompress it; " in text
    (planned,) = json.loads(call("plan", "--json").stdout)["domains"]
    assert set(planned["left_out"]) == {"linked", "more.txt.lz4", "c4.1.json.gz", "c4.2.json.gz", ".git", "._a.txt"}
    assert planned["left_out_by_ending"][".json.gz"] == 2
    convert("lines")
    figures = json.loads((folder / "metrics/lines/convert.json").read_text())
    assert figures["left_out"] == planned["left_out"]
    assert figures["left_out_by_ending"] == planned["left_out_by_ending"]
    assert "left out of raw: 6 (.json.gz 2, " in capsys.readouterr().err


def test_plan_tells_where_settings_come_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "machine.yaml").write_text("workers: 1\n")
    monkeypatch.setenv("OUTOFCORE_DISK_MARGIN", "0.5")
    text = call("plan").stdout
    assert line_with(text, "workers") == ["workers", "1", "machine.yaml"]
    assert line_with(text, "disk_margin") == ["disk_margin", "0.5", "OUTOFCORE_DISK_MARGIN"]


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
    (small / "full").write_bytes(bytes(950_000))
    raw = [" ".join(map(str, row)) for row in np.random.default_rng(0).integers(-(2**31), 2**31, (3000, 11))]
    (folder / "raw" / "c.txt").write_text("\n".join(raw) + "\n")
    (small / "params.yaml").write_text(f"lines:\n  raw: {folder / 'raw'}\n")
    with monkeypatch.context() as inside:
        inside.chdir(small)
        result = call("plan", code=1)
        facts = json.loads(call("plan", "--json", code=1).stdout)
    assert result.stdout.splitlines()[0] == "disk: REFUSED, too little room"
    assert "REFUSED" in line_with(result.stdout, f"{small} (tmpfs) ")
    assert f"{small} (tmpfs): ways out" in result.stdout
    ways = [line for line in result.stdout.splitlines() if line.startswith("  - ")]
    assert len(ways) == 3
    assert "stricter lines.filters" in ways[0]
    assert not facts["fits"]
    assert len(facts["filesystems"][0]["ways_out"]) == 3
    assert sorted(path.name for path in small.iterdir()) == ["full", "params.yaml"]


def test_plan_estimates_what_has_no_store_yet(folder: Path) -> None:
    one, two = sorted(path.stem for path in (folder / "raw").iterdir())
    kept = folder / "raw" / f"{two}.txt"
    (folder / "params.yaml").write_text(json.dumps({"lines": {"raw": "raw", "grow": True}}))

    def planned() -> dict[str, Any]:
        (found,) = json.loads(call("plan", "--json").stdout)["domains"]
        return dict(found)

    assert (planned()["files"], planned()["done"]) == (2, [])
    content = kept.read_bytes()
    kept.unlink()
    convert("lines")
    kept.write_bytes(content)
    figures = json.loads((folder / "metrics/lines/convert.json").read_text())
    assert open_store(folder / f"data/stores/lines.zarr/{one}.zarr").digest == figures["digests"][one]
    assert (planned()["files"], planned()["done"]) == (1, [one])
    convert("lines")
    assert (planned()["done"], planned()["estimate"]["store_bytes"]) == ([one, two], 0)
    assert "lines: stores of its raw input that are here, made with these settings: 2" in call("plan").stdout
    with (folder / "raw" / f"{one}.txt").open("a") as grown:
        grown.write("1 2 3\n")
    assert (planned()["files"], planned()["done"]) == (1, [two])
    convert("lines")
    assert planned()["done"] == [one, two]
    (folder / "params.yaml").write_text(json.dumps({"lines": {"raw": "raw", "grow": True, "store": {"codec": "lz4"}}}))
    assert planned()["done"] == []


@pytest.mark.usefixtures("folder")
def test_on_a_narrow_terminal_no_word_is_cut() -> None:
    machine, section = load_machine(), load_params().section("lines")
    found = plan_run([plan_domain(get_domain("lines"), section, Path("data/stores/lines.zarr"), machine)], machine)
    words = []
    for width in (10_000, 80):
        shown = io.StringIO()
        console = Console(width=width, file=shown, force_terminal=True, color_system=None, highlight=False)
        print_plan(console, found, machine)
        words.append(shown.getvalue().split())
    assert sorted(words[0]) == sorted(words[1])
    assert words[1][:3] == ["disk:", "everything", "fits"]
