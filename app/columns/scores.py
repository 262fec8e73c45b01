"""A calibrate request in binary columns.

The answer to a calibrate request in binary columns.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.columns.campaigns import Ids, check_indices, read_campaigns, read_target
from app.columns.layout import (
    F4,
    F8,
    FLOAT32,
    HEADER_BYTES,
    INTERNED,
    LAYOUT,
    LEVELS,
    MAGIC,
    PADDING,
    SCORES,
    U4,
    VERSIONS,
    Header,
    Sections,
    pack_probabilities_header,
    padded,
    read_header,
)
from app.strict_json import ValidationError
from calibrators.maps.atlas import CAMPAIGN, IDENTITY, TARGET

Scores = NDArray[np.float32] | NDArray[np.float64]

_BITS: Final[dict[int, tuple[np.dtype[Any], int]]] = {
    4: (np.dtype("<u4"), 0x3F80_0000),
    8: (np.dtype("<u8"), 0x3FF0_0000_0000_0000),
}
"""By the bytes of a score: integers of that size, and 1.0 as one of them."""

# Magic, version and kind as one, and both counts of names, which must be 0 here.
_PLAIN: Final = struct.Struct("<7sBIQIQ")
_PLAIN_START: Final = LAYOUT.pack(MAGIC, VERSIONS[-1], SCORES, 0, 0, 0, 0, 0, 0)[:7]
_PLAIN_SCORES: Final[dict[int, np.dtype[Any]]] = {INTERNED: F8, INTERNED | FLOAT32: F4}


class ScoresRequest(NamedTuple):
    """n scores in [0, 1] of one target; `numbers` are indices of `names`, or interned ids, one for
    each score or one for all."""

    header: Header
    target: str
    names: list[str]
    numbers: Ids
    scores: Scores


def read_scores(body: bytes, most: int) -> ScoresRequest:
    """The request of at most `most` scores; raises UnknownColumnsVersion or ValidationError."""
    asked = _read_plain(body, most) or _read_any(body, most)
    _check_scores(asked.scores)
    return asked


class _Plain(NamedTuple):
    """What follows a header that announces an id for each score: where sections start and end."""

    header: Header
    dtype: np.dtype[Any]
    target_end: int
    numbers: int
    numbers_end: int
    scores: int
    scores_end: int
    end: int


def _read_plain(body: bytes, most: int) -> ScoresRequest | None:
    """The request if it has an id for each score and nothing is wrong with it, as with most that
    come. None of any other: `_read_any` knows all shapes, and the words for what is wrong."""
    plain = _plain(body[:HEADER_BYTES])
    if plain is None or len(body) != plain.end or not 1 <= plain.header.rows <= most:
        return None
    _, dtype, target_end, numbers, numbers_end, scores, scores_end, _ = plain
    padding = body[target_end:numbers] + body[numbers_end:scores] + body[scores_end:]
    target = body[HEADER_BYTES:target_end]
    if any(padding) or not target.isascii():
        return None
    ids = np.frombuffer(body, U4, plain.header.rows, numbers)
    found = np.frombuffer(body, dtype, plain.header.rows, scores)
    return ScoresRequest(plain.header, target.decode(), [], ids, found)


@lru_cache(256)
def _plain(head: bytes) -> _Plain | None:
    """Remembered: who asks for batches of one size sends the same header again and again."""
    if len(head) < HEADER_BYTES:
        return None
    start, flags, rows, names, size, dictionary = _PLAIN.unpack(head)
    dtype = _PLAIN_SCORES.get(flags)
    if start != _PLAIN_START or dtype is None or names:
        return None
    target_end = HEADER_BYTES + size
    numbers = padded(target_end)
    scores = padded(numbers + 4 * rows)
    end = scores + dtype.itemsize * rows
    header = Header(SCORES, flags, rows, 0, 0, size, dictionary)
    sections = (target_end, numbers, numbers + 4 * rows, scores, end, padded(end))
    return _Plain(header, dtype, *sections)


def _read_any(body: bytes, most: int) -> ScoresRequest:
    header = read_header(body, (SCORES,))
    if not 1 <= header.rows <= most:
        raise ValidationError("scores", f"has {header.rows} items; must have 1 to {most}")
    sections = Sections(body)
    target = read_target(sections, header)
    names, numbers = read_campaigns(sections, header)
    scores = sections.column("scores", F4 if header.flags & FLOAT32 else F8, header.rows)
    sections.end()
    if not header.flags & INTERNED:
        check_indices(numbers, len(names))
    return ScoresRequest(header, target, names, numbers, scores)


def _check_scores(scores: Scores) -> None:
    # As integers, all numbers above 1 are above its bits, and so are NaN and whatever has a sign:
    # one pass where the comparison of numbers needs two.
    integers, bits_of_one = _BITS[scores.itemsize]
    if np.maximum.reduce(scores.view(integers)) <= bits_of_one:
        return
    # NaN is the smallest of any that holds it, and fails the comparison; -0.0 does not.
    if scores.min() >= 0.0 and scores.max() <= 1.0:
        return
    place = int(np.argmin((scores >= 0.0) & (scores <= 1.0)))
    raise ValidationError(f"scores[{place}]", "must be a number in [0, 1]", float(scores[place]))


LEVEL_NUMBERS: Final = {IDENTITY: 0, TARGET: 1, CAMPAIGN: 2}


def pack_probabilities(
    probabilities: Sequence[float] | NDArray[np.float64],
    dictionary: int,
    *,
    float32: bool,
    levels: NDArray[np.uint8] | None = None,
) -> bytes:
    """The bytes of n probabilities, with the level of map behind each, shape (n,), if given."""
    rows = len(probabilities)
    flags = (FLOAT32 if float32 else 0) | (0 if levels is None else LEVELS)
    column = np.asarray(probabilities, F4 if float32 else F8).tobytes()
    parts = [pack_probabilities_header(rows, flags, dictionary), column, PADDING[-len(column) & 7]]
    if levels is not None:
        parts += (levels.tobytes(), PADDING[-rows & 7])
    return b"".join(parts)
