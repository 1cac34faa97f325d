"""What the report reads of a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from outofcore.errors import ParamsError
from outofcore.report import collect
from outofcore.report.collect import MOST_REJECTS


def test_only_domains_of_the_project_are_shown(tmp_path: Path) -> None:
    for name in ("chess", "go"):
        (tmp_path / "metrics" / name).mkdir(parents=True)
        (tmp_path / "metrics" / name / "train.json").write_text("{}")
    assert [run.name for run in collect.collect(tmp_path)] == ["chess", "go"]
    (tmp_path / "params.yaml").write_text("go: {raw: x}\ntext: {raw: y}\n")  # text has not run yet
    assert [run.name for run in collect.collect(tmp_path)] == ["go"]
    (tmp_path / "params.yaml").write_text("go: [")
    with pytest.raises(ParamsError, match=r"params\.yaml: expected sections of domains"):
        collect.collect(tmp_path)


@pytest.mark.parametrize("name", ["train.json", "convert.json", "test.json"])
@pytest.mark.parametrize("content", ["<<<<<<< HEAD\n{}\n=======\n", '{"seconds": ', "[1]", "", "\xff"])
def test_figures_that_are_none_are_one_line(tmp_path: Path, name: str, content: str) -> None:
    metrics = tmp_path / "metrics" / "chess"
    metrics.mkdir(parents=True)
    (metrics / "train.json").write_text("{}")
    (metrics / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(ParamsError, match=rf"metrics/chess/{name}: expected figures .*'dvc repro'$"):
        collect.collect(tmp_path)


def test_of_many_rejects_only_the_first_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "data/rejects/chess.csv"
    table.parent.mkdir(parents=True)
    table.write_text("file,offset,reason,detail\n" + "a.pgn,1,bad_move,x\n" * 100_000)
    metrics = tmp_path / "metrics/chess/train.json"
    metrics.parent.mkdir(parents=True)
    metrics.write_text("{}")
    read = []
    reader = collect.csv.DictReader

    def counting(*arguments: object, **options: object) -> object:
        for row in reader(*arguments, **options):
            read.append(row)
            yield row

    monkeypatch.setattr(collect.csv, "DictReader", counting)
    (run,) = collect.collect(tmp_path)
    assert len(run.rejects) == len(read) == MOST_REJECTS
