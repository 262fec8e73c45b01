"""GC-N: Cal-N of each campaign, averaged; its floor, what it would be if the probabilities were
right; and the mean of any metric over groups.

Arguments and errors are those of `evaluation.metrics`.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import Floats, Integers, check_equal_lengths, check_not_negative
from evaluation.metrics.cal_n import (
    Empty,
    EqualFrequencyBins,
    cal_n_of_bins,
    cal_n_of_runs,
    check_bins,
)
from evaluation.metrics.predictions import (
    Campaigns,
    Predictions,
    Runs,
    encode_campaigns,
    quotients,
    weighted_mean,
)

POSITIVES_PER_BIN: Final = 5.0
"""A campaign with fewer positives for each of its bins is left out: its Cal-N is their noise."""

Weights = Literal["samples", "positives"] | Mapping[Hashable, float]


@dataclass(frozen=True, slots=True)
class GroupedCalN:
    """GC-N and what it is made of.

    value : GC-N; nan when no campaign is kept.
    campaigns_kept : campaigns that count in it.
    share_left_out : share of the samples, by weight, in campaigns that do not; nan without samples.
    per_campaign : Cal-N of each campaign kept.
    """

    value: float
    campaigns_kept: int
    share_left_out: float
    per_campaign: Mapping[Hashable, float]


def gc_n(
    p: ArrayLike,
    y: ArrayLike,
    campaigns: Campaigns,
    n: int = 5,
    *,
    empty: Empty = "merge",
    min_positives: float | None = None,
    weights: Weights = "samples",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Weighted mean of the campaigns' Cal-N; see `grouped_cal_n`, whose `value` this is.

    >>> campaigns = ["a", "a", "b"]
    >>> weights = [50, 50, 300]
    >>> round(gc_n([0.2, 0.6, 0.5], [0.4, 0.6, 0.5], campaigns, 2, sample_weight=weights), 6)
    0.176777
    """
    runs = CampaignRuns.of(Predictions.check(p, y, sample_weight), campaigns)
    return runs.cal_n(n, empty=empty, min_positives=min_positives, weights=weights).mean


def grouped_cal_n(
    p: ArrayLike,
    y: ArrayLike,
    campaigns: Campaigns,
    n: int = 5,
    *,
    empty: Empty = "merge",
    min_positives: float | None = None,
    weights: Weights = "samples",
    sample_weight: ArrayLike | None = None,
) -> GroupedCalN:
    """GC-N = sum_j w_j Cal-N_j / sum_j w_j over the campaigns j that have enough positives.

    A thin campaign's Cal-N is the noise of its few clicks, and one bin without any would make the
    average infinite, so such campaigns are left out; the result has their share of the samples.

    n : number of bins of each campaign, at least 1.
    empty : what becomes of a bin without positives, see `evaluation.metrics.cal_n.bin_errors`.
    min_positives : a campaign with fewer is left out; 5 n unless given. One whose Cal-N is
        undefined is left out too.
    weights : w_j: the campaign's "samples" (their total weight), its "positives", or a number for
        each campaign.

    Source: Deng et al. (paper 004), section 4, equation (6). With n = 1 it is the weighted mean of
    max(PCOC, 1 / PCOC) - 1, not PCOC as stated there.

    >>> grouped_cal_n([0.2, 0.5], [0.25, 0.1], ["a", "b"], 1, sample_weight=[100, 20])
    GroupedCalN(value=0.25, campaigns_kept=1, share_left_out=0.16666666666666666, \
per_campaign={'a': 0.25})
    """
    runs = CampaignRuns.of(Predictions.check(p, y, sample_weight), campaigns)
    errors = runs.cal_n(n, empty=empty, min_positives=min_positives, weights=weights)
    values = errors.of_all(len(runs.names))
    return GroupedCalN(
        value=errors.mean,
        campaigns_kept=len(errors.campaigns),
        share_left_out=share_of_undefined(values, runs.samples),
        per_campaign=defined_by_name(runs.names, values),
    )


@dataclass(frozen=True, slots=True)
class CampaignErrors:
    """Cal-N and weight of the campaigns that count in GC-N, (k,) each, and which they are."""

    campaigns: Integers
    values: Floats
    weights: Floats

    @classmethod
    def joined(cls, parts: Sequence["CampaignErrors"]) -> "CampaignErrors":
        """Those of several parts of the data, no campaign in two of them."""
        columns = zip(*((part.campaigns, part.values, part.weights) for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))

    @property
    def mean(self) -> float:
        """GC-N: the weighted mean; nan of none."""
        # Without the selection a weight of 0 would turn an infinite Cal-N into nan.
        held = self.weights > 0.0
        if not held.any():
            return float("nan")
        return float(np.average(self.values[held], weights=self.weights[held]))

    def of_all(self, size: int) -> Floats:
        """Cal-N of all of so many campaigns, (size,); nan for those that do not count."""
        values = np.full(size, np.nan)
        values[self.campaigns] = self.values
        return values


@dataclass(frozen=True, slots=True)
class CampaignRuns:
    """Samples sorted by campaign and probability, once for every N that is asked for.

    names : the campaigns.
    runs : the samples, a group for each campaign.
    run_positives : weighted outcomes of each run, (r,).
    """

    names: Sequence[Hashable]
    runs: Runs
    run_positives: Floats

    @classmethod
    def of(cls, predictions: Predictions, campaigns: Campaigns) -> "CampaignRuns":
        """The runs of the samples; campaigns, shape (n,), are any hashable keys."""
        names, codes = encode_campaigns(campaigns)
        check_equal_lengths(probabilities=predictions.probabilities, campaigns=codes)
        return cls.of_rows(predictions, names, codes)

    @classmethod
    def of_rows(
        cls, predictions: Predictions, names: Sequence[Hashable], rows: Integers
    ) -> "CampaignRuns":
        """The same where rows, shape (n,), already say which of the distinct names each has."""
        runs = Runs.of(predictions.probabilities, predictions.weights, rows, len(names))
        return cls(names, runs, runs.sums(predictions.positives))

    def cal_n(
        self,
        n: int,
        *,
        empty: Empty = "merge",
        min_positives: float | None = None,
        weights: Weights = "samples",
    ) -> CampaignErrors:
        """Cal-N of the campaigns that count in GC-N; the options are those of `grouped_cal_n`."""
        check_bins(n)
        least = POSITIVES_PER_BIN * n if min_positives is None else min_positives
        values = cal_n_of_runs(self.runs, self.run_positives, n, empty)
        kept = np.flatnonzero((self.positives >= least) & ~np.isnan(values))
        return CampaignErrors(kept, values[kept], self._weights(weights)[kept])

    @property
    def samples(self) -> Floats:
        """Weight of each campaign, (campaigns,)."""
        return self.runs.group_sums(self.runs.weights)

    @property
    def positives(self) -> Floats:
        """Weighted outcomes of each campaign, (campaigns,)."""
        return self.runs.group_sums(self.run_positives)

    def _weights(self, weights: Weights) -> Floats:
        if isinstance(weights, Mapping):
            return self._given_weights(weights)
        if weights not in ("samples", "positives"):
            raise ValueError(f"weights = {weights!r}: must be samples, positives or a mapping")
        return self.samples if weights == "samples" else self.positives

    def _given_weights(self, weights: Mapping[Hashable, float]) -> Floats:
        missing = [name for name in self.names if name not in weights]
        if missing:
            raise ValueError(f"weights: campaign {missing[0]!r} has none ({len(missing)} in all)")
        return check_not_negative("weights", [weights[name] for name in self.names])


_MOST_DRAWN, _FEWEST_DRAWS, _MOST_DRAWS = 500_000, 20, 400
_DRAWN_TOGETHER = 1 << 15
"""So many bins at a time: they fit into a cache, and numpy is called seldom."""


class GroupCalibration:
    """Cal-N of each slice, (slices,); nan for those that have too few positives for it.

    values : Cal-N of the probabilities.
    floors : mean Cal-N of the probabilities if they were the truth, over draws of the outcomes.
    samples : weight of each slice.
    """

    def __init__(
        self,
        runs: Runs,
        positives: Floats,
        n: int,
        rng: np.random.Generator,
        empty: Empty = "merge",
        positives_per_bin: float = POSITIVES_PER_BIN,
        draws: int | None = None,
    ) -> None:
        """Cal-N with n bins; positives, (r,), are the weighted outcomes of each run.

        As in `grouped_cal_n`, a slice with fewer positives than `positives_per_bin` in each of
        its bins is left out. `draws` of the outcomes make the floors; by
        the number of slices unless given.
        """
        bins = EqualFrequencyBins(runs, n)
        expected = bins.sums(runs.expected)
        values = cal_n_of_bins(expected, bins.sums(positives), empty)
        enough = runs.group_sums(positives) >= positives_per_bin * n
        defined = enough & (runs.sample_counts >= n) & ~np.isnan(values)
        certain = bins.sums(runs.expected * runs.probabilities)
        self.floors = np.full(len(values), np.nan)
        self.floors[defined] = _floors(expected[defined], certain[defined], rng, draws)
        self.values = np.where(defined, values, np.nan)
        self.samples = runs.group_sums(runs.weights)


def _floors(
    expected: Floats, certain: Floats, rng: np.random.Generator, draws: int | None
) -> Floats:
    """Mean Cal-N over outcomes drawn from the probabilities of each bin, (slices,).

    Of the probabilities p of a bin, (slices, bins), are given the sums of p and of p ** 2. The
    number of positives is drawn from the binomial distribution that has its mean and variance.
    """
    trials, chances = matched_binomials(expected, certain)
    size = max(1, expected.size)
    draws = draws or draws_of_floors(size)
    total, defined = np.zeros(len(expected)), np.zeros(len(expected))
    together = max(1, _DRAWN_TOGETHER // size)
    for first in range(0, draws, together):
        many = min(together, draws - first)
        actual = rng.binomial(trials, chances, (many, *trials.shape)).astype(np.float64)
        tiled = np.tile(expected, (many, 1))
        found = cal_n_of_bins(tiled, actual.reshape(tiled.shape), "merge").reshape(many, -1)
        known = ~np.isnan(found)
        defined += known.sum(axis=0)
        # One after the other, so that how many are drawn together changes no bit.
        for drawn in np.where(known, found, 0.0):
            total += drawn
    return quotients(total, defined)


def draws_of_floors(size: int) -> int:
    """How often so many outcomes, at least one, are drawn for floors: the fewer, the more often."""
    return int(np.clip(_MOST_DRAWN // size, _FEWEST_DRAWS, _MOST_DRAWS))


def matched_binomials(expected: Floats, certain: Floats) -> tuple[Integers, Floats]:
    """Trials and chance of the binomials with the mean and variance of sums of outcomes, in the
    arguments' shape: the sums of p, and those of p ** 2; no trials where nothing is expected."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # The variance is sum p (1 - p), and that of a binomial trials * chance * (1 - chance).
        trials = np.rint(expected**2 / certain)
        chances = np.minimum(expected / trials, 1.0)
    drawn: NDArray[np.bool_] = (expected > 0.0) & np.isfinite(trials)
    return np.where(drawn, trials, 0.0).astype(np.int64), np.where(drawn, chances, 0.0)


def mean_of_defined(values: Floats, sizes: Floats) -> float:
    """Mean of the groups' values that are not nan, by the groups' sizes; both of shape (g,).

    nan when no group is left or those that are have no size.
    """
    kept = ~np.isnan(values)
    return weighted_mean(values[kept], sizes[kept])


def share_of_undefined(values: Floats, sizes: Floats) -> float:
    """Share of the sizes, shape (g,), in groups whose value is nan; nan when there is no size."""
    return float(quotients(sizes[np.isnan(values)].sum(), sizes.sum()))


def defined_by_name(names: Sequence[Hashable], values: Floats) -> Mapping[Hashable, float]:
    """The value of each group, shape (g,), that has one."""
    kept = np.flatnonzero(~np.isnan(values)).tolist()
    return dict(zip(map(names.__getitem__, kept), values[kept].tolist(), strict=True))
