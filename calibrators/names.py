"""The rows of names, which may be left in JSON: compiled where a compiler was, a dict elsewhere.

`compiled` is what was made of the client's `_look_up.c`; None where no compiler was.
"""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from itertools import accumulate, pairwise, repeat
from typing import Any, Final, Self, cast

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.codecs import pack_names, unpack_names
from calibrators.samples import Integers

try:
    compiled: Any = import_module("calibrators.maps._look_up")
except ImportError:
    compiled = None

_SLOT_BYTES, _PLACE_BYTES = 32, 8
_ADDED: Final = 4096
"""Names at a time, so that no step keeps the other threads of a process waiting."""


class LeftTexts(Sequence[str]):
    """Texts where they stand in a request: a compiled index finds their rows there, all else reads
    them."""

    def have(self, character: str) -> bool:
        """Whether this character, of ASCII, is in any of them."""
        return character.encode() in self._bytes()

    def __getitem__(self, place: Any) -> Any:
        return self._read[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    @cached_property
    def _read(self) -> list[str]:
        return self._texts()

    @abstractmethod
    def _bytes(self) -> bytes: ...

    @abstractmethod
    def _texts(self) -> list[str]: ...

    @abstractmethod
    def fill(self, index: Any, rows: Integers) -> bool:
        """Writes the row that an index of `index_of` has of each, 0 of an unknown one; whether all
        are known."""


class JsonTexts(LeftTexts):
    """Those of one byte at least in an array of JSON, in ASCII and without escapes."""

    def __init__(self, array: Any, places: bytes) -> None:
        """`places` are those of `number` texts, as a compiled index reads them."""
        self.array, self.places, self.number = array, places, len(places) // _PLACE_BYTES

    def _bytes(self) -> bytes:
        return bytes(self.array)

    @classmethod
    def of(cls, array: Any, longest: int) -> Self | None:
        """None of what is no array of such texts of up to so many bytes, or without a compiler."""
        places = compiled.find_texts(array, longest) if compiled else b""
        return cls(array, places) if places else None

    def __len__(self) -> int:
        return self.number

    def fill(self, index: Any, rows: Integers) -> bool:
        is_plain = isinstance(index, PlainIndex)
        return bool(index.fill(self, rows) if is_plain else index.fill_json(self, rows))

    def _texts(self) -> list[str]:
        return cast(list[str], json.loads(self._bytes()))


class PackedTexts(LeftTexts):
    """Those that stand end to end, in ASCII, of these lengths."""

    def __init__(self, text: bytes, lengths: NDArray[np.uint32]) -> None:
        self._packed, self._lengths = text, lengths

    def _bytes(self) -> bytes:
        return self._packed

    def __len__(self) -> int:
        return len(self._lengths)

    def fit(self, longest: int) -> bool:
        """Whether all have 1 to `longest` bytes."""
        return int(self._lengths.min()) >= 1 and int(self._lengths.max()) <= longest

    def fill(self, index: Any, rows: Integers) -> bool:
        if isinstance(index, PlainIndex):
            return index.fill(self, rows)
        return bool(index.fill_packed(self._packed, self._lengths, rows))

    def _texts(self) -> list[str]:
        characters, ends = self._packed.decode("ascii"), [*accumulate(self._lengths.tolist())]
        return [characters[start:end] for start, end in pairwise([0, *ends])]


class PlainIndex(dict[str, int]):
    """Row i + 1 is that of names[i]: what `Names` of `_look_up.c` does, in Python."""

    def fill(self, names: Sequence[str], rows: Integers) -> bool:
        """Writes the row of each of n names, 0 of one that is not known; whether all are."""
        rows[:] = np.fromiter(map(self.get, names, repeat(0)), np.int64, len(rows))
        return bool(rows.all())


def index_of(names: tuple[str, ...]) -> Any:
    """The rows of names, i + 1 that of names[i], behind `get` and `fill`, as `PlainIndex` has them;
    KeyError on a name that stands twice."""
    if compiled:
        # Names with too many hashes alike are left to Python, whose hashes nobody can foresee.
        with suppress(ValueError):
            return _compiled_index(names)
    # A comprehension, which lets other threads in: one call for all names would not.
    known = PlainIndex({name: row for row, name in enumerate(names, 1)})
    if len(known) < len(names):
        raise KeyError("names: one stands twice")
    return known


def _slots(count: int) -> NDArray[np.uint8]:
    """None of them in two lines of the processor's cache."""
    memory = np.empty((count + 1) * _SLOT_BYTES, np.uint8)
    start = -memory.ctypes.data % _SLOT_BYTES
    return memory[start : start + count * _SLOT_BYTES].reshape(count, _SLOT_BYTES)


def _compiled_index(names: tuple[str, ...]) -> Any:
    # At most half full: at three quarters one of a million has more than 128 others in its way.
    index = compiled.Names(names, _slots(1 << (2 * len(names)).bit_length()))
    while len(index) < len(names):
        index.add(_ADDED)
    return index


class CampaignRows:
    """Row i + 1 is that of campaigns[i]; immutable, so that atlases of the same campaigns share
    one. Raises ValueError on a name that stands twice."""

    __slots__ = ("campaigns", "index", "packed")

    def __init__(self, campaigns: Sequence[str], packed: bytes | None = None) -> None:
        """`packed` are the names' bytes where they are known already."""
        self.campaigns = tuple(campaigns)
        self.packed = pack_names(self.campaigns) if packed is None else packed
        try:
            self.index = index_of(self.campaigns)
        except KeyError:
            raise ValueError("atlas: a campaign stands twice") from None

    @classmethod
    def read(
        cls, data: bytes, offset: int, count: int, like: Self | None = None
    ) -> tuple[Self, int]:
        """The names that start at offset, and the offset behind them: `like` itself where its
        bytes stand there. ValueError on bad bytes."""
        if like is not None and like._stands_at(data, offset, count):
            return like, offset + len(like.packed)
        names, end = unpack_names(memoryview(data), offset, count)
        return cls(names, data[offset:end]), end

    def _stands_at(self, data: bytes, offset: int, count: int) -> bool:
        return len(self.campaigns) == count and data.startswith(self.packed, offset)
