"""Checked arrays: what everything in this package accepts, and how it says what is wrong."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Rows = NDArray[np.int32]
Flags = NDArray[np.bool_]
Array = TypeVar("Array", bound=NDArray[np.generic])
Index = NDArray[np.bool_] | NDArray[np.integer] | slice


def _vector(name: str, values: ArrayLike, kinds: str, what: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in kinds and array.size:
        raise ValueError(f"{name} must be {what}, not {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    return array


def as_vector(name: str, values: ArrayLike) -> Floats:
    """The values as a float64 array of shape (n,); the same array where it is one already."""
    return _vector(name, values, "fiub", "numbers").astype(np.float64, copy=False)


def check_finite(name: str, values: ArrayLike) -> Floats:
    """The values as float64 of shape (n,), all finite."""
    array = as_vector(name, values)
    return _all_obey(name, array, np.isfinite(array), "must be finite")


def check_no_infinity(name: str, values: ArrayLike) -> Floats:
    """The values as float64 of shape (n,), each finite or nan (missing)."""
    array = as_vector(name, values)
    return _all_obey(name, array, ~np.isinf(array), "must be finite, or nan where missing")


def check_unit_interval(name: str, values: ArrayLike) -> Floats:
    """The values as float64 of shape (n,), all in [0, 1]."""
    array = as_vector(name, values)
    return _all_obey(name, array, (array >= 0.0) & (array <= 1.0), "must be in [0, 1]")


def check_positive(name: str, values: ArrayLike) -> Floats:
    """The values as float64 of shape (n,), all finite and above 0."""
    array = as_vector(name, values)
    return _all_obey(name, array, (array > 0.0) & (array < np.inf), "must be finite and above 0")


def check_flags(name: str, values: ArrayLike) -> Flags:
    """The values as booleans of shape (n,)."""
    return _vector(name, values, "b", "booleans").astype(np.bool_, copy=False)


def check_rows(name: str, values: ArrayLike, least: int, behind: int) -> Rows:
    """The values as int32 of shape (n,), all in [least, behind)."""
    array = _vector(name, values, "iu", "integers")
    rule = f"must be in [{least}, {behind})"
    _all_obey(name, array, (array >= least) & (array < behind), rule)
    return array.astype(np.int32, copy=False)


def check_equal_lengths(**lengths: int) -> None:
    """Raises ValueError unless all lengths are one."""
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"columns must have equal lengths: {listed}")


def _all_obey(name: str, array: Array, obeys: Flags, rule: str) -> Array:
    if not obeys.all():
        first = int(np.argmin(obeys))
        raise ValueError(f"{name}[{first}] = {array[first]}: every value {rule}")
    return array
