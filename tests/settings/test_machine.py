"""Settings of the machine: where they come from, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from outofcore.errors import ParamsError
from outofcore.settings.hardware import Measured
from outofcore.settings.machine import PREFIX, SETTINGS, Machine, load_machine, machine_file


def test_every_setting_can_be_stated() -> None:
    assert {field.name for field in dataclasses.fields(Machine)} == {*SETTINGS, "origins", "stated"}


def test_nothing_stated_is_measured_or_default(tmp_path: Path) -> None:
    found = load_machine(tmp_path, {})
    assert found.workers >= 1
    assert found.memory > 0
    assert found.origins["workers"].startswith("measured: ")
    assert found.origins["memory"].startswith("measured: 50% of ")
    assert (found.engine, found.residency, found.device, found.disk_margin) == (
        "threads",
        "auto",
        "auto",
        0.2,
    )
    assert [name for name, _, _ in found.described()] == list(SETTINGS)


def test_jobs_side_by_side_share_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outofcore.settings.machine.usable_cores", lambda: Measured(8, "8 by affinity"))
    monkeypatch.setattr("outofcore.settings.machine.usable_memory", lambda: Measured(2**34, "available on the machine"))
    found = load_machine(tmp_path, {"OUTOFCORE_JOBS": "4"})
    assert (found.workers, found.memory) == (2, 2**31)
    assert found.origins["workers"] == "measured: 8 by affinity, for one of 4 jobs"
    assert found.disk_margin == pytest.approx(4 * 1.2 - 1)
    assert load_machine(tmp_path, {"OUTOFCORE_JOBS": "4", "OUTOFCORE_DISK_MARGIN": "0.5"}).disk_margin == 0.5
    assert load_machine(tmp_path, {"OUTOFCORE_JOBS": "4", "OUTOFCORE_WORKERS": "3"}).workers == 3
    assert load_machine(tmp_path, {"OUTOFCORE_JOBS": "99"}).workers == 1


def test_workers_of_a_queue_share_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outofcore.settings.machine.usable_cores", lambda: Measured(8, "8 by affinity"))
    monkeypatch.setattr("outofcore.settings.machine.usable_memory", lambda: Measured(2**34, "available on the machine"))
    assert load_machine(tmp_path, {}).share == ""
    monkeypatch.setattr("outofcore.settings.machine.queue_workers", lambda: 2)
    found = load_machine(tmp_path, {})
    assert (found.jobs, found.workers, found.memory) == (2, 4, 2**32)
    assert found.share == "one of 2 jobs on this machine: 4 workers, memory 4.29 GB"
    assert found.disk_margin == pytest.approx(2 * 1.2 - 1)
    assert load_machine(tmp_path, {"OUTOFCORE_JOBS": "1"}).memory == 2**33
    assert load_machine(tmp_path, {"OUTOFCORE_MEMORY": "1GiB"}).memory == 2**30  # what is stated is for each


def test_the_environment_counts_before_the_file_before_what_is_measured(tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text("workers: 3\nmemory: 256MiB\ndisk_margin: 0.1\nscratch: /fast\n")
    found = load_machine(tmp_path, {"OUTOFCORE_WORKERS": "7", "OUTOFCORE_DISK_RESERVE": "0", "WORKERS": "9"})
    assert (found.workers, found.memory, found.disk_margin, found.disk_reserve) == (7, 2**28, 0.1, 0)
    assert found.scratch == Path("/fast")
    shown = {name: (value, origin) for name, value, origin in found.described()}
    assert shown["workers"] == ("7", "OUTOFCORE_WORKERS")
    assert shown["memory"] == ("268 MB", str(tmp_path / "machine.yaml"))
    assert shown["device"] == ("auto", "default")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("workers", "0", "a whole number from 1"),
        ("workers", "two", "a whole number from 1"),
        ("engine", "thread", "one of threads, dask"),
        ("dask", "somewhere", "the address of a Dask scheduler"),
        ("memory", "lots", "512MiB"),
        ("memory", "0", "512MiB"),
        ("residency", "disk", "one of auto, ram, mapped, hybrid, streamed"),
        ("device", "gpu", "cuda:N"),
        ("micro_batch", "-1", "a whole number from 0"),
        ("disk_margin", "20%", "0.2 for 20 %"),
        ("disk_margin", "nan", "0.2 for 20 %"),
        ("disk_reserve", "-5", "512MiB"),
        ("scratch", "", "the path of a folder"),
        ("scratch", "~nobody-of-this-name/x", "the path of a folder"),
    ],
)
def test_a_bad_value_names_the_key_and_what_is_accepted(tmp_path: Path, name: str, value: str, expected: str) -> None:
    variable = PREFIX + name.upper()
    with pytest.raises(ParamsError) as refused:
        load_machine(tmp_path, {variable: value})
    assert str(refused.value).startswith(f"{variable}: expected ")
    assert expected in str(refused.value)
    assert str(refused.value).endswith(f"got {value!r}")
    (tmp_path / "machine.yaml").write_text(f"{name}: '{value}'\n")
    with pytest.raises(ParamsError, match=rf"machine\.yaml: {name}: expected "):
        load_machine(tmp_path, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((f"workers: {value}\n", "workers: expected a whole number from 1, got") for value in ("true", "2.5", "[2]")),
        ("workers: null\n", "workers: expected a whole number from 1, got"),
        ("worker: 2\n", r"no setting 'worker'; did you mean workers\? there are workers, engine"),
        *((text, r"machine\.yaml: expected ") for text in ("workers: [", "- workers\n", "workers\n")),
    ],
)
def test_a_bad_file_is_named_with_what_is_accepted(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "machine.yaml").write_text(text)
    with pytest.raises(ParamsError, match=message):
        load_machine(tmp_path, {})


def test_a_variable_that_is_nearly_a_setting_is_told(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"OUTOFCORE_WORKRES: no such setting; did you mean OUTOFCORE_WORKERS\?"):
        load_machine(tmp_path, {"OUTOFCORE_WORKRES": "2"})
    load_machine(tmp_path, {"OUTOFCORE_REAL_DATA": "/somewhere"})


def test_an_empty_file_states_nothing(tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text("# workers: 2\n")
    assert load_machine(tmp_path, {}).origins["workers"].startswith("measured")


def test_an_experiment_in_a_workspace_of_its_own_has_the_settings_of_its_project(tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text("workers: 5\n")
    workspace = tmp_path / ".dvc" / "tmp" / "exps" / "tmpabc"
    workspace.mkdir(parents=True)
    assert load_machine(workspace, {}).workers == 5
    assert machine_file(tmp_path / ".dvc") is None
