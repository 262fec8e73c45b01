"""The posterior of the present run, by going through every way to cut the hours into runs."""

from itertools import product
from math import exp, log

import numpy as np
from scipy.special import gammaln, logsumexp

WIDE = [exp(-4.0 + 0.9 * step) for step in range(11)]


def negative_binomial(y, mean, size):
    """Log probability, without the y!."""
    shape = gammaln(y + size) - gammaln(size)
    return shape + size * log(size / (size + mean)) + y * log(mean / (size + mean))


def first_hour(y, e):
    """Log probability of a run's first hour: it may have any ratio."""
    return logsumexp([negative_binomial(y, e * ratio, 4.0) for ratio in WIDE]) - log(len(WIDE))


def of_run(observed, expected, drift):
    """Log probability of the hours of one run."""
    total = first_hour(observed[0], expected[0])
    size, rate = 0.5 + observed[0], 0.5 + expected[0]
    for y, e in zip(observed[1:], expected[1:], strict=True):
        ratio = size / rate
        size = 1 / (1 / size + drift)
        rate = size / ratio
        total += negative_binomial(y, e * ratio, size)
        size, rate = size + y, rate + e
    return total


def present_run(observed, expected, drift, jump):
    """The probability that the present run began with each hour."""
    hours = len(observed)
    logs = np.full(hours, -np.inf)
    for cuts in product([False, True], repeat=hours - 1):
        begins = [0, *(hour + 1 for hour, cut in enumerate(cuts) if cut)]
        ends = [*begins[1:], hours]
        total = sum(log(jump) if cut else log(1 - jump) for cut in cuts)
        for first, behind in zip(begins, ends, strict=True):
            total += of_run(observed[first:behind], expected[first:behind], drift)
        logs[begins[-1]] = np.logaddexp(logs[begins[-1]], total)
    return np.exp(logs - logsumexp(logs))
