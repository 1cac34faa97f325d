"""A Poisson GLM and its bits per spike, as the field defines them: the oracle of trained models."""

from __future__ import annotations

import numpy as np
from scipy import special, stats


def fitted(columns, spikes):
    """Weights of a Poisson GLM, rate = ln(1 + exp(columns @ weights)), by Fisher scoring (IRLS)."""
    weights, likelihood = np.zeros(columns.shape[1]), -np.inf
    while True:
        drive = columns @ weights
        rate, slope = np.logaddexp(0, drive), special.expit(drive)
        reached = (spikes * np.log(rate) - rate).sum()
        if reached < likelihood + 1e-6:
            return weights
        likelihood = reached
        information = (columns * (slope**2 / rate)[:, None]).T @ columns
        weights = weights + np.linalg.solve(information, columns.T @ (slope * (spikes / rate - 1)))


def bits_per_spike(rates, spikes):
    """Co-bps of the Neural Latents Benchmark (Pei et al. 2021): against the mean of each neuron over the same bins."""
    gain = stats.poisson.logpmf(spikes, rates).sum() - stats.poisson.logpmf(spikes, spikes.mean(0)).sum()
    return gain / spikes.sum() / np.log(2)
