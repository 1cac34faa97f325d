"""A conversion as a call, without a project around it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import outofcore
from outofcore import stages
from outofcore.cli import app
from outofcore.domains.registry import get_domain
from outofcore.errors import ClusterError, ParamsError, RawInputError, StoreError
from outofcore.evaluating import check_evaluated, open_evaluated
from outofcore.params import section_of
from outofcore.training.results import identity_of

ROOT = Path(__file__).parents[1]
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text())
SETTINGS: dict[str, dict[str, Any]] = {
    "chess": {},
    "text": {"tokenizer": {"vocab_size": 512}, "tensors": {"seq_len": 32}},
}

pytestmark = pytest.mark.xdist_group("report")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without params.yaml."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", SETTINGS)
def test_from_raw_files_to_a_batch(project: Path, elsewhere: Path, name: str) -> None:
    figures = outofcore.convert(name, project / "data" / "sample" / name, "mine.zarr", **SETTINGS[name])
    assert figures["found"] == figures["accepted"] + sum(figures["rejected"].values())
    with outofcore.loader("mine.zarr", "train", 8) as batches:
        assert {len(tensor) for tensor in next(iter(batches)).values()} == {8}
    left = {"mine.zarr", "mine.zarr.rejects.csv", *(["mine.zarr.tokenizer.json"] if name == "text" else [])}
    assert {path.name for path in elsewhere.iterdir()} == left
    assert sum(figures["rejected"].values()) <= len((elsewhere / "mine.zarr.rejects.csv").read_text().splitlines()) - 1


def test_the_bytes_are_those_of_a_project_with_the_same_settings(project: Path, elsewhere: Path) -> None:
    params = elsewhere / "settings.yaml"
    params.write_text(yaml.safe_dump({"go": PARAMS["go"]}))
    raw = project / "data" / "sample" / "go"
    outofcore.convert("go", raw, "go.zarr", params=params)
    assert outofcore.open_store("go.zarr").digest == outofcore.open_store(project / "data/stores/go.zarr").digest


def test_settings_take_precedence_over_a_params_file(project: Path, elsewhere: Path) -> None:
    params = elsewhere / "settings.yaml"
    params.write_text(yaml.safe_dump({"chess": PARAMS["chess"]}))
    raw = project / "data" / "sample" / "chess"
    all_games = outofcore.convert("chess", raw, "all.zarr", params=params)
    some = outofcore.convert("chess", raw, "some.zarr", params=params, filters={"min_elo": 2000})
    assert 0 < some["accepted"] < all_games["accepted"]
    stored = outofcore.open_store("some.zarr").attributes["params"]
    assert stored["filters"] == {**outofcore.open_store("all.zarr").attributes["params"]["filters"], "min_elo": 2000}


def test_a_fixed_store_without_a_field_of_the_tensors_is_refused_before_the_training(
    project: Path, elsewhere: Path
) -> None:
    raw = str(project / "data" / "sample" / "chess")
    (elsewhere / "data" / "stores").mkdir(parents=True)
    settings = {"source": {"time_spent": True}, "tensors": {"fields": ["time_spent"]}}
    outofcore.convert("chess", raw, "data/stores/chess.zarr", source=settings["source"])
    outofcore.convert("chess", raw, "fixed.zarr")
    (elsewhere / "params.yaml").write_text(yaml.safe_dump({"chess": {"raw": raw, "evaluate": "fixed.zarr"} | settings}))
    for stage in (stages.train, stages.evaluate):
        with pytest.raises(
            ParamsError, match=r"chess\.evaluate: fixed\.zarr holds no time_spent, which chess\.tensors"
        ):
            stage("chess")
    assert not (elsewhere / "models").exists()


@pytest.mark.usefixtures("elsewhere")
def test_a_fixed_store_that_is_not_here_is_left_to_the_evaluation(project: Path) -> None:
    raw, domain = str(project / "data" / "sample" / "chess"), get_domain("chess")
    outofcore.convert("chess", raw, "own.zarr")
    store = outofcore.open_store("own.zarr")
    section = domain.section.model_validate({"raw": raw, "evaluate": "fixed.zarr"})
    check_evaluated(domain, section, store)
    with pytest.raises(StoreError, match=r"fixed\.zarr: does not exist; check the path"):
        open_evaluated(domain, section, store)
    Path("fixed.zarr").mkdir()
    with pytest.raises(StoreError, match=r"fixed\.zarr: is not a sealed store"):
        check_evaluated(domain, section, store)


@pytest.mark.usefixtures("elsewhere")
def test_only_a_store_of_the_same_settings_is_replaced_unasked() -> None:
    Path("a.txt").write_text("\n\n".join(f"document {number}" * 20 for number in range(40)))
    settings: dict[str, Any] = {"tokenizer": {"vocab_size": 300}, "source": {"separator": "\n\n"}}
    first = outofcore.convert("text", "a.txt", "text.zarr", **settings)
    assert outofcore.convert("text", "a.txt", "text.zarr", **settings) == first  # a run that is repeated
    with Path("a.txt").open("a") as text:
        text.write("\n\none more")
    assert outofcore.convert("text", "a.txt", "text.zarr", **settings)["accepted"] == first["accepted"] + 1
    store = outofcore.open_store("text.zarr")
    ids, kept = store.rows("train")["tokens"].read(0, 20).tolist(), store.digest
    assert len(ids) == 20
    assert store.tokenizer.decode(ids) in Path("a.txt").read_text()
    other = {**settings, "filters": {"min_bytes": 10}}
    with pytest.raises(
        ParamsError, match=r"text\.zarr: the store that is there was made with other settings: filters;"
    ):
        outofcore.convert("text", "a.txt", "text.zarr", **other)
    outofcore.write_store("arrays.zarr", {"x": [1, 2, 3]})
    with pytest.raises(ParamsError, match=r"arrays\.zarr: the store that is there is one of arrays; .*replace=True"):
        outofcore.convert("text", "a.txt", "arrays.zarr", **settings)
    assert outofcore.open_store("text.zarr").digest == kept
    assert outofcore.convert("text", "a.txt", "text.zarr", **other, replace=True)["accepted"] == first["accepted"]


@pytest.mark.usefixtures("elsewhere")
def test_how_many_records_are_checked_changes_nothing_that_is_made() -> None:
    text = "".join(f'[White "{number}"]\n\n1. e4 e5 2. Nf3 1-0\n\n' for number in range(2000))
    Path("games.pgn").write_text(text)
    figures = [outofcore.convert("chess", "games.pgn", "a.zarr", audit={"records": count}) for count in (10, 1500)]
    few, many = (each.pop("audited") for each in figures)
    assert few < 100 < 1000 < many
    assert figures[0] == figures[1]  # with the digest
    identities = [
        identity_of(outofcore.open_store("a.zarr"), section_of("chess", "test()", None, {"raw": ".", **audit}))
        for audit in ({}, {"audit": {"records": 1500}})
    ]
    assert identities[0] == identities[1]


@pytest.mark.usefixtures("elsewhere")
def test_a_forgotten_store_is_named() -> None:
    Path("games").mkdir()
    told = CliRunner().invoke(app, ["convert", "chess", "games"])
    assert told.exit_code == 2
    assert "got 'games' alone, and no params.yaml here" in told.output
    assert "'outofcore convert chess games chess.zarr'" in told.output


def test_a_pattern_names_the_files(project: Path, elsewhere: Path) -> None:
    (elsewhere / "games").mkdir()
    sample = min((project / "data" / "sample" / "chess").glob("*.pgn*"))
    for name in ("jan.pgn", "jun.pgn", "may.pgn"):
        shutil.copy(sample, elsewhere / "games" / f"{name}{''.join(sample.suffixes[1:])}")
    outofcore.convert("chess", "games/j*.pgn*", "store.zarr")
    names = outofcore.open_store("store.zarr").sources.read()["name"]
    assert [name.partition(".")[0] for name in names] == ["jan", "jun"]
    with pytest.raises(ParamsError, match=r"^raw: expected a file, a folder, or a pattern .* got a list$"):
        outofcore.convert("chess", ["games/jan.pgn"], "store.zarr")  # type: ignore[arg-type]


def test_mistakes_are_one_line(project: Path, elsewhere: Path) -> None:
    raw = project / "data" / "sample" / "go"
    with pytest.raises(ParamsError, match=r"unknown key go.filters.size; did you mean 'sizes'"):
        outofcore.convert("go", raw, "go.zarr", filters={"size": [19]})
    with pytest.raises(ParamsError, match="no domain 'checkers'"):
        outofcore.convert("checkers", raw, "go.zarr")
    with pytest.raises(RawInputError, match="nothing-here"):
        outofcore.convert("go", "nothing-here", "go.zarr")
    advice = r"has no file of \*\.sgf, \*\.sgfs .*; chess reads \d of the files there: did you mean chess\?"
    with pytest.raises(RawInputError, match=advice):
        outofcore.convert("go", project / "data" / "sample" / "chess", "go.zarr")
    assert list(elsewhere.iterdir()) == []
    (elsewhere / "games").mkdir()
    (elsewhere / "games" / "mine.sgf").write_text("(;GM[1])")
    for target in ("games", "games/mine.sgf", "."):
        with pytest.raises(ParamsError, match="expected a new folder, or a sealed store to replace"):
            outofcore.convert("go", raw, target)
    assert (elsewhere / "games" / "mine.sgf").read_text() == "(;GM[1])"


@pytest.mark.usefixtures("elsewhere")
def test_the_command_line_takes_the_same(project: Path) -> None:
    raw = str(project / "data" / "sample" / "go")
    done = CliRunner().invoke(
        app, ["convert", "go", raw, "go.zarr", "-S", "go.filters.sizes=[9]", "-S", "store.codec=lz4", "--json"]
    )
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)
    stored = outofcore.open_store("go.zarr")
    assert stored.attributes["params"]["filters"]["sizes"] == [9]
    assert figures["digest"] == stored.digest
    mistakes = {"sizes": "expected a setting such as", "filters.sizes=[": "not YAML", "params=x": "is no setting"}
    for setting, told in mistakes.items():
        failed = CliRunner().invoke(app, ["convert", "go", raw, "go.zarr", "-S", setting])
        assert failed.exit_code == 2
        assert told in failed.output


def test_a_params_file_may_name_a_finished_tokenizer(project: Path, elsewhere: Path) -> None:
    raw, finished = project / "data" / "sample" / "text", elsewhere / "own.json"
    outofcore.convert("text", raw, "learnt.zarr", tokenizer={"vocab_size": 300})
    Path("learnt.zarr.tokenizer.json").rename(finished)
    params = elsewhere / "settings.yaml"
    tokenizer = {"vocab_size": 300, "path": "own.json"}
    params.write_text(yaml.safe_dump({"text": {"raw": "elsewhere", "tokenizer": tokenizer}}))
    outofcore.convert("text", raw, "again.zarr", params=params)
    assert outofcore.open_store("again.zarr").digest == outofcore.open_store("learnt.zarr").digest
    assert not Path("again.zarr.tokenizer.json").exists()


def test_a_cluster_is_asked_for_the_package_of_the_domain(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "a.pgn").write_text("1. e4 e5 *\n")
    monkeypatch.setenv("OUTOFCORE_ENGINE", "dask")
    asked: list[str] = []

    def opened(engine: str, workers: int, *, domain: str = "", **_: Any) -> Any:
        del engine, workers
        asked.append(domain)
        raise ClusterError("enough")

    monkeypatch.setattr("outofcore.pipeline.open_executor", opened)
    with pytest.raises(ClusterError):
        outofcore.convert("chess", "a.pgn", "a.zarr")
    assert asked == ["chess"]


@pytest.mark.parametrize("target", ["s3://bucket/a.zarr", "gs://bucket/a.zarr", "https://user:word@host/a.zarr"])
def test_an_address_as_the_target_is_refused_with_what_to_do(elsewhere: Path, target: str) -> None:
    (elsewhere / "a.pgn").write_text('[Result "1-0"]\n\n1. e4 1-0\n')
    with pytest.raises(ParamsError, match=r"convert here, then copy the store there$") as refused:
        outofcore.convert("chess", "a.pgn", target)
    assert "word" not in str(refused.value)
    assert [path.name for path in elsewhere.iterdir()] == ["a.pgn"]
