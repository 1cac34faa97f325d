"""Encoder metrics, from sums that add up over batches.

Bits per spike: (L_model - L_null) / (spikes ln 2), with L the Poisson log-likelihood over the unmasked bins. The null
model predicts each neuron's mean response over these same bins (as in Pillow et al. 2008, Spatio-temporal correlations
and visual signalling in a complete neuronal population, Nature 454, and the Neural Latents Benchmark, Pei et al. 2021),
so that a rate that drifted since training does not flatter the result.

Explainable variance and the explained fraction of it (FEV, FEVE; Cadena et al. 2019, Deep convolutional models improve
predictions of macaque V1 responses to natural images, PLOS Computational Biology): the noise is the unbiased variance
over repeats of a stimulus (ddof = 1), averaged over stimuli. Nothing is clipped at 0: a neuron without signal scatters
around it.

Normalised correlation (CCnorm; Schoppe et al. 2016, Measuring the performance of neural models, Frontiers in
Computational Neuroscience 10): the correlation of the prediction with the response averaged over repeats, divided by
the highest that a model can reach. Its signal power is the variance over stimuli of that average without the noise
that is left in it, which is measured as above, since repeats of single images have no time in common: this is the
divisor of Pospisil & Bair 2021, The unbiased estimation of the fraction of variance explained by a model, PLOS
Computational Biology 17. Where noise is independent, it is that of Schoppe et al.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from outofcore.ndarrays import Doubles

LEAST_RATE = 1e-6
"""Lower bound of rates in spikes per bin: a spike at rate 0 would have an infinite loss."""


Sums = Mapping[str, Doubles]


def bits_per_spike(sums: Sums) -> tuple[float, Doubles]:
    """Bits per spike over all neurons together and per neuron; NaN without spikes.

    ``sums`` over the unmasked bins, (neurons,) each: ``bins``, their number; ``responses``; ``log_likelihood``, of
    response * ln(rate) - rate, the part that depends on the model.
    """
    bins, responses = sums["bins"], sums["responses"]
    mean = np.maximum(responses / np.maximum(bins, 1), LEAST_RATE)
    gain = (sums["log_likelihood"] - (responses * np.log(mean) - bins * mean)) / np.log(2)
    by_neuron = np.divide(gain, responses, out=np.full(len(gain), np.nan), where=responses > 0)
    total = float(responses.sum())
    return (float(gain.sum()) / total if total > 0 else float("nan")), by_neuron


def correlation(sums: Sums) -> Doubles:
    """Pearson correlation of response and prediction, (neurons,); NaN if either is constant.

    ``sums`` over the unmasked bins, (neurons,) each: ``bins``, their number; ``responses``, ``rates``, the predictions;
    ``squares``, ``rate_squares``, ``products`` of these.
    """
    count = np.maximum(sums["bins"], 1)
    pairs = (sums["responses"], sums["squares"]), (sums["rates"], sums["rate_squares"])
    covariance = sums["products"] / count - sums["responses"] / count * sums["rates"] / count
    spread = [np.maximum(squares / count - (total / count) ** 2, 0) for total, squares in pairs]
    # Below this share of the mean square, a variance is rounding error of a constant.
    first, second = (variance * count > 1e-12 * squares for variance, (_, squares) in zip(spread, pairs, strict=True))
    varies, result = first & second, np.full(len(count), np.nan)
    result[varies] = covariance[varies] / np.sqrt(spread[0] * spread[1])[varies]
    return result


def explainable(sums: Sums) -> dict[str, Doubles]:
    """Explainable variance of each neuron and the fraction explained, (neurons,) each.

    Parameters
    ----------
    sums
        Over the repeats of each condition (a stimulus, or a bin of one), (conditions, neurons) each: ``repeats``, the
        number of unmasked ones; ``responses``, ``squares`` of these; ``errors``, squared differences from the
        predictions, and ``rates``, the predictions.

    Returns
    -------
    dict
        ``noise``, the variance over repeats, averaged over conditions; ``share``, FEV: 1 - noise / variance of all
        responses; ``explained``, FEVE: the explained share of the explainable variance; ``average``, the correlation
        of prediction and average over repeats; ``normalised``, CCnorm, NaN also where the average over repeats varies
        no more than noise does. NaN without two unmasked repeats.
    """
    used = sums["repeats"] >= 2
    count = np.where(used, sums["repeats"], 0)
    responses, squares = np.where(used, sums["responses"], 0), np.where(used, sums["squares"], 0)
    total = count.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        within = (squares - responses**2 / count) / (count - 1)
        noise = np.where(used, within, 0).sum(0) / used.sum(0)
        variance = (squares.sum(0) - responses.sum(0) ** 2 / total) / (total - 1)
        error = np.where(used, sums["errors"], 0).sum(0) / total
        recorded, predicted = _centred(responses / count, used), _centred(sums["rates"] / count, used)
        products, power, spread = (recorded * predicted).sum(0), (recorded**2).sum(0), (predicted**2).sum(0)
        left = np.where(used, within / count, 0).sum(0) * (used.sum(0) - 1) / used.sum(0)
        return {
            "noise": noise,
            "share": (variance - noise) / variance,
            "explained": 1 - (error - noise) / (variance - noise),
            "average": products / np.sqrt(power * spread),
            "normalised": products / np.sqrt(np.where(power > left, power - left, np.nan) * spread),
        }


def _centred(values: Doubles, used: npt.NDArray[np.bool_]) -> Doubles:
    """Used values without their mean, 0 elsewhere; all NaN if they are equal but for rounding."""
    number = used.sum(0)
    away = np.where(used, values - np.where(used, values, 0).sum(0) / number, 0)
    varies = (away**2).sum(0) > 1e-12 * np.where(used, values**2, 0).sum(0)
    return np.where(varies, away, np.nan)
