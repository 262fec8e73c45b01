"""Checked samples: what every calibrator and bin accepts, and how it says what is wrong; and arrays
of very many campaigns in files, so that memory holds those of a few.
"""

import ctypes
import logging
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from math import prod
from tempfile import TemporaryFile
from threading import Event, Lock
from typing import Any, Final, TypeVar, cast
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Singles = NDArray[np.float32]
Column = TypeVar("Column", bound=NDArray[Any])


def check_samples(
    scores: ArrayLike,
    outcomes: ArrayLike,
    sample_weight: ArrayLike | None = None,
    name: str = "scores",
) -> tuple[Floats, Floats, Floats]:
    """Raw samples as float64 arrays of shape (n,): scores, of this name, outcomes and weights.

    Scores and outcomes lie in [0, 1] (outcomes may be fractional: expected conversions, rates of
    bins), weights are finite and not negative, and so is their sum; None means 1 each. Raises
    ValueError that names the first offending value.
    """
    checked = check_unit_interval(name, scores)
    checked_outcomes = check_unit_interval("outcomes", outcomes)
    weights = check_weights(sample_weight, len(checked))
    check_equal_lengths(**{name: checked, "outcomes": checked_outcomes, "sample_weight": weights})
    return checked, checked_outcomes, weights


def check_weights(sample_weight: ArrayLike | None, length: int) -> Floats:
    """The weights as float64 of shape (n,), at least 0, with a finite sum; ones when none."""
    if sample_weight is None:
        return np.ones(length)
    weights = check_not_negative("sample_weight", sample_weight)
    check_finite_sum("sample_weight", weights)
    return weights


def are_plain(outcomes: Floats, weights: Floats) -> bool:
    """Whether all outcomes are 0 or 1 and all weights 1: then sums are counts, in any order."""
    return bool((weights == 1.0).all() and ((outcomes == 0.0) | (outcomes == 1.0)).all())


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


def by_block(blocks: Sequence[Sized], table: NDArray[Any]) -> list[NDArray[Any]]:
    """The rows of all campaigns, (c, ...), block by block; blocks have a row for each of theirs."""
    return np.split(table, np.cumsum([len(block) for block in blocks])[:-1])


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


_log = logging.getLogger(__name__)
Item = TypeVar("Item")

MANY: Final = 50_000
"""Campaigns of a target from which on blocks are in files. Fewer are fitted in memory: a disk that
is written to answers others late, such as the Redis of a small platform on the same machine."""

_FILE_BYTES: Final = 64 << 20
_LEAST_BYTES: Final = 4096
_ALIGNED: Final = 64


class Scratch:
    """Where a refit keeps its arrays: in memory until it is `in_files`; and all the time where this
    process uses none, or the disk is full.

    A refit goes through its blocks of campaigns again and again. Of many campaigns, what it needs
    of each block is written once to a file in the folder for temporary files. The kernel keeps in
    memory what nobody else needs the room for, and reads the rest when it is looked at. Such a file
    has no name, and ends with the last of its arrays, or with the process.

    Nobody but who asked for an `empty` array writes to one.
    """

    def __init__(self, in_files: bool = False) -> None:
        self._last: mmap.mmap | bytes = b""
        self._used, self._full = 0, not _in_use.is_set()
        self.want_files(in_files)

    def want_files(self, wanted: bool) -> None:
        """From now on arrays are kept in files, or no longer."""
        self.in_files = wanted and not self._full

    def empty(self, shape: tuple[int, ...], kind: DTypeLike = np.float64) -> NDArray[Any]:
        """An array of no particular values."""
        size = prod(shape) * np.dtype(kind).itemsize
        if size < _LEAST_BYTES or not self._has_room(size):
            return np.empty(shape, kind)
        found = np.frombuffer(self._last, kind, prod(shape), self._used).reshape(shape)
        self._used += -(-size // _ALIGNED) * _ALIGNED
        return found

    def _has_room(self, size: int) -> bool:
        if self.in_files and self._used + size > len(self._last):
            try:
                self._last, self._used = file_memory(max(size, _FILE_BYTES)), 0
            except OSError as error:
                _log.warning("no room for files of a refit, which goes on in memory: %s", error)
                self.in_files, self._full = False, True
        return self.in_files

    def stored(self, value: Item) -> Item:
        """The same array, or named tuple or data class of arrays and of such; where it stays."""
        found: Any = value
        if not self.in_files or _is_stored(value):
            return value
        if isinstance(value, np.ndarray):
            found = self.empty(value.shape, value.dtype)
            found[...] = value
        elif isinstance(value, tuple) and not (value and isinstance(value[0], str)):
            found = getattr(value, "_make", tuple)(map(self.stored, value))
        elif is_dataclass(value) and not isinstance(value, type):
            parts = {each.name: getattr(value, each.name) for each in fields(value)}
            found = replace(value, **{name: self.stored(part) for name, part in parts.items()})
        return cast(Item, found)

    def kept(self, found: Iterable[Item], size: Callable[[Item], int] = lambda _: 0) -> list[Item]:
        """All of them, each stored before the next one is made; `in_files` from `MANY` campaigns
        on, where `size` tells how many each has."""
        kept = _Kept[Item](self)
        count = done = 0
        for each in found:
            kept.append(each)
            count += size(each)
            self.want_files(self.in_files or count >= MANY)
            if self.in_files:
                kept[done:] = map(self.stored, kept[done:])
                done = len(kept)
                let_go()
        return kept

    def joined(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Arrays, one at least, end to end."""
        rows = sum(map(len, parts))
        return np.concatenate(parts, out=self.empty((rows, *parts[0].shape[1:]), parts[0].dtype))


def _is_stored(base: Any) -> bool:
    # Of one value in all places there is nothing to store.
    if isinstance(base, np.ndarray) and 0 in base.strides:
        return True
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(getattr(base, "obj", base), mmap.mmap)


def scratch_of(blocks: Iterable[object]) -> Scratch:
    """Where what is made of blocks is kept: where they are."""
    return blocks.scratch if isinstance(blocks, _Kept) else IN_MEMORY


_in_use: Final = Event()
_maps: Final[WeakSet[mmap.mmap]] = WeakSet()
_changing: Final = Lock()


def use_files() -> None:
    """Keep what is large in files from now on, and look at one piece of it after the other: for
    who answers no requests."""
    _in_use.set()


IN_MEMORY: Final = Scratch()
"""Where nothing is worth a file."""


def file_memory(size: int) -> mmap.mmap:
    """So many bytes of a file; OSError where files are not used, or the disk has no room."""
    if not (_in_use.is_set() and hasattr(os, "posix_fallocate")):
        raise OSError("files are not used")
    with TemporaryFile(prefix="sirocco-") as file:
        # Now, and not when a page is written to: that would end the process.
        os.posix_fallocate(file.fileno(), 0, size)
        found = mmap.mmap(file.fileno(), size)
    with _changing:
        _maps.add(found)
    return found


def let_go() -> None:
    """Memory need not hold what is in files: it is there again when it is looked at."""
    with _changing:
        for each in _maps:
            each.madvise(mmap.MADV_DONTNEED)


def give_heap_back() -> None:
    """What was taken for a moment. Freed blocks lie between others that live on, so glibc would
    keep all of it, and more after each time, as no two take the same."""
    if sys.platform == "linux":
        # Of glibc alone.
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


class _Kept(list[Item]):
    """Of which memory holds the one that is looked at."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch

    def __iter__(self) -> Iterator[Item]:
        for each in super().__iter__():
            yield each
            let_go()
        if self.scratch.in_files:
            give_heap_back()
