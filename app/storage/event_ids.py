"""Ids of events as the store keeps them, and how append.lua is given them: as one argument.

That argument is a MessagePack array of raw strings; an argument an id would cost the client, the
protocol and the script more than the checking of the ids itself.
"""

import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

LONGEST_ID: Final = 64
"""Bytes of an event id that are stored as they are; of a longer id its digest is stored."""

_ARRAY: Final = struct.Struct(">BI")
_ARRAY_32: Final = 0xDD
_SHORT_STRING, _STRING_8, _SHORT = 0xA0, 0xD9, 32
_HEADS: Final = tuple(
    bytes((_SHORT_STRING | size,)) if size < _SHORT else bytes((_STRING_8, size))
    for size in range(LONGEST_ID + 2)
)


def stored_id(event_id: str, count: float) -> bytes:
    """At most 1 + LONGEST_ID bytes; a count of 0, that of a click, tells it from an impression."""
    return _stored(b"c" if count == 0 else b"i", event_id.encode())


def stored_ids(event_ids: Iterable[str]) -> list[bytes]:
    """`stored_id` of events that count."""
    names = [event_id.encode() for event_id in event_ids]
    if max(map(len, names), default=0) <= LONGEST_ID:
        return [b"i" + name for name in names]
    return [_stored(b"i", name) for name in names]


def pack_ids(stored: Sequence[bytes]) -> bytes:
    """The argument of append.lua."""
    array = _ARRAY.pack(_ARRAY_32, len(stored))
    return array + b"".join([_HEADS[len(name)] + name for name in stored])


def _stored(kind: bytes, name: bytes) -> bytes:
    if len(name) <= LONGEST_ID:
        return kind + name
    return kind.upper() + blake2b(name, digest_size=LONGEST_ID // 2).digest()
