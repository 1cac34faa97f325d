"""A folder of stores that grows holds what a merge of sets holds, and the same bytes whatever came first."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outofcore
from outofcore import pipeline
from outofcore.domains.registry import get_domain
from outofcore.errors import ParamsError, RawInputError, StoreError
from outofcore.store.opening import open_data
from outofcore.store.reader import Store
from outofcore.system.durable import remove
from tests.cases import long_cases

pytestmark = pytest.mark.xdist_group("report")

MONTHS = {
    "2024-01": [1, 2, 3, 4, 5, 6, 2],
    "2024-02": [7, 8, 3, 9, 10],
    "2024-03": [8, 3, 11, 12, 11],
    "2024-04": [13, 14, 15, 1, 9],
    "2024-05": [2, 3],
}
SETTINGS: dict[str, Any] = {
    "grow": True,
    "source": {"tags": ["White"]},
    "splits": {"val": 0.3, "test": 0.2},
    "audit": {"records": 1},
}


def write(raw: Path, months: Mapping[str, Iterable[int]]) -> None:
    """The games of each month; a game is known by the name of its White."""
    raw.mkdir(exist_ok=True)
    for name, games in months.items():
        text = "".join(
            f'[White "w{game}"]\n[Black "b"]\n[Result "1-0"]\n\n1. {"abcdefgh"[game % 8]}{3 + game // 8 % 2} '
            f"{'abcdefgh'[game // 16 % 8]}6 1-0\n\n"
            for game in games
        )
        (raw / f"{name}.pgn").write_text(text)


def convert(raw: Path, folder: Path, **settings: Any) -> dict[str, Any]:
    return outofcore.convert("chess", raw, folder, **{**SETTINGS, **settings})


def converted(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The entries that were converted since the last look."""
    lines = capsys.readouterr().err.splitlines()
    return [line.split()[1].rstrip(":") for line in lines if line.endswith(": converting")]


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def splits(store: Store) -> dict[str, str]:
    """The split of each game by its White."""
    return {white: split for split in store.splits for white in store.sequences(split)["white"].read().tolist()}


def merged(months: Mapping[str, list[int]]) -> dict[str, set[str]]:
    """Which games each month keeps, month after month by name."""
    kept: dict[str, set[str]] = {}
    for name in sorted(months):
        kept[name] = {f"w{game}" for game in months[name]}.difference(*kept.values())
    return kept


def test_an_entry_has_the_games_that_no_earlier_one_has_whatever_came_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(tmp_path / "all", MONTHS)
    outofcore.convert("chess", tmp_path / "all", tmp_path / "one.zarr", **{**SETTINGS, "grow": False})
    in_one = splits(outofcore.open_store(tmp_path / "one.zarr"))
    assert set(in_one) == set().union(*merged(MONTHS).values())
    assert set(in_one.values()) == {"train", "val", "test"}
    steps = [
        (["2024-02", "2024-04"], ["2024-02", "2024-04"]),
        (
            ["2024-01", "2024-02", "2024-03", "2024-04", "2024-05"],
            ["2024-01", "2024-02", "2024-03", "2024-04", "2024-05"],
        ),
        (["2024-01", "2024-02", "2024-03", "2024-04"], []),
        (["2024-01", "2024-03", "2024-04"], ["2024-03", "2024-04"]),  # 8 and 9 were in 2024-02
    ]
    capsys.readouterr()
    for number, (names, again) in enumerate(steps):
        months = {name: MONTHS[name] for name in names}
        if raw.exists():
            remove(raw)
        write(raw, months)
        figures = convert(raw, folder)
        assert converted(capsys) == again, number
        kept = merged(months)
        for name in names:
            games = splits(outofcore.open_store(folder / f"{name}.zarr")) if kept[name] else {}
            assert set(games) == kept[name]
            assert games.items() <= in_one.items()
            with (folder / f"{name}.rejects.csv").open(newline="") as lines:
                rejected = list(csv.DictReader(lines))
            assert len(rejected) == len(MONTHS[name]) - len(kept[name])
            assert {(line["file"], line["reason"]) for line in rejected} <= {(f"{name}.pgn", "duplicate")}
        assert figures["found"] == sum(map(len, months.values()))
        assert figures["accepted"] == sum(map(len, kept.values()))
        assert list(figures["digests"]) == [name for name in names if kept[name]]
        fresh = tmp_path / f"fresh-{number}"
        assert convert(raw, fresh) == figures
        assert content(folder) == content(fresh)
        assert not list(tmp_path.glob("*.work"))
        capsys.readouterr()


def test_a_changed_file_or_setting_is_converted_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(raw, {"a": [1, 2], "b": [2, 3], "c": [4]})
    convert(raw, folder)
    write(raw, {"a": [2, 1]})  # other bytes, the same games
    before = content(folder / "b.zarr")
    capsys.readouterr()
    convert(raw, folder)
    assert converted(capsys) == ["a"]
    assert content(folder / "b.zarr") == before
    with pytest.raises(ParamsError, match="made with other settings: filters"):
        convert(raw, folder, filters={"min_plies": 2})
    convert(raw, folder, filters={"min_plies": 2}, replace=True)
    assert converted(capsys) == ["a", "b", "c"]
    store = folder / "b.zarr/train/zarr.json"
    remove(store)
    store.write_text("{}")
    convert(raw, folder, filters={"min_plies": 2})
    assert converted(capsys) == ["b"]


def stop_at(monkeypatch: pytest.MonkeyPatch, name: str, raw: Path, folder: Path) -> None:
    """Stop a conversion when it comes to an entry."""
    convert_one = pipeline.convert_to_folder

    def stopped(*arguments: Any, **options: Any) -> Any:
        if arguments[2].name == f"{name}.zarr":
            raise KeyboardInterrupt
        return convert_one(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "convert_to_folder", stopped)
        with pytest.raises(KeyboardInterrupt):
            convert(raw, folder)


def test_what_was_finished_before_a_stop_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(raw, MONTHS)
    stop_at(monkeypatch, "2024-03", raw, folder)
    assert not folder.exists()
    (raw / "2024-01.pgn").unlink()  # so what 2024-02 left to it is to be converted again, but what it made alone is not
    write(raw, {"2024-02": MONTHS["2024-02"]})
    capsys.readouterr()
    convert(raw, folder)
    assert converted(capsys) == ["2024-02", "2024-03", "2024-04", "2024-05"]
    write(raw, {"2024-06": [20], "2024-07": [21, 20]})
    stop_at(monkeypatch, "2024-07", raw, folder)
    capsys.readouterr()
    convert(raw, folder)
    assert converted(capsys) == ["2024-07"]
    convert(raw, tmp_path / "fresh")
    assert content(folder) == content(tmp_path / "fresh")


def test_a_folder_of_stores_is_read_as_their_list(tmp_path: Path) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(raw, MONTHS)
    figures = convert(raw, folder)
    stores = sorted(folder.glob("*.zarr"))
    assert [store.stem for store in stores] == [name for name, games in merged(MONTHS).items() if games]
    joined = open_data(folder)
    assert joined.digest == figures["digest"]
    assert joined.attributes["accepted"] == figures["accepted"]
    batches = {}
    for name, source in (("folder", folder), ("list", stores)):
        with outofcore.loader(source, "train", 4, seed=3, columns=("sequence",)) as loader:
            batches[name] = [{key: value.tolist() for key, value in batch.items()} for batch in loader]
    assert batches["folder"] == batches["list"]


def test_what_is_no_folder_of_entries_is_not_touched(tmp_path: Path) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(raw, {"a": [1, 2]})
    folder.mkdir()
    (folder / "a.zarr").mkdir()
    with pytest.raises(StoreError, match=r"got a.zarr in it; nothing was touched"):
        convert(raw, folder)
    (folder / "a.zarr").rmdir()
    convert(raw, folder)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"got notes.txt in it"):
        convert(raw, folder)
    (folder / "notes.txt").unlink()
    (raw / "a.PGN.gz").write_bytes(b"")
    with pytest.raises(RawInputError, match=r"a.PGN.gz and a.pgn would both be the entry 'a'"):
        convert(raw, folder)


def test_names_of_files_are_names_of_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(raw, {"v1.2 b": [1, 2], "V1.2 b": [2, 3], "lockdown": [3, 4], "entries": [5]})
    if len(list(raw.iterdir())) < 4:  # a filesystem that ignores case
        (raw / "V1.2 b.pgn").unlink()
    names = sorted(path.stem for path in raw.iterdir())
    assert list(convert(raw, folder)["digests"]) == names
    (raw / "V1.2 b.pgn").write_bytes(b"")  # what it had goes to those that left it to this one
    capsys.readouterr()
    convert(raw, folder)
    assert [path.stem for path in sorted(folder.glob("*.zarr"))] == ["entries", "lockdown", "v1.2 b"]
    convert(raw, tmp_path / "fresh")
    assert content(folder) == content(tmp_path / "fresh")


@pytest.mark.parametrize("move", [1, 4, *long_cases(2, 6, 9)])
def test_a_kill_while_entries_move_costs_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: int
) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(raw, {"a": [1, 2], "b": [2, 3], "c": [4]})
    convert(raw, folder)
    write(raw, {"a": [1], "b": [2, 5], "d": [4, 6]})
    rename, moves = Path.rename, list[Path]()

    def killed(source: Path, target: Path) -> Path:
        if target.parent == folder:
            moves.append(target)
        if len(moves) == move:
            raise SystemExit
        return rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(SystemExit):
            convert(raw, folder)
    (folder / "entries.json.0123abcd.part").write_text("half")
    (raw / "b.pgn").unlink()
    convert(raw, folder)
    convert(raw, tmp_path / "fresh")
    assert content(folder) == content(tmp_path / "fresh")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fresh", "raw", "stores"]


def test_a_table_that_is_missing_or_changed_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(raw, {"a": [1, 2], "b": [2, 3], "c": [3, 4]})
    convert(raw, folder)
    before = content(folder)
    for name in ("b.keys.npy", "b.earlier.npy", "b.rejects.csv"):
        changed = bytearray(before[name])
        changed[-1] ^= 1
        for damage in (bytes(changed), None):
            (folder / name).unlink()
            if damage is not None:
                (folder / name).write_bytes(damage)
            capsys.readouterr()
            convert(raw, folder)
            assert converted(capsys) == ["b"]
            assert content(folder) == before


def test_nothing_outside_of_the_folder_is_touched(tmp_path: Path) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(raw, {"a": [1, 2]})
    others = [
        tmp_path / "other.zarr",
        tmp_path / "stores.zarr.work",
    ]  # of a store, and of a conversion into stores.zarr
    for other in others:
        other.mkdir()
        (other / "mine").write_text("mine")
    convert(raw, folder)
    records = json.loads((folder / "entries.json").read_text())
    for forged in ({**records, "../other": records["a"]}, [1], {"a": 1}, {"a": {"made_of": "x"}}):
        (folder / "entries.json").write_text(json.dumps(forged))
        with pytest.raises(StoreError, match="nothing was touched"):
            convert(raw, folder)
    assert all((other / "mine").read_text() == "mine" for other in others)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StoreError, match="expected a folder, got a file"):
        convert(raw, tmp_path / "file")


def test_text_that_grows_has_a_finished_tokenizer() -> None:
    section = get_domain("text").section
    assert section.model_validate({"raw": "texts", "grow": True, "tokenizer": "mine.json"}).grow
    with pytest.raises(ValueError, match="with grow: true, expected file or gpt2, got bpe"):
        section.model_validate({"raw": "texts", "grow": True})
    with pytest.raises(ValueError, match="grow: expected false in mode stream"):
        section.model_validate({"raw": "texts", "grow": True, "mode": "stream", "tokenizer": {"kind": "file"}})


def test_nothing_accepted_is_an_error_and_keeps_the_folder(tmp_path: Path) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    write(raw, {"a": [1, 2]})
    convert(raw, folder)
    before = content(folder)
    with pytest.raises(RawInputError, match="none of 1 entries has a record that was accepted"):
        convert(raw, folder, filters={"min_plies": 50}, replace=True)
    assert content(folder) == before


def sessions(raw: Path, names: Iterable[str], films: int = 0) -> None:
    """Recordings of 60 bins; with ``films``, in trials of five bins that show these films in turn."""
    raw.mkdir(exist_ok=True)
    for name in names:
        generator = np.random.default_rng(len(name) + ord(name[0]))
        frames = generator.integers(0, 255, (60, 4, 4)).astype(np.uint8)
        shown = np.arange(60) // 5
        film = {"trial": shown, "repeat": (shown + len(name)) % films} if films else {}
        np.savez(raw / f"{name}.npz", stim=frames, robs=generator.random((60, 3)).astype(np.float32), **film)


def test_sessions_are_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    sessions(raw, ["monday", "wednesday"])
    (raw / "broken.npz").write_bytes(b"no recording")
    trials = {"source": {"trial_bins": 10}, "splits": {"val": 0.3, "test": 0.2}}
    outofcore.convert("neural", raw, folder, grow=True, **trials)
    sessions(raw, ["tuesday"])
    capsys.readouterr()
    figures = outofcore.convert("neural", raw, folder, grow=True, **trials)
    assert converted(capsys) == ["tuesday"]
    one = outofcore.convert("neural", raw, tmp_path / "one.zarr", **trials)
    same = ("found", "accepted", "rejected", "rows", "sequences")
    assert {name: figures[name] for name in same} == {name: one[name] for name in same}
    joined, single = open_data(folder), outofcore.open_store(tmp_path / "one.zarr")
    assert joined.parts == single.parts == ("monday", "tuesday", "wednesday")
    for part in joined.parts:
        for split in joined.splits:
            for name, array in single.rows(split, part).fields.items():
                assert np.array_equal(joined.rows(split, part)[name].read(), array.read())
    listed = (folder / "broken.rejects.csv").read_text()
    assert listed in (tmp_path / "one.zarr.rejects.csv").read_text()
    assert len(listed.splitlines()) == 2
    (raw / "broken.npz").unlink()
    outofcore.convert("neural", raw, folder, grow=True, **trials)
    assert sorted(json.loads((folder / "entries.json").read_text())) == ["monday", "tuesday", "wednesday"]
    assert not list(folder.glob("broken*"))
    outofcore.convert("neural", raw, tmp_path / "fresh", grow=True, **trials)
    assert content(folder) == content(tmp_path / "fresh")
    for part in joined.parts:
        with outofcore.loader(folder, "train", 4, part=part, tensors="stored") as batches:
            assert len(batches)


def test_a_film_is_in_one_split_in_all_sessions_that_come(tmp_path: Path) -> None:
    raw, folder = tmp_path / "raw", tmp_path / "stores"
    named = {"source": {"names": {"trial": "trial", "repeat": "repeat"}}, "splits": {"val": 0.3, "test": 0.3}}
    split_of: dict[int, set[str]] = {}
    for name, films in (("monday", 6), ("wednesday", 5), ("friday", 4)):
        sessions(raw, [name], films)
        outofcore.convert("neural", raw, folder, grow=True, **named)
    joined = open_data(folder)
    for part in joined.parts:
        for split in joined.splits:
            for film in joined.sequences(split, part)["repeat"].read().tolist():
                split_of.setdefault(film, set()).add(split)
    assert sorted(split_of) == list(range(6))
    assert all(len(splits) == 1 for splits in split_of.values())
    assert len(set.union(*split_of.values())) > 1
