"""Cal-N as the definition says it, sample by sample: slow, plain, for comparison only."""

from fractions import Fraction
from itertools import groupby

import numpy as np


def repeated(p, y, weights):
    """The samples of whole-number weights, one by one."""
    return np.repeat(p, weights), np.repeat(y, weights)


def shared_outcomes(p, y):
    """Samples sorted by p; those of equal p share their mean outcome."""
    pairs = sorted(zip(map(float, p), map(float, y), strict=True))
    shared = []
    for score, run in groupby(pairs, key=lambda pair: pair[0]):
        outcomes = [Fraction(outcome) for _, outcome in run]
        mean = sum(outcomes) / len(outcomes)
        shared += [(Fraction(score), mean)] * len(outcomes)
    return shared


def bin_sums(p, y, n):
    """(sum p, sum y) of each bin that numpy.array_split makes, exactly."""
    shared = shared_outcomes(p, y)
    parts = np.array_split(np.arange(len(shared)), n)
    return [
        (
            sum((shared[i][0] for i in part), Fraction()),
            sum((shared[i][1] for i in part), Fraction()),
        )
        for part in parts
    ]


def pooled(sums):
    """Bins without positives put together with the next lower one that has some."""
    pools = []
    waiting = Fraction()
    for predicted, actual in sums:
        if actual > 0:
            pools.append([predicted + waiting, actual])
            waiting = Fraction()
        elif pools:
            pools[-1][0] += predicted
        else:
            waiting += predicted
    return pools


def error(predicted, actual):
    """max(r, 1/r) - 1."""
    if predicted == 0 or actual == 0:
        return float("inf")
    ratio = Fraction(predicted) / Fraction(actual)
    return float(max(ratio, 1 / ratio) - 1)


def cal_n_oracle(p, y, n, empty):
    """Cal-N of samples of weight 1."""
    if len(p) < n:
        return float("nan")
    sums = bin_sums(p, y, n)
    if empty == "skip":
        sums = [(predicted, actual) for predicted, actual in sums if actual > 0]
    if empty == "merge":
        sums = pooled(sums)
    if empty == "smooth":
        sums = [(predicted + 1, actual + 1) for predicted, actual in sums]
    errors = [error(*pair) for pair in sums if pair != (0, 0)]
    if not errors:
        return float("nan")
    return float(np.sqrt(np.mean(np.square(errors))))
