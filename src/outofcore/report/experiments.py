"""Experiments compared: settings that differ, figures with their intervals, and the data that these are of."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

from outofcore.errors import OutOfCoreError
from outofcore.report.words import baseline_of, figure_name, interval
from outofcore.space.dvc_cache import find_cache
from outofcore.space.dvc_lock import stages_in
from outofcore.table import Kind, Table

SAMPLED_BY = ("train.val_examples", "tensors.seq_len", "tensors.stride", "tensors.lags")
"""Settings of a domain that decide, next to the split, which samples are evaluated."""


@dataclass(frozen=True)
class Experiment:
    """A row: the workspace, the current commit, or an experiment that started from it."""

    name: str
    params: Mapping[str, Any]  # by keys such as ``chess.train.learning_rate``
    metrics: Mapping[str, Mapping[str, Any]]  # by path, without those that an earlier run left


@dataclass(frozen=True)
class Comparison:
    """Figures of one kind in all experiments that have them."""

    title: str
    table: Table
    data: Mapping[str, Sequence[str]]  # experiments by the samples that were evaluated
    missing: Sequence[str]  # experiments whose stage has not run with their settings


def experiments(project: Path) -> list[Experiment]:
    """The workspace, the current commit and its experiments; raises OutOfCoreError if DVC cannot list them."""
    cache = find_cache(project)
    within = project.resolve().relative_to(cache.project) if cache else Path()
    command = [sys.executable, "-m", "dvc", "exp", "show", "--json", "--hide-queued", "--hide-failed"]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)  # noqa: S603 - this interpreter
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.startswith("ERROR")] or [ended.stderr]
        message = f"'dvc exp show' cannot list experiments: {lines[-1].removeprefix('ERROR: ')}"
        raise OutOfCoreError(message)
    rows = []
    for row in json.loads(ended.stdout):
        commit = "" if row["rev"] == "workspace" else " (commit)"
        rows.append((row, commit))
        rows += [(each["revs"][0], "") for each in row["experiments"] or ()]
    return [_experiment(project, within, row, what) for row, what in rows if row["data"]]


def domains(found: Sequence[Experiment]) -> dict[str, list[Comparison]]:
    """Comparisons by domain, without domains in which nothing differs."""
    names = sorted({key.partition(".")[0] for each in found for key in each.params})
    return {name: compared for name in names if (compared := _compared(found, name))}


def _experiment(project: Path, within: Path, row: Mapping[str, Any], what: str) -> Experiment:
    params = dict(_settings(_inside(within, row["data"]["params"]).values()))
    metrics, stages = _inside(within, row["data"]["metrics"]), stages_in(_lock(project, row["rev"]))
    return Experiment(
        f"{row['name'] or row['rev'][:9]}{what}",
        params,
        {path: figures for path, figures in metrics.items() if _is_of(path, stages, params)},
    )


def _inside(folder: Path, files: Mapping[str, Any]) -> dict[str, Any]:
    """What files below a folder hold, by their path in it."""
    return {
        PurePosixPath(path).relative_to(folder.as_posix()).as_posix(): file["data"]
        for path, file in files.items()
        if "data" in file and PurePosixPath(path).is_relative_to(folder.as_posix())
    }


def _lock(project: Path, rev: str) -> str:
    """The text of ``dvc.lock`` in a revision, "" if it has none."""
    if rev == "workspace":
        path = project / "dvc.lock"
        return path.read_text("utf-8") if path.is_file() else ""
    command = [shutil.which("git") or "git", "show", f"{rev}:./dvc.lock"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False).stdout  # noqa: S603


def _is_of(path: str, stages: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    """Whether an output is of these settings: each experiment also keeps the files of stages that it did not run."""
    for stage in stages.values():
        if any(out["path"] == path for out in stage.get("outs", ())):
            return all(params.get(key) == value for key, value in _settings(stage.get("params", {}).values())) and all(
                dep.get("md5") == _digest(dep, stages) and _is_of(dep["path"], stages, params)
                for dep in stage.get("deps", ())
            )
    return True


def _digest(dep: Mapping[str, Any], stages: Mapping[str, Any]) -> str | None:
    """The digest that the stage which writes a file states; the file's own if there is none."""
    outs = (out for stage in stages.values() for out in stage.get("outs", ()))
    return next((out.get("md5") for out in outs if out["path"] == dep["path"]), dep.get("md5"))


def _settings(files: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    return chain.from_iterable(map(_flat, files))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _compared(found: Sequence[Experiment], domain: str) -> list[Comparison]:
    known = dict.fromkeys(key for each in found for key in each.params if key.startswith(f"{domain}."))
    settings = [key for key in known if len({_shown(each, key) for each in found}) > 1]
    kinds = (("Validation", "train.json", "val_digest"), ("Test", "test.json", "test_digest"))
    comparisons = [_comparison(found, domain, settings, *kind) for kind in kinds]
    differ = settings or any(row[1:] != each.table.cells[0][1:] for each in comparisons for row in each.table.cells)
    return comparisons if differ else []


def _comparison(
    found: Sequence[Experiment], domain: str, settings: Sequence[str], title: str, file: str, digest: str
) -> Comparison:
    path = f"metrics/{domain}/{file}"
    rows = {each.name: (each, each.metrics[path]) for each in found if path in each.metrics}
    shown: dict[str, tuple[Kind, list[Any]]] = {"experiment": ("text", list(rows))}
    for key in settings:
        shown[key.removeprefix(f"{domain}.")] = "text", [_shown(each, key) for each, _ in rows.values()]
    figures = [each for _, each in rows.values()]
    for key in _figures(figures):
        shown[figure_name(key)] = "count", [each.get(key, "") for each in figures]
        if any(key in each.get("low", {}) for each in figures):
            shown[f"{figure_name(key)}, 95 % interval"] = "count", [interval(each, key) for each in figures]
    sampled = [key for key in settings if key.removeprefix(f"{domain}.") in SAMPLED_BY]
    data: dict[str, list[str]] = {}
    for name, (each, those) in rows.items():
        split = str(those.get(digest, "unknown"))
        data.setdefault(", ".join([split, *(f"{key} {_shown(each, key)}" for key in sampled)]), []).append(name)
    return Comparison(
        title,
        Table(
            [(name, kind) for name, (kind, _) in shown.items()],
            list(zip(*(each for _, each in shown.values()), strict=True)),
        ),
        data,
        [each.name for each in found if each.name not in rows],
    )


def _figures(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Those with a baseline or an interval, and those that differ."""
    keys = dict.fromkeys(key for each in found for key, value in each.items() if isinstance(value, int | float))
    kept = {name for name, of in (baseline_of(key, keys) for key in keys) if of}
    kept.update(key for each in found for key in each.get("low", {}))
    for key in keys:
        if baseline_of(key, keys)[0] == key and (key in kept or len({each.get(key) for each in found}) > 1):
            yield key


def _shown(experiment: Experiment, key: str) -> str:
    """A setting as ``params.yaml`` would state it."""
    value = experiment.params.get(key, "")
    return value if isinstance(value, str) else json.dumps(value)
