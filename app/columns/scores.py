"""A calibrate request in binary columns, and the response to it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.columns.campaigns import Ids, check_indices, read_campaigns, read_fields, read_target
from app.columns.layout import (
    F4,
    F8,
    FIELDS,
    FLOAT32,
    INTERNED,
    LEVELS,
    PADDING,
    QUANTILES,
    SCORES,
    U4,
    U8,
    UNITS,
    Header,
    Sections,
    pack_probabilities_header,
    read_header,
)
from app.strict_json import ValidationError
from calibrators.arms import RAW, UnitNumbers
from calibrators.fields.sums import FieldColumn
from calibrators.maps.atlas import CAMPAIGN, GROUP, IDENTITY, TARGET

Scores = NDArray[np.float32] | NDArray[np.float64]

_BITS: Final[dict[int, tuple[np.dtype[Any], int]]] = {
    4: (np.dtype("<u4"), 0x3F80_0000),
    8: (np.dtype("<u8"), 0x3FF0_0000_0000_0000),
}
"""By the bytes of a score: integers of that size, and 1.0 as one of them."""


class ScoresRequest(NamedTuple):
    """n scores in [0, 1] of one target; `numbers` are indices of `names`, or interned ids, one for
    each score or one for all. `units` are the numbers of their units, (n,), where arms are asked
    for; `fields` what was said of their fields; `quantiles` the levels of quantiles, in (0, 1),
    8 at most, where these are."""

    header: Header
    target: str
    names: Sequence[str]
    numbers: Ids
    scores: Scores
    units: UnitNumbers | None = None
    fields: Mapping[str, FieldColumn] | None = None
    quantiles: tuple[float, ...] = ()


def read_scores(body: bytes, most: int, declared: Sequence[str] = ()) -> ScoresRequest:
    """The request of at most `most` scores, of declared fields if any; raises
    UnknownColumnsVersion or ValidationError."""
    header = read_header(body, (SCORES,))
    if not 1 <= header.rows <= most:
        raise ValidationError("scores", f"has {header.rows} items; must have 1 to {most}")
    sections = Sections(body)
    target = read_target(sections, header)
    names, numbers = read_campaigns(sections, header)
    scores = sections.column("scores", F4 if header.flags & FLOAT32 else F8, header.rows)
    units = sections.column("units", U8, header.rows) if header.flags & UNITS else None
    fields = read_fields(sections, header.rows, declared) if header.flags & FIELDS else None
    quantiles = _read_quantiles(sections) if header.flags & QUANTILES else ()
    sections.end()
    if not header.flags & INTERNED:
        check_indices(numbers, len(names))
    _check_scores(scores)
    return ScoresRequest(header, target, names, numbers, scores, units, fields, quantiles)


_MOST_QUANTILES = 8


def _read_quantiles(sections: Sections) -> tuple[float, ...]:
    (count,) = sections.column("quantiles", U4, 1).tolist()
    if not 1 <= count <= _MOST_QUANTILES:
        rule = f"has {count} levels; must have 1 to {_MOST_QUANTILES}"
        raise ValidationError("quantiles", rule)
    levels = sections.column("quantiles", F8, count).tolist()
    for place, level in enumerate(levels):
        if not 0.0 < level < 1.0:
            rule = "must be a number above 0 and below 1"
            raise ValidationError(f"quantiles[{place}]", rule, level)
    return tuple(levels)


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


LEVEL_NUMBERS: Final = {IDENTITY: 0, TARGET: 1, CAMPAIGN: 2, GROUP: 3, RAW: 4}


def pack_probabilities(
    probabilities: Sequence[float] | NDArray[np.float64],
    dictionary: int,
    *,
    float32: bool,
    levels: ArrayLike | None = None,
    arms: ArrayLike | None = None,
    quantiles: Sequence[ArrayLike] = (),
) -> bytes:
    """The bytes of n probabilities, with the numbers of the level of map behind each and of its
    arm, shape (n,), if given, and columns of quantiles."""
    rows = len(probabilities)
    flags = (FLOAT32 if float32 else 0) | (0 if levels is None else LEVELS)
    flags |= (0 if arms is None else UNITS) | (QUANTILES if quantiles else 0)
    dtype = F4 if float32 else F8
    column = np.asarray(probabilities, dtype).tobytes()
    parts = [pack_probabilities_header(rows, flags, dictionary), column, PADDING[-len(column) & 7]]
    for numbers in (levels, arms):
        if numbers is not None:
            parts += (np.asarray(numbers, np.uint8).tobytes(), PADDING[-rows & 7])
    for quantile in quantiles:
        parts += (np.asarray(quantile, dtype).tobytes(), PADDING[-len(column) & 7])
    return b"".join(parts)
