"""Trainings that are stopped or killed, and resumed."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from outofcore import loader, write_store
from outofcore.domains.task import Batch
from outofcore.errors import OutOfCoreError, ParamsError
from outofcore.training.checkpoint import Checkpoint
from tests.cases import long_cases
from tests.training.runs import curves, same, train, weights
from tests.training.small import ListLoader, WeightedRegression, columns, loaders, section


class Killed(BaseException):
    """Stands for the end of a process: nothing gets to clean up after it."""


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


class Interrupted(WeightedRegression):
    """Sends its own process signals in the middle of the ninth step."""

    def __init__(self, *signals: signal.Signals) -> None:
        super().__init__()
        self.signals = signals
        self.calls = 0

    def loss(self, batch: Batch):
        self.calls += 1
        if self.calls == 9:
            for each in self.signals:
                os.kill(os.getpid(), each)
        return super().loss(batch)


class Places(WeightedRegression):
    """Notes where the loader is at each step; dies after so many steps."""

    def __init__(self, steps: int = -1) -> None:
        super().__init__()
        self.left, self.seen = steps, []

    def loss(self, batch: Batch):
        if self.left == 0:
            raise Killed
        self.left -= 1
        state = self.loader.state_dict()
        self.seen.append((state["epoch"], state["received"]))
        return super().loss(batch)


@pytest.mark.parametrize(("before", "after"), [(4, 1), *long_cases((1, 4), (4, 3))])
def test_a_run_that_goes_on_with_other_ranks_has_each_epoch_once(tmp_path, before, after):
    """Batches of 33 of 100 samples: the last one joins the third where 4 ranks have to get a sample each."""
    values = {name: column.numpy() for name, column in columns(100, 1).items()}
    store = write_store(tmp_path / "store", values, chunk_rows=16)

    def places(out: Path, world: int, steps: int) -> list[tuple[int, int]]:
        task = Places(steps)
        task.loader = loader(store, batch_size=33, rank=0, world_size=world)
        try:
            train(out, task=task, train_loader=task.loader, settings=section(batch_size=33), checkpoint_seconds=0)
        except Killed:
            assert steps >= 0
        return task.seen

    for killed_after in (1, 3, 4, 7):  # in an epoch, where four ranks end it, at its end, in the next
        out = tmp_path / str(killed_after)
        seen = places(out, before, killed_after) + places(out, after, -1)
        assert sorted(set(seen)) == seen, "no batch is trained on twice"
        for epoch in range(3):
            received = [place for number, place in seen if number == epoch]
            # One sample is left out where one rank has trained on 99, and four are to go on.
            assert received in ([33, 66, 99, 100], [33, 66, 100], *([[33, 66, 99]] * (before == 1)))


@pytest.mark.parametrize(
    "settings",
    [{"max_steps": 10, "schedule": "cosine", "warmup_steps": 5, "clip_norm": 0.3}, {"val_every": 3}],
    ids=["schedule", "val_every"],
)
def test_a_run_killed_at_any_step_goes_on_to_the_same_weights_and_curves(tmp_path, settings):
    settings = section(batch_size=20, **settings)  # 5 batches an epoch, 2 pieces a batch
    whole = tmp_path / "whole"
    _, expected = train(whole, task=WeightedRegression(dropout=0.2), settings=settings, micro_batch=10)
    for killed_after in (1, 5, 9):
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


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"code": {"torch": "2", "code": "def"}}, "of other code; training begins anew"),
        ({"code": {"torch": "3", "code": "abc"}}, "of other torch (2, here 3); training begins anew"),
        ({"code": {"torch": "3", "code": "def"}}, "of other torch (2, here 3); training begins anew"),
        ({"identity": {"store": "2"}}, "of other params or another store; training begins anew"),
        ({}, ""),
    ],
    ids=["code", "torch", "code and torch", "store", "the same"],
)
def test_a_run_of_other_code_or_params_begins_anew(tmp_path, caplog, other, said):
    """Its weights would be of neither."""
    run = {"micro_batch": 8, "code": {"torch": "2", "code": "abc"}, "identity": {"store": "1"}}
    with pytest.raises(Killed):
        train(tmp_path, task=KilledAfter(5), checkpoint_seconds=0, **run)
    train(tmp_path, task=WeightedRegression(dropout=0.2), **run | other)
    resumed = json.loads((tmp_path / "metrics/toy/train_run.json").read_text())["resumed_from_step"]
    assert resumed == (0 if said else 5)
    assert said in caplog.text
    assert ("begins anew" in caplog.text) == bool(said)


class KilledInValidation(WeightedRegression):
    """Dies at this batch of its validations, of which each has three."""

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.left = batch

    def evaluate(self, batch: Batch):
        self.left -= 1
        if self.left == 0:
            raise Killed
        return super().evaluate(batch)


@pytest.mark.parametrize(
    ("settings", "batch", "saved"),
    [({}, 1, 7), ({"val_every": 5, "schedule": "cosine"}, 5, 10), ({"max_steps": 0}, 2, 0)],
    ids=["at the end of an epoch", "in mid-epoch", "before a step"],
)
def test_a_run_killed_in_a_validation_goes_on_with_it(tmp_path, settings, batch, saved):
    settings = section(**settings)
    _, expected = train(tmp_path / "whole", settings=settings)
    with pytest.raises(Killed):
        train(tmp_path / "killed", task=KilledInValidation(batch), settings=settings, checkpoint_seconds=0)
    checkpoint = Checkpoint.load(tmp_path / "killed/models/toy.partial/checkpoint.pt")
    assert checkpoint is not None
    assert checkpoint.progress.step == saved > checkpoint.progress.validated
    assert train(tmp_path / "killed", settings=settings)[1] == expected
    assert curves(tmp_path / "killed") == curves(tmp_path / "whole")
    assert same(weights(tmp_path / "killed"), weights(tmp_path / "whole"))


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
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    _, expected = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "stopped", task=Interrupted(number))
    said = [line for line in capfd.readouterr().err.split("\n") if line and not line.startswith("note: toy: ")]
    assert said == ["stopping after this step (Ctrl-C to stop at once)"]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert not (tmp_path / "stopped/metrics").exists()
    assert not (tmp_path / "stopped/models/toy").exists()
    assert train(tmp_path / "stopped")[1] == expected
    assert "note: toy: resuming at step 9 of " in capfd.readouterr().err
    assert json.loads((tmp_path / "stopped/metrics/toy/train_run.json").read_text())["resumed_from_step"] == 9
    assert same(weights(tmp_path / "stopped"), weights(tmp_path / "whole"))


@pytest.mark.parametrize(("second", "step"), [(signal.SIGINT, 0), (signal.SIGTERM, 9)])
def test_only_ctrl_c_stops_a_step_that_is_to_be_finished(tmp_path, second, step):
    """Schedulers and torchrun may both send a SIGTERM to each rank."""
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, task=Interrupted(signal.SIGTERM, second))
    train(tmp_path)
    assert json.loads((tmp_path / "metrics/toy/train_run.json").read_text())["resumed_from_step"] == step


@pytest.mark.parametrize("interrupted", ["write_plots", "write_json"])
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


def test_one_training_of_a_model_at_a_time(tmp_path):
    class Second(WeightedRegression):
        """Is trained while it is trained."""

        def loss(self, batch: Batch):
            with pytest.raises(OutOfCoreError, match=r"toy\.partial: another training of this model runs"):
                train(tmp_path)
            return super().loss(batch)

    train(tmp_path, task=Second(), settings=section(max_steps=1))
    assert not (tmp_path / "models/toy.partial").exists()
    train(tmp_path)
