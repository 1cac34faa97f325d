"""Networks of one's own, from outside of the package: trained, loaded, tried, proved, and refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import chess
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import outofcore
from outofcore.domains import own_network
from outofcore.domains.registry import get_domain
from outofcore.errors import ParamsError
from outofcore.inspect.prove import prove
from outofcore.settings.machine import Machine
from outofcore.training.memory_forecast import Forecast

SETTINGS = {"batch_size": 16, "max_steps": 3}
SOURCE = """
import torch
from torch import nn


class Transformer(nn.Module):
    def __init__(self, planes, classes, elo):
        super().__init__()
        self.squares, self.places = nn.Linear(planes, 16), nn.Parameter(torch.zeros(64, 16))
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 1)
        self.moves, self.value = nn.Linear(16, classes), nn.Linear(16, 1)

    def forward(self, planes, elo=None):
        board = self.layers(self.squares(planes.flatten(2).transpose(1, 2).float()) + self.places).mean(1)
        return self.moves(board), self.value(board)[:, 0].tanh()


class Narrow(Transformer):
    def forward(self, planes, elo=None):
        return super().forward(planes)[0][:, :-1], planes[:, 0, 0, 0].float()


class Deep(Transformer):
    def __init__(self, **facts):
        super().__init__(**facts)
        self.rates = [rate.item() for rate in torch.linspace(0, 0.1, 3)]

    def forward(self, planes, elo=None):
        query = self.squares(planes.flatten(2).transpose(1, 2).float())
        board = nn.functional.scaled_dot_product_attention(query=query, key=query, value=query).mean(1)
        return self.moves(board), self.value(board)[:, 0].tanh()


class Broken(Transformer):
    def forward(self, planes):
        return planes


class NoModule:
    pass
"""


class Go(nn.Module):
    """One linear map."""

    def __init__(self, planes: int, frame: int, **_: object) -> None:
        super().__init__()
        self.points = nn.Linear(planes * frame * frame, frame * frame + 1)

    def forward(self, planes: Tensor, *_: object) -> Tensor:
        return self.points(planes.flatten(1).float())


class Text(nn.Module):
    """The mean of the tokens so far."""

    def __init__(self, vocabulary: int, **_: object) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, 8)

    def forward(self, inputs: Tensor, *_: object) -> Tensor:
        return self.tokens(inputs).cumsum(1) / torch.arange(1, inputs.shape[1] + 1)[:, None]


class Core(nn.Module):
    """The mean over lags, and what is around each pixel."""

    channels = 2

    def __init__(self, lags: int, planes: int, more: int = 0) -> None:
        super().__init__()
        self.around = nn.Conv2d(lags * planes, self.channels + more, 3, padding=1)

    def forward(self, frames: Tensor) -> Tensor:
        return self.around(frames).relu()


class Wide(Core):
    """Features of other channels than it states."""

    def __init__(self, **facts: int) -> None:
        super().__init__(**facts, more=1)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder with a module that is not installed; no class is known from another test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(own_network, "_classes", {})
    Path("mine.py").write_text(SOURCE)
    yield tmp_path
    sys.modules.pop("mine", None)


@pytest.fixture
def store(project: Path) -> Path:
    draw, games = Random(1), []
    for _ in range(40):
        board, moves = chess.Board(), []
        for _ in range(8):
            moves.append(board.san(draw.choice(list(board.legal_moves))))
            board.push_san(moves[-1])
        games.append(f'[Event "x"]\n\n{" ".join(moves)} 1-0\n\n')
    (project / "games.pgn").write_text("".join(games))
    outofcore.convert("chess", project / "games.pgn", project / "chess.zarr", splits={"val": 0.3, "test": 0})
    return project / "chess.zarr"


def forget() -> None:
    own_network._classes.clear()
    sys.modules.pop("mine", None)


def test_a_transformer_is_trained_loaded_tried_and_proved(store: Path) -> None:
    outofcore.train(store, "run", network="mine:Transformer", **SETTINGS)
    module = sys.modules["mine"]
    network = module.Transformer
    forget()
    with pytest.raises(ParamsError, match=r"needs the network mine:Transformer: pass the class"):
        outofcore.load_model("run")
    assert "mine" not in sys.modules
    sys.modules["mine"] = module
    model = outofcore.load_model("run", network=network)
    assert type(model.task.network) is network
    assert {row["ply"] for row in model.predict("games.pgn", best=1)} == set(range(9))
    proof = prove(Path("run"), store)
    assert proof.holds, proof.markdown
    Path("mine.py").write_text(SOURCE + "# changed\n")
    assert [claim.what for claim in prove(Path("run"), store).claims if claim.verdict == "differs"] == [
        "version: network"
    ]


def test_a_network_that_reads_values_when_it_is_made_is_planned_and_loaded(store: Path) -> None:
    outofcore.train(store, "run", network="mine:Deep", **SETTINGS)
    task = outofcore.load_model("run").task
    assert task.network.rates[-1] == pytest.approx(0.1)
    domain = get_domain("chess")
    section = domain.section.model_validate({"raw": "games.pgn", "train": {"network": "mine:Deep"}})
    planned = Forecast(domain, section, domain.schemas(section, ()), 1000, Machine()).model
    assert planned.parameters == sum(parameter.numel() for parameter in task.parameters())


def test_the_params_of_a_project_name_its_network(store: Path) -> None:
    outofcore.train(store, "run", network="mine:Transformer", **SETTINGS)
    forget()
    Path("params.yaml").write_text("chess:\n  raw: games.pgn\n  train: {network: 'mine:Transformer'}\n")
    assert type(outofcore.load_model("run").task.network).__name__ == "Transformer"
    forget()
    Path("params.yaml").write_text("chess:\n  raw: games.pgn\n  train: {network: 'mine:Narrow'}\n")
    with pytest.raises(ParamsError, match="mine:Transformer"):
        outofcore.load_model("run")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mine:Narrow", r"to return \(2, 1968\) and \(2,\) for a batch of 2, got \(2, 1967\) and \(2,\)$"),
        ("mine:Broken", r"mine:Broken failed on a batch of zeros, TypeError"),
        ("mine:NoModule", r"expected a subclass of torch.nn.Module, got mine:NoModule"),
        ("mine:Nothing", r"expected an importable class, got 'mine:Nothing'"),
        ("no_such_module:Net", r"expected an importable class, got 'no_such_module:Net'"),
        ("transformer", r"network: .*transformer"),
    ],
)
def test_what_is_no_network_is_refused_before_training(store: Path, name: str, reason: str) -> None:
    with pytest.raises(ParamsError, match=reason) as refusal:
        outofcore.train(store, "run", network=name, **SETTINGS)
    assert "\n" not in str(refusal.value)
    assert not Path("run/models").exists()


def test_a_class_may_be_passed(store: Path) -> None:
    network = own_network.network_class(own_network.allow_network("mine:Transformer"))
    outofcore.train(store, "run", network=network, **SETTINGS)
    forget()
    model = outofcore.load_model("run/models/chess", network=network)
    assert model.section.train.network == "mine:Transformer"


def test_go_takes_one_too(project: Path) -> None:
    points = [a + b for a in "abcdefg" for b in "abcdefg"]
    (project / "a.sgf").write_text("".join(f"(;SZ[9]RE[B+R];B[{point}];W[ii];B[hh])\n" for point in points))
    filters, splits = {"sizes": [9]}, {"val": 0.3, "test": 0}
    outofcore.convert("go", project / "a.sgf", project / "a.zarr", filters=filters, splits=splits)
    outofcore.train(project / "a.zarr", "run", network=Go, **SETTINGS)
    forget()
    assert next(outofcore.load_model("run", network=Go).predict("a.sgf"))["move"] == 1
    with pytest.raises(ParamsError, match="expected network residual with task style"):
        outofcore.train(project / "a.zarr", "style", network=Go, task="style")


def test_text_takes_one_too(project: Path) -> None:
    (project / "a.txt").write_text("".join(f"line {n} of a small text\n\n" for n in range(400)))
    (project / "prompt.txt").write_text("line")
    source, kind = {"separator": "\n\n"}, {"kind": "characters"}
    splits = {"val": 0.3, "test": 0}
    outofcore.convert("text", project / "a.txt", project / "a.zarr", source=source, tokenizer=kind, splits=splits)
    outofcore.train(project / "a.zarr", "run", network=Text, tensors={"seq_len": 16}, sample_tokens=5, **SETTINGS)
    forget()
    assert next(outofcore.load_model("run", network=Text).predict("prompt.txt", tokens=3))


def test_recordings_take_a_core(project: Path) -> None:
    draw = np.random.default_rng(0)
    (project / "raw").mkdir()
    for name, side in {"a": 4, "b": 6}.items():
        stim = draw.integers(0, 256, (300, side, 5)).astype(np.uint8)
        np.savez(project / "raw" / f"{name}.npz", stim=stim, robs=draw.poisson(1, (300, 3)))
    splits = {"val": 0.3, "test": 0}
    outofcore.convert("neural", project / "raw", project / "a.zarr", source={"trial_bins": 20}, splits=splits)
    with pytest.raises(ParamsError, match=r"to return \(2, 2, 4, 5\) for a batch of 2, got \(2, 3, 4, 5\)"):
        outofcore.train(project / "a.zarr", "run", network=Wide, tensors={"lags": 4}, **SETTINGS)
    outofcore.train(project / "a.zarr", "run", network=Core, tensors={"lags": 4}, **SETTINGS)
    forget()
    model = outofcore.load_model("run", network=Core)
    assert {row["session"] for row in model.predict("raw")} == {"a", "b"}
    assert type(model.task.encoder.core) is Core
