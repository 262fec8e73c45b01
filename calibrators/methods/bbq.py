"""Bayesian binning into quantiles: every number of equal-frequency bins, averaged."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calibrators.bins.bins import WeightedSamples
from calibrators.maps.calibration_map import CalibrationMap, borders_between, step_map
from calibrators.methods.calibrator import Calibrator, Prior
from calibrators.methods.equal_frequency import bin_starts
from calibrators.samples import Floats, Integers

_PRIOR_WEIGHT = 2.0
"""N' of the paper: pseudo-samples of the whole prior, shared by a model's bins."""

_MOST_BINS = 2**22
"""Bins of all models together; beyond, every so many-th model stands for its neighbours."""

_MOST_SAMPLES = 2.0**53
"""Heavier data count as this many samples: it decides as well, and no logarithm overflows."""

_NEGLIGIBLE = 1e-12


class BayesianBinning(Calibrator):
    """Bayesian binning into quantiles (BBQ).

    Source: Naeini, Cooper and Hauskrecht, Obtaining Well Calibrated Probabilities Using Bayesian
    Binning, AAAI 2015; the baseline BBQ of Deng et al., section 5.1. Models of B equal-frequency
    bins, B from N^(1/3) / 10 to 10 N^(1/3) (never more than distinct scores). A bin with n samples
    and m positives has the prior beta(2p/B, 2(1 - p)/B), p the middle of its interval, and the
    value (m + 2p/B) / (n + 2/B); a model weighs as much as its marginal likelihood. Intervals meet
    halfway between the scores on their sides. Not monotone: a yardstick, not for serving.

    >>> calibration_map = BayesianBinning().fit([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1], [2] * 4)
    >>> calibration_map([0.1, 0.2, 0.3, 0.4]).round(2)
    array([0.02, 0.03, 0.89, 0.92])
    """

    name: ClassVar[str] = "bbq"
    monotone: ClassVar[bool] = False

    def fit_weighted(self, data: WeightedSamples, prior: Prior = None) -> CalibrationMap:
        """A step wherever a model of any weight has a border."""
        sums = _Cumulated(data)
        sizes = model_sizes(float(sums.weights[-1]), len(data.scores))
        evidence = np.array([sums.binned(bins).log_likelihood for bins in sizes])
        shares = np.exp(evidence - evidence.max())
        heavy = np.flatnonzero(shares > _NEGLIGIBLE)
        shares = shares[heavy] / shares[heavy].sum()
        return sums.averaged(zip(shares.tolist(), sizes[heavy].tolist(), strict=True))


def model_sizes(total_weight: float, distinct: int) -> Integers:
    """Numbers of bins B of the models, ascending: the paper's range, at most `distinct`."""
    root = float(np.cbrt(total_weight))
    fewest = int(np.clip(root // 10, 1, distinct))
    most = int(np.clip(np.ceil(10 * root), fewest, distinct))
    sizes = np.arange(fewest, most + 1)
    affordable = max(1, 2 * _MOST_BINS // (fewest + most))
    return sizes[:: -(-len(sizes) // affordable)]


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """One model: first distinct score of each bin, its samples and positives, and its prior."""

    starts: Integers
    weights: Floats
    positives: Floats
    prior_positives: Floats
    prior_negatives: Floats

    @property
    def values(self) -> Floats:
        """Posterior mean of each bin."""
        prior = self.prior_positives + self.prior_negatives
        return (self.positives + self.prior_positives) / (self.weights + prior)

    @property
    def log_likelihood(self) -> float:
        """Log marginal likelihood of the outcomes."""
        from scipy.special import betaln  # as `calibrators.samples.expit` does

        negatives = self.weights - self.positives
        joint = betaln(
            self.positives + self.prior_positives, negatives + self.prior_negatives
        ) - betaln(self.prior_positives, self.prior_negatives)
        return float(joint.sum())


class _Cumulated:
    """Cumulative weights and positives of the distinct scores, (m,), and the borders of their
    intervals, (m + 1,) from 0 to 1: any bin is a difference of two entries."""

    def __init__(self, data: WeightedSamples) -> None:
        """The sums of the samples."""
        self.borders = np.concatenate(([0.0], borders_between(data.scores), [1.0]))
        scale = min(1.0, _MOST_SAMPLES / data.total_weight)
        self.weights = np.cumsum(data.weights * scale)
        self.positives = np.cumsum(data.positives * scale)

    def binned(self, bins: int) -> _Model:
        """The model of this many equal-frequency bins, or fewer where scores repeat."""
        starts = bin_starts(self.weights, bins)
        ends = np.append(starts[1:], len(self.weights)) - 1
        weights = np.diff(self.weights[ends], prepend=0.0)
        positives = np.clip(np.diff(self.positives[ends], prepend=0.0), 0.0, weights)
        middles = (self.borders[starts] + self.borders[ends + 1]) / 2
        # A bin that holds only the score 0 would have a prior that is no distribution.
        middles = np.clip(middles, _NEGLIGIBLE, 1 - _NEGLIGIBLE)
        share = _PRIOR_WEIGHT / len(starts)
        return _Model(starts, weights, positives, share * middles, share * (1 - middles))

    def averaged(self, models: Iterable[tuple[float, int]]) -> CalibrationMap:
        """The step map of the models' mean, from their shares and numbers of bins."""
        rises = np.zeros(len(self.weights))
        begun = np.zeros(len(self.weights), dtype=bool)
        for share, bins in models:
            model = self.binned(bins)
            rises[model.starts] += share * np.diff(model.values, prepend=0.0)
            begun[model.starts] = True
        starts = np.flatnonzero(begun)
        values = np.clip(np.cumsum(rises[starts]), 0.0, 1.0)
        return step_map(self.borders[starts[1:]], values)
