from __future__ import annotations

import csv
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
import torch

from outofcore.domains.task import Batch
from outofcore.errors import ParamsError
from outofcore.training.checkpoint import Checkpoint
from outofcore.training.loop import fit
from tests.training.small import ListLoader, WeightedRegression, columns, loaders, section

STEPS = 21  # 3 epochs of 7 batches


class Killed(BaseException):
    """Stands for the end of a process: nothing gets to clean up after it."""


def train(out: Path, *, task: WeightedRegression | None = None, train_loader=None, val=None, **options):
    settings = options.pop("settings", section())
    default_train, default_val = loaders(settings.batch_size)
    task = task or WeightedRegression()
    figures = fit(
        task,
        default_train if train_loader is None else train_loader,
        default_val if val is None else val,
        settings,
        name="toy",
        out=out,
        identity=options.pop("identity", {"store": "1"}),
        device="cpu",
        **options,
    )
    return task, figures


def weights(out: Path) -> Batch:
    return torch.load(out / "models/toy/model.pt", weights_only=True)["model"]


def same(a: Batch, b: Batch) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def curves(out: Path) -> dict[str, str]:
    root = out / "plots/toy"
    return {str(path.relative_to(root)): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def by_hand(batch_size: int = 16, epochs: int = 3) -> WeightedRegression:
    """The same training as a plain loop, without pieces."""
    task, (loader, _) = WeightedRegression(), loaders(batch_size)
    decayed = [p for p in task.parameters() if p.ndim > 1]
    plain = [p for p in task.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=1e-2
    )
    for epoch in range(epochs):
        loader.set_epoch(epoch)
        for batch in loader:
            loss, count = task.loss(batch)
            optimizer.zero_grad()
            (loss / count).backward()
            optimizer.step()
    return task


@pytest.mark.parametrize("micro_batch", [0, 1, 5, 16, 1000])
def test_weights_are_those_of_a_plain_loop_whatever_the_micro_batch(tmp_path, micro_batch):
    task, _ = train(tmp_path, micro_batch=micro_batch)
    for trained, expected in zip(task.parameters(), by_hand().parameters(), strict=True):
        torch.testing.assert_close(trained, expected, rtol=1e-4, atol=1e-5)


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
    table = (tmp_path / "plots/toy/train/plots/metrics/train/loss.tsv").read_text().splitlines()
    rows = list(csv.DictReader(table, delimiter="\t"))
    losses = [float(row["loss"]) for row in rows]
    assert [int(row["step"]) for row in rows] == list(range(1, STEPS + 1))
    assert sum(losses[-7:]) < sum(losses[:7])
    validations = (tmp_path / "plots/toy/train/plots/metrics/val/error.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in validations] == ["step", "7", "14", "21"]
    assert (tmp_path / "plots/toy/errors.csv").read_text().startswith("kind,error\nval,")
    assert not (tmp_path / "models/toy.partial").exists()


def test_two_runs_leave_the_same_bytes(tmp_path):
    for run in ("a", "b"):
        train(tmp_path / run, task=WeightedRegression(dropout=0.2))
    for path in ("models/toy/model.pt", "metrics/toy/train.json"):
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()
    assert curves(tmp_path / "a") == curves(tmp_path / "b")


class KilledAfter(WeightedRegression):
    """Dies in the middle of a step: some pieces have added their gradients, the optimizer has not moved."""

    def __init__(self, steps: int) -> None:
        super().__init__(dropout=0.2)
        self.steps = steps
        self.pieces = 0

    def loss(self, batch: Batch):
        self.pieces += 1
        if self.pieces > 2 * self.steps + 1:
            raise Killed
        return super().loss(batch)


@pytest.mark.parametrize("settings", [{}, {"max_steps": 10}], ids=["epochs", "max_steps"])
def test_a_run_killed_at_any_step_goes_on_to_the_same_weights_and_curves(tmp_path, settings):
    settings = section(batch_size=20, **settings)  # 5 batches an epoch, 2 pieces a batch
    whole = tmp_path / "whole"
    _, expected = train(whole, task=WeightedRegression(dropout=0.2), settings=settings, micro_batch=10)
    for killed_after in (1, 4, 5, 6, 9):
        out = tmp_path / f"killed{killed_after}"
        with pytest.raises(Killed):
            train(out, task=KilledAfter(killed_after), settings=settings, micro_batch=10, checkpoint_seconds=0)
        loader = ListLoader(columns(100, 1), 20)
        _, figures = train(
            out, task=WeightedRegression(dropout=0.2), train_loader=loader, settings=settings, micro_batch=10
        )
        # The first batch that it read is the one after those it had trained on.
        assert loader.reads[0] == (killed_after // 5, 20 * (killed_after % 5))
        assert figures == expected
        assert same(weights(out), weights(whole))
        assert curves(out) == curves(whole)
        assert json.loads((out / "metrics/toy/train_run.json").read_text())["resumed_from_step"] == killed_after


def test_steps_since_the_last_checkpoint_are_made_again(tmp_path, monkeypatch):
    save = Checkpoint.save

    def save_sometimes(checkpoint: Checkpoint, path: Path) -> None:
        if checkpoint.progress.step in {3, 8}:
            save(checkpoint, path)

    train(tmp_path / "whole", task=WeightedRegression(dropout=0.2), micro_batch=8)
    monkeypatch.setattr(Checkpoint, "save", save_sometimes)
    out = tmp_path / "killed"
    with pytest.raises(Killed):
        train(out, task=KilledAfter(5), micro_batch=8, checkpoint_seconds=0)
    with pytest.raises(Killed):
        train(out, task=KilledAfter(8), micro_batch=8, checkpoint_seconds=0)
    train(out, task=WeightedRegression(dropout=0.2), micro_batch=8)
    assert json.loads((out / "metrics/toy/train_run.json").read_text())["resumed_from_step"] == 8
    assert same(weights(out), weights(tmp_path / "whole"))
    assert curves(out) == curves(tmp_path / "whole")


def test_a_run_killed_in_validation_validates_when_it_goes_on(tmp_path):
    class KilledInValidation(WeightedRegression):
        def evaluate(self, _: Batch):
            raise Killed

    _, expected = train(tmp_path / "whole")
    with pytest.raises(Killed):
        train(tmp_path / "killed", task=KilledInValidation(), checkpoint_seconds=0)
    assert train(tmp_path / "killed")[1] == expected
    assert curves(tmp_path / "killed") == curves(tmp_path / "whole")


def test_a_run_stopped_in_its_last_validation_makes_no_step_again(tmp_path):
    class Stopped(WeightedRegression):
        def evaluate(self, batch: Batch):
            os.kill(os.getpid(), signal.SIGINT)
            return super().evaluate(batch)

    settings = section(max_steps=5)
    _, expected = train(tmp_path / "whole", settings=settings)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", task=Stopped(), settings=settings)
    loader = ListLoader(columns(100, 1), 16)
    assert train(tmp_path / "stopped", train_loader=loader, settings=settings)[1] == expected
    assert loader.reads == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_finishes_the_step_saves_and_the_run_goes_on(tmp_path, capfd, number):
    class Interrupting(WeightedRegression):
        calls = 0

        def loss(self, batch: Batch):
            Interrupting.calls += 1
            if Interrupting.calls == 9:
                os.kill(os.getpid(), number)
            return super().loss(batch)

    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    _, expected = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", task=Interrupting())
    assert capfd.readouterr().err.strip() == "stopping after this step (Ctrl-C to stop at once)"
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert not (tmp_path / "stopped/metrics").exists()
    assert not (tmp_path / "stopped/models/toy").exists()
    assert train(tmp_path / "stopped")[1] == expected
    assert json.loads((tmp_path / "stopped/metrics/toy/train_run.json").read_text())["resumed_from_step"] == 9
    assert same(weights(tmp_path / "stopped"), weights(tmp_path / "whole"))


@pytest.mark.parametrize(("second", "step"), [(signal.SIGINT, 0), (signal.SIGTERM, 9)])
def test_only_ctrl_c_stops_a_step_that_is_to_be_finished(tmp_path, second, step):
    """Schedulers and torchrun may both send a SIGTERM to each rank."""

    class Interrupting(WeightedRegression):
        calls = 0

        def loss(self, batch: Batch):
            Interrupting.calls += 1
            if Interrupting.calls == 9:
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), second)
            return super().loss(batch)

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, task=Interrupting())
    train(tmp_path)
    assert json.loads((tmp_path / "metrics/toy/train_run.json").read_text())["resumed_from_step"] == step


@pytest.mark.parametrize("interrupted", ["write_plots", "write_model", "write_metrics"])
def test_what_is_trained_is_kept_until_all_results_are_written(tmp_path, monkeypatch, interrupted):
    _, expected = train(tmp_path / "whole")
    monkeypatch.setattr(f"outofcore.training.loop.{interrupted}", killed)
    with pytest.raises(Killed):
        train(tmp_path / "stopped")
    monkeypatch.undo()
    loader, _ = loaders(16)
    assert train(tmp_path / "stopped", train_loader=loader)[1] == expected
    assert loader.reads == []
    assert same(weights(tmp_path / "stopped"), weights(tmp_path / "whole"))
    assert curves(tmp_path / "stopped") == curves(tmp_path / "whole")


def killed(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.parametrize("step", [5, 20])
def test_a_loss_that_is_not_finite_is_one_line_and_nothing_is_saved(tmp_path, monkeypatch, step):
    """Also if no row of the curves comes after it."""
    monkeypatch.setattr("outofcore.training.loop.ROWS", 3)

    class Diverging(WeightedRegression):
        calls = 0

        def loss(self, batch: Batch):
            loss, count = super().loss(batch)
            Diverging.calls += 1
            return loss * (float("nan") if Diverging.calls == step else 1), count

    with pytest.raises(ParamsError, match=r"the loss is nan around step \d+; lower train\.learning_rate"):
        train(tmp_path, task=Diverging(), settings=section(max_steps=20), checkpoint_seconds=0)
    saved = Checkpoint.load(tmp_path / "models/toy.partial/checkpoint.pt")
    assert saved is not None
    assert saved.progress.step == step - 1
    assert not (tmp_path / "models/toy").exists()


def test_a_checkpoint_of_other_params_is_not_gone_on_from(tmp_path, caplog):
    with pytest.raises(Killed):
        train(tmp_path, task=KilledAfter(3), identity={"store": "1"}, checkpoint_seconds=0)
    train(tmp_path, identity={"store": "2"})
    assert "training begins anew" in caplog.text
    assert json.loads((tmp_path / "metrics/toy/train_run.json").read_text())["resumed_from_step"] == 0


def test_max_steps_ends_in_mid_epoch_with_a_validation(tmp_path):
    _, figures = train(tmp_path, settings=section(max_steps=9))
    assert figures["steps"] == 9
    validations = (tmp_path / "plots/toy/train/plots/metrics/val/error.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in validations] == ["step", "7", "9"]


def test_a_validation_may_see_some_samples_only(tmp_path):
    _, whole = train(tmp_path / "whole")
    _, some = train(tmp_path / "some", settings=section(val_examples=17))
    val = loaders()[1]
    assert some["weight"] == float(val.columns["weight"][:32].sum())  # whole batches of 16
    assert whole["weight"] == float(val.columns["weight"].sum())


def test_a_long_validation_saves_the_steps_before_it(tmp_path):
    class KilledInSecondBatch(WeightedRegression):
        batches = 0

        def evaluate(self, batch: Batch):
            self.batches += 1
            if self.batches == 2:
                raise Killed
            return super().evaluate(batch)

    with pytest.raises(Killed):
        train(tmp_path, task=KilledInSecondBatch(), settings=section(max_steps=0), checkpoint_seconds=0)
    saved = Checkpoint.load(tmp_path / "models/toy.partial/checkpoint.pt")
    assert saved is not None
    assert saved.progress.validated == -1


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
    assert "100%" in shown


def test_no_steps_give_the_figures_of_the_untrained_model(tmp_path):
    task, figures = train(tmp_path, settings=section(max_steps=0))
    assert figures["steps"] == 0
    validations = (tmp_path / "plots/toy/train/plots/metrics/val/error.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in validations] == ["step", "0"]
    assert same(task.state_dict(), WeightedRegression().state_dict())


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


def test_a_loss_that_is_no_number_ends_in_words(tmp_path):
    class Exploding(WeightedRegression):
        def loss(self, batch: Batch):
            loss, count = super().loss(batch)
            return loss * float("nan"), count

    with pytest.raises(ParamsError, match=r"the loss is nan around step 1; lower train\.learning_rate"):
        train(tmp_path, task=Exploding())


def test_empty_splits_end_in_words(tmp_path):
    nothing = ListLoader(columns(0, 0), 16)
    with pytest.raises(ParamsError, match="train split gives no batch"):
        train(tmp_path, train_loader=nothing)
    with pytest.raises(ParamsError, match="val split gives no batch"):
        train(tmp_path, val=nothing)


def test_a_device_that_is_not_there_is_refused_in_words(tmp_path):
    train_loader, val = loaders()
    with pytest.raises(ParamsError, match="device is cuda:7, but torch"):
        fit(
            WeightedRegression(),
            train_loader,
            val,
            section(),
            name="toy",
            out=tmp_path,
            identity={},
            device="cuda:7",
        )
