"""Packed blocks of conversions: what one request appends to one log.

Layout, little-endian: magic "SCNV", schema_version u2, length of the body u4, CRC-32 of the body
u4; then the body, MessagePack: an array of three arrays, the click ids (strings), the times (epoch
seconds, floats) and the values (floats, or nil where there is none).

Behind the body the store appends n marks u1 when some of the n conversions do not count: 1 marks
one that was stored before or is refused, and `decode_conversions` leaves it out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from app.storage.block_frame import framed, opened

SCHEMA_VERSION = 1

_MAGIC = b"SCNV"
_BODY = msgspec.msgpack.Decoder(tuple[list[str], list[float], list[float | None]])


@dataclass(frozen=True, slots=True)
class Conversion:
    """A click converted at that time, epoch seconds; `value` is None where none was sent."""

    click_id: str
    target: str
    occurred_at: float
    value: float | None = None


def encode_conversions(conversions: Sequence[Conversion]) -> bytes:
    """The block's bytes; all conversions are of the target that its log is named by."""
    columns = (
        [conversion.click_id for conversion in conversions],
        [conversion.occurred_at for conversion in conversions],
        [conversion.value for conversion in conversions],
    )
    body = msgspec.msgpack.encode(columns)
    return framed(_MAGIC, SCHEMA_VERSION, body)


def decode_conversions(data: bytes, target: str) -> list[Conversion]:
    """The conversions that `encode_conversions` wrote, without those that are marked.

    Raises ValueError on bytes of another kind or version, and on any damage.
    """
    body, marks = opened(_MAGIC, SCHEMA_VERSION, data)
    try:
        ids, times, values = _BODY.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"the body of the block is unreadable: {error}") from None
    if not len(ids) == len(times) == len(values) or len(marks) not in (0, len(ids)):
        raise ValueError("the columns of the block are of different lengths")
    rows = zip(ids, times, values, bytes(marks) or bytes(len(ids)), strict=True)
    return [Conversion(i, target, at, value) for i, at, value, mark in rows if not mark]
