from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import special, stats

from outofcore.domains.neural import model
from outofcore.domains.neural.encoder import PRESETS, SessionShape
from outofcore.domains.neural.metrics import explainable
from outofcore.domains.neural.model import NeuralTask
from outofcore.domains.neural.params import NeuralSection
from tests.domains.fake_mps import FakeMps, on_mps
from tests.domains.neural.glm import bits_per_spike
from tests.domains.neural.repeats import repeat_sums

SESSIONS = (
    SessionShape("a", (6, 7), 3, 2, (0.5, 1.0, 0.2), (0.7, 1.0, 0.4)),
    SessionShape("b", (5, 9), 4, 0, (0.3,) * 4, (0.5,) * 4),
)


def section(preset="test", lags=3, **more):
    train = {"preset": preset, **more.pop("train", {})}
    return NeuralSection.model_validate({"raw": "x", "tensors": {"lags": lags, **more}, "train": train})


def batch(session, count=40, lags=3, seed=0):
    generator = np.random.default_rng(seed)
    shape = SESSIONS[session]
    made = {
        "stim": generator.integers(0, 256, (count, lags, *shape.frame)).astype(np.uint8),
        "robs": generator.poisson(0.7, (count, shape.neurons)).astype(np.float32),
        "dfs": generator.integers(0, 2, (count, shape.neurons)).astype(np.uint8),
        "condition": generator.integers(-1, 4, count).astype(np.int32),
        "part": np.full(count, session),
    }
    if shape.covariates:
        made["behavior"] = generator.normal(size=(count, shape.covariates)).astype(np.float32)
    return {name: torch.from_numpy(array) for name, array in made.items()}


@pytest.mark.parametrize("preset", list(PRESETS))
@pytest.mark.parametrize("loss", ["poisson", "squared"])
def test_all_sizes_learn_from_every_session(preset, loss):
    torch.manual_seed(0)
    task = NeuralTask(SESSIONS, section(preset, train={"loss": loss}))
    for session in (0, 1):
        made = batch(session, count=6)
        rate, whose = task.predict(made)
        assert whose == session
        assert rate.shape == made["robs"].shape
        if loss == "poisson":
            assert (rate > 0).all()
        task.zero_grad()
        total, count = task.loss(made)
        total.backward()
        assert count == made["dfs"].sum()
        mine = list(task.encoder.readouts[session].parameters())
        assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in mine)
        assert all(parameter.grad is None for parameter in task.encoder.readouts[1 - session].parameters())


def test_loss_is_the_masked_log_likelihood():
    task = NeuralTask(SESSIONS, section())
    made = batch(0)
    with torch.no_grad():
        rate, _ = task.predict(made)
        total, _ = task.loss(made)
    response, mask = made["robs"].numpy(), made["dfs"].numpy() != 0
    likelihood = stats.poisson.logpmf(response, rate.numpy()) + special.gammaln(response + 1)  # but for ln(k!)
    assert float(total) == pytest.approx(-likelihood[mask].sum(), rel=1e-4)
    with torch.no_grad():
        pieces = [task.loss(piece) for piece in task.micro_batches(made, 7)]
    assert float(sum(piece for piece, _ in pieces)) == pytest.approx(float(total), rel=1e-5)
    assert sum(int(count) for _, count in pieces) == int(made["dfs"].sum())


def test_the_start_is_the_mean_whatever_it_is():
    means = (0.0, 1e-5, 1e-4, 1e-3, 0.03, 1.0, 30.0, 200.0, 5000.0)
    shape = SessionShape("r", (3, 3), len(means), 0, means, (1.0,) * len(means))
    task = NeuralTask((shape,), section(lags=1))
    made = {
        "stim": torch.full((1, 1, 3, 3), 127, dtype=torch.uint8),
        "robs": torch.zeros(1, len(means)),
        "dfs": torch.ones(1, len(means), dtype=torch.uint8),
    }
    torch.testing.assert_close(task.predict(made)[0][0], torch.tensor(means), rtol=1e-3, atol=3e-6)


@pytest.mark.parametrize("size", [1, 100])
def test_rare_neurons_without_anything_to_learn_stay_at_their_means(size):
    """Size is that of a spike: rates may be in any unit."""
    generator = np.random.default_rng(1)
    rates = np.array([1e-4, 2e-4, 3e-4, 5e-4, 1e-3, 2e-3, 5e-3])
    spikes = size * (generator.random((200_001, 7)) < rates).astype(np.float32)
    before, now = torch.from_numpy(spikes[:-1, None]), torch.from_numpy(spikes[1:])
    shape = SessionShape("r", (0, 0), 7, 0, tuple(spikes.mean(0).tolist()), tuple(spikes.std(0).tolist()))
    task = NeuralTask((shape,), section(lags=1, history=1))
    optimizer = torch.optim.AdamW(task.parameters(), lr=0.01, weight_decay=0)
    for step in range(100):
        rows = slice(step * 256, (step + 1) * 256)
        made = {"robs": now[rows], "dfs": torch.ones(256, 7, dtype=torch.uint8), "history": before[rows]}
        optimizer.zero_grad()
        loss, count = task.loss(made)
        (loss / count).backward()
        optimizer.step()
    everything = {"robs": now, "dfs": torch.ones_like(now, dtype=torch.uint8), "history": before}
    with torch.no_grad():
        rate = task.predict(everything)[0].double().numpy()
    assert bits_per_spike(rate, spikes[1:]) > -0.05


def test_behaviour_in_any_unit_is_scaled_by_the_train_split():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(512, 3, generator=generator)
    scale, middle = torch.tensor([50.0, 0.002, 0.0]), torch.tensor([850.0, -0.01, 7.0])
    shape = SessionShape("p", (4, 4), 2, 3, (0.1, 0.4), (0.3, 0.6), tuple(middle.tolist()), (50.0, 0.002, 1.0))
    task = NeuralTask((shape,), section(lags=1))
    rate = torch.nn.functional.softplus(scores[:, :2] - 2)
    made = {
        "stim": torch.full((512, 1, 4, 4), 127, dtype=torch.uint8),
        "behavior": middle + scale * scores,
        "robs": torch.poisson(rate, generator=generator),
        "dfs": torch.ones(512, 2, dtype=torch.uint8),
    }
    torch.testing.assert_close(task.predict(made)[0], torch.tensor(shape.mean).expand(512, 2), rtol=1e-3, atol=1e-4)
    optimizer = torch.optim.AdamW(task.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        (task.loss(made)[0] / 1024).backward()
        optimizer.step()
    with torch.no_grad():
        learnt = task.predict(made)[0]
    for neuron in range(2):
        assert np.corrcoef(learnt[:, neuron].numpy(), rate[:, neuron].numpy())[0, 1] > 0.95


def test_explainable_variance_of_more_repeated_bins_than_fit_is_that_of_an_even_choice(capsys, monkeypatch):
    monkeypatch.setattr(model, "MOST_REPEATS", 200)
    shapes = (replace(SESSIONS[0], covariates=0), SESSIONS[1])
    task = NeuralTask(shapes, section(), (np.arange(100) * 3, np.arange(5)))
    assert "in 67 of 105 repeated bins" in capsys.readouterr().err
    assert len(NeuralTask(shapes, section(), (np.arange(40), np.arange(20)))._repeated[0]) == 40
    assert not capsys.readouterr().err
    generator = np.random.default_rng(0)
    signal = generator.normal(size=(300, 3)) * 2
    sums = {}
    for _ in range(4):
        made = batch(0, count=300) | {"dfs": torch.ones(300, 3), "condition": torch.arange(300, dtype=torch.int32)}
        made["robs"] = torch.from_numpy(signal + generator.normal(size=(300, 3)))
        with torch.no_grad():
            for name, value in task.evaluate(made).items():
                sums[name] = sums[name] + value if name in sums else value
    assert task.summarize(sums)["explainable_variance"] == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("preset", ["test", "small"])
@pytest.mark.parametrize("side", [8, 96])
def test_steps_are_small_whatever_the_size_of_frames_and_the_unit_of_responses(preset, side):
    torch.manual_seed(0)
    wide = SessionShape("w", (side, side), 2, 0, (4000.0, 0.01), (1000.0, 0.002))
    task = NeuralTask((wide,), section(preset, lags=1, train={"loss": "squared"}))
    made = {
        "stim": torch.full((16, 1, side, side), 255, dtype=torch.uint8),
        "robs": torch.tensor(wide.mean).expand(16, 2) + torch.tensor(wide.spread),
        "dfs": torch.ones(16, 2, dtype=torch.uint8),
    }
    optimizer = torch.optim.AdamW(task.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        task.loss(made)[0].backward()
        optimizer.step()
    with torch.no_grad():
        rate, _ = task.predict(made)
    away = (rate - torch.tensor(wide.mean)) / torch.tensor(wide.spread)
    assert away.abs().max() < 4


def test_figures_do_not_depend_on_how_validation_was_cut():
    torch.manual_seed(1)
    repeated = (np.array([0, 1, 3]), np.array([2]))
    task = NeuralTask(SESSIONS, section("small"), repeated)
    batches = [batch(0, seed=1), batch(1, seed=2), batch(0, seed=3)]

    def figures(size):
        sums = {}
        with torch.no_grad():
            for made in batches:
                for piece in task.micro_batches(made, size):
                    for name, value in task.evaluate(piece).items():
                        sums[name] = sums[name] + value if name in sums else value
        return task.summarize(sums), task.plots(sums), sums

    whole, plots, sums = figures(0)
    pieces, _, _ = figures(11)
    assert whole == pytest.approx(pieces, rel=1e-6, abs=1e-6)
    first = torch.cat([made["robs"] for made in (batches[0], batches[2])]).numpy()
    valid = torch.cat([made["dfs"] for made in (batches[0], batches[2])]).numpy()
    condition = torch.cat([made["condition"] for made in (batches[0], batches[2])]).numpy()
    renumbered = np.select([condition == 0, condition == 1, condition == 3], [0, 1, 2], -1)
    condition_b = np.where(batches[1]["condition"].numpy() == 2, 0, -1)
    other = explainable(repeat_sums(batches[1]["robs"].numpy(), batches[1]["dfs"].numpy(), condition_b, 1))["share"]
    share = np.concatenate([explainable(repeat_sums(first, valid, renumbered, 3))["share"], other])
    assert whole["explainable_variance"] == pytest.approx(np.nanmean(share))
    assert whole["neurons"] == 7
    assert {row["session"] for row in plots["responses"]} == {"a", "b"}
    assert sum(row["responses"] for row in plots["responses"]) == sum(int(made["dfs"].sum()) for made in batches)
    assert len(plots["neurons"]) == 7
    assert float(sums["bins"].sum()) == sum(int(made["dfs"].sum()) for made in batches)


@pytest.mark.parametrize("loss", ["poisson", "squared"])
def test_a_task_without_its_store_draws_responses_against_the_means_of_its_weights(loss):
    torch.manual_seed(2)
    trained = NeuralTask(SESSIONS, section(train={"loss": loss}))
    for parameter in trained.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    alike = (replace(each, mean=(1.0,) * each.neurons, spread=(1.0,) * each.neurons) for each in SESSIONS)
    loaded = NeuralTask(tuple(alike), section(train={"loss": loss}))
    loaded.load_state_dict(trained.state_dict())
    with torch.no_grad():
        sums = [task.evaluate(batch(1)) for task in (trained, loaded)]
        rate, _ = trained.predict(batch(1))
    assert loaded.plots(sums[1])["responses"] == trained.plots(sums[0])["responses"]
    mean, spread = (np.array(each) for each in (SESSIONS[1].mean, SESSIONS[1].spread))
    predicted = ((rate.numpy() - mean) / spread)[batch(1)["dfs"].numpy() != 0]
    assert float(sums[1]["class_predicted"].sum()) == pytest.approx(predicted.sum(), rel=1e-5)


def test_figures_of_neurons_have_what_the_table_of_units_says():
    named = replace(SESSIONS[1], units={"area": ("V1", "LM", "V1", None), "depth": (1.5, 2, 3, 4)})
    task = NeuralTask((SESSIONS[0], named), section())
    with torch.no_grad():
        rows = task.plots(task.evaluate(batch(1)))["neurons"]
    assert [row.get("area") for row in rows] == [None] * 3 + ["V1", "LM", "V1", None]
    assert rows[4]["depth"] == 2


def test_frames_of_colour():
    colour = (SessionShape("c", (3, 6, 7), 2, 0, (0.5, 0.5), (1.0, 1.0)),)
    task = NeuralTask(colour, section("small"))
    stim = torch.randint(0, 256, (4, 3, 3, 6, 7), dtype=torch.uint8)
    made = {"stim": stim, "robs": torch.ones(4, 2), "dfs": torch.ones(4, 2)}
    assert task.predict(made)[0].dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.isfinite(task.loss(made)[0])
    assert task.encoder.filters()["core"].shape == (16, 3, 3, 7, 7)
    plain = NeuralTask(SESSIONS, section())
    assert {name: tuple(each.shape) for name, each in plain.encoder.filters().items()} == {
        "a": (3, 3, 1, 6, 7),
        "b": (4, 3, 1, 5, 9),
    }


SMALLER = [{"name": "normalise", "mean": 3.0, "std": 2.0}, {"name": "downsample", "factor": 2}]


@pytest.mark.parametrize("transforms", [[], SMALLER])
def test_sums_are_the_same_on_a_device_without_doubles(transforms):
    torch.manual_seed(0)
    shape = SessionShape("a", (3, 3), 3, 2, (0.5, 1.0, 0.2), (0.7, 1.0, 0.4)) if transforms else SESSIONS[0]
    task = NeuralTask((shape,), section(transforms=transforms), (np.array([0, 2]),))
    made = batch(0)
    with torch.no_grad():
        expected = task.evaluate(made)
    with FakeMps(), torch.no_grad():
        sums = task.evaluate(on_mps(made))
    for name, value in expected.items():
        assert value.dtype == sums[name].dtype == torch.float64
        assert torch.equal(sums[name].cpu(), value)
