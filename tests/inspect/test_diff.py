"""Two stores compared, against the raw files read by python-chess or by hand."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import chess
import chess.pgn
import numpy as np
import pytest

import outofcore
from outofcore.store.reader import open_store
from tests.lines_project import call


def game(number: int, white: int = 0) -> str:
    """A game of random moves by its own player; every third has no ratings."""
    board, generator, moves = chess.Board(), np.random.default_rng(number), []
    for _ in range(6 + number % 10):
        legal = list(board.legal_moves)
        moves.append(board.san(legal[generator.integers(len(legal))]))
        board.push_san(moves[-1])
    elo = f'[WhiteElo "{white or 1500 + 7 * number}"]\n[BlackElo "{1600 + 5 * number}"]\n' if number % 3 else ""
    return f'[Event "?"]\n[White "player {number}"]\n[Result "1-0"]\n{elo}\n{" ".join(moves)} 1-0\n\n'


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("raw", "other"):
        Path(name).mkdir()


def convert(domain: str, raw: str, name: str, **settings: Any) -> Path:
    outofcore.convert(domain, raw, name, **settings)
    return Path(name)


def chess_store(raw: str, name: str, **settings: Any) -> Path:
    return convert("chess", raw, name, source={"tags": ["White"]}, **settings)


def compared(old: Path, new: Path, *options: str) -> dict[str, Any]:
    """Settings that differ, and what happened to sequences: their number by kind and values in both stores."""
    facts = json.loads(call("diff", old, new, "--json", *options).stdout)
    name = next(name for name in facts["sequences"][0] if name not in {"old", "new", "number"})
    fates = {(row[name], row["old"], row["new"]): row["number"] for row in facts["sequences"]}
    settings = {row["setting"]: (row["old"], row["new"]) for row in facts["settings"]}
    return {**facts, "settings": settings, "sequences": fates}


def splits_of(store: Path) -> dict[str, str]:
    """The split of each game by the name of its player."""
    opened = open_store(store)
    return {name: split for split in opened.splits for name in opened.sequences(split)["white"].read().tolist()}


def test_a_filter_is_explained_game_by_game() -> None:
    Path("raw/a.pgn").write_text("".join(map(game, range(40))))
    Path("raw/b.pgn").write_text("".join(map(game, range(40, 60))))
    old, new = chess_store("raw", "old.zarr"), chess_store("raw", "new.zarr", filters={"min_elo": 1680})
    expected: Counter[str] = Counter()
    for file in ("a", "b"):
        with Path(f"raw/{file}.pgn").open() as stream:
            while (headers := chess.pgn.read_headers(stream)) is not None:
                elos = [int(headers.get(f"{side}Elo", 0)) for side in ("White", "Black")]
                expected["elo_unknown" if 0 in elos else "elo_too_low" if min(elos) < 1680 else "kept"] += 1
    assert min(expected.values()) > 5
    facts = compared(old, new, "--show")
    assert facts["settings"] == {"filters.min_elo": ("null", "1680")}
    reasons = {("removed", "stored", reason): expected[reason] for reason in ("elo_too_low", "elo_unknown")}
    assert facts["sequences"] == {("same columns", "", ""): expected["kept"], **reasons}
    assert len(facts["examples"]) == 10
    for title, look in facts["examples"].items():
        file, offset, reason = re.fullmatch(r"removed: (\w\.pgn) at ([\d,]+): (\w+)", title).groups()  # type: ignore[union-attr]
        text = Path(f"raw/{file}").read_bytes()[int(offset.replace(",", "")) :].decode()
        headers = chess.pgn.read_headers(io.StringIO(text))
        assert headers is not None
        assert headers["White"] == look["sequence"]["white"]
        assert reason == ("elo_too_low" if "WhiteElo" in headers else "elo_unknown")
    back = compared(new, old)["sequences"]
    assert back[("added", "elo_too_low", "stored")] == expected["elo_too_low"]
    assert sum(back.values()) == 60


def test_every_move_between_splits_is_counted() -> None:
    Path("raw/a.pgn").write_text("".join(map(game, range(90))))
    shares = {"val": 0.3, "test": 0.2}
    stores = [chess_store("raw", f"{seed}.zarr", splits={**shares, "seed": seed}) for seed in (0, 1)]
    was, now = map(splits_of, stores)
    moves = Counter((was[name], now[name]) for name in was if was[name] != now[name])
    assert len(moves) == 6
    facts = compared(*stores, "--show")
    expected = {("leak" if "train" in pair else "moved", *pair): number for pair, number in moves.items()}
    assert facts["sequences"] == {("same columns", "", ""): 90, **expected}
    assert facts["settings"] == {"splits.seed": ("0", "1")}
    for title, look in facts["examples"].items():
        name = look["sequence"]["white"]
        assert title.endswith(f"split {was[name]} -> {now[name]}")
        assert look["split"] == now[name]
    assert "leak" in call("diff", *stores).stdout


def test_documents_are_equal_and_their_tokens_are_not() -> None:
    texts = [f"number {number}: " + "the sea and the ship " * (number % 7) for number in range(60)]
    Path("raw/a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    stores = [
        convert("text", "raw", f"{size}.zarr", tokenizer={"vocab_size": size}, source={"text_column": "text"})
        for size in (270, 300)
    ]
    sizes: list[dict[int, int]] = []
    for store in map(open_store, stores):
        encoded = store.tokenizer.encode_batch(texts)
        sizes.append({number: len(text.ids) for number, text in enumerate(encoded)})
    other = sum(sizes[0][number] != sizes[1][number] for number in range(60))
    assert other > 20
    facts = compared(*stores)
    assert facts["sequences"] == {("same columns", "", ""): 60 - other, ("changed: length", "", ""): other}
    assert facts["settings"].keys() == {"tokenizer.vocab_size", "digest of the tokenizer"}
    assert facts["fields"] == [{"field of rows": "tokens", "stored bytes": "differ"}]


def test_a_file_of_another_name_holds_the_same_games_and_one_of_other_bytes_only_those_that_are_equal() -> None:
    Path("raw/a.pgn").write_text("".join(map(game, range(10))))
    Path("raw/b.pgn").write_text("".join(map(game, range(10, 30))))
    Path("other/z.pgn").write_text("".join(map(game, range(10))))
    # A game more at the front, one left out, and one whose rating is another.
    Path("other/b.pgn").write_text("".join([game(50), *map(game, range(11, 29)), game(29, white=2900)]))
    old, new = chess_store("raw", "old.zarr"), chess_store("other", "new.zarr")
    facts = compared(old, new, "--show")
    assert facts["sequences"] == {
        ("same columns", "", ""): 28,
        ("removed", "stored", "no such raw file"): 2,
        ("added", "no such raw file", "stored"): 2,
    }
    kinds = {"removed": {"player 10", "player 29"}, "added": {"player 50", "player 29"}}
    for kind, names in kinds.items():
        looks = [look for title, look in facts["examples"].items() if title.startswith(kind)]
        assert {look["sequence"]["white"] for look in looks} == names


def test_a_column_that_has_another_value_is_named() -> None:
    Path("raw/a.pgn").write_text("".join(map(game, range(20))))
    old = chess_store("raw", "old.zarr")
    new = chess_store("raw", "new.zarr", filters={"skip_plies": 4})
    facts = compared(old, new, "--show")
    assert facts["sequences"] == {("same columns", "", ""): 0, ("changed: length", "", ""): 20}
    for title, look in facts["examples"].items():
        before, after = map(int, re.search(r"length (\d+) -> (\d+)$", title).groups())  # type: ignore[union-attr]
        assert before - 4 == after == look["sequence"]["length"]


def test_folders_of_stores_are_compared_game_by_game() -> None:
    for name, numbers in (("a", range(10)), ("b", range(10, 30)), ("c", range(30, 36))):
        Path(f"raw/{name}.pgn").write_text("".join(map(game, numbers)))
    old = chess_store("raw", "old", grow=True)
    Path("raw/c.pgn").unlink()
    Path("raw/d.pgn").write_text("".join(map(game, range(40, 44))))
    new = chess_store("raw", "new", grow=True, filters={"min_elo": 1540})
    lines = [line.split(",") for name in "ab" for line in Path(f"new/{name}.rejects.csv").read_text().splitlines()[1:]]
    reasons = Counter(("removed", "stored", line[2]) for line in lines)
    assert len(reasons) == 2
    facts = compared(old, new, "--show")
    assert facts["sequences"] == {
        ("same columns", "", ""): 30 - len(lines),
        **reasons,
        ("removed", "stored", "no such raw file"): 6,
        ("added", "no such raw file", "stored"): len(splits_of(Path("new/d.zarr"))),
    }
    for title, look in facts["examples"].items():
        file, offset = re.match(r"\w+: (\w\.pgn) at ([\d,]+)", title).groups()  # type: ignore[union-attr]
        raw = [
            game(number)
            for number in {"a": range(10), "b": range(10, 30), "c": range(30, 36), "d": range(40, 44)}[file[0]]
        ]
        text = "".join(raw)[int(offset.replace(",", "")) :]
        assert f'[White "{look["sequence"]["white"]}"]' in text.splitlines()[:3]


def test_a_list_of_rejects_that_is_something_else_is_one_line() -> None:
    Path("raw/a.pgn").write_text("".join(map(game, range(8))))
    old, new = chess_store("raw", "old.zarr"), chess_store("raw", "new.zarr", filters={"min_elo": 1530})
    for content in (b"file,offset,reason\na,b,c\n", b"\xff\xfe", b"a,b\n1,2\n"):
        Path("new.zarr.rejects.csv").write_bytes(content)
        assert re.fullmatch(
            r".*new.zarr.rejects.csv: expected a list of rejects.*\n", call("diff", old, new, code=2).stderr
        )


def sgf(name: str, moves: int) -> bytes:
    points = [f"{'BW'[number % 2]}[{chr(97 + number % 19)}{chr(97 + number // 19)}]" for number in range(moves)]
    return f"(;GM[1]FF[4]SZ[19]PB[{name}]PW[white];{';'.join(points)})".encode()


def test_members_of_archives_keep_their_reasons() -> None:
    """All games begin at byte 0 of members that have the same names in both archives."""
    lengths = {name: [10 + (7 * number + place) % 30 for number in range(12)] for place, name in enumerate("ab")}
    for name, members in lengths.items():
        with tarfile.open(f"raw/{name}.tar", "w") as archive:
            for number, moves in enumerate(members):
                content = sgf(f"{name} {number}", moves)
                entry = tarfile.TarInfo(f"games/{number}.sgf")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    old = convert("go", "raw", "old.zarr")
    new = convert("go", "raw", "new.zarr", filters={"min_moves": 25})
    short = sum(moves < 25 for members in lengths.values() for moves in members)
    facts = compared(old, new, "--show")
    assert 5 < short < 20
    assert facts["sequences"] == {
        ("same columns", "", ""): 24 - short,
        ("removed", "stored", "too_short"): short,
    }
    assert all(look["sequence"]["length"] < 25 for look in facts["examples"].values())


def test_a_record_that_is_rejected_for_another_reason_is_counted() -> None:
    Path("raw/a.pgn").write_text("".join(map(game, [1, 1, 2, 4, 4, 4, 5])))
    old = convert("chess", "raw", "old.zarr", filters={"min_elo": 1530})
    new = convert("chess", "raw", "new.zarr", filters={"min_plies": 11})
    rejects = []
    for store in ("old", "new"):
        lines = Path(f"{store}.zarr.rejects.csv").read_text().splitlines()[1:]
        rejects.append({line.split(",")[1]: line.split(",")[2] for line in lines})
    both = Counter((rejects[0][at], rejects[1][at]) for at in rejects[0] if at in rejects[1])
    other = {("rejected", *pair): number for pair, number in both.items() if pair[0] != pair[1]}
    assert other
    fates = compared(old, new)["sequences"]
    assert {fate: number for fate, number in fates.items() if fate[0] == "rejected"} == other


def test_rejects_of_a_project_are_read() -> None:
    Path("raw/a.pgn").write_text("".join(map(game, range(12))))
    stores = []
    for name, low in (("old", None), ("new", 1560)):
        place = Path(name, "data/stores/chess/monday.zarr")
        place.parent.mkdir(parents=True)
        stores.append(convert("chess", "raw", str(place), filters={"min_elo": low}))
        rejects = Path(name, "data/rejects/chess/monday.csv")
        rejects.parent.mkdir(parents=True)
        Path(f"{place}.rejects.csv").rename(rejects)
    assert ("removed", "stored", "elo_too_low") in compared(*stores)["sequences"]
    rejects.unlink()
    assert ("removed", "stored", "not listed") in compared(*stores)["sequences"]


def test_equal_stores_and_stores_that_cannot_be_compared() -> None:
    Path("raw/a.pgn").write_text("".join(map(game, range(4))))
    Path("other/a.sgf").write_bytes(sgf("black", 30))
    one, go = chess_store("raw", "one.zarr"), convert("go", "other", "go.zarr")
    two = chess_store("raw", "two.zarr")
    assert compared_digests(one, two) == [open_store(one).digest] * 2
    assert "every byte is equal" in call("diff", one, two).stdout
    outofcore.write_store("mine.zarr", {"x": np.arange(8)})
    outofcore.write_store("yours.zarr", {"x": np.arange(9)})
    for pair, message in (((one, go), "of chess, .* of go"), (("mine.zarr", "yours.zarr"), "does not record where")):
        result = call("diff", *pair, code=2)
        assert re.search(message, result.stderr)
        assert len(result.stderr.splitlines()) == 1


def compared_digests(*stores: Path) -> list[str]:
    facts = json.loads(call("diff", *stores, "--json").stdout)
    assert facts["examples"] == {}
    digests: list[str] = facts["digests"]
    return digests
