"""What a model records of its origin, against digests by hashlib of files that were changed one by one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import outofcore
from outofcore.domains.registry import get_domain
from outofcore.errors import StateError
from outofcore.inspect.prove import prove
from outofcore.order.batching import Steps
from outofcore.store.reader import open_store
from outofcore.training.arithmetic import PORTABLE
from outofcore.training.loaders import training_batches
from outofcore.training.results import order_of, section_of_identity
from tests.inspect.test_diff import game
from tests.lines_project import call

pytestmark = pytest.mark.xdist_group("report")  # by the worker that compiles the same first
TRAIN = {"preset": "test", "max_steps": 3, "batch_size": 16, "val_examples": 16}
MODEL = "run/models/chess/model.pt"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw files, their store, and a model of it."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "raw").mkdir()
    for name, numbers in (("a", range(40)), ("b", range(40, 80))):
        (folder / f"raw/{name}.pgn").write_text("".join(map(game, numbers)))
    outofcore.convert("chess", folder / "raw", folder / "chess.zarr", splits={"val": 0.2}, filters={"min_elo": 1550})
    settings = [word for name, value in TRAIN.items() for word in ("-S", f"{name}={value}")]
    command = [sys.executable, "-m", "outofcore", "train", "chess.zarr", "run", *settings, "-S", "arithmetic=portable"]
    subprocess.run(command, cwd=folder, check=True, env=os.environ | PORTABLE, capture_output=True)
    return folder


@pytest.fixture(autouse=True)
def copy(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of all in another folder, which is the current one."""
    shutil.copytree(trained, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def differing(*arguments: object) -> dict[str, tuple[str, str]]:
    """What is recorded and what is here, of each claim that differs."""
    proof = json.loads(call("prove", *arguments, "--json", code=1).stdout)
    assert proof["holds"] is False
    return {
        claim["what"]: (claim["recorded"], claim["now"]) for claim in proof["claims"] if claim["verdict"] == "differs"
    }


def sha(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def edited(change: Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], object]) -> Callable[[], None]:
    """A change of what a model records: of the file's content, its identity and its record."""

    def forge() -> None:
        content = torch.load(MODEL, weights_only=True)
        identity, record = json.loads(content["identity"]), json.loads(content["record"])
        change(content, identity, record)
        torch.save(content | {"identity": json.dumps(identity), "record": json.dumps(record)}, MODEL)

    return forge


def setting(section: str, **values: Any) -> Callable[[], None]:
    return edited(lambda _, identity, __: identity["params"].setdefault(section, {}).update(values))


def stored(**values: Any) -> Callable[[], None]:
    return edited(lambda _, identity, __: identity["attributes"].update(values))


def ordered(**values: Any) -> Callable[[], None]:
    return edited(lambda _, __, record: record["order"].update(values))


def flipped(path: str, place: int) -> Callable[[], None]:
    def flip() -> None:
        content = bytearray(Path(path).read_bytes())
        content[place % len(content)] ^= 1
        Path(path).write_bytes(content)

    return flip


def replaced(path: str, old: str, new: str) -> Callable[[], None]:
    def write() -> None:
        text = Path(path).read_text()
        assert old in text
        Path(path).write_text(text.replace(old, new, 1))

    return write


def written(path: str, text: str) -> Callable[[], None]:
    return lambda: Path(path).write_text(text) and None


def project(change: Callable[[dict[str, Any]], object], **others: Any) -> Callable[[], None]:
    """A ``params.yaml`` of the run, with all that a project has there."""

    def write() -> None:
        identity = json.loads(torch.load(MODEL, weights_only=True)["identity"])
        section = {**identity["attributes"]["params"], **identity["params"], "raw": "elsewhere"}
        change(section)
        Path("run/params.yaml").write_text(yaml.safe_dump({"chess": section, **others}))

    return write


def first_weight(content: dict[str, Any], *_: object) -> None:
    next(iter(content["model"].values())).add_(1)


REJECTS = "chess.zarr.rejects.csv"
SAMPLE = "order of batches"
FORGERIES = {
    "steps: one less": (edited(lambda content, *_: content.update(step=2)), f"{SAMPLE}: last batch"),
    "steps: none": (edited(lambda content, *_: content.update(step=0)), f"{SAMPLE}: first batch"),
    "steps: a negative number": (edited(lambda content, *_: content.update(step=-1)), SAMPLE),
    "steps: 10^9": (edited(lambda content, *_: content.update(step=10**9)), SAMPLE),
    "settings: seed": (setting("train", seed=1), f"{SAMPLE}: first batch"),
    "settings: batch size": (setting("train", batch_size=8), f"{SAMPLE}: batches of an epoch"),
    "settings: pool": (setting("train", pool_blocks=1), f"{SAMPLE}: layout.pool_blocks"),
    "settings: skipped steps": (setting("train", skip=[[1, 2]]), f"{SAMPLE}: steps left out"),
    "settings: planes": (setting("tensors", planes=18), "weights"),
    "settings: an Elo of its own": (setting("filters", min_elo=2000), "settings of the run: filters.min_elo"),
    "settings: one removed": (
        edited(lambda _, identity, __: identity["params"]["train"].pop("learning_rate")),
        "settings of the run: train.learning_rate",
    ),
    "store: digest": (edited(lambda _, identity, __: identity.update(store="0" * 64)), "store (digest)"),
    "store: raw digest": (edited(lambda _, identity, __: identity.update(raw="0" * 64)), "raw input as the store"),
    "store: Elo": (
        edited(lambda _, identity, __: identity["attributes"]["params"]["filters"].update(min_elo=2000)),
        "settings of the store: filters.min_elo",
    ),
    "store: rows": (stored(rows={"train": 1, "val": 1, "test": 1}), "rows of the store: train"),
    "store: rejected": (stored(rejected={}), "rejected records: elo_too_low"),
    "store: an attribute": (stored(sequence="study"), "attributes of the store: sequence"),
    "store: one more attribute": (stored(tokenizer="x"), "attributes of the store: tokenizer"),
    "store: an attribute of a part": (
        edited(lambda _, identity, __: identity.update(parts={"a": {"neurons": 3}})),
        "attributes of its parts: a.neurons",
    ),
    "code: torch": (edited(lambda _, __, record: record["code"].update(torch="1.0")), "version: torch"),
    "code: digest": (edited(lambda _, __, record: record["code"].update(code="0")), "code that trains"),
    "code: no digest": (edited(lambda _, __, record: record["code"].pop("code")), "code that trains"),
    "code: none": (edited(lambda _, __, record: record.update(code={})), "version: numpy"),
    "order: none": (edited(lambda _, __, record: record.update(order={})), f"{SAMPLE}: version"),
    "order: as of a stream": (edited(lambda _, __, record: record.update(order={"layout": None})), SAMPLE),
    "order: no layout": (ordered(layout=None), f"{SAMPLE}: layout"),
    "order: version": (ordered(version=1), f"{SAMPLE}: version"),
    "order: first batch": (ordered(**{"first batch": "0"}), f"{SAMPLE}: first batch"),
    "order: no last batch": (edited(lambda _, __, record: record["order"].pop("last batch")), f"{SAMPLE}: last batch"),
    "order: no count": (edited(lambda _, __, record: record["order"].pop("steps left out")), f"{SAMPLE}: steps left"),
    "bytes: of a shard": (flipped("chess.zarr/train/move/c.0", 100), "bytes of the store"),
    "bytes: of a column": (flipped("chess.zarr/train/sequences/length/c.0", -30), "bytes of the store"),
    "bytes: of the seal": (flipped("chess.zarr/seal.json", -30), "bytes of the store"),
    "bytes: of the seal's first word": (flipped("chess.zarr/seal.json", 3), "bytes of the store"),
    "bytes: of zarr.json": (flipped("chess.zarr/zarr.json", -30), "bytes of the store"),
    "bytes: one more file": (written("chess.zarr/train/more", "x"), "bytes of the store"),
    "rejects: a line less": (lambda: cut_last_line(), "rejects as listed: "),
    "rejects: a line more": (
        lambda: Path(REJECTS).write_text(Path(REJECTS).read_text() + "a.pgn,5,illegal_move,x\n"),
        "rejects as listed: illegal_move",
    ),
    "rejects: another file": (replaced(REJECTS, "\na.pgn", "\nb.pgn"), "rejects of each raw file: a.pgn"),
    "rejects: no table": (written(REJECTS, "\0"), "rejects as listed"),
    "raw: a byte": (flipped("raw/b.pgn", 100), "raw files: b.pgn"),
    "raw: missing": (lambda: Path("raw/b.pgn").unlink(), "raw files: b.pgn"),
    "raw: another name": (lambda: Path("raw/b.pgn").rename("raw/c.pgn"), "raw files: c.pgn"),
    "raw: exchanged": (
        lambda: (Path("raw/a.pgn").rename("t"), Path("raw/b.pgn").rename("raw/a.pgn"), Path("t").rename("raw/b.pgn")),
        "raw files: a.pgn",
    ),
    "raw: one more": (written("raw/c.pgn", '[Event "x"]\n\n1. e4 *\n'), "raw files: c.pgn"),
    "raw: one more, empty": (written("raw/c.pgn", ""), "raw files: c.pgn"),
    "project: learning rate": (
        project(lambda section: section["train"].update(learning_rate=0.5)),
        "params.yaml: train.learning_rate",
    ),
    "project: Elo": (project(lambda section: section["filters"].update(min_elo=1)), "params.yaml: filters.min_elo"),
    "project: an unknown key": (project(lambda section: section.update(lr=1)), "params.yaml"),
}


def cut_last_line() -> None:
    Path(REJECTS).write_text("".join(Path(REJECTS).read_text().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(("forge", "claim"), FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_differs(forge: Callable[[], object], claim: str) -> None:
    forge()
    proof = prove(Path("run"), "chess.zarr", "raw")
    assert not proof.holds
    differing = [one for one in proof.claims if one.verdict == "differs"]
    assert any(one.what.startswith(claim) for one in differing), differing
    assert all(one.recorded != one.now for one in differing)


def linked(folder: str, *names: str) -> Callable[[], None]:
    def link() -> None:
        Path(folder).mkdir()
        for name in names:
            Path(folder, Path(name).name).symlink_to(Path(name).absolute())

    return link


def moved(source: str, target: str) -> Callable[[], None]:
    def move() -> None:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(source, target)

    return move


def research(text: str, folder: str) -> Callable[[], None]:
    """A model in a folder of somebody's repository, which has a ``params.yaml`` of its own."""

    def move() -> None:
        moved("run/models/chess", f"research/{folder}/chess")()
        Path("research/params.yaml").write_text(text)

    return move


def nothing() -> None:
    pass


HONEST = {
    "as it is": (nothing, "run", "chess.zarr", "raw"),
    "no store": (nothing, "run", None, None),
    "no raw files": (nothing, "run", "chess.zarr", None),
    "its file": (nothing, MODEL, "chess.zarr", "raw/"),
    "its folder": (nothing, "run/models/chess", "chess.zarr", "raw"),
    "linked": (linked("links", "run", "chess.zarr", "raw"), "links/run", "links/chess.zarr", "links/raw"),
    "a store elsewhere": (moved("chess.zarr", "far/x.zarr"), "run", "far/x.zarr", "raw"),
    "no list of rejects": (lambda: Path(REJECTS).unlink(), "run", "chess.zarr", "raw"),
    "the folder above the raw files": (moved("raw", "above/raw"), "run", "chess.zarr", "above"),
    "a pattern": (nothing, "run", "chess.zarr", "raw/*.pgn"),
    "a file of no kind next to them": (written("raw/README.md", "x"), "run", "chess.zarr", "raw"),
    "another model": (edited(first_weight), "run", "chess.zarr", "raw"),  # which --again notices
    "its project": (project(lambda _: None), "run", "chess.zarr", "raw"),
    "a pattern of its project": (project(lambda section: section.update(match="*.pgn")), "run", "chess.zarr", "raw"),
    "another audit": (project(lambda section: section.update(audit={"records": 5})), "run", "chess.zarr", "raw"),
    "another store to evaluate": (project(lambda section: section.update(evaluate="x")), "run", "chess.zarr", "raw"),
    "a project of two domains": (project(lambda _: None, go={"raw": "x"}), "run", "chess.zarr", "raw"),
    "a project without the domain": (written("run/params.yaml", "go: {raw: x}\n"), "run", "chess.zarr", "raw"),
    "a folder with params of its own": (research("lr: 0.1\n", "dl"), "research/dl/chess", "chess.zarr", "raw"),
    "a folder with other params": (research("chess: [1]\n", "dl"), "research/dl/chess", "chess.zarr", "raw"),
    "models with params of their own": (
        research("lr: 0.1\n", "models"),
        "research/models/chess",
        "chess.zarr",
        "raw",
    ),
    "a text for params": (written("run/params.yaml", "chess"), "run", "chess.zarr", "raw"),
    "no YAML for params": (written("run/params.yaml", "a: ["), "run", "chess.zarr", "raw"),
}


@pytest.mark.parametrize(("change", "model", "store", "raw"), HONEST.values(), ids=HONEST)
def test_an_honest_model_is_proved(
    change: Callable[[], object], model: str, store: str | None, raw: str | None
) -> None:
    change()
    assert [claim for claim in prove(Path(model), store, raw).claims if claim.verdict == "differs"] == []


def test_an_order_is_proved_in_any_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTOFCORE_MEMORY", "1MB")
    assert prove(Path("run"), "chess.zarr").holds


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda content, *_: content.pop("record"), "records its origin", id="no record"),
        pytest.param(lambda _, __, record: record.clear(), "records its origin", id="an empty record"),
        pytest.param(lambda _, __, record: record.update(code=[]), "records its origin", id="code of another type"),
        pytest.param(lambda _, identity, __: identity.clear(), "records its origin", id="an empty identity"),
        pytest.param(lambda _, identity, __: identity["params"].clear(), "records its origin", id="no settings"),
        pytest.param(lambda content, *_: content.update(step="many"), "records its origin", id="steps of another type"),
        pytest.param(
            lambda _, identity, __: identity["params"]["train"].update(batch_size="x"),
            "records its origin",
            id="a setting of another type",
        ),
    ],
)
def test_a_model_that_records_too_little_is_refused(change: Callable[..., object], message: str) -> None:
    content = torch.load(MODEL, weights_only=True)
    identity, record = json.loads(content["identity"]), json.loads(content["record"])
    change(content, identity, record)
    changed = {"identity": json.dumps(identity), "record": json.dumps(record)}
    torch.save(content | {name: text for name, text in changed.items() if name in content}, MODEL)
    result = call("prove", "run", "chess.zarr", "raw", code=2)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_is_none_or_of_another_kind_is_one_line() -> None:
    outofcore.write_store("mine.zarr", {"x": np.arange(8)})
    assert "expected a store of chess" in call("prove", "run", "mine.zarr", code=2).stderr
    assert "does not exist" in call("prove", "run", "nothing.zarr", code=2).stderr
    assert "no model here" in call("prove", "/model.pt", code=2).stderr
    shutil.copy(MODEL, "model.pt")
    content = torch.load(MODEL, weights_only=True)
    doubled = content["identity"].replace('"params":', '"params": {}, "params":', 1)
    torch.save({**content, "identity": doubled}, "model.pt")
    assert "records its origin" in call("prove", "model.pt", code=2).stderr


STOPPED = """
import os, signal, sys, torch, outofcore
real, steps = torch.optim.AdamW.step, []
def step(self, *arguments):
    real(self, *arguments)
    steps.append(1)
    if len(steps) == 2 and "stop" in sys.argv:
        os.kill(os.getpid(), signal.SIGTERM)
torch.optim.AdamW.step = step
settings = {"preset": "test", "batch_size": 16, "val_examples": 16, "arithmetic": "portable"}
outofcore.train("chess.zarr", sys.argv[1], max_steps=4, skip=[3], **settings)
"""


@pytest.mark.long
def test_a_run_that_resumed_with_another_micro_batch_is_trained_again() -> None:
    def train(*arguments: str, **environment: str) -> int:
        command = [sys.executable, "-c", STOPPED, *arguments]
        return subprocess.run(command, env=os.environ | PORTABLE | environment, capture_output=True).returncode

    assert train("resumed", "stop", OUTOFCORE_MICRO_BATCH="5")
    assert train("resumed") == 0
    proof = prove(Path("resumed"), "chess.zarr", "raw", again=True)
    assert [claim for claim in proof.claims if claim.verdict == "differs"] == []
    assert proof.facts["micro_batch"] == "5 up to step 2, 0"


def test_batches_of_several_ranks_are_proved() -> None:
    """Two ranks have one batch less where the last one has one sample."""
    rows = open_store("chess.zarr").attributes["rows"]["train"]
    batch_size = next(size for size in range(9, rows) if rows % size == 1)
    edited(lambda _, identity, __: identity["params"]["train"].update(batch_size=batch_size))()
    store, content = open_store("chess.zarr"), torch.load(MODEL, weights_only=True)
    section = section_of_identity(json.loads(content["identity"]))
    with training_batches(get_domain("chess"), section, store, 1 << 30, 2) as batches:
        assert len(batches) == rows // batch_size
        order = order_of(batches, 3, Steps("skip", []))

    def ranks(_: object, __: object, record: dict[str, Any]) -> None:
        record.update(order=order, processes=[{"step": 0, "device": "cpu", "ranks": 2, "micro_batch": 0}])

    edited(ranks)()
    assert prove(Path("run"), "chess.zarr", "raw").holds


def test_stores_whose_raw_files_share_a_name_are_told_apart() -> None:
    for name in ("a", "b"):
        Path(f"all/{name}").mkdir(parents=True)
        shutil.copy(f"raw/{name}.pgn", f"all/{name}/games.pgn")
        outofcore.convert("chess", f"all/{name}", f"both/{name}.zarr", splits={"val": 0.2})
    settings = [word for name, value in TRAIN.items() for word in ("-S", f"{name}={value}")]
    call("train", "both", "joined", *settings)
    call("prove", "joined", "both", "all")
    for name in ("a", "b"):
        assert "raw files: games.pgn" in differing("joined", "both", f"all/{name}")


def test_a_folder_of_stores_is_proved_though_an_entry_has_none() -> None:
    Path("raw/c.pgn").write_text(Path("raw/a.pgn").read_text())  # duplicates only
    outofcore.convert("chess", "raw", "stores", splits={"val": 0.2}, grow=True)
    assert not Path("stores/c.zarr").exists()
    settings = [word for name, value in TRAIN.items() for word in ("-S", f"{name}={value}")]
    call("train", "stores", "grown", *settings)
    proof = json.loads(call("prove", "grown", "stores", "raw", "--json").stdout)
    assert {claim["verdict"] for claim in proof["claims"] if claim["what"] != "params.yaml"} == {"holds"}
    Path("raw/d.pgn").write_text(game(90))
    assert list(differing("grown", "stores", "raw")) == ["raw files: d.pgn"]
    Path("raw/d.pgn").unlink()
    flipped("raw/c.pgn", 100)()
    assert list(differing("grown", "stores", "raw")) == ["raw files: c.pgn"]


def test_another_folder_and_another_user_prove_everything(copy: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-m", "outofcore", "prove", "run", "chess.zarr", "raw"]
    environment = os.environ | {"HOME": str(home), "USER": "other", "LANG": "C"}
    told = subprocess.run([*command, "--json"], env=environment, check=True, capture_output=True, text=True).stdout
    proof = json.loads(told)
    assert proof["holds"] is True
    assert proof["model"] == sha(MODEL)
    verdicts = {claim["what"]: claim["verdict"] for claim in proof["claims"]}
    assert verdicts.pop("params.yaml") == "not here"
    assert set(verdicts.values()) == {"holds"}
    assert len(verdicts) >= 12
    page = call("prove", "run", "chess.zarr", "raw").stdout
    assert page.startswith("# chess model ")
    for digest in (sha(MODEL), sha("raw/a.pgn"), sha("raw/b.pgn"), open_store("chess.zarr").digest):
        assert digest in page
    assert str(tmp_path) not in page
    assert str(copy) not in told


def test_what_is_not_here_is_said_and_is_no_error() -> None:
    shutil.rmtree("chess.zarr")
    shutil.rmtree("raw")
    claims = json.loads(call("prove", MODEL, "--json").stdout)["claims"]
    verdicts = {claim["what"]: claim["verdict"] for claim in claims}
    assert {what for what, verdict in verdicts.items() if verdict == "holds"} == {
        "version",
        "code that trains (sha256)",
        "settings of the run",
        "weights",
    }
    assert {"raw files", "store (digest)", "bytes of the store", "order of batches"} <= {
        what for what, verdict in verdicts.items() if verdict == "not here"
    }


def test_the_first_and_the_last_batch_are_recorded() -> None:
    store = open_store("chess.zarr")
    starts, offsets, sources = (
        store.sequences("train")[name].read().tolist() for name in ("start", "offset", "source")
    )
    batches = outofcore.loader(store, "train", 16, tensors=("ply",), columns=("sequence",))
    digests = []
    for batch in list(batches)[:3]:
        pairs = zip(batch["sequence"].tolist(), batch["ply"].tolist(), strict=True)
        rows = [
            (place, "", "train", starts[number] + ply, 1, f"{'ab'[sources[number]]}.pgn:{offsets[number]}")
            for place, (number, ply) in enumerate(pairs)
        ]
        digests.append(hashlib.sha256(json.dumps(rows).encode()).hexdigest())
    order = json.loads(torch.load(MODEL, weights_only=True)["record"])["order"]
    assert [order["first batch"], order["last batch"]] == [digests[0], digests[2]]


def test_batches_that_compare_players_are_proved_too() -> None:
    """Their order depends on the columns of the store."""
    Path("players").mkdir()
    generator = np.random.default_rng(3)
    for name in "abcd":
        games = [sgf(name, generator.permutation(361)[:30].tolist()) for _ in range(60)]
        Path(f"players/{name}.sgf").write_bytes(b"\n".join(games))
    outofcore.convert("go", "players", "go.zarr", splits={"val": 0.4, "test": 0.0})
    settings = {"task": "style", "players_per_batch": 2, "min_games": 8, "max_steps": 2, "val_examples": 8}
    outofcore.train("go.zarr", "style", preset="test", **settings)
    proof = prove(Path("style"), open_store("go.zarr"), Path("players"))
    assert proof.holds
    (order,) = [claim for claim in proof.claims if claim.what == "order of batches"]
    assert order.verdict == "holds"


def sgf(name: str, points: list[int]) -> bytes:
    moves = (f"{'BW'[number % 2]}[{chr(97 + at % 19)}{chr(97 + at // 19)}]" for number, at in enumerate(points))
    return f"(;GM[1]FF[4]SZ[19]PB[{name}]PW[white];{';'.join(moves)})".encode()


def test_a_model_is_trained_again_byte_for_byte() -> None:
    """Also where its weights are others now."""
    digest = sha(MODEL)
    edited(first_weight)()
    claim = prove(Path("run"), open_store("chess.zarr"), again=True).claims[-1]
    assert (claim.verdict, claim.recorded, claim.now) == ("differs", sha(MODEL), digest)
    assert "needs STORE" in call("prove", "run", "--again", code=2).stderr


def test_a_model_of_raw_files_is_not_trained_again_from_their_catalogue() -> None:
    catalogue = open_store("chess.zarr")
    catalogue.attributes["rows"] = dict.fromkeys(catalogue.splits, 0)
    with pytest.raises(
        StateError, match=r"mode: stream\); in its project, 'dvc repro -f -s train@text' trains it again$"
    ):
        prove(Path("run"), catalogue, again=True)
