"""Figures of an encoder, from sums that add up over batches.

Bits per spike: (L_model - L_null) / (spikes ln 2), where L is the Poisson log-likelihood over the bins whose mask is
on. The null model predicts for each neuron its mean response over these same bins (as in the Neural Latents Benchmark,
Pei et al. 2021), so that the figure is not flattered by a rate that has changed since training.

Explainable variance and the fraction of it that is explained (FEV, FEVE; Cadena et al. 2019, Deep convolutional models
improve predictions of macaque V1 responses to natural images, PLOS Computational Biology): the noise is the variance
over repeats of the same stimulus, averaged over stimuli, without bias (ddof = 1). Nothing is clipped at 0: a neuron
without signal scatters around it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

LEAST_RATE = 1e-6
"""Rates are never smaller, in spikes a bin: one spike at rate 0 would be an infinite surprise."""


@dataclass(frozen=True)
class NeuronSums:
    """Sums over the bins whose mask is on, each of shape (neurons,).

    Attributes
    ----------
    bins, responses, squares
        Number of bins, sum of responses and of their squares.
    rates, rate_squares, products
        The same for predictions, and their products with the responses.
    log_likelihood
        Sum of response * ln(rate) - rate: what of the Poisson log-likelihood depends on the model.
    """

    bins: Doubles
    responses: Doubles
    squares: Doubles
    rates: Doubles
    rate_squares: Doubles
    products: Doubles
    log_likelihood: Doubles


def null_log_likelihood(sums: NeuronSums) -> Doubles:
    """Log-likelihood, as in :class:`NeuronSums`, of predicting each neuron's mean."""
    mean = np.maximum(sums.responses / np.maximum(sums.bins, 1), LEAST_RATE)
    return np.asarray(sums.responses * np.log(mean) - sums.bins * mean)


def bits_per_spike(sums: NeuronSums) -> tuple[float, Doubles]:
    """Over all neurons together, and for each; not-a-number where there is no spike."""
    gain = (sums.log_likelihood - null_log_likelihood(sums)) / np.log(2)
    each = np.divide(gain, sums.responses, out=np.full(len(gain), np.nan), where=sums.responses > 0)
    total = float(sums.responses.sum())
    return (float(gain.sum()) / total if total > 0 else float("nan")), each


def correlation(sums: NeuronSums) -> Doubles:
    """Pearson's correlation of response and prediction, (neurons,); not-a-number where either is constant."""
    count = np.maximum(sums.bins, 1)
    covariance: Doubles = sums.products / count - sums.responses / count * sums.rates / count
    spread = [_variance(sums.squares, sums.responses, count), _variance(sums.rate_squares, sums.rates, count)]
    # Below this share of the mean square a variance is what rounding leaves of a constant.
    varies = (spread[0] * count > 1e-12 * sums.squares) & (spread[1] * count > 1e-12 * sums.rate_squares)
    result: Doubles = np.full(len(count), np.nan)
    result[varies] = covariance[varies] / np.sqrt(spread[0] * spread[1])[varies]
    return result


def _variance(squares: Doubles, total: Doubles, count: Doubles) -> Doubles:
    return np.asarray(np.maximum(squares / count - (total / count) ** 2, 0))


@dataclass(frozen=True)
class RepeatSums:
    """Sums over the repeats of each condition (a stimulus, or a bin of one), each of shape (conditions, neurons).

    Attributes
    ----------
    repeats, responses, squares
        Number of repeats with the mask on, sum of responses and of their squares.
    errors
        Sum of (response - prediction) squared; None where nothing was predicted.
    """

    repeats: Doubles
    responses: Doubles
    squares: Doubles
    errors: Doubles | None = None


@dataclass(frozen=True)
class Explainable:
    """What repeats tell, each of shape (neurons,).

    Attributes
    ----------
    variance
        Of all responses to repeated conditions.
    noise
        Variance over repeats, averaged over conditions.
    share
        Explainable share of the variance (FEV): 1 - noise / variance.
    explained
        Share of the explainable variance that the predictions explain (FEVE); not-a-number without predictions.
    """

    variance: Doubles
    noise: Doubles
    share: Doubles
    explained: Doubles


def explainable(sums: RepeatSums) -> Explainable:
    """Explainable variance of each neuron, and the fraction explained; conditions with one repeat are left out.

    Neurons for which two repeats of no condition have the mask on get not-a-number.
    """
    used = sums.repeats >= 2
    count = np.where(used, sums.repeats, 0)
    responses, squares = np.where(used, sums.responses, 0), np.where(used, sums.squares, 0)
    total = count.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        within = (squares - responses**2 / count) / (count - 1)
        noise = np.where(used, within, 0).sum(0) / used.sum(0)
        variance = (squares.sum(0) - responses.sum(0) ** 2 / total) / (total - 1)
        share = (variance - noise) / variance
        explained = np.full(noise.shape, np.nan)
        if sums.errors is not None:
            error = np.where(used, sums.errors, 0).sum(0) / total
            explained = 1 - (error - noise) / (variance - noise)
    return Explainable(variance, noise, share, explained)
