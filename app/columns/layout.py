"""The layout of binary bodies: a header of 32 bytes that says what follows, and sections behind it,
read in place one after the other.
"""

import struct
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.strict_json import ValidationError

MEDIA_TYPE: Final = "application/vnd.sirocco.columns"
VERSIONS: Final = (1,)
"""The versions of the layout that are understood."""

SCORES, PROBABILITIES, IMPRESSIONS, CLICKS, OUTCOMES = range(1, 6)
"""Kinds of bodies."""

FLOAT32, INTERNED, ONE_CAMPAIGN, EVENT_IDS, LEVELS, UNITS, FIELDS, QUANTILES = (
    1 << bit for bit in range(8)
)
"""Flags."""
MONEY: Final = QUANTILES
"""What the same bit says of events."""

KIND_NAMES: Final = {
    SCORES: "scores",
    PROBABILITIES: "probabilities",
    IMPRESSIONS: "impressions",
    CLICKS: "clicks",
    OUTCOMES: "outcomes",
}

LAYOUT: Final = struct.Struct("<4sHBBIIIIQ")
MAGIC: Final = b"SCOL"
HEADER_BYTES: Final = LAYOUT.size

_ALLOWED: Final = {
    SCORES: FLOAT32 | INTERNED | ONE_CAMPAIGN | LEVELS | UNITS | FIELDS | QUANTILES,
    IMPRESSIONS: INTERNED | ONE_CAMPAIGN | EVENT_IDS | UNITS | FIELDS | MONEY,
    CLICKS: INTERNED | ONE_CAMPAIGN | EVENT_IDS | UNITS | FIELDS | MONEY,
    OUTCOMES: INTERNED | ONE_CAMPAIGN | UNITS | FIELDS | MONEY,
}
_NEEDED: Final = {CLICKS: EVENT_IDS}


class UnknownColumnsVersion(ValueError):
    """The body is of a version of the layout that is not understood here."""


class Header(NamedTuple):
    """What a body says of itself; nothing of it is true before the sections are read."""

    kind: int
    flags: int
    rows: int
    names: int
    names_bytes: int
    target_bytes: int
    dictionary: int


def read_header(body: bytes, kinds: tuple[int, ...]) -> Header:
    """The header of a body that must be one of the kinds.

    Raises UnknownColumnsVersion, and ValidationError for whatever else cannot be.
    """
    if len(body) < HEADER_BYTES:
        raise ValidationError(
            "columns", f"must have at least {HEADER_BYTES} bytes, has {len(body)}"
        )
    return _header(body[:HEADER_BYTES], kinds)


@lru_cache(256)
def _header(head: bytes, kinds: tuple[int, ...]) -> Header:
    """Remembered: who sends batches of one size sends the same header again and again."""
    magic, version, *fields = LAYOUT.unpack(head)
    if magic != MAGIC:
        raise ValidationError("columns.magic", f"must be {MAGIC.decode()}", magic.decode("latin-1"))
    if version not in VERSIONS:
        raise UnknownColumnsVersion(f"columns.version = {version}: not understood here")
    header = Header(*fields)
    if header.kind not in kinds:
        known = " or ".join(f"{kind} ({KIND_NAMES[kind]})" for kind in kinds)
        raise ValidationError("columns.kind", f"must be {known}", header.kind)
    _check_flags(header.kind, header.flags)
    _check_names(header)
    return header


@lru_cache(256)
def pack_probabilities_header(rows: int, flags: int, dictionary: int) -> bytes:
    """The header of an answer; remembered, for answers of one size have the same."""
    return LAYOUT.pack(MAGIC, VERSIONS[-1], PROBABILITIES, flags, rows, 0, 0, 0, dictionary)


def _check_flags(kind: int, flags: int) -> None:
    if flags & ~_ALLOWED[kind]:
        rule = f"{KIND_NAMES[kind]} have only the flags {_ALLOWED[kind]:#x}"
        raise ValidationError("columns.flags", rule, flags)
    if needed := _NEEDED.get(kind, 0) & ~flags:
        raise ValidationError("columns.flags", f"{KIND_NAMES[kind]} need the flag {needed}", flags)


def _check_names(header: Header) -> None:
    if header.flags & INTERNED:
        if header.names or header.names_bytes:
            field, value = ("names", header.names) if header.names else ("names_bytes", header[4])
            raise ValidationError(f"columns.{field}", "must be 0 beside interned campaigns", value)
    elif header.dictionary:
        rule = "must be 0 without interned campaigns"
        raise ValidationError("columns.dictionary", rule, header.dictionary)


PADDING: Final = tuple(bytes(length) for length in range(8))
"""What follows a section whose length is that far from a multiple of 8."""

U1: Final = np.dtype("u1")
U4: Final = np.dtype("<u4")
U8: Final = np.dtype("<u8")
F4: Final = np.dtype("<f4")
F8: Final = np.dtype("<f8")


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
        """ValidationError if anything follows."""
        if self._place != len(self._body):
            rule = f"must end at byte {self._place}, the body has {len(self._body)}"
            raise ValidationError("columns", rule)

    def _pass(self, field: str, size: int) -> int:
        """Steps over a section and its padding; returns where it starts."""
        start = self._place
        end = start + size
        padding = PADDING[-end & 7]
        self._place = end + len(padding)
        if self._place > len(self._body):
            needed = f"needs {self._place - start} bytes from byte {start} on"
            raise ValidationError(f"columns.{field}", f"{needed}, the body has {len(self._body)}")
        if padding and self._body[end : self._place] != padding:
            raise ValidationError(f"columns.{field}", f"the padding at byte {end} must be zero")
        return start
