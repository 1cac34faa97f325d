"""What the page says of the model: what it gets most wrong, the last commit, loss of both splits."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import chess
import numpy as np
import pytest
import torch

import outofcore
from outofcore.domains.chess.draw import board_of
from outofcore.domains.go.draw import name_of
from outofcore.report import collect
from outofcore.report.render import make_page
from outofcore.store.joined import JoinedStore
from outofcore.store.reader import open_store
from outofcore.training.results import model_digest
from tests.cases import long_cases
from tests.report.page import Page
from tests.samples import write_json
from tests.trained import copy_trained, write_random

pytestmark = [pytest.mark.xdist_group("report"), pytest.mark.timeout(900)]
WORDS = r"Probability of that move: ([\d.e-]+)\s%; of the model's best: (.*)$"


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the rows of validation is looked at."""
    monkeypatch.setattr(collect, "EXAMINED", collect.EXAMINED // 4)


def with_model(project: Path, folder: Path, name: str, **settings: dict) -> Page:
    """The page of one domain with a model of random weights."""
    shutil.copytree(project / f"data/stores/{name}.zarr", folder / f"data/stores/{name}.zarr")
    write_random(project, name, folder / f"models/{name}", **settings)
    weights = outofcore.load_model(folder / f"models/{name}").task.state_dict()
    write_json(folder / f"metrics/{name}/train.json", {"steps": 1, "model": model_digest(weights)})
    return Page(make_page(folder))


def shown(page: Page) -> list[str]:
    """The texts of the pictures of mistakes, in their order."""
    return [image.attributes["alt"] for image in page.all("img") if re.search(WORDS, image.attributes["alt"])]


def played(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the first rows of validation: numbers of their games, probabilities of the moves played and of all moves."""
    store, model = open_store(folder / f"data/stores/{name}.zarr"), outofcore.load_model(folder / f"models/{name}")
    tensors = outofcore.loader(store, "val", collect.EXAMINED, shuffle=False, tensors=model.reading, memory="256MiB")
    batch = next(iter(tensors))
    key = {"chess": "target", "go": "move"}[name]
    with torch.no_grad():
        shares = model(batch)[key].numpy()
    length = store.sequences("val")["length"].read()
    games = np.repeat(np.arange(len(length)), length)[: len(shares)]
    return games, shares[np.arange(len(shares)), batch[key].numpy()], shares


@pytest.mark.parametrize("planes", [18, 119])
def test_positions_of_chess_that_the_model_gets_most_wrong(project: Path, tmp_path: Path, planes: int) -> None:
    page = with_model(project, tmp_path, "chess", tensors={"planes": planes, "elo": True})
    games, probabilities, _ = played(tmp_path, "chess")
    rows = open_store(tmp_path / "data/stores/chess.zarr").rows("val")
    worst = [min(np.flatnonzero(games == game), key=lambda row: probabilities[row]) for game in np.unique(games)]
    worst = sorted(worst, key=lambda row: probabilities[row])[:6]
    assert len(shown(page)) == len(worst) > 3
    for text, row in zip(shown(page), worst, strict=True):
        board = board_of(rows.read(int(row), int(row) + 1))
        assert f"position {board.board_fen()}, {'White' if board.turn else 'Black'} to move" in text
        probability, best = re.search(WORDS, text).groups()
        assert float(probability) == pytest.approx(100 * probabilities[row], rel=0.06)
        listed = [item.split() for item in best.split(", ")]
        moves = [board.parse_san(name) for name, *_ in listed]  # which raises if one is not legal
        assert len(moves) == min(3, board.legal_moves.count())
        shares = [float(share) for _, share, _ in listed]
        assert shares == sorted(shares, reverse=True)
        assert isinstance(moves[0], chess.Move)
    captions = [element.text for element in page.all("figcaption")]
    assert sum(bool(re.search(WORDS, caption)) for caption in captions) == len(worst)
    assert "What the model of chess gets most wrong" in [element.text for element in page.all("h3")]


def test_mistakes_of_several_stores_are_drawn_from_the_right_one(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "EXAMINED", 512)  # games of both stores
    model = outofcore.load_model(write_random(project, "chess", tmp_path / "models", tensors={"planes": 119}))
    (raw,) = (project / "data/sample/chess").glob("*.pgn*")
    texts = re.split(rb"(?m)^(?=\[Event )", raw.read_bytes())[1:]
    for name, games in (("a", texts[:60:2]), ("b", texts[1:60:2])):
        (tmp_path / f"{name}.pgn").write_bytes(b"".join(games))
        outofcore.convert(
            "chess", tmp_path / f"{name}.pgn", tmp_path / f"{name}.zarr", splits={"val": 0.2, "test": 0.0}
        )
    stores = [open_store(tmp_path / f"{name}.zarr") for name in "ab"]
    joined = JoinedStore(tmp_path, stores)
    boards = {}  # probability of the move played, by board
    for store in stores:
        batches = outofcore.loader(store, "val", 64, shuffle=False, tensors=model.reading, memory="256MiB")
        rows = store.rows("val")
        row = 0
        for batch in batches:
            with torch.no_grad():
                shares = model(batch)["target"]
            for share in shares.gather(1, batch["target"][:, None])[:, 0].tolist():
                boards.setdefault(board_of(rows.read(row, row + 1)).board_fen(), []).append(share)
                row += 1
    pictures = collect._mistakes(joined, tmp_path / "models")
    assert len(pictures) == 6
    for picture in pictures:
        probability = float(re.search(WORDS, picture.alt)[1]) / 100
        fen = re.search(r"position (\S+),", picture.alt)[1]
        assert min(abs(share / probability - 1) for share in boards[fen]) < 0.06


def test_positions_of_go_that_the_model_gets_most_wrong(project: Path, tmp_path: Path) -> None:
    page = with_model(project, tmp_path, "go")
    games, probabilities, shares = played(tmp_path, "go")
    rows = open_store(tmp_path / "data/stores/go.zarr").rows("val")
    worst = [min(np.flatnonzero(games == game), key=lambda row: probabilities[row]) for game in np.unique(games)]
    worst = sorted(worst, key=lambda row: probabilities[row])[:6]
    assert len(shown(page)) == len(worst) > 3
    frame = int(np.sqrt(shares.shape[1] - 1))
    for text, row in zip(shown(page), worst, strict=True):
        size = int(re.search(r"on (\d+) x", text)[1])
        move = name_of(int(rows["move"].read(int(row), int(row) + 1)[0]), frame, size)
        assert re.search(rf"plays {move}\.|passes\.", text)
        probability, best = re.search(WORDS, text).groups()
        assert float(probability) == pytest.approx(100 * probabilities[row], rel=0.06)
        names = {name_of(int(point), frame, size) for point in np.argsort(-shares[row])[:150]}
        assert {item.split()[0] for item in best.split(", ")} <= names


def test_no_mistakes_are_shown_where_there_are_none(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, settings in (("go", {"train": {"task": "style"}}), ("text", {}), ("neural", {})):
        page = with_model(project, tmp_path / name, name, **settings)
        assert not shown(page)
        assert "most wrong" not in page.source
    assert not capsys.readouterr().err
    (tmp_path / "go/models/go/model.pt").write_bytes(b"no model")
    assert "most wrong" not in make_page(tmp_path / "go")
    assert re.match("no model in .*expected a model, got a damaged or another file", capsys.readouterr().err)


@pytest.mark.parametrize("name", ["neural", *long_cases("chess", "go", "text")])
def test_the_loss_of_both_splits_is_in_one_picture(project: Path, tmp_path: Path, name: str) -> None:
    """That of validation is the mean of what training minimises."""
    copy_trained(project, name, tmp_path)
    (run,) = collect.collect(tmp_path)
    model, store = outofcore.load_model(tmp_path / f"models/{name}"), open_store(tmp_path / f"data/stores/{name}.zarr")
    losses = []
    for part, session in enumerate(store.parts):
        batches = outofcore.loader(
            store, "val", 16, shuffle=False, tensors=model.reading, part=session, memory="256MiB"
        )
        for batch in batches:
            batch |= {"part": torch.full((len(next(iter(batch.values()))),), part)} if len(store.parts) > 1 else {}
            with torch.no_grad():
                losses.append([float(value) for value in model.task.loss(batch)])
    total, count = np.sum(losses, axis=0)
    assert float(run.curves["val", "loss"][-1]["loss"]) == pytest.approx(total / count, rel=1e-4)
    page = Page(make_page(tmp_path))
    titles = [element.text for element in page.all("figcaption")]
    both = [row.text for row in page.all("tr") if row.text.strip().startswith(("|Loss, train", "|Loss, val"))]
    assert titles.count("Loss while training") == 1 or len(both) == 2


def test_the_page_names_its_model_and_leaves_out_the_figures_of_another(project: Path, tmp_path: Path) -> None:
    assert "another model" not in (whole := with_model(project, tmp_path, "chess").source)
    digest = model_digest(outofcore.load_model(tmp_path / "models/chess").task.state_dict())
    store = open_store(tmp_path / "data/stores/chess.zarr").digest
    assert f"Model {digest}, trained on\nthe store of digest {store[:16]}." in whole
    assert "|train.learning_rate|0.003" in [element.text.strip() for element in Page(whole).all("tr")]
    tests = {"top1": 0.625, "top1_most_frequent": 0.5}
    figures = {"steps": 1, "top1": 0.25, "top1_most_frequent": 0.125}
    write_json(tmp_path / "metrics/chess/train.json", {**figures, "model": digest})
    for model, shown in ((digest, "Top 1: 0.625; "), ("5b" * 8, "Top 1: 0.25; ")):
        write_json(tmp_path / "metrics/chess/test.json", {**tests, "model": model})
        (glimpse,) = Page(make_page(tmp_path)).all("article")
        assert shown in glimpse.text
        assert ("95 % interval" in make_page(tmp_path)) == (model == digest)
    write_json(tmp_path / "metrics/chess/train.json", {**figures, "model": "5b" * 8})
    other = make_page(tmp_path)
    assert "is of another model than <code>models/chess</code>" in other
    assert "0.25" not in Page(other).all("article")[0].text
    assert "Results of chess" not in other
