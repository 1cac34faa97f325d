from __future__ import annotations

import json
import math
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch

import outofcore
from outofcore.domains.text import DOMAIN
from outofcore.domains.text.model import TextTask
from outofcore.domains.text.network import logits
from outofcore.domains.text.params import TextSection
from outofcore.domains.text.schema import attributes
from outofcore.domains.text.tensors import make_reading
from outofcore.domains.text.tokens.tokenizer import Tokenizer
from outofcore.errors import ParamsError
from tests.domains.fake_mps import FakeMps, on_mps
from tests.domains.text.conftest import PROSE
from tests.domains.text.families import END, FAMILIES


@pytest.fixture
def task(section_of, tokenizer: Tokenizer) -> TextTask:
    torch.manual_seed(0)
    section = section_of(Path("raw"), tensors={"seq_len": 32}, train={"parameters": 40_000})
    task = TextTask(tokenizer, section)
    task.raw_per_spelt = 1.5
    return task


def windows(tokenizer: Tokenizer, count: int = 8) -> np.ndarray:
    ids = np.array([*tokenizer.encode(PROSE * 3), tokenizer.end_id], np.uint16)
    return np.stack([ids[17 * start : 17 * start + 33] for start in range(count)])


def test_sums_are_the_same_on_a_device_without_doubles(task: TextTask, tokenizer: Tokenizer):
    batch = make_reading(attributes(tokenizer), task.section)({"tokens": windows(tokenizer)}, np.zeros(1, np.uint64))
    expected = task.evaluate(batch)
    with FakeMps():
        sums = task.evaluate(on_mps(batch))
    assert sums["loss_by_place"].dtype == torch.float64
    for name, value in expected.items():
        assert torch.equal(sums[name].cpu(), value)


def test_figures_are_the_means_over_all_batches(task: TextTask, tokenizer: Tokenizer):
    reading = make_reading(attributes(tokenizer), task.section)
    rows = windows(tokenizer)
    whole = reading({"tokens": rows}, np.zeros(1, np.uint64))
    sums: dict[str, torch.Tensor] = {}
    for part in (slice(0, 3), slice(3, 8)):
        batch = {name: tensor[part] for name, tensor in whole.items()}
        for name, value in task.evaluate(batch).items():
            sums[name] = sums.get(name, 0) + value
    figures = task.summarize(sums)
    total, count = task.loss(whole)
    assert int(count) == figures["tokens"] == 8 * 32
    loss = float(total.detach()) / int(count)
    assert figures["loss"] == pytest.approx(loss, rel=1e-5)
    assert figures["perplexity"] == pytest.approx(math.exp(loss), rel=1e-4)
    file = tokenizers.Tokenizer.from_str(tokenizer.json)
    size = sum(len(file.id_to_token(number)) for number in rows[:, 1:].ravel().tolist() if number != tokenizer.end_id)
    assert figures["bits_per_byte"] == pytest.approx(float(total.detach()) / math.log(2) / size / 1.5, rel=1e-5)
    _, counts = np.unique(rows[:, 1:], return_counts=True)
    shares = counts / counts.sum()
    assert figures["loss_frequencies"] == pytest.approx(-(shares * np.log(shares)).sum())
    plot = task.plots(sums)["loss_by_place"]
    assert [row["tokens_before"] for row in plot] == list(range(1, 33))
    assert np.mean([row["loss"] for row in plot]) == pytest.approx(loss, rel=1e-5)


def test_padding_changes_no_figure_and_no_gradient(section_of, tokenizer: Tokenizer):
    torch.manual_seed(0)
    section = section_of(
        Path("raw"), tensors={"seq_len": 32, "across_documents": "best_fit"}, train={"layers": 1, "width": 8}
    )
    task, reading = TextTask(tokenizer, section), make_reading(attributes(tokenizer), section)
    rows, valid = windows(tokenizer), np.ones((8, 33), bool)
    valid[0, 5], valid[3, 20:], valid[5, 1:] = False, False, False
    other = np.where(np.cumsum(~valid, axis=1) > 1, 7, rows)  # other padding
    found = []
    for tokens in (rows, other):
        batch = reading({"tokens": tokens, "valid": valid}, np.zeros(1, np.uint64))
        total, count = task.loss(batch)
        assert int(count) == valid[:, 1:].sum() == 8 * 32 - 1 - 13 - 32
        task.zero_grad()
        total.backward()
        sums = task.evaluate(batch)
        plot = [row["loss"] for row in task.plots(sums)["loss_by_place"]]
        found.append([total.item(), *task.summarize(sums).values(), *plot])
        gradients = [parameter.grad.clone() for parameter in task.parameters()]
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    # By hand: the mean cross-entropy of the valid targets.
    with torch.no_grad():
        hidden = task.network(batch["inputs"])
        losses = (
            -logits(task.network, hidden).log_softmax(-1).gather(2, torch.from_numpy(other[:, 1:, None].astype(int)))
        )
    counted = losses[..., 0][torch.from_numpy(valid[:, 1:])]
    assert task.summarize(sums)["loss"] == pytest.approx(float(counted.mean()), rel=1e-5)
    assert task.summarize(sums)["tokens"] == len(counted)
    assert all(torch.isfinite(each).all() for each in gradients)


@pytest.mark.parametrize("family", FAMILIES)
def test_bits_per_byte_count_the_bytes_of_the_raw_text(family: str, tmp_path: Path):
    """Whatever the tokenizer drops, adds or replaces: white space, capitals, a first space, what it does not know."""
    file = FAMILIES[family]()
    file.add_special_tokens([END])
    file.save(str(tmp_path / "tokenizer.json"))
    texts = [f"{PROSE} The cat  sat {number} times; {chr(0x4E00 + number)}" for number in range(90)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    settings = {"source": {"end_of_document": END}, "tensors": {"seq_len": 16}, "train": {"parameters": 40_000}}
    raw, store = tmp_path / "a.jsonl", tmp_path / "text.zarr"
    outofcore.convert("text", raw, store, tokenizer=tmp_path / "tokenizer.json", splits={"val": 0.4}, **settings)
    opened = outofcore.open_store(store)
    sequences = opened.sequences("val")
    lines = dict(zip(_starts(raw), texts, strict=True))
    size = sum(len(lines[offset].encode()) for offset in sequences["offset"].read().tolist())
    task = DOMAIN.task(opened, TextSection.model_validate({"raw": "raw", **settings}))
    ids = opened.rows("val")["tokens"].read().astype(int)
    counts = torch.from_numpy(np.bincount(ids, minlength=task.tokenizer.size))
    figures = task.summarize({"loss_by_place": torch.tensor([2.0 * len(ids)]), "counts": counts})
    assert figures["bits_per_byte"] == pytest.approx(2 * len(ids) / math.log(2) / size)


@pytest.mark.parametrize("across", [True, False, "best_fit"])
def test_bits_per_byte_are_of_the_evaluated_targets(across: bool | str, tmp_path: Path):
    """A byte-level piece has a character for each byte."""
    file = FAMILIES["gpt2"]()
    file.add_special_tokens([END])
    file.save(str(tmp_path / "tokenizer.json"))
    texts = [f"{PROSE[: 3 + 7 * number]} {chr(0x4E00 + number)} caf\u00e9 {number}" for number in range(90)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    settings = {"source": {"end_of_document": END}, "train": {"parameters": 40_000}}
    settings["tensors"] = {"seq_len": 16, "across_documents": across}
    store = tmp_path / "text.zarr"
    outofcore.convert(
        "text", tmp_path / "a.jsonl", store, tokenizer=tmp_path / "tokenizer.json", splits={"val": 0.4}, **settings
    )
    task = DOMAIN.task(outofcore.open_store(store), TextSection.model_validate({"raw": "raw", **settings}))
    sums: dict[str, torch.Tensor] = {}
    size = 0
    reading = outofcore.reading(store, **settings["tensors"])
    for batch in outofcore.loader(store, "val", 8, shuffle=False, tensors=reading):
        for name, value in task.evaluate(batch).items():
            sums[name] = sums.get(name, 0) + value
        for number in batch["targets"][batch["targets"] >= 0].tolist():
            piece = file.id_to_token(number)
            size += 0 if piece == END else len(piece)
    figures = task.summarize(sums)
    loss = figures["loss"] * figures["tokens"]
    assert figures["bits_per_byte"] == pytest.approx(loss / math.log(2) / size, rel=1e-9)


def _starts(path: Path) -> list[int]:
    return [0, *accumulate(map(len, path.read_bytes().splitlines(keepends=True)))][:-1]


def test_a_model_learns_a_text_by_heart_and_writes_it(task: TextTask, tokenizer: Tokenizer):
    reading = make_reading(attributes(tokenizer), task.section)
    batch = reading({"tokens": windows(tokenizer)}, np.zeros(1, np.uint64))
    optimizer = torch.optim.AdamW(task.parameters(), 1e-2)
    first = None
    for _ in range(100):
        optimizer.zero_grad()
        total, count = task.loss(batch)
        (total / count).backward()
        optimizer.step()
        first = first or float(total.detach() / count)
    assert float(total.detach() / count) < 0.2 * first
    begin = "The quick brown fox"
    written = task.write(begin, 12, temperature=0)
    assert written.startswith(begin)
    assert PROSE.startswith(written)
    assert task.write(begin, 20, seed=1) == task.write(begin, 20, seed=1)
    assert task.works()["sample"] == task.write("", task.section.train.sample_tokens)


def test_documents_are_told_apart_by_their_end_or_their_number(section_of, tokenizer: Tokenizer):
    section = section_of(Path("raw"), tensors={"seq_len": 8, "reset_at_documents": True})
    reading = make_reading(attributes(tokenizer), section)
    assert reading.end == tokenizer.end_id
    batch = reading({"tokens": windows(tokenizer)[:, :9]}, np.zeros(1, np.uint64))
    assert set(batch) == {"inputs", "targets", "positions", "segments"}
    assert TextTask(tokenizer, section).loss(batch)[1] == 64
    reading = make_reading(attributes(Tokenizer(tokenizer.json, None)), section)
    rows = {"tokens": windows(tokenizer)[:, :9], "sequence": np.repeat([[0, 0, 0, 1, 1, 2, 2, 2, 2]], 8, 0)}
    batch = reading(rows, np.zeros(1, np.uint64))
    assert batch["positions"][0].tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
    assert (batch["targets"][0] == -100).nonzero().flatten().tolist() == [2, 4]
    with pytest.raises(ParamsError, match=r"text.source.end_of_document is null"):
        make_reading(attributes(Tokenizer(tokenizer.json, None)), section.model_copy(update={"mode": "stream"}))


def test_the_window_of_a_sample(section_of, tokenizer: Tokenizer):
    def reading(**tensors):
        return make_reading(attributes(tokenizer), section_of(Path("raw"), tensors={"seq_len": 16, **tensors}))

    common = {"length": 17, "phase": True}
    assert reading().window == common | {"stride": 16, "mode": "pack"}
    assert reading(stride=4, across_documents=False).window == common | {"stride": 4, "mode": "never"}
    assert reading(across_documents="best_fit").window == common | {"stride": 16, "mode": "best_fit"}
    for refused in (
        {"tensors": {"stride": 3, "across_documents": "best_fit"}},
        {"tensors": {"across_documents": "best_fit"}, "mode": "stream"},
    ):
        with pytest.raises(ValueError, match="best_fit needs mode store and stride null, got "):
            TextSection.model_validate({"raw": "raw", **refused})


def test_tokens_are_drawn_as_text(tokenizer: Tokenizer):
    rows = {"tokens": np.array(tokenizer.encode(PROSE), np.uint16)}
    assert DOMAIN.draw(rows, attributes(tokenizer)) == PROSE
    assert DOMAIN.draw({"tokens": rows["tokens"][:2]}) == " ".join(map(str, rows["tokens"][:2]))
