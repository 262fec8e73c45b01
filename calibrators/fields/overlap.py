"""How much of its effect each field serves where fields say the same of an impression.

The effect of a field's values is what impressions with them have, whatever their other fields are;
so what fields have in common is in each of them. Served together, each has the share b of it that
solves the normal equations C b = diag C, with the covariances C of the effects over the impressions
of a campaign and hour, since alone each has the share 1.

Sums by one field do not tell which values come together. But the mean effect of a campaign's
impressions in an hour differs from that of the hours beside mostly by chance, and in two fields by
the same chance as far as they agree: means have the correlations of impressions (ecological
regression: Goodman, American Sociological Review 18, 1953).
"""

from collections.abc import Sequence
from itertools import combinations
from math import copysign, sqrt
from typing import Final, NamedTuple, Self

import numpy as np

from calibrators.samples import Floats

_CAMPAIGNS: Final = 1000
"""As many are looked at, of all sizes: two fields are compared in a millisecond."""
_CHANCE: Final = 4.0
"""Standard errors up to which a correlation is taken for chance."""
_MOST, _SAME, _TINY = 2.0, 1e-6, 1e-30
"""The largest share, as of fields that speak against each other; the least eigenvalue over the
largest that tells two fields from one; and what is nothing."""


class Overlap(NamedTuple):
    """Of k fields: the share of each, (k,), from 0 to 2, and the correlations of their effects,
    (k, k). Of one that agrees with no other the share is exactly 1, its correlations are 0."""

    shares: Floats
    alike: Floats

    @classmethod
    def of(cls, means: Sequence[Floats], spreads: Floats, expected: Floats) -> Self:
        """By field the mean ratio of its values in each campaign and hour, (c, h), and the variance
        in each campaign times the mean probability of a positive, (k, c); and what campaigns and
        hours expect of positives, (c, h), 0 of what is not to count."""
        every = np.argsort(-expected.sum(axis=1), kind="stable")
        some = every[:: -(-len(every) // _CAMPAIGNS) or 1]
        moved = [_moved(np.log(mean[some]), expected[some]) for mean in means]
        sds = np.array([max(float(np.sqrt((each**2).sum())), _TINY) for each in moved])
        parts = zip(moved, spreads, sds, strict=True)
        chance = [float((x != 0).sum(axis=1) @ spread[some]) / sd**2 for x, spread, sd in parts]
        alike = np.eye(len(moved))
        for one, two in combinations(range(len(moved)), 2):
            by_chance = min(sqrt(chance[one] * chance[two]), 1.0)
            found = _correlation(moved[one] / sds[one], moved[two] / sds[two], by_chance)
            alike[one, two] = alike[two, one] = found
        return cls(_shares(alike, sds), alike)

    def jointly(self, spreads: Floats) -> Floats:
        """By how much the mean product of the ratios served exceeds that of their means, as a
        logarithm times the mean probability of a positive, (c,): by half of all covariances. Takes
        the spreads as one, (k, c)."""
        sds = self.shares[:, None] * np.sqrt(spreads)
        others = self.alike - np.eye(len(self.alike))
        return np.asarray((sds * (others @ sds)).sum(axis=0) / 2)


def _shares(alike: Floats, sds: Floats) -> Floats:
    agree = np.count_nonzero(alike, axis=0) > 1
    solved = np.linalg.lstsq(alike[np.ix_(agree, agree)], sds[agree], rcond=_SAME)[0]
    found = np.ones(len(sds))
    found[agree] = np.clip(solved / sds[agree], 0.0, _MOST)
    return found


def _moved(values: Floats, weights: Floats) -> Floats:
    """By what values, (c, h), differ from those of the hours beside, beyond what other campaigns'
    do in that hour; in units of a common standard deviation."""
    held, sums = (np.pad(each, ((0, 0), (1, 1))) for each in (weights, weights * values))
    beside = held[:, :-2] + held[:, 2:]
    near = _divided(sums[:, :-2] + sums[:, 2:], beside)
    own = _divided(weights * beside, weights + beside)
    off = values - near
    off -= _divided((own * off).sum(axis=0) - own * off, own.sum(axis=0) + 0.0 * own)
    return np.asarray(np.sqrt(own) * off)


def _divided(sums: Floats, weights: Floats) -> Floats:
    return np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)


def _correlation(one: Floats, two: Floats, by_chance: float) -> float:
    """At least that of what is by chance in two whose squares add up to 1: such a part of the
    variance. The rest is of mixes that move, in two fields as much alike as it may be. Less what
    its errors allow (White, Econometrica 48, 1980)."""
    found = float((one * two).sum())
    errors = (one * (two - found * one)) ** 2 + (two * (one - found * two)) ** 2
    unsure = _CHANCE**2 * float(errors.sum()) / 2
    if found**2 <= unsure:
        return 0.0
    left = abs(found) * (1.0 - (unsure / found**2) ** 2) - (1.0 - by_chance)
    return copysign(max(left, 0.0) / max(by_chance, _TINY), found)
