"""Checked predictions, bids and campaigns: what metrics accept, and errors that name the value."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.samples import (
    Floats,
    Integers,
    all_obey,
    check_equal_lengths,
    check_finite_sum,
    check_not_negative,
    check_unit_interval,
)
from evaluation.metrics.ranks import Runs

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Probabilities, outcomes and weights of n samples, each of shape (n,) and checked.

    What several metrics need is worked out once, when the first of them asks for it.
    """

    probabilities: Floats
    outcomes: Floats
    weights: Floats

    @classmethod
    def check(cls, p: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Self:
        """The samples as float64.

        Probabilities and outcomes lie in [0, 1] (outcomes may be fractional: rates of bins,
        expected conversions), weights are finite and not negative, None means 1 each. Raises
        ValueError that names the first offending value.
        """
        probabilities = check_unit_interval("probabilities", p)
        outcomes = check_unit_interval("outcomes", y)
        weights = check_weights(sample_weight, len(probabilities))
        check_equal_lengths(probabilities=probabilities, outcomes=outcomes, sample_weight=weights)
        return cls(probabilities, outcomes, weights)

    def select(self, chosen: Mask) -> "Predictions":
        """The samples that are chosen by a mask, (n,)."""
        columns = (self.probabilities, self.outcomes, self.weights)
        return Predictions(*(column[chosen] for column in columns))

    @cached_property
    def positives(self) -> Floats:
        """Weight times outcome of every sample, shape (n,)."""
        return self.weights * self.outcomes

    @property
    def expected(self) -> Floats:
        """Weight times probability of every sample, shape (n,)."""
        return self.weights * self.probabilities

    @cached_property
    def runs(self) -> Runs:
        """All samples as one group, sorted by probability."""
        return Runs.of_one_group(self.probabilities, self.weights)

    @cached_property
    def run_positives(self) -> Floats:
        """Weight times outcome of every run, shape (r,)."""
        return self.runs.sums(self.positives)

    @cached_property
    def ordered(self) -> "Predictions":
        """The same samples by ascending probability where sorting them so is cheap, else these.

        For what needs `runs` and `run_positives` only, which are the same: plain clicks without
        weights sort without an index, several times faster than `runs` does it.
        """
        if "runs" in vars(self) or not self._are_plain:
            return self
        return Predictions(*_sorted_pairs(self.probabilities, self.outcomes), self.weights)

    @property
    def _are_plain(self) -> bool:
        y = self.outcomes
        return bool((self.weights == 1.0).all() and ((y == 0.0) | (y == 1.0)).all())


def _sorted_pairs(probabilities: Floats, outcomes: Floats) -> tuple[Floats, Floats]:
    """Both columns sorted by probability, then outcome; outcomes are 0 or 1."""
    # The bits of floats from 0 up sort as they do, and their sign bit is free for the outcome.
    keys = probabilities.view(np.uint64) << np.uint64(1)
    keys |= outcomes.astype(np.uint64)
    keys.sort()
    sorted_outcomes = (keys & np.uint64(1)).astype(np.float64)
    keys >>= np.uint64(1)
    return keys.view(np.float64), sorted_outcomes


def check_weights(sample_weight: ArrayLike | None, length: int) -> Floats:
    """The weights as float64 of shape (n,), at least 0, with a finite sum; ones when none."""
    if sample_weight is None:
        return np.ones(length)
    weights = check_not_negative("sample_weight", sample_weight)
    check_finite_sum("sample_weight", weights)
    return weights


@dataclass(frozen=True, slots=True, eq=False)
class PricedPredictions:
    """Predictions of clicks that did or did not come, and the bid for each, shape (n,)."""

    predictions: Predictions
    bids: Floats

    @classmethod
    def check(
        cls, p: ArrayLike, y: ArrayLike, bids: ArrayLike, sample_weight: ArrayLike | None
    ) -> Self:
        """The samples as float64.

        As for `Predictions.check`, but outcomes are 0 or 1; bids are finite and not negative.
        Raises ValueError that names the first offending value.
        """
        predictions = Predictions.check(p, y, sample_weight)
        y = predictions.outcomes
        whole = (y == 0.0) | (y == 1.0)
        all_obey("outcomes", y, whole, "every value must be 0 or 1, a click or none")
        checked = check_not_negative("bids", bids)
        check_equal_lengths(probabilities=predictions.probabilities, bids=checked)
        return cls(predictions, checked)

    @property
    def scores(self) -> Floats:
        """Probability times bid, what an auction ranks by, shape (n,)."""
        return self.predictions.probabilities * self.bids

    @property
    def revenue(self) -> Floats:
        """Bid of each positive, 0 of each negative, shape (n,)."""
        return self.predictions.outcomes * self.bids

    @property
    def weights(self) -> Floats:
        """Of the samples, shape (n,)."""
        return self.predictions.weights


def check_mask(name: str, values: ArrayLike, probabilities: NDArray[Any]) -> Mask:
    """The values as booleans, (n,); ValueError on anything else, or another length."""
    mask = np.asarray(values)
    if mask.ndim != 1 or (mask.size and mask.dtype != np.bool_):
        raise ValueError(
            f"{name} must be booleans of one dimension, not {mask.ndim}-d {mask.dtype}"
        )
    columns: dict[str, NDArray[Any]] = {"probabilities": probabilities, name: mask}
    check_equal_lengths(**columns)
    return mask.astype(np.bool_, copy=False)


Campaigns = Sequence[Hashable] | NDArray[Any]


def encode_campaigns(campaigns: Campaigns) -> tuple[list[Hashable], Integers]:
    """The distinct campaigns, and the index into them of every sample, shape (n,)."""
    if isinstance(campaigns, np.ndarray) and campaigns.dtype.kind in "iu" and campaigns.ndim == 1:
        return _encode_numbers(campaigns)
    keys = campaigns.tolist() if isinstance(campaigns, np.ndarray) else campaigns
    code_of = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    return list(code_of), np.fromiter(map(code_of.__getitem__, keys), np.int64, len(keys))


def _encode_numbers(numbers: NDArray[Any]) -> tuple[list[Hashable], Integers]:
    # Indices into a list of names are small: counting them spares a sort of all samples.
    if len(numbers) and numbers.min() >= 0 and numbers.max() < 2 * len(numbers):
        present = np.bincount(numbers.astype(np.int64, copy=False)) > 0
        codes = numbers if present.all() else (np.cumsum(present) - 1)[numbers]
        return list(np.flatnonzero(present).tolist()), codes
    distinct, codes = np.unique(numbers, return_inverse=True)
    return list(distinct.tolist()), codes
