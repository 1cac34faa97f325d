"""A trained model is loaded where neither its project nor its store is, and tried on raw files."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
import zipfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import outofcore
from outofcore.domains.registry import get_domain
from outofcore.errors import ParamsError, RawInputError, SpaceError, StateError
from outofcore.store.reader import open_store
from tests.cases import long_cases
from tests.processes import run_program
from tests.samples import ROOT
from tests.store.faults import Faults
from tests.trained import GAMES, copy_trained, write_random

pytestmark = [pytest.mark.xdist_group("report"), pytest.mark.usefixtures("elsewhere")]
FIGURES = """
import json, sys, warnings
import torch
import outofcore

warnings.simplefilter("error")
torch.set_num_threads(1)
model = outofcore.load_model(sys.argv[1])
sums = {}
batches = outofcore.loader(
    sys.argv[2], "val", model.section.train.batch_size, shuffle=False, tensors=model.reading
)
with torch.no_grad():
    for batch in batches:
        for name, value in model.task.evaluate(batch).items():
            sums[name] = sums.get(name, 0) + value.double()
print(json.dumps({name: round(value, 6) for name, value in model.task.summarize(sums).items()}))
"""


@pytest.mark.parametrize("name", ["neural", *long_cases("chess", "go", "text")])
def test_loaded_in_another_process_it_has_the_figures_of_its_training(
    project: Path, elsewhere: Path, name: str
) -> None:
    home = elsewhere / "home"
    figures = copy_trained(project, name, home)
    shutil.move(home / f"models/{name}/model.pt", elsewhere / "kept.pt")
    shutil.move(home / f"data/stores/{name}.zarr", elsewhere / "held.zarr")
    shutil.rmtree(home)
    done = run_program(FIGURES, "kept.pt", "held.zarr", folder=elsewhere)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # Which films repeat, and how many bytes the documents have, is known of the store alone.
    of_the_store = {"explainable_variance", "fraction_explained", "neurons_reliable", "correlation_to_average"}
    of_the_store |= {"normalised_correlation", "bits_per_byte", "bits_per_byte_frequencies"}
    of_the_training = {"steps", "parameters", "model"}
    expected = {key: value for key, value in figures.items() if key not in of_the_training | of_the_store}
    assert found == pytest.approx(expected, abs=2e-6)
    assert set(found) == set(expected)


def test_a_bounded_number_of_rejects_is_held_and_all_are_counted(project: Path, elsewhere: Path) -> None:
    model = outofcore.load_model(write_random(project, "chess", elsewhere / "model"))
    illegal = '[Result "1-0"]\n\n1. e4 e5 2. Ke3 1-0\n\n'
    Path("game.pgn").write_text(illegal * 1200 + GAMES)
    predictions = model.predict("game.pgn")
    assert predictions.rejected == {"illegal_move": 1201}
    assert len(predictions.rejects) == 1000
    assert [int(each["offset"]) for each in predictions.rejects[:3]] == [0, len(illegal), 2 * len(illegal)]
    Path("illegal.pgn").write_text(illegal * 1200)
    with pytest.raises(RawInputError, match=r"^illegal.pgn: nothing that .*; 1,200 left out \(illegal_move 1,200\)"):
        model.predict("illegal.pgn")


def test_go_moves_are_where_a_stone_can_be_put(project: Path, elsewhere: Path) -> None:
    tensors = {"features": "alphagozero18"}
    model = outofcore.load_model(write_random(project, "go", elsewhere / "model", tensors=tensors))
    Path("game.sgf").write_text("(;GM[1]SZ[9]RE[B+R];B[ee];W[cc];B[ia];W[])")
    rows = list(model.predict("game.sgf", best=81))[:4]
    assert [(row["move"], row["player"], row["played"]) for row in rows] == [
        (1, "Black", "E5"),
        (2, "White", "C7"),
        (3, "Black", "J9"),
        (4, "White", "pass"),
    ]
    outofcore.convert("go", "game.sgf", "all.zarr", filters={"sizes": [9, 19]}, splits={"val": 0.0, "test": 0.0})
    (batch,) = list(outofcore.loader("all.zarr", "train", 64, shuffle=False, tensors=model.reading))
    shares = np.zeros((len(rows), 362))
    for turns, mirrored in product(range(4), (False, True)):  # the answer is the mean over the symmetries of the board
        planes = batch["planes"].clone()
        corner = torch.rot90(planes[:, :, :9, :9], turns, (2, 3))
        planes[:, :, :9, :9] = corner.mT if mirrored else corner
        with torch.no_grad():
            turned = model.task.predict({**batch, "planes": planes})[0].double().softmax(1)
        board = turned[:, :361].reshape(-1, 19, 19)
        corner = board[:, :9, :9].mT if mirrored else board[:, :9, :9]
        board[:, :9, :9] = torch.rot90(corner, -turns, (1, 2)).clone()
        shares += turned.numpy() / 8
    taken: set[str] = set()
    for number, row in enumerate(rows):
        on_board = {
            f"{column}{9 - line}": 19 * line + place for line in range(9) for place, column in enumerate("ABCDEFGHJ")
        }
        on_board["pass"] = 361
        assert set(row["best"]) <= set(on_board) - taken
        assert len(row["best"]) == min(81, 82 - len(taken))
        expected = {name: shares[number, on_board[name]] for name in row["best"]}
        assert row["best"] == pytest.approx(expected, rel=1e-4)
        assert row["probability"] == pytest.approx(shares[number, on_board[row["played"]]], rel=1e-4)
        taken.add(row["played"])


@pytest.mark.parametrize("features", [*long_cases("planes3", "planes8"), "alphagozero18"])
def test_the_last_row_of_a_go_game_is_what_to_play_now(project: Path, elsewhere: Path, features: str) -> None:
    """It equals the row of the same position in a game that continues, after captures, a ko and a pass too."""
    tensors = {"features": features, "value": True}
    model = outofcore.load_model(write_random(project, "go", elsewhere / "model", tensors=tensors))
    # White takes one stone and Black may not take back at once; then a pass.
    moves = re.findall(r";[^;]+", ";B[bc];W[cc];B[cb];W[db];B[cd];W[dd];B[aa];W[ec];B[dc];W[gg];B[ii];W[];B[hh]")
    for count in (1, 5, 9, 10, 12):
        for name, played in (("shorter", moves[:count]), ("longer", moves[: count + 1])):
            Path(f"{name}.sgf").write_text(f"(;GM[1]SZ[9]KM[5.5]{''.join(played)})")
        *before, now = model.predict("shorter.sgf", best=82)
        row = list(model.predict("longer.sgf", best=82))[count]
        assert len(before) == count
        assert (now["move"], now["player"], now["played"]) == (count + 1, row["player"], "")
        assert now["best"] == pytest.approx(row["best"], rel=1e-4)
        assert now["value_for_black"] == pytest.approx(row["value_for_black"], rel=1e-4)
    Path("over.sgf").write_text("(;GM[1]SZ[9];B[ee];W[];B[])")
    assert [row["played"] for row in model.predict("over.sgf")] == ["E5", "pass", "pass"]


def test_a_model_of_style_gives_a_vector_of_each_file(project: Path, elsewhere: Path) -> None:
    """The mean embedding of the owner's moves among the first; matching is by cosine around the candidates' mean."""
    train = {"task": "style", "first_moves": 3}
    model = outofcore.load_model(write_random(project, "go", elsewhere / "model", train=train))
    games = "(;GM[1]SZ[9]PB[ada]PW[bob];B[ee];W[cc];B[ff];W[gg])(;GM[1]SZ[9]PB[eve]PW[ada];B[ef];W[cg];B[fc])"
    Path("known").mkdir()
    Path("known/7.sgf").write_text(f"007\n{games}")
    Path("known/8.sgf").write_text("bob\n(;GM[1]SZ[9]PB[bob]PW[eve];B[aa];W[bb];B[cc])")
    Path("known/9.sgf").write_text("(;GM[1]SZ[9];B[hh];W[gb];B[ga])")
    rows = list(model.predict("known"))
    assert [(row["file"], row["player"], row["games"]) for row in rows] == [
        ("7", "ada", 2),
        ("8", "bob", 1),
        ("9", "", 1),
    ]

    outofcore.convert("go", "known", "all.zarr", filters={"sizes": [9, 19]}, splits={"val": 0.0, "test": 0.0})
    (batch,) = outofcore.loader("all.zarr", "train", 64, shuffle=False, tensors=model.reading)
    with torch.no_grad():
        places = model.task.network(*(batch[name] for name in ("planes", "move", "to_play", "number", "on_board")))
    # Rows in the order of files: 4 + 3 moves of ada's file, then 3, then 3.
    own = {"7": [0, 2, 5], "8": [7, 9], "9": [10, 11, 12]}
    vectors = {name: places[rows_].double().mean(0).numpy() for name, rows_ in own.items()}
    for row in rows:
        assert row["vector"] == pytest.approx(vectors[row["file"]].tolist(), abs=1e-6)

    Path("asked").mkdir()
    Path("asked/q.sgf").write_text(
        "(;GM[1]SZ[9]PB[ada]PW[x];B[ee];W[cc];B[ff])(;GM[1]SZ[9]PB[ada]PW[y];B[ee];W[dd];B[ed])"
    )
    found = list(model.match("asked", "known", best=2))
    (query,) = (np.array(row["vector"]) for row in model.predict("asked"))
    mean = np.mean(list(vectors.values()), axis=0)
    cosine = {
        name: float((query - mean) @ (vector - mean) / np.linalg.norm(query - mean) / np.linalg.norm(vector - mean))
        for name, vector in vectors.items()
    }
    nearest = sorted(cosine, key=cosine.__getitem__, reverse=True)[:2]
    assert [(row["query"], row["place"], row["candidate"]) for row in found] == [
        ("q", 1, nearest[0]),
        ("q", 2, nearest[1]),
    ]
    assert [row["similarity"] for row in found] == pytest.approx([cosine[name] for name in nearest], abs=1e-4)
    for option, message in (({"best": 0}, r"best: .* greater than or equal to 1"), ({"tokens": 9}, "no such option")):
        with pytest.raises(ParamsError, match=message):
            model.match("asked", "known", **option)


def test_a_model_without_vectors_matches_nothing(project: Path, elsewhere: Path) -> None:
    model = outofcore.load_model(write_random(project, "chess", elsewhere / "model"))
    with pytest.raises(ParamsError, match="gives no vectors"):
        model.match("missing.pgn", "missing.pgn")  # before anything is read
    model.task.register_buffer("vectors", torch.zeros(3))  # a name of its own is no promise
    with pytest.raises(ParamsError, match="gives no vectors"):
        model.match("missing.pgn", "missing.pgn")


def test_a_text_is_continued_as_the_task_writes_it(project: Path, elsewhere: Path) -> None:
    model = outofcore.load_model(write_random(project, "text", elsewhere / "model"))
    Path("prompt.txt").write_bytes("\ufeffThe miller caf\u00e9".encode() + b"\n")
    (row,) = model.predict("prompt.txt", tokens=12, temperature=0.5, seed=3)
    assert row == {"text": model.task.write("The miller caf\u00e9", 12, temperature=0.5, seed=3)}
    assert row["text"].startswith("The miller caf\u00e9")
    (other,) = model.predict(Path("prompt.txt"), tokens=12, temperature=0.5, seed=4)
    assert other != row
    Path("latin.txt").write_bytes(b"caf\xe9")
    with pytest.raises(RawInputError, match=r"latin\.txt: expected UTF-8, got something else from byte 3 on"):
        model.predict("latin.txt")
    with pytest.raises(RawInputError, match="expected a text file with a prompt, found nothing"):
        model.predict("nowhere.txt")
    assert next(model.predict("prompt.txt", temperature=1e-40)) == next(model.predict("prompt.txt", temperature=0))


def test_neural_rates_are_those_of_the_network_by_hand(project: Path, elsewhere: Path) -> None:
    model = outofcore.load_model(write_random(project, "neural", elsewhere / "model"))
    raw = project / "data/sample/neural"
    (recording,) = (each for each in raw.iterdir() if each.name.startswith("tuesday"))
    rows = list(model.predict(recording))
    figures = outofcore.convert(
        "neural", recording, "all.zarr", params=ROOT / "params.yaml", splits={"val": 0.0, "test": 0.0}
    )
    store = open_store("all.zarr")
    table, trials = store.rows("train", "tuesday").read(), store.sequences("train", "tuesday").read()
    lags, session = model.section.tensors.lags, [each.name for each in model.task.sessions].index("tuesday")
    number = 0
    encoder = model.task.encoder
    for trial in range(len(trials["start"])):
        bins = range(lags - 1, int(trials["length"][trial]))
        stored = [int(trials["start"][trial]) + place for place in bins]
        frames = (np.stack([table["stim"][row - lags + 1 : row + 1] for row in stored]).astype(np.float32) - 127) / 255
        with torch.no_grad():
            rates = encoder(torch.from_numpy(frames), session).tolist()
        for place, row, by_neuron in zip(bins, stored, rates, strict=True):
            for neuron, rate in enumerate(by_neuron):
                found = rows[number]
                counts = table["dfs"][row, neuron]
                assert found["rate"] == pytest.approx(rate, rel=1e-4, abs=1e-5)
                assert found["response"] == (table["robs"][row, neuron] if counts else None)
                assert (found["session"], found["neuron"]) == ("tuesday", neuron)
                assert (found["trial"], found["bin"]) == (trials["trial"][trial], trials["offset"][trial] + place)
                number += 1
    assert number == len(rows) > 1000
    assert figures["rows"]["train"] * len(rates[0]) > number


def test_a_batch_of_one_session_is_of_the_session_that_is_named(project: Path, elsewhere: Path) -> None:
    model = outofcore.load_model(write_random(project, "neural", elsewhere / "model"))
    store = project / "data/stores/neural.zarr"
    sessions = [each.name for each in model.task.sessions]
    assert len(sessions) > 1
    for name in sessions:
        batch = next(iter(outofcore.loader(store, "train", 8, tensors=model.reading, part=name, shuffle=False)))
        assert "part" not in batch
        number = torch.full((8,), sessions.index(name))
        expected = model.task.predict({**batch, "part": number})[0]
        assert torch.equal(model(batch, session=name)["robs"], expected)
        assert torch.equal(model({**batch, "part": number})["robs"], expected)
    with pytest.raises(ParamsError, match=r"expected the session that it is of, as in model\(batch, session=...\)"):
        model(batch)
    with pytest.raises(ParamsError, match="session: expected one of monday, tuesday, wednesday, got 'friday'"):
        model(batch, session="friday")


def test_a_session_that_was_not_in_training_is_one_line(project: Path, elsewhere: Path) -> None:
    model = outofcore.load_model(write_random(project, "neural", elsewhere / "model"))
    (recording,) = (each for each in (project / "data/sample/neural").iterdir() if each.name.startswith("tuesday"))
    unknown = elsewhere / recording.name.replace("tuesday", "friday")
    shutil.copy(recording, unknown)
    with pytest.raises(RawInputError, match=r"session friday was not in training; .* monday, tuesday, wednesday"):
        model.predict(unknown)
    posing = elsewhere / recording.name.replace("tuesday", "monday")
    shutil.copy(recording, posing)
    with pytest.raises(RawInputError, match=r"session monday: expected \w+ .*, as in training, got"):
        list(model.predict(posing))


def test_the_tensors_are_those_of_the_training_without_chance(project: Path, elsewhere: Path) -> None:
    tensors = {"mirror": True, "planes": 12, "legal_mask": True}
    model = outofcore.load_model(write_random(project, "chess", elsewhere / "model", tensors=tensors))
    first, second = (
        next(iter(outofcore.loader(project / "data/stores/chess.zarr", "train", 64, seed=1, tensors=tensors_)))
        for tensors_ in (
            model.reading,
            outofcore.reading(project / "data/stores/chess.zarr", **{**tensors, "mirror": False}),
        )
    )
    assert set(first) == set(second)
    assert all(torch.equal(first[name], second[name]) for name in first)
    found = model(first)
    assert found["target"].shape == first["legal"].shape
    assert torch.allclose(found["target"].sum(1), torch.ones(64))
    assert not found["value"].requires_grad


def test_rows_that_nobody_reads_leave_nothing_behind(project: Path, elsewhere: Path) -> None:
    model = outofcore.load_model(write_random(project, "chess", elsewhere / "model"))
    Path("game.pgn").write_text(GAMES)
    predictions = model.predict("game.pgn")
    next(predictions)
    model.predict("game.pgn")
    assert not predictions.figures


def test_a_disk_that_fills_up_keeps_nothing_and_says_so(
    project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "a.pgn").write_text(GAMES)
    model = outofcore.load_model(write_random(project, "chess", elsewhere / "model"))
    temporary = Path(tempfile.gettempdir())

    def same_name(prefix: str) -> str:
        (temporary / f"{prefix}here").mkdir()
        return str(temporary / f"{prefix}here")

    monkeypatch.setattr(tempfile, "mkdtemp", same_name)

    def predict(faults: Faults) -> None:
        with pytest.MonkeyPatch.context() as patch:
            faults.install(patch)
            list(model.predict(elsewhere / "a.pgn"))

    predict(recorded := Faults(temporary))
    for end in ("outofcore-work", "seal.json", "rejects.csv.part", "train/zarr.json"):
        step = next(each for each in recorded.steps if each[0] == "open" and each[1].endswith(end))
        with pytest.raises(SpaceError, match=r"^[^\n]*: it is full, .*; make room there, or set TMPDIR to a folder"):
            predict(Faults(temporary, step, errno.ENOSPC))
        assert list(temporary.iterdir()) == []


class Runs:
    """Runs a command wherever it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch ran",)


def test_the_folder_of_a_run_stands_for_its_only_model(project: Path, elsewhere: Path) -> None:
    write_random(project, "chess", elsewhere / "runs/first/models/chess")
    assert outofcore.load_model("runs/first").domain.name == "chess"
    write_random(project, "go", elsewhere / "runs/first/models/go")
    expected = r"runs/first: expected one model, found 2; name one of runs/first/models/chess, runs/first/models/go"
    with pytest.raises(StateError, match=expected):
        outofcore.load_model("runs/first")
    assert outofcore.load_model("runs/first/models/go").domain.name == "go"


def test_what_is_no_model_says_what_to_do(project: Path, elsewhere: Path) -> None:
    file = write_random(project, "chess", elsewhere / "model") / "model.pt"
    whole, middle = file.read_bytes(), file.stat().st_size // 2
    with pytest.raises(StateError, match="nowhere: no model here; expected the folder of a run"):
        outofcore.load_model("nowhere")
    torch.save({"model": Runs()}, file)
    with pytest.raises(StateError, match=r"got a damaged or another file"):
        outofcore.load_model(file)
    assert not Path("ran").exists()
    for damaged in (b"", whole[:middle], whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]):
        file.write_bytes(damaged)
        with pytest.raises(StateError, match=r"got a damaged or another file; .* train again"):
            outofcore.load_model(file)
    made_by = {"domain": "chess", "params": {}, "attributes": None, "parts": {}}
    for identity in (json.dumps({"store": "1", "params": {}}), json.dumps(made_by), "[" * 100_000):
        torch.save({"identity": identity, "version": "1", "step": 1, "model": {}}, file)
        with pytest.raises(StateError, match=r"expected a model that says what makes its task, .* train it again"):
            outofcore.load_model(file.parent)
    file.write_bytes(whole)
    content = torch.load(file, weights_only=True)
    content["version"], content["model"] = "0.0.9", {}
    torch.save(content, file)
    with pytest.raises(
        StateError, match=r"got one of 0\.0\.9 that does not fit it; install that version, or train again"
    ):
        outofcore.load_model(file.parent)
    file.write_bytes(whole)
    with pytest.raises(ParamsError, match="device: expected a device of this machine, such as cpu"):
        outofcore.load_model(file, device="abacus")
    with pytest.raises(ParamsError, match="path: expected the folder of a model"):
        outofcore.load_model(3)  # type: ignore[arg-type]


PEAK = """
import resource, sys, warnings
import outofcore
from outofcore.errors import StateError
from outofcore.models import load_model
import outofcore.domains.chess.model
import outofcore.domains.neural.model

warnings.simplefilter("error")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    try:
        load_model(path)
    except StateError as error:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""
FORGED = ("a record that inflates", "a larger network", "more neurons", "more neurons of which some are held out")


def test_a_forged_model_takes_no_memory_before_it_is_refused(project: Path, elsewhere: Path) -> None:
    files = [forge(project, elsewhere / forged, forged) for forged in FORGED]
    done = run_program(PEAK, *map(str, files), folder=elsewhere)
    for forged, line in zip(FORGED, done.stdout.splitlines(), strict=True):
        more, _, message = line.partition(" ")
        assert int(more) < 100 << 10, forged  # KiB, by this one and those before
        assert "expected a model" in message


def forge(project: Path, folder: Path, forged: str) -> Path:
    file = write_random(project, "neural" if "neurons" in forged else "chess", folder) / "model.pt"
    content = torch.load(file, weights_only=True)
    if "neurons" in forged:
        identity = json.loads(content["identity"])
        next(iter(identity["parts"].values()))["neurons"] = 1 << 27
        identity["params"]["train"]["held_out"] = 0.5 if "held out" in forged else None
        torch.save({**content, "identity": json.dumps(identity)}, file)
    elif forged == "a larger network":
        identity = json.loads(content["identity"])
        identity["params"]["train"] |= {"channels": 2000, "blocks": 20}
        torch.save({**content, "identity": json.dumps(identity)}, file)
    else:
        torch.save({**content, "model": {"zeros": torch.zeros(1 << 28, dtype=torch.uint8)}}, file)
        with zipfile.ZipFile(file) as whole, zipfile.ZipFile("small.pt", "w", zipfile.ZIP_DEFLATED) as small:
            for name in whole.namelist():
                small.writestr(name, whole.read(name), compresslevel=1)
        file = Path("small.pt")
    assert file.stat().st_size < 10 << 20
    return file


def test_a_domain_that_lacks_something_says_what(
    project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, kind = write_random(project, "chess", elsewhere / "model"), type(get_domain("chess"))
    model = outofcore.load_model(folder)
    optional = kind._optional
    monkeypatch.setattr(kind, "_optional", lambda domain, name: optional(domain, name) if name != "predict" else None)
    for wrong in (lambda: model.predict("game.pgn"), lambda: model({})):
        with pytest.raises(ParamsError, match=r"domain chess has no predictions: its package has no predict\.py"):
            wrong()
    monkeypatch.setattr(kind, "planned_task", lambda _: None)
    with pytest.raises(ParamsError, match=r"domain chess makes no task without a store; give its model\.py"):
        outofcore.load_model(folder)
