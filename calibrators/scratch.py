"""Arrays of very many campaigns in files, so that memory holds those of a few.

A refit goes through its blocks of campaigns again and again. Of many campaigns, what it needs of
each block is written once to a file in the folder for temporary files. The kernel keeps
in memory what nobody else needs the room for, and reads the rest when it is looked at. Such a file
has no name, and ends with the last of its arrays, or with the process.
"""

import logging
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from math import prod
from tempfile import TemporaryFile
from threading import Event, Lock
from typing import Any, Final, TypeVar, cast
from weakref import WeakSet

import numpy as np
from numpy.typing import DTypeLike, NDArray

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


class _Kept(list[Item]):
    """Of which memory holds the one that is looked at."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch

    def __iter__(self) -> Iterator[Item]:
        for each in super().__iter__():
            yield each
            let_go()
