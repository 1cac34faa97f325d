"""Batches by step and records by batch, against the raw files and against every batch in turn."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import zstandard

import outofcore
from outofcore.inspect.trace import raw_records
from outofcore.order.plain import Shuffle
from outofcore.order.weighted import Weighted
from tests.inspect.test_diff import game
from tests.lines_project import call
from tests.samples import ROOT, write_sample

pytestmark = pytest.mark.xdist_group("report")
TOKENIZER = {"kind": "characters"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of samples and their raw files, some of them in archives and in UTF-16."""
    folder = tmp_path_factory.mktemp("trace")
    for name in ("go", "text", "neural"):
        (folder / name).mkdir()
        write_sample(name, folder / name, 1)
    chess = folder / "chess"
    chess.mkdir()
    (chess / "a.pgn").write_text("".join(map(game, range(40))))
    (chess / "wide.pgn").write_bytes("".join(map(game, range(40, 60))).encode("utf-16"))
    for number in range(3):
        games = "".join(game(100 + 10 * number + place) for place in range(10))
        (folder / f"{number}.pgn").write_text(games)
    with tarfile.open(chess / "months.tar", "w") as archive:
        for number in range(3):
            archive.add(folder / f"{number}.pgn", f"{number}.pgn")
    with tarfile.open(folder / "go" / "more.tar", "w") as archive:
        for file in sorted((folder / "go").glob("*.sgf"))[:3]:
            archive.add(file, f"players/{file.name}")
            file.unlink()
    for name in ("chess", "go"):
        outofcore.convert(name, folder / name, folder / f"{name}.zarr", store={"chunk_rows": 64, "shard_rows": 256})
    outofcore.convert("neural", folder / "neural", folder / "neural.zarr", params=ROOT / "params.yaml")
    outofcore.convert("text", folder / "text", folder / "text.zarr", tokenizer=TOKENIZER)
    return folder


def contents(raw: Path) -> dict[tuple[str, int], bytes]:
    """The bytes of each member of the raw files, by file and number; files of Go are named as if unpacked."""
    members = {}
    for path in sorted(raw.rglob("*")):
        if path.suffix == ".tar":
            with tarfile.open(path) as archive:
                for number, member in enumerate(archive.getmembers()):
                    stream = archive.extractfile(member)
                    assert stream is not None
                    members[path.name, number] = members[member.name, 0] = stream.read()
        elif path.is_file():
            opened = {".gz": gzip.open, ".zst": zstandard.open}.get(path.suffix, open)
            with opened(path, "rb") as stream:
                members[path.relative_to(raw).as_posix(), 0] = stream.read()
    return members


@pytest.mark.parametrize("domain", ["chess", "go", "text"])
def test_raw_prints_the_bytes_at_the_place_that_is_named(domain: str, folder: Path) -> None:
    raw, options = contents(folder / domain), ["--batch-size", "30", "--epoch", "1", "--step", "2"]
    options += ["--raw", "--raw-folder", str(folder / domain), "--json"]
    facts = json.loads(call("trace", str(folder / f"{domain}.zarr"), *options).stdout)
    assert {sample["record"] for sample in facts["samples"]} == facts["raw"].keys()
    files = set()
    for sample in facts["samples"]:
        content, text = raw[sample["file"], sample["member"]], facts["raw"][sample["record"]]
        encoding = "utf-16-le" if content[:2] == b"\xff\xfe" else "utf-8"
        assert content[sample["offset"] :].decode(encoding, "backslashreplace").startswith(text)
        files.add((sample["file"], sample["member"]))
        if domain == "chess":  # the record is the game, whole and alone
            assert text.count("[Event ") == 1
            assert text.rstrip().endswith("1-0")
    assert len(files) > 1


@pytest.mark.parametrize("splits", [{"by": "place", "val": 0.3, "test": 0.2}, {"val": 0, "test": 0}])
def test_raw_prints_the_part_of_a_text_that_is_a_document(tmp_path: Path, splits: dict[str, Any]) -> None:
    """Texts that are divided, or split by place, against the text of their tokens."""
    text = "".join(f"line {number} of é\n" for number in range(300))
    for name, content in {
        "a.txt": text.encode(),
        "b.jsonl": "".join(json.dumps({"text": f"{part} {text}"}) + "\n" for part in "ab").encode(),
        "c.txt": text.upper().encode("utf-16"),
        "d.jsonl": json.dumps({"text": "short"}).encode(),
    }.items():
        (tmp_path / name).write_bytes(content)
    source = {"longest_document": 1000}
    outofcore.convert("text", tmp_path, tmp_path / "s.zarr", tokenizer=TOKENIZER, source=source, splits=splits)
    store = outofcore.open_store(tmp_path / "s.zarr")
    for split in store.splits:
        batches = outofcore.loader(store, split, 1, shuffle=False, tensors=outofcore.reading(store, seq_len=8))
        for origins in filter(None, (batches.trace(0, step) for step in range(1, len(batches), 5))):
            records = raw_records(batches, origins, str(tmp_path))
            for origin in origins:
                start, length = (values[origin.sequence] for values in store.extents(split))
                ids = store.rows(split)["tokens"].read(int(start), int(start + length) - 1)
                printed = records[origin.record]
                assert store.tokenizer.decode(ids) == (json.loads(printed)["text"] if printed[0] == "{" else printed)


@pytest.mark.parametrize(
    ("domain", "options"),
    [
        ("chess", {"batch_size": 16}),
        ("chess", {"batch_size": 16, "shuffle": Shuffle(full=True), "last": "drop", "where": "white_elo > 1800"}),
        ("chess", {"batch_size": 16, "last": "pad", "shuffle": Weighted("plies", pool_blocks=4)}),
        ("text", {"batch_size": 20, "window": {"length": 65, "stride": 64}, "last": "pad", "tensors": "stored"}),
        ("text", {"batch_size": 20, "window": {"length": 65, "stride": 64, "mode": "best_fit"}, "tensors": "stored"}),
        ("neural", {"batch_size": 120}),
    ],
)
def test_the_steps_of_a_record_are_those_whose_batches_name_it(
    domain: str, options: dict[str, Any], folder: Path
) -> None:
    batches = outofcore.loader(folder / f"{domain}.zarr", "train", **{"shuffle": Shuffle(pool_blocks=4), **options})
    steps: dict[str, Counter[tuple[int, int]]] = {}
    for epoch in range(2):
        for step in range(1, len(batches) + 1):
            origins = batches.trace(epoch, step)
            for record in [record for record, _ in {(origin.record, origin.sample) for origin in origins}]:
                steps.setdefault(record, Counter())[epoch, step] += 1
    for record in list(steps)[:: max(1, len(steps) // 7)]:
        named = {(epoch, step): samples for epoch, step, samples in batches.steps_of(record, 2)}
        assert named == steps[record], record


def test_a_record_is_found_in_its_split(folder: Path) -> None:
    store = outofcore.open_store(folder / "chess.zarr")
    for split in ("train", "val", "test"):
        first = outofcore.loader(store, split, 5).trace(0, 1)[0]
        rows = json.loads(call("trace", str(folder / "chess.zarr"), "--record", first.record, "--json").output)
        assert {row["split"] for row in rows} == {split}
        assert sum(row["samples"] for row in rows) == store.sequences(split)["length"].read()[first.sequence]


def test_a_record_that_is_not_there_is_refused(folder: Path) -> None:
    done = call("trace", str(folder / "chess.zarr"), "--record", "a.pgn:1", code=2)
    assert "no record of it begins at a.pgn:1" in done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected --step, such as --step 340, or --record"),
        (["--step", "1", "--record", "a.pgn:0"], "expected --step, such as --step 340, or --record"),
        (["--record", "a.pgn"], "a raw file and a byte offset"),
        (["--step", "1", "--raw"], "name their folder with --raw-folder"),
        (["--step", "1", "-S", "min_elo=3"], "min_elo"),
    ],
)
def test_mistakes_are_one_line(options: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = call("trace", "chess.zarr", *options, code=2)
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_raw_files_that_have_changed_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.pgn").write_bytes((folder / "chess/a.pgn").read_bytes()[:-1] + b" ")
    (tmp_path / "wide.pgn").write_bytes((folder / "chess/wide.pgn").read_bytes())
    (tmp_path / "months.tar").write_bytes((folder / "chess/months.tar").read_bytes())
    done = call("trace", str(folder / "chess.zarr"), "--step", "1", "--raw", "--raw-folder", str(tmp_path), code=2)
    assert "a.pgn: not the file that" in done.output
    (tmp_path / "a.pgn").unlink()
    done = call("trace", str(folder / "chess.zarr"), "--step", "1", "--raw", "--raw-folder", str(tmp_path), code=2)
    assert "no file a.pgn in it" in done.output


def test_recordings_are_shown_and_have_no_bytes(folder: Path) -> None:
    store = str(folder / "neural.zarr")
    done = call(
        "trace", store, "--step", "1", "--batch-size", "2", "--raw", "--raw-folder", str(folder / "neural"), code=2
    )
    assert "use --show" in done.output
    assert call("trace", store, "--step", "1", "--batch-size", "2", "--show").output.count("bin ") >= 2


def test_a_run_knows_its_loader(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    out = tmp_path / "run"
    train = {"preset": "test", "max_steps": 3, "batch_size": 24, "seed": 9, "pool_blocks": 3, "val_examples": 24}
    outofcore.train("chess.zarr", out, train=train, device="cpu")
    expected = outofcore.loader("chess.zarr", "train", 24, seed=9, shuffle=Shuffle(pool_blocks=3))
    for place in (out, out / "models/chess", out / "models/chess/model.pt"):
        samples = json.loads(call("trace", str(place), "--step", "2", "--json").output)["samples"]
        assert [sample["row"] for sample in samples] == [origin.row for origin in expected.trace(0, 2)]
    monkeypatch.chdir(tmp_path)
    gone = call("trace", "run", "--step", "2", code=2).output
    assert "expected its store at chess.zarr, which does not exist; name it with --store" in " ".join(gone.split())
    moved = json.loads(call("trace", "run", "--step", "2", "--store", str(folder / "chess.zarr"), "--json").output)
    assert [sample["row"] for sample in moved["samples"]] == [sample["row"] for sample in samples]
    done = call("trace", "run", "--step", "2", "--store", str(folder / "go.zarr"), code=2)
    assert "expected the store that run/models/chess/model.pt was trained on" in done.output
    Path("run/metrics/chess/train_run.json").unlink()
    assert "name it with --store" in call("trace", "run", "--step", "2", code=2).output
