"""Cal-N of every slice, what the truth would score, and their mean, GC-N."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, Integers
from evaluation.bin_error import Empty, bin_errors
from evaluation.cal_n import root_mean_square
from evaluation.equal_frequency import EqualFrequencyBins
from evaluation.group_mean import mean_of_defined, share_of_undefined
from evaluation.runs import Runs

POSITIVES_PER_BIN = 5.0
_MOST_DRAWN, _FEWEST_DRAWS, _MOST_DRAWS = 500_000, 20, 400


@dataclass(frozen=True, slots=True, eq=False)
class SliceCalibration:
    """Cal-N of each slice, (slices,); nan for those that have too few positives for it.

    Attributes
    ----------
    values : Cal-N of the probabilities.
    floors : mean Cal-N of the probabilities if they were the truth, over draws of the outcomes.
    samples : weight of each slice.
    """

    values: Floats
    floors: Floats
    samples: Floats

    @classmethod
    def of(
        cls,
        runs: Runs,
        positives: Floats,
        n: int,
        rng: np.random.Generator,
        empty: Empty = "merge",
        positives_per_bin: float = POSITIVES_PER_BIN,
    ) -> Self:
        """Cal-N with n bins; positives, (r,), are the weighted outcomes of each run.

        As in `grouped_cal_n`, a slice with fewer positives than `positives_per_bin` in each of
        its bins is left out.
        """
        bins = EqualFrequencyBins.of(runs, n)
        expected = bins.sums(runs.expected)
        values = root_mean_square(bin_errors(expected, bins.sums(positives), empty))
        enough = runs.group_sums(positives) >= positives_per_bin * n
        defined = enough & (runs.sample_counts >= n) & ~np.isnan(values)
        certain = bins.sums(runs.expected * runs.probabilities)
        floors = np.full(len(values), np.nan)
        floors[defined] = _floors(expected[defined], certain[defined], rng)
        return cls(np.where(defined, values, np.nan), floors, runs.group_sums(runs.weights))

    @property
    def mean(self) -> float:
        """GC-N: the mean over the slices that have a value, by samples."""
        return mean_of_defined(self.values, self.samples)

    @property
    def mean_floor(self) -> float:
        """The same of what the truth would score."""
        return mean_of_defined(self.floors, self.samples)

    @property
    def share_left_out(self) -> float:
        """Share of the samples in slices without a value."""
        return share_of_undefined(self.values, self.samples)


def _floors(expected: Floats, certain: Floats, rng: np.random.Generator) -> Floats:
    """Mean Cal-N over outcomes drawn from the probabilities of each bin, (slices,).

    Of the probabilities p of a bin, (slices, bins), are given the sums of p and of p ** 2. The
    number of positives is drawn from the binomial distribution that has its mean and variance.
    """
    trials, chances = _binomials(expected, certain)
    size = max(1, expected.size)
    draws = int(np.clip(_MOST_DRAWN // size, _FEWEST_DRAWS, _MOST_DRAWS))
    total, defined = np.zeros(len(expected)), np.zeros(len(expected))
    for _ in range(draws):
        actual = rng.binomial(trials, chances).astype(np.float64)
        drawn = root_mean_square(bin_errors(expected, actual, "merge"))
        total += np.nan_to_num(drawn)
        defined += ~np.isnan(drawn)
    with np.errstate(invalid="ignore"):
        return total / defined


def _binomials(expected: Floats, certain: Floats) -> tuple[Integers, Floats]:
    with np.errstate(divide="ignore", invalid="ignore"):
        # The variance is sum p (1 - p), and that of a binomial trials * chance * (1 - chance).
        trials = np.rint(expected**2 / certain)
        chances = np.minimum(expected / trials, 1.0)
    drawn: NDArray[np.bool_] = (expected > 0.0) & np.isfinite(trials)
    return np.where(drawn, trials, 0.0).astype(np.int64), np.where(drawn, chances, 0.0)
