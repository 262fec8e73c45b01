"""csAUC as definition 2.2 says it, pair by pair in exact arithmetic, and the paper's Algorithm 1
with its errors corrected: slow, plain, for comparison only."""

from dataclasses import dataclass
from fractions import Fraction
from math import nan

import numpy as np


@dataclass
class PairSums:
    """Sums over the pairs of unequal level; exact."""

    revenue: Fraction = Fraction()
    best: Fraction = Fraction()
    worst: Fraction = Fraction()
    tied_stake: Fraction = Fraction()


def pair_revenue(tie, score_high, score_low, bid, consolation):
    """What a pair pays: the bid of the higher level if it scores higher, else T of the lower."""
    if score_high > score_low:
        return bid
    if score_high < score_low:
        return consolation
    return {"definition": bid, "half": (bid + consolation) / 2, "worst": consolation}[tie]


def pair_sums(p, y, bids, weights, tie):
    """All ordered pairs of unequal level: 0 for a negative, a positive above it by its bid."""
    samples = [
        (float(p_i * b_i), (int(y_i), Fraction(float(b_i)) * int(y_i)), Fraction(float(w_i)))
        for p_i, y_i, b_i, w_i in zip(p, y, bids, weights, strict=True)
    ]
    sums = PairSums()
    for score_high, high, weight_high in samples:
        for score_low, low, weight_low in samples:
            if high <= low:
                continue
            weight, bid, consolation = weight_high * weight_low, high[1], low[1]
            revenue = pair_revenue(tie, score_high, score_low, bid, consolation)
            sums.revenue += weight * revenue
            sums.best += weight * bid
            sums.worst += weight * consolation
            if score_high == score_low:
                sums.tied_stake += weight * (bid - consolation)
    return sums


def cs_auc_oracle(p, y, bids, weights, tie):
    """(csAUC, worst, tied share) by brute force over all pairs."""
    sums = pair_sums(p, y, bids, weights, tie)
    if sums.best == 0:
        return nan, nan, nan
    tied_share = sums.tied_stake / (sums.best - sums.worst)
    return float(sums.revenue / sums.best), float(sums.worst / sums.best), float(tied_share)


def algorithm_1(grid, value):
    """Algorithm 1 on counts (level, score bucket) and the value of each level, level 0 being the
    negatives: `right` sums up revenue, line 32 pays a tied pair the mean of both."""
    levels, buckets = grid.shape
    left, middle, right = np.zeros((3, levels, buckets))
    for v in range(levels):
        before = lambda matrix, v=v: matrix[v - 1] if v else np.zeros(buckets)  # noqa: E731
        left[v] = before(left) + np.cumsum(grid[v])
        middle[v] = before(middle) + grid[v]
        right[v] = before(right) + np.cumsum((grid[v] * value[v])[::-1])[::-1]
    reward = reward_max = lower = 0.0
    for v in range(levels):
        reward_max += grid[v].sum() * lower * value[v]
        lower += grid[v].sum()
    for v in range(1, levels):
        for c in range(buckets):
            below = left[v - 1, c - 1] if c else 0.0
            above = right[v - 1, c + 1] if c + 1 < buckets else 0.0
            tied = right[v - 1, c] - above + middle[v - 1, c] * value[v]
            reward += grid[v, c] * (below * value[v] + 0.5 * tied + above)
    return reward / reward_max if reward_max else nan
