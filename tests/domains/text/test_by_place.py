"""Texts split by place, against the shares that were asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.text.conftest import PROSE


def lines_of_a_text(size: int) -> str:
    return "".join(f"line {number} of a text that goes on\n\n" for number in range(size // 30))[:size]


@pytest.mark.parametrize("kind", ["txt", "jsonl", "several", "divided"])
def test_documents_too_few_for_the_splits_are_split_by_place(convert, tmp_path: Path, kind: str):
    """By default, and by name."""
    text = lines_of_a_text(200_000)
    if kind == "jsonl":
        (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    elif kind == "several":
        for number in range(3):
            (tmp_path / f"{number}.txt").write_text(text[number * 66_000 :][:66_000])
        text = text[: 3 * 66_000]
    else:
        (tmp_path / "a.txt").write_text(text)
    limit = {"longest_document": 50_000} if kind == "divided" else {}
    for by in ("content", "place"):
        splits = {"by": by, "val": 0.1, "test": 0.05}
        found = convert(tmp_path, source=limit, splits=splits)
        if kind == "divided" and by == "content" and not found.splits:
            continue  # a hash filled all of them
        sizes = {"train": 0, "val": 0, "test": 0}
        for split, column in zip(found.splits, found.columns, strict=True):
            sizes[split] += column["bytes"]
        assert sum(sizes.values()) == len(text)
        assert found.splits == sorted(found.splits, key=["train", "val", "test"].index)
        for split, share in (("train", 0.85), ("val", 0.1), ("test", 0.05)):
            assert abs(sizes[split] / len(text) - share) < 0.001
        assert found.counts.get("split_by_place", 0) == (len(found.columns) if by == "content" else 0)


@pytest.mark.parametrize("kind", ["txt", "jsonl"])
@pytest.mark.parametrize("copied", [0, 1, 2])
def test_copies_are_dropped_before_text_is_split_by_place(convert, tmp_path: Path, kind: str, copied: int):
    """Whichever of them an edge divides."""
    texts = [lines_of_a_text(90_000).replace("line", name) for name in ("one", "two", "three")]
    size = sum(map(len, texts))
    texts.append(texts[copied])
    if kind == "txt":
        for number, text in enumerate(texts):
            (tmp_path / f"{number}.txt").write_text(text)
    else:
        (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    found = convert(tmp_path, splits={"by": "place", "val": 0.1, "test": 0.05})
    sizes = dict.fromkeys(("train", "val", "test"), 0)
    keys = set()
    for split, column, key in zip(found.splits, found.columns, found.keys, strict=True):
        sizes[split] += 0 if key in keys else column["bytes"]  # dropped by the conversion
        keys.add(key)
    assert sum(sizes.values()) == size
    assert [round(held / size, 2) for held in sizes.values()] == [0.85, 0.1, 0.05]
    kept = convert(tmp_path, filters={"duplicates": "keep"})
    assert (kept.splits, len(kept.columns)) == ([], 4)  # equal documents stay in one split


@pytest.mark.parametrize("copied", [True, False], ids=["input, train and val", "train and val"])
def test_a_note_says_that_held_out_text_is_in_train(convert, tmp_path: Path, capsys, *, copied: bool):
    text = lines_of_a_text(200_000)
    files = {"train.txt": text[:180_000], "val.txt": text[180_000:], **({"input.txt": text} if copied else {})}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    convert(tmp_path, splits={"by": "place"})
    assert ("lines held out" in capsys.readouterr().err) == copied


def test_the_hash_decides_where_it_fills_all_splits_and_small_texts_stay_whole(convert, tmp_path: Path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"{n} {PROSE}"}) + "\n" for n in range(900)))
    assert convert(tmp_path).splits == []
    few = {"val": 1e-4, "test": 0.0}
    assert len(set(convert(tmp_path, splits=few).splits)) == 2
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"document {n}"}) + "\n" for n in range(4096)))
    assert convert(tmp_path, splits=few).splits == []
    small = tmp_path / "small"
    small.mkdir()
    (small / "a.txt").write_text(lines_of_a_text(20_000))
    assert len(convert(small).documents) == 1
    assert len(convert(small, splits={"by": "place"}).documents) == 3
    assert len(convert(small, splits={"by": "place", "val": 0.0, "test": 0.5}).documents) == 2
