"""Checked samples: what every calibrator and bin accepts, and how it says what is wrong."""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Singles = NDArray[np.float32]
Column = TypeVar("Column", bound=NDArray[Any])


@dataclass(frozen=True, slots=True)
class Samples:
    """Scores, outcomes and weights of equal length, each value checked."""

    scores: Floats
    outcomes: Floats
    weights: Floats


def check_samples(
    scores: ArrayLike, outcomes: ArrayLike, sample_weight: ArrayLike | None = None
) -> Samples:
    """Raw samples as float64 arrays of shape (n,).

    Scores and outcomes lie in [0, 1] (outcomes may be fractional: expected conversions), weights
    are finite and not negative, and so is their sum. Raises ValueError that names the first
    offending value.
    """
    checked_scores = check_unit_interval("scores", scores)
    checked_outcomes = check_unit_interval("outcomes", outcomes)
    if sample_weight is None:
        weights = np.ones(len(checked_scores))
    else:
        weights = check_not_negative("sample_weight", sample_weight)
        check_finite_sum("sample_weight", weights)
    check_equal_lengths(scores=checked_scores, outcomes=checked_outcomes, sample_weight=weights)
    return Samples(checked_scores, checked_outcomes, weights)


def check_unit_interval(name: str, values: ArrayLike) -> Floats:
    """The values as float64 of shape (n,), all in [0, 1]; NaN is refused by the same comparison."""
    array = as_vector(name, values)
    inside = (array >= 0.0) & (array <= 1.0)
    return all_obey(name, array, inside, "every value must be in [0, 1]")


def check_not_negative(name: str, values: ArrayLike) -> Floats:
    """The values as float64 of shape (n,), all finite and at least 0."""
    array = as_vector(name, values)
    inside = np.isfinite(array) & (array >= 0.0)
    return all_obey(name, array, inside, "every value must be finite and at least 0")


def check_equal_lengths(**columns: NDArray[np.generic]) -> None:
    """Raises ValueError unless all columns have one length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"columns must have equal lengths: {listed}")


def as_vector(name: str, values: ArrayLike) -> Floats:
    """The values as a float64 array of one dimension; the same array where it is one already."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub" and array.size:
        raise ValueError(f"{name} must be numbers, not {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    return array.astype(np.float64, copy=False)


def sum_at(places: NDArray[np.integer[Any]], values: Floats, length: int) -> Floats:
    """Sum of the values at each place 0..length-1, shape (length,); both arguments (n,)."""
    return np.bincount(places, values, length).astype(np.float64, copy=False)


def places_of(starts: Integers, lengths: Integers) -> Integers:
    """All places of spans that begin there and are so long, (n,) each, end to end."""
    found = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    found += np.arange(len(found))
    return found


def check_finite_sum(name: str, array: Floats) -> None:
    """Raises ValueError when the weights' sum overflows."""
    with np.errstate(over="ignore"):
        total = array.sum()
    if not np.isfinite(total):
        raise ValueError(f"sum of {name} = {total}: the weights must have a finite sum")


def all_obey(name: str, array: Column, obeys: NDArray[np.bool_], rule: str) -> Column:
    """The array, (n,); ValueError names the first value that does not obey, (n,), and the rule."""
    if not obeys.all():
        first = int(np.argmin(obeys))
        raise ValueError(f"{name}[{first}] = {array[first]}: {rule}")
    return array


def check_rules(owner: object, **rules: tuple[bool, str]) -> None:
    """Raises ValueError for the first attribute, by name, that breaks its rule: whether it holds,
    and the rule in words."""
    for name, (holds, rule) in rules.items():
        if not holds:
            raise ValueError(f"{name} = {getattr(owner, name)}: must be {rule}")


def expit(log_odds: Floats) -> Floats:
    """1 / (1 + exp(-x)) of each value."""
    # Here, because an API process looks up and never fits: scipy would be a third of its start.
    from scipy import special

    return np.asarray(special.expit(log_odds))


def is_nan(value: Any) -> bool:
    """Whether it stands for a missing value in data frames: NaN, NaT or the NA of pandas, which
    says of nothing whether it is equal."""
    try:
        return bool(value != value)
    except TypeError:
        return True
