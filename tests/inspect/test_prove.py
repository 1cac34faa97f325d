"""What a model records of its origin, against digests by hashlib of files that were changed one by one."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import outofcore
from outofcore.inspect.prove import prove
from outofcore.store.reader import open_store
from outofcore.training.arithmetic import PORTABLE
from tests.inspect.test_diff import game
from tests.lines_project import call

pytestmark = pytest.mark.xdist_group("prove")
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


def rewrite(**changes: Any) -> None:
    """Change what a model records."""
    content = torch.load(MODEL, weights_only=True)
    torch.save({**content, **changes}, MODEL)


def record() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(torch.load(MODEL, weights_only=True)["record"])
    return content


def test_another_folder_and_another_user_prove_everything(copy: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [sys.executable, "-m", "outofcore", "prove", "run", "chess.zarr", "raw"]
    environment = os.environ | {"HOME": str(home), "USER": "other", "LANG": "C"}
    outputs = [
        subprocess.run([*command, *more], env=environment, check=True, capture_output=True, text=True).stdout
        for more in ((), ("--json",))
    ]
    proof = json.loads(outputs[1])
    assert proof["holds"] is True
    assert proof["model"] == sha(MODEL)
    verdicts = {claim["what"]: claim["verdict"] for claim in proof["claims"]}
    assert verdicts.pop("params.yaml") == "not here"
    assert set(verdicts.values()) == {"holds"}
    assert len(verdicts) >= 12
    page = outputs[0]
    assert page.startswith("# chess model ")
    for digest in (sha(MODEL), sha("raw/a.pgn"), sha("raw/b.pgn"), open_store("chess.zarr").digest):
        assert digest in page
    assert str(tmp_path) not in page
    assert str(copy) not in outputs[1]


def test_what_is_not_here_is_said_and_is_no_error() -> None:
    shutil.rmtree("chess.zarr")
    shutil.rmtree("raw")
    claims = json.loads(call("prove", MODEL, "--json").stdout)["claims"]
    verdicts = {claim["what"]: claim["verdict"] for claim in claims}
    assert {what for what, verdict in verdicts.items() if verdict == "holds"} == {
        "version",
        "code that trains (sha256)",
    }
    assert {"raw files", "store (digest)", "bytes of the store", "order of batches"} <= {
        what for what, verdict in verdicts.items() if verdict == "not here"
    }


def test_a_raw_byte_a_missing_file_and_one_more_are_named() -> None:
    before = {name: sha(f"raw/{name}.pgn") for name in "ab"}
    with Path("raw/b.pgn").open("r+b") as stream:
        stream.seek(100)
        stream.write(bytes([stream.read(1)[0] ^ 1]))
    changed = {"raw files: b.pgn": (before["b"], sha("raw/b.pgn"))}
    assert differing("run", "chess.zarr", "raw") == changed
    Path("raw/a.pgn").rename("raw/c.pgn")
    renamed = {"raw files: a.pgn": (before["a"], "-"), "raw files: c.pgn": ("-", before["a"])}
    assert differing("run", "chess.zarr", "raw") == changed | renamed
    # A store of those files is another one, and says which they are.
    other = outofcore.convert("chess", "raw", "other.zarr", splits={"val": 0.2}, filters={"min_elo": 1550})
    found = differing("run", "other.zarr", "raw")
    assert found["store (digest)"] == (open_store("chess.zarr").digest, other["digest"])
    assert "raw input as the store lists it" in found
    assert not [what for what in found if what.startswith(("raw files", "settings"))]


def test_a_setting_of_the_project_or_of_the_store_is_named() -> None:
    params = json.loads(torch.load(MODEL, weights_only=True)["identity"])["params"]
    params["raw"] = "elsewhere"  # the files count, wherever they are
    Path("run/params.yaml").write_text(yaml.safe_dump({"chess": params}))
    call("prove", "run", "chess.zarr", "raw")
    params["train"]["seed"] = 1
    params["filters"]["min_elo"] = 1600
    Path("run/params.yaml").write_text(yaml.safe_dump({"chess": params}))
    changed = {"params.yaml: train.seed": ("0", "1"), "params.yaml: filters.min_elo": ("1550", "1600")}
    assert differing("run") == changed
    outofcore.convert("chess", "raw", "other.zarr", splits={"val": 0.2}, filters={"min_elo": 1600})
    found = differing("run", "other.zarr", "raw")
    assert found["settings of the store: filters.min_elo"] == ("1550", "1600")
    with Path("other.zarr.rejects.csv").open() as lines:
        low = sum(row["reason"] == "elo_too_low" for row in csv.DictReader(lines))
    assert found["rejected records: elo_too_low"][1] == str(low)
    assert "order of batches: layout.samples" in found


def test_another_version_and_other_code_are_named() -> None:
    known = record()
    code = known["code"]
    rewrite(record=json.dumps({**known, "code": {**code, "torch": "1.0", "code": "0" * 64}}))
    assert differing("run") == {
        "version: torch": ("1.0", code["torch"]),
        "code that trains (sha256)": ("0" * 64, code["code"]),
    }
    rewrite(record=json.dumps({**known, "order": {**known["order"], "version": 1}}))
    assert differing("run", "chess.zarr") == {"order of batches: version": ("1", str(known["order"]["version"]))}


def test_batches_are_recorded_and_another_seed_or_step_is_named() -> None:
    store, identity = open_store("chess.zarr"), json.loads(torch.load(MODEL, weights_only=True)["identity"])
    starts, offsets, sources = (
        store.sequences("train")[name].read().tolist() for name in ("start", "offset", "source")
    )
    batches = outofcore.loader(store, "train", 16, fields=("ply",), columns=("sequence",))
    digests = []
    for batch in list(batches)[:3]:
        pairs = zip(batch["sequence"].tolist(), batch["ply"].tolist(), strict=True)
        rows = [
            (place, "", "train", starts[number] + ply, 1, f"{'ab'[sources[number]]}.pgn:{offsets[number]}")
            for place, (number, ply) in enumerate(pairs)
        ]
        digests.append(hashlib.sha256(json.dumps(rows).encode()).hexdigest())
    order = record()["order"]
    assert [order["first batch"], order["last batch"]] == [digests[0], digests[2]]
    rewrite(step=2)
    assert differing("run", "chess.zarr") == {"order of batches: last batch": (digests[2], digests[1])}
    identity["params"]["train"]["seed"] = 1
    rewrite(step=3, identity=json.dumps(identity))
    assert differing("run", "chess.zarr").keys() == {"order of batches: first batch", "order of batches: last batch"}


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


def test_a_changed_byte_of_the_store_and_a_changed_list_of_rejects_are_named() -> None:
    lines = Path("chess.zarr.rejects.csv").read_text().splitlines(keepends=True)
    Path("chess.zarr.rejects.csv").write_text("".join(lines[:-1]))
    reason = lines[-1].split(",")[2]
    count = sum(f",{reason}," in line for line in lines)
    assert differing("run", "chess.zarr") == {f"rejects as listed: {reason}": (str(count), str(count - 1))}
    Path("chess.zarr.rejects.csv").unlink()
    call("prove", "run", "chess.zarr")
    shard = Path("chess.zarr/train/move/c.0")
    content = bytearray(shard.read_bytes())
    content[len(content) // 3] ^= 1
    shard.write_bytes(content)
    found = differing("run", "chess.zarr")
    assert "train/move/c.0" in found["bytes of the store"][1]


def test_a_model_that_records_too_little_is_refused() -> None:
    content = torch.load(MODEL, weights_only=True)
    del content["record"]
    torch.save(content, MODEL)
    result = call("prove", "run", code=2)
    assert "records its origin" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_model_is_trained_again_byte_for_byte() -> None:
    digest = sha(MODEL)
    claim = prove(Path("run"), open_store("chess.zarr"), again=True).claims[-1]
    assert (claim.verdict, claim.recorded, claim.now) == ("holds", digest, digest)
    model = torch.load(MODEL, weights_only=True)["model"]
    name = next(iter(model))
    rewrite(model={**model, name: model[name] + 1})
    claim = prove(Path("run"), open_store("chess.zarr"), again=True).claims[-1]
    assert (claim.verdict, claim.recorded, claim.now) == ("differs", sha(MODEL), digest)
    assert "needs STORE" in call("prove", "run", "--again", code=2).stderr


@pytest.mark.parametrize(
    ("what", "value"),
    [
        ("identity", "[]"),
        ("identity", '{"domain": "chess", "params": {}, "store": "", "raw": "", "attributes": {}}'),
        ("record", "{}"),
        ("record", '{"code": [], "order": [], "device": 1, "ranks": 1, "micro_batch": 1}'),
        ("step", "many"),
        ("params", "x"),
    ],
)
def test_a_forged_record_is_one_line(what: str, value: str) -> None:
    if what == "params":
        identity = json.loads(torch.load(MODEL, weights_only=True)["identity"])
        identity["params"]["train"]["batch_size"] = value
        what, value = "identity", json.dumps(identity)
    rewrite(**{what: value})
    assert "expected a model that records its origin" in call("prove", "run", "chess.zarr", "raw", code=2).stderr


def test_data_of_another_kind_is_one_line() -> None:
    outofcore.write_store("mine.zarr", {"x": np.arange(8)})
    assert "expected a store of chess" in call("prove", "run", "mine.zarr", code=2).stderr


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
