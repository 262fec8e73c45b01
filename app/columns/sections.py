"""The sections of a body behind its header, read in place one after the other."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.columns.header import HEADER_BYTES
from app.strict_json import BrokenRule

PADDING: Final = tuple(bytes(length) for length in range(8))
"""What follows a section whose length is that far from a multiple of 8."""

U4: Final = np.dtype("<u4")
F4: Final = np.dtype("<f4")
F8: Final = np.dtype("<f8")


def padded(end: int) -> int:
    """Where the section behind one that ends there starts."""
    return end + (-end & 7)


class Sections:
    """A walk over the sections. Nothing is allocated: whoever announces more than there is gets an
    error, and arrays are views of the body."""

    __slots__ = ("_body", "_place")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._place = HEADER_BYTES

    def text(self, field: str, size: int) -> bytes:
        """The next `size` bytes."""
        start = self._pass(field, size)
        return self._body[start : start + size]

    def column(self, field: str, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        """The next `count` numbers, as a read-only view of shape (count,)."""
        start = self._pass(field, count * dtype.itemsize)
        return np.frombuffer(self._body, dtype, count, start)

    def end(self) -> None:
        """BrokenRule if anything follows."""
        if self._place != len(self._body):
            rule = f"must end at byte {self._place}, the body has {len(self._body)}"
            raise BrokenRule("columns", rule)

    def _pass(self, field: str, size: int) -> int:
        """Steps over a section and its padding; returns where it starts."""
        start = self._place
        end = start + size
        padding = PADDING[-end & 7]
        self._place = end + len(padding)
        if self._place > len(self._body):
            needed = f"needs {self._place - start} bytes from byte {start} on"
            raise BrokenRule(f"columns.{field}", f"{needed}, the body has {len(self._body)}")
        if padding and self._body[end : self._place] != padding:
            raise BrokenRule(f"columns.{field}", f"the padding at byte {end} must be zero")
        return start
