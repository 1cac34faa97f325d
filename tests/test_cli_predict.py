"""A trained model is tried on raw files from the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

import outofcore
from outofcore.display.console import visible
from tests.lines_project import call
from tests.trained import GAMES, write_random

pytestmark = pytest.mark.xdist_group("report")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_prints_a_table_csv_or_lines_of_json(project: Path, elsewhere: Path) -> None:
    folder = write_random(project, "chess", elsewhere / "model")
    Path("game.pgn").write_text(GAMES)
    predictions = outofcore.load_model(folder).predict("game.pgn", best=2)
    rows = list(predictions)

    shown = call("predict", folder, "game.pgn", "--best", 2, "--json")
    assert [json.loads(line) for line in shown.stdout.splitlines()] == rows
    left_out, *figures = shown.stderr.splitlines()
    assert left_out.startswith("1 left out (illegal_move 1); the first: game.pgn, byte ")
    assert figures[0].startswith(f"Top 1: {predictions.figures['top1']:.4g}; always the most frequent")

    listed = list(csv.DictReader(io.StringIO(call("predict", folder, "game.pgn", "--best", 2, "--csv").stdout)))
    assert [line["played"] for line in listed] == [row["played"] for row in rows]
    assert float(listed[3]["probability"]) == rows[3]["probability"]
    assert listed[3]["best"] == ", ".join(f"{move} {share!r}" for move, share in rows[3]["best"].items())

    table = call("predict", folder, "game.pgn", "--best", 2).stdout.splitlines()
    header, *lines = [line for line in table if line]
    assert header.split() == ["game", "ply", "played", "probability", "best", "expected_result"]
    assert len(lines) == len(rows)
    assert lines[-2].split()[:4] == ["3", "7", "Nf6", f"{rows[-2]['probability']:.3f}"]
    assert lines[-1].split()[:4] == ["3", "8", "-", next(iter(rows[-1]["best"]))]  # what to play now


def test_the_command_writes_a_text_as_it_is(project: Path, elsewhere: Path) -> None:
    folder = write_random(project, "text", elsewhere / "model")
    Path("prompt.txt").write_text("Ada\n")
    shown = call("predict", folder, "prompt.txt", "--tokens", 5, "--temperature", 0, "--seed", 1)
    expected = outofcore.load_model(folder).task.write("Ada", 5, temperature=0)
    assert shown.stdout == f"{visible(expected)}\n"
    assert shown.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model", "nowhere.pgn"), "chess.raw: expected a file or a folder, found nothing at nowhere.pgn"),
        (("model", "game.pgn", "--tokens", 3), "tokens: no such option for chess; there are: best"),
        (("model", "game.pgn", "--candidates", "game.pgn"), "match: this model gives no vectors; train one with"),
        (("model", "game.pgn", "--csv", "--json"), "--csv and --json: expected one of them"),
        (("nowhere", "game.pgn"), "nowhere: no model here; expected the folder of a run"),
        (("model", "game.pgn", "--device", "abacus"), "device: expected a device of this machine"),
    ],
)
def test_a_mistake_in_the_command_is_one_line(
    project: Path, elsewhere: Path, arguments: tuple[object, ...], message: str
) -> None:
    write_random(project, "chess", elsewhere / "model")
    result = call("predict", *arguments, code=2)
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert not result.stdout
