from __future__ import annotations

import csv
import json
import math
import re
import subprocess
import sys

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from outofcore.domains.task import Batch
from outofcore.errors import BudgetError, ParamsError
from outofcore.training import loop
from outofcore.training.optimizers import learning_rate
from outofcore.training.ranks import Ranks
from tests.cases import long_cases
from tests.training.runs import STEPS, curves, same, train, weights
from tests.training.small import ListLoader, WeightedRegression, columns, loaders, section


def by_hand(
    batch_size: int = 16,
    epochs: int = 3,
    *,
    warmup: int = 0,
    clip: float = 1e9,
    betas: tuple[float, float] = (0.9, 0.999),
) -> WeightedRegression:
    """The same training as a plain loop, without pieces; a warm-up is followed by a cosine."""
    task, (loader, _) = WeightedRegression(), loaders(batch_size)
    decayed = [p for p in task.parameters() if p.ndim > 1]
    plain = [p for p in task.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], 1e-2, betas
    )
    rising = LinearLR(optimizer, 1 / (warmup + 1), total_iters=max(warmup, 1))
    falling = CosineAnnealingLR(optimizer, max(STEPS - warmup, 1))
    schedule = SequentialLR(optimizer, [rising, falling], [warmup]) if warmup else None
    for epoch in range(epochs):
        loader.set_epoch(epoch)
        for batch in loader:
            loss, count = task.loss(batch)
            optimizer.zero_grad()
            (loss / count).backward()
            torch.nn.utils.clip_grad_norm_(task.parameters(), clip)
            optimizer.step()
            if schedule:
                schedule.step()
    return task


@pytest.mark.parametrize("micro_batch", [0, 5, 1000])
def test_weights_are_those_of_a_plain_loop_whatever_the_micro_batch(tmp_path, micro_batch):
    task, _ = train(tmp_path, micro_batch=micro_batch)
    for trained, expected in zip(task.parameters(), by_hand().parameters(), strict=True):
        torch.testing.assert_close(trained, expected, rtol=1e-4, atol=1e-5)


def test_warm_up_cosine_clipping_and_betas_are_those_of_a_plain_loop(tmp_path):
    settings = section(schedule="cosine", warmup_steps=4, clip_norm=0.2, betas=[0.8, 0.95])
    task, _ = train(tmp_path, settings=settings, micro_batch=5)
    plain = by_hand(warmup=4, clip=0.2, betas=(0.8, 0.95))
    for trained, expected in zip(task.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(trained, expected, rtol=1e-4, atol=1e-5)
    assert not same(task.state_dict(), by_hand(warmup=4).state_dict())


def test_the_learning_rate_is_that_of_nanogpt():
    settings = section(learning_rate=1e-3, min_learning_rate=1e-4, warmup_steps=100, schedule="cosine")

    def plain(step: int) -> float:  # its get_lr, with lr_decay_iters = max_iters = 2000
        if step < 100:
            return 1e-3 * (step + 1) / (100 + 1)
        return 1e-4 + 0.5 * (1.0 + math.cos(math.pi * (step - 100) / (2000 - 100))) * (1e-3 - 1e-4)

    rates = [learning_rate(settings, 2000, step) for step in range(2000)]
    assert rates == pytest.approx([plain(step) for step in range(2000)], rel=1e-12)


def test_the_curve_of_a_learning_rate_that_changes_is_drawn(tmp_path):
    train(tmp_path, settings=section(max_steps=6, learning_rate=1.0, warmup_steps=3))
    table = (tmp_path / "plots/toy/train/learning_rate.tsv").read_text().splitlines()
    rates = [float(row["learning_rate"]) for row in csv.DictReader(table, delimiter="\t")]
    assert rates == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])
    train(tmp_path / "constant")
    assert not (tmp_path / "constant/plots/toy/train/learning_rate.tsv").exists()


@pytest.mark.parametrize("steps", [21, 20])
def test_validation_after_so_many_steps_does_not_change_what_is_trained(tmp_path, steps):
    """Neither does one in mid-epoch, with random layers."""
    plain, often = (
        train(tmp_path / str(every), task=WeightedRegression(dropout=0.2), settings=section(max_steps=steps, **every))
        for every in ({}, {"val_every": 5})
    )
    validations = (tmp_path / "{'val_every': 5}/plots/toy/val/error.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in validations] == ["step", "5", "10", "15", "20", *(["21"] * (steps == 21))]
    assert plain[1] == often[1]
    assert same(plain[0].state_dict(), often[0].state_dict())


@pytest.mark.parametrize("seed", [0, *long_cases(20261127, 1 << 24, 2**31 - 1)])
def test_random_layers_differ_between_ranks_and_steps_and_follow_the_seed(tmp_path, monkeypatch, seed):
    class Noting(WeightedRegression):
        """Notes what a random layer would draw in each step."""

        def loss(self, batch: Batch):
            drawn.append(tuple(torch.rand(2).tolist()))
            return super().loss(batch)

    steps: list[list[tuple[float, ...]]] = []
    for number, rank in enumerate((*range(8), 0)):
        drawn: list[tuple[float, ...]] = []
        monkeypatch.setattr(loop, "meet", lambda _, rank=rank: Ranks(rank))
        for own in (seed, seed ^ 1):
            out = tmp_path / f"{number} {own}"
            train(out, task=Noting(), settings=section(max_steps=3, seed=own))
        steps.append(drawn)
    assert steps[0] == steps[-1]  # the same run twice
    assert len({each for ranks in steps for each in ranks}) == 8 * 2 * 3


def test_leaves_figures_curves_and_model(tmp_path):
    task, figures = train(tmp_path)
    assert figures["steps"] == STEPS
    assert json.loads((tmp_path / "metrics/toy/train.json").read_text()) == figures
    with torch.no_grad():
        validated = task.summarize(task.evaluate(columns(40, 2)))
    assert figures["error"] == pytest.approx(validated["error"], abs=1e-5)
    assert same(weights(tmp_path), task.state_dict())
    machine = json.loads((tmp_path / "metrics/toy/train_run.json").read_text())
    assert machine["samples_per_second"] > 0
    assert 0 <= machine["data_wait_share"] <= 1
    assert machine["peak_memory_bytes"] > 50e6
    assert machine["resumed_from_step"] == 0
    table = (tmp_path / "plots/toy/train/loss.tsv").read_text().splitlines()
    rows = list(csv.DictReader(table, delimiter="\t"))
    losses = [float(row["loss"]) for row in rows]
    assert [int(row["step"]) for row in rows] == list(range(1, STEPS + 1))
    assert sum(losses[-7:]) < sum(losses[:7])
    assert (tmp_path / "plots/toy/errors.csv").read_text().startswith("kind,error\nval,")
    assert not (tmp_path / "models/toy.partial").exists()


def test_files_that_a_cache_holds_by_links_keep_their_content(tmp_path):
    train(tmp_path)
    cache = tmp_path / "cache"
    cache.mkdir()
    kept = {}
    for number, file in enumerate(sorted(each for each in (tmp_path / "plots").rglob("*") if each.is_file())):
        (cache / str(number)).hardlink_to(file)
        kept[cache / str(number)] = file.read_bytes()
    train(tmp_path, settings=section(learning_rate=0.5))
    assert len(kept) > 3
    assert {file: file.read_bytes() for file in kept} == kept


def test_a_git_repository_needs_no_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    (tmp_path / ".dvc").mkdir()
    train(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".git", ".dvc", "models", "metrics", "plots"}


def test_two_runs_leave_the_same_bytes(tmp_path):
    for run in ("a", "b"):
        train(tmp_path / run, task=WeightedRegression(dropout=0.2))
    for path in ("models/toy/model.pt", "metrics/toy/train.json"):
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()
    assert curves(tmp_path / "a") == curves(tmp_path / "b")


@pytest.mark.parametrize(
    ("settings", "steps", "validated"),
    [({}, STEPS, [7, 14, 21]), ({"max_steps": 9}, 9, [7, 9]), ({"max_steps": 0}, 0, [0])],
    ids=["epochs", "ends in mid-epoch", "untrained"],
)
def test_a_validation_follows_each_epoch_and_the_end(tmp_path, settings, steps, validated):
    task, figures = train(tmp_path, settings=section(**settings))
    assert figures["steps"] == steps
    table = (tmp_path / "plots/toy/val/error.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in table] == ["step", *map(str, validated)]
    assert same(task.state_dict(), WeightedRegression().state_dict()) == (steps == 0)


def test_a_validation_may_see_some_samples_only(tmp_path):
    _, whole = train(tmp_path / "whole")
    _, some = train(tmp_path / "some", settings=section(val_examples=17))
    val = loaders()[1]
    assert some["weight"] == float(val.columns["weight"][:32].sum())  # whole batches of 16
    assert whole["weight"] == float(val.columns["weight"].sum())


def test_validation_leaves_a_frozen_part_frozen(tmp_path):
    seen = []

    class Frozen(WeightedRegression):
        def __init__(self) -> None:
            super().__init__(dropout=0.5)
            self.net[2].eval()

        def loss(self, batch: Batch):
            seen.append([module.training for module in self.net])
            return super().loss(batch)

        def evaluate(self, batch: Batch):
            assert not any(module.training for module in self.modules())
            return super().evaluate(batch)

    train(tmp_path, task=Frozen())
    assert seen == [[True, True, False, True]] * STEPS


def test_waiting_for_data_is_counted(tmp_path):
    class Slow(ListLoader):
        def __iter__(self):
            for batch in super().__iter__():
                torch.eye(300).matrix_power(50)
                yield batch

    train(tmp_path, train_loader=Slow(columns(100, 1), 16))
    assert json.loads((tmp_path / "metrics/toy/train_run.json").read_text())["data_wait_share"] > 0


def test_a_terminal_shows_how_far_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    train(tmp_path)
    shown = capsys.readouterr().err
    assert "validation 3 of 3" in shown
    assert "100 %" in shown


def test_a_batch_job_shows_how_far_it_is_in_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("outofcore.display.bar.LINE_SECONDS", 0)
    train(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "note: toy: 3 epochs of 7 steps"
    shown = [line for line in lines if line.startswith("train toy:") and "loss" in line]
    pattern = r"train toy: \d+ %, step \d+ of 21, epoch \d, loss [\d.e-]+, [\d,]+ samples/s"
    pattern += r"(, val \w+ [\d.e-]+)?(, \d+ s left)?"
    assert all(re.fullmatch(pattern, line) for line in shown)
    assert len(shown) == STEPS
    assert "train toy: 5 %, step 1 of 21, epoch 1, " in shown[0]
    assert ", val error " in shown[-1]  # of the epoch before
    assert len([line for line in lines if "validation 3 of 3" in line]) == 3


@pytest.mark.parametrize(
    ("settings", "first", "last"),
    [
        ({}, "3 epochs of 7 steps", None),
        ({"max_steps": 9}, "9 steps (max_steps) of 3 epochs of 7 steps", None),
        ({"max_steps": 21}, "21 steps (max_steps) of 3 epochs of 7 steps", None),
        (
            {"max_steps": 1000},
            "3 epochs of 7 steps; max_steps 1,000 is not reached: set epochs to train longer",
            "trained for 3 epochs of 7 steps; max_steps 1,000 is not reached: set epochs to train longer",
        ),
    ],
)
def test_a_run_says_how_long_it_is_and_that_max_steps_is_out_of_reach(tmp_path, capsys, settings, first, last):
    train(tmp_path, settings=section(**settings))
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: toy: ")]
    assert said == [f"note: toy: {line}" for line in (first, last) if line]


def test_a_validation_longer_than_the_training_before_it_is_said(tmp_path, capsys):
    train(tmp_path, settings=section(max_steps=2))  # a validation is 3 batches
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: toy: a validation")]
    assert said == ["note: toy: a validation is 3 batches, but 2 steps come before it; val_examples reads fewer"]


def test_bf16_mixed_trains_with_weights_in_32_bits(tmp_path):
    seen = []

    class Watching(WeightedRegression):
        def loss(self, batch: Batch):
            seen.append(self.net(batch["x"]).dtype)
            return super().loss(batch)

    task, figures = train(tmp_path, task=Watching(), settings=section(precision="bf16-mixed"))
    assert set(seen) == {torch.bfloat16}
    assert {parameter.dtype for parameter in task.parameters()} == {torch.float32}
    assert figures["error"] < 1


@pytest.mark.parametrize("micro_batch", [0, 5])
@pytest.mark.parametrize("where", ["loss", "evaluate"])
def test_a_device_without_memory_ends_in_words(tmp_path, monkeypatch, where, micro_batch):
    def full(*_: object) -> None:
        message = "CUDA out of memory. Tried to allocate\n"
        raise torch.OutOfMemoryError(message)

    monkeypatch.setattr(WeightedRegression, where, full)
    expected = f"device cpu: no memory left for passes of {micro_batch or 16} samples.*such as {micro_batch // 2 or 8}$"
    with pytest.raises(BudgetError, match=expected) as caught:
        train(tmp_path, micro_batch=micro_batch)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_loader": ListLoader(columns(0, 0), 16)}, r"train split gives no batch.*tensors\.lags=1"),
        ({"val": ListLoader(columns(0, 0), 16)}, "val split gives no batch"),
        ({"device": "cuda:7"}, "device is cuda:7, but torch"),
    ],
    ids=["no training", "no validation", "no such device"],
)
def test_what_cannot_be_trained_is_refused(tmp_path, options, message):
    with pytest.raises(ParamsError, match=message):
        train(tmp_path, **options)
