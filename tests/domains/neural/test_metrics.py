from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from outofcore.domains.neural.metrics import bits_per_spike, correlation, explainable
from tests.domains.neural.repeats import repeat_sums


def sums_of(responses, rates, mask):
    responses, rates = responses * mask, rates * mask
    logs = np.log(np.where(rates > 0, rates, 1))
    return {
        "bins": mask.sum(0).astype(float),
        "responses": responses.sum(0),
        "squares": (responses**2).sum(0),
        "rates": rates.sum(0),
        "rate_squares": (rates**2).sum(0),
        "products": (rates * responses).sum(0),
        "log_likelihood": (responses * logs - rates).sum(0),
    }


@pytest.fixture
def recorded():
    generator = np.random.default_rng(3)
    rates = generator.gamma(2, 0.4, (500, 4))
    return generator.poisson(rates).astype(float), rates, generator.random((500, 4)) > 0.2


def test_bits_per_spike_is_the_gain_over_the_mean(recorded):
    responses, rates, mask = recorded
    responses[7, 3], mask[:, 3] = 3, np.arange(500) == 7  # one bin is its own mean
    responses[:, 2] = 0
    together, each = bits_per_spike(sums_of(*recorded))
    assert np.isnan(each[2])
    gains, spikes = [], []
    for neuron in range(4):
        seen = mask[:, neuron]
        y, r = responses[seen, neuron], rates[seen, neuron]
        gain = stats.poisson.logpmf(y, r).sum() - stats.poisson.logpmf(y, y.mean()).sum()
        gains.append(gain / np.log(2))
        spikes.append(y.sum())
        assert neuron == 2 or each[neuron] == pytest.approx(gains[-1] / spikes[-1])
    assert together == pytest.approx(sum(gains) / sum(spikes), rel=1e-5)  # silence has the least rate, not 0


@pytest.mark.parametrize(
    ("bins", "middle", "noise", "known"),
    [
        (0, 1, 1, False),
        (1, 3, 1, False),
        (2, 3, 1, True),
        (50, 0, 0, False),  # silent
        (50, 0.1, 0, False),  # rounding gives a variance of about 1e-18
        (50, 1e6, 1e-3, False),  # below what float64 sums resolve
        (50, 1e6, 100, True),
        (50, 1e-9, 1e-9, True),
    ],
)
@pytest.mark.parametrize("constant", ["responses", "rates", "neither"])
def test_a_correlation_needs_two_bins_and_a_variance_of_both(bins, middle, noise, known, constant):
    generator = np.random.default_rng(bins)
    responses, rates = generator.normal(size=(2, 50, 1))
    odd = middle + noise * responses
    responses, rates = {"responses": (odd, rates), "rates": (rates, odd), "neither": (responses, rates)}[constant]
    mask = np.arange(50)[:, None] < bins
    (related,) = correlation(sums_of(responses, np.abs(rates), mask))
    if bins > 1 and (known or constant == "neither"):
        assert related == pytest.approx(np.corrcoef(responses[:bins, 0], np.abs(rates[:bins, 0]))[0, 1], abs=1e-5)
    else:
        assert np.isnan(related)


def fev_by_loops(responses, predictions):
    """FEV and FEVE of one neuron from a list of repeats by stimulus, as Cadena et al. 2019 define them."""
    everything = np.concatenate(responses)
    noise = np.mean([np.var(each, ddof=1) for each in responses])
    variance = np.var(everything, ddof=1)
    error = np.mean(np.concatenate([(each - p) ** 2 for each, p in zip(responses, predictions, strict=True)]))
    return (variance - noise) / variance, 1 - (error - noise) / (variance - noise)


def normalised_by_loops(responses, predictions):
    """The unbiased correlation of Pospisil & Bair 2021, from a list of repeats by stimulus."""
    means, count = np.array([each.mean() for each in responses]), len(responses)
    away, model = means - means.mean(), predictions - predictions.mean()
    left = np.mean([np.var(each, ddof=1) / len(each) for each in responses])
    power = (away**2).sum() - (count - 1) * left
    return (away * model).sum() / np.sqrt(power * (model**2).sum()) if power > 0 else np.nan


@settings(deadline=None)
@given(st.lists(st.integers(2, 6), min_size=2, max_size=8), st.integers(0, 2**32 - 1))
def test_figures_of_ragged_repeats(repeats, seed):
    generator = np.random.default_rng(seed)
    responses = [generator.normal(generator.normal() * 3, 1, count) for count in repeats]
    predictions = generator.normal(size=len(repeats)) * 3
    share, explained = fev_by_loops(responses, predictions)
    errors = [((each - p) ** 2).sum() for each, p in zip(responses, predictions, strict=True)]
    sums = {
        "repeats": np.array(repeats, float),
        "responses": np.array([each.sum() for each in responses]),
        "squares": np.array([(each**2).sum() for each in responses]),
        "errors": np.array(errors),
        "rates": repeats * predictions,
    }
    found = {name: figure.item() for name, figure in explainable({k: v[:, None] for k, v in sums.items()}).items()}
    assert found["share"] == pytest.approx(share, rel=1e-6, abs=1e-8)
    assert found["explained"] == pytest.approx(explained, rel=1e-5, abs=1e-6)
    means = [each.mean() for each in responses]
    assert found["average"] == pytest.approx(np.corrcoef(means, predictions)[0, 1], abs=1e-6)
    normalised = normalised_by_loops(responses, predictions)
    assert found["normalised"] == pytest.approx(normalised, rel=1e-4, nan_ok=True)


def schoppe(responses, prediction):
    """CCnorm of repeats (repeats, time), by the equations 1, 4 and 6 of Schoppe et al. 2016."""
    count, mean = len(responses), responses.mean(0)
    power = (responses.sum(0).var() - responses.var(1).sum()) / (count * (count - 1))
    return np.cov(mean, prediction, ddof=0)[0, 1] / np.sqrt(prediction.var() * power)


def test_normalised_correlation_is_that_of_schoppe_and_of_the_noiseless_response():
    generator = np.random.default_rng(5)
    signal = generator.normal(size=(2000, 3)) * [2, 1, 0.5]
    prediction = 0.3 * signal + 0.2 * generator.normal(size=(2000, 3))
    responses = signal + generator.normal(size=(8, 2000, 3))
    sums = {
        "repeats": np.full((2000, 3), 8.0),
        "responses": responses.sum(0),
        "squares": (responses**2).sum(0),
        "errors": ((responses - prediction) ** 2).sum(0),
        "rates": 8 * prediction,
    }
    found = explainable(sums)
    for neuron in range(3):
        reached = found["normalised"][neuron]
        assert reached == pytest.approx(schoppe(responses[..., neuron], prediction[:, neuron]), rel=1e-3)
        assert reached == pytest.approx(np.corrcoef(signal[:, neuron], prediction[:, neuron])[0, 1], abs=0.02)
        assert found["average"][neuron] < reached
    flat = explainable(sums | {"rates": np.full((2000, 3), 0.8)})
    assert np.isnan(flat["average"]).all()
    assert np.isnan(flat["normalised"]).all()


def test_rows_of_a_store_give_the_same_and_masked_repeats_do_not_count():
    generator = np.random.default_rng(4)
    condition = np.array([0, 1, -1, 0, 1, 0, 2, 1], np.int32)
    responses = generator.normal(size=(8, 2)).astype(np.float32)
    valid = np.ones((8, 2), np.uint8)
    valid[0, 1] = 0
    found = explainable(repeat_sums(responses, valid, condition, 3))
    wide = responses.astype(float)
    groups = [wide[[0, 3, 5], 0], wide[[1, 4, 7], 0]]
    assert found["share"][0] == pytest.approx(fev_by_loops(groups, [0, 0])[0])
    groups = [wide[[3, 5], 1], wide[[1, 4, 7], 1]]
    assert found["share"][1] == pytest.approx(fev_by_loops(groups, [0, 0])[0])
    assert np.isnan(found["explained"]).all()


def test_no_repeats_give_no_figure():
    found = explainable(repeat_sums(np.ones((2, 1)), np.ones((2, 1), np.uint8), np.array([0, 1], np.int32), 2))
    assert np.isnan(found["share"][0])
