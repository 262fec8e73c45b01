"""The columns of the click log: closed clicks and conversions as tables; hashes of click ids."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import shake_256
from math import fsum
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.storage.blocks import StoredConversion
from app.storage.clicks import OpenClick


@dataclass(frozen=True, slots=True)
class ClosedClick:
    """What was known of a click before it, what was done after it, and what it was worth then.

    `scores` and `probabilities` are by target, `features`, `behaviours` and `fields` by name. A
    probability is what the atlas in force gave when the click was closed; `bucket` is that of its
    unit.
    """

    click_id: str
    campaign: str
    clicked_at: float
    scores: Mapping[str, float]
    features: Mapping[str, float | str]
    behaviours: Mapping[str, float]
    probabilities: Mapping[str, float]
    fields: Mapping[str, str] = field(default_factory=dict)
    bucket: int | None = None

    @classmethod
    def close(
        cls, click: OpenClick, post_click_seconds: float, probabilities: Mapping[str, float]
    ) -> Self:
        """Add up each behaviour's values inside the post-click window."""
        return cls(
            click.click_id,
            click.campaign,
            click.clicked_at,
            click.scores,
            click.features,
            behaviour_sums(click.clicked_at, click.behaviours, post_click_seconds),
            probabilities,
            click.fields,
            click.bucket,
        )


def behaviour_sums(
    clicked_at: float, behaviours: Iterable[tuple[str, float, float]], post_click_seconds: float
) -> dict[str, float]:
    """What the (name, occurred_at, value) inside the post-click window add up to, by name."""
    values = defaultdict(list)
    for name, occurred_at, value in behaviours:
        if 0.0 <= occurred_at - clicked_at < post_click_seconds:
            values[name].append(min(value, 1e300))
    # Exact sums do not depend on the order of arrival; of values up to 1e300 they do not overflow.
    return {name: fsum(values[name]) for name in sorted(values)}


CLICK_ID = "click_id"
CAMPAIGN = "campaign"
CLICKED_AT = "clicked_at"
TARGET = "target"
OCCURRED_AT = "occurred_at"
VALUE = "value"

SCORE = "score."
PROBABILITY = "probability."
CONVERTED_AT = "converted_at."
FEATURE = "feature."
BEHAVIOUR = "behaviour."
FIELD = "field."
BUCKET = "unit.bucket"

ID_TYPE = pa.large_string()
"""Ten million long ids are more than the 2 GiB of a plain string column."""
NUMBER = pa.float64()
TEXT = pa.string()
CATEGORY = pa.dictionary(pa.int32(), pa.string())

CLICK_COLUMNS = {CLICK_ID: ID_TYPE, CAMPAIGN: TEXT, CLICKED_AT: NUMBER}
CONVERSION_COLUMNS = {CLICK_ID: ID_TYPE, TARGET: TEXT, OCCURRED_AT: NUMBER, VALUE: NUMBER}

_log = logging.getLogger(__name__)

_PREFIXES = (SCORE, PROBABILITY, CONVERTED_AT, FEATURE, BEHAVIOUR, FIELD)


def wrong_column(schema: Any, required: Mapping[str, Any]) -> str | None:
    """The first column of a part's schema that is missing or of another type; None if all fit."""
    for name, kind in required.items():
        if name not in schema.names or schema.field(name).type != kind:
            return name
    for column in schema:
        if column.name not in required and not _fits(column):
            return str(column.name)
    return None


def stacked(tables: Sequence[Any]) -> Any:
    """The rows of all tables, one after the other, under the union of their columns.

    A value that a table has no column for is missing. Should a feature be of two types, its type
    in the last table is right, and the values of another type are missing.
    """
    types = {column.name: column.type for table in tables for column in table.schema}
    schema = pa.schema([(name, types[name]) for name in sorted(types)])
    alike = [pa.table([_table_column(one, c) for c in schema], schema=schema) for one in tables]
    return pa.concat_tables(alike).unify_dictionaries()


def _table_column(table: Any, wanted: Any) -> Any:
    at = table.schema.get_field_index(wanted.name)
    if at >= 0 and table.schema.field(at).type == wanted.type:
        return table.column(at)
    if at >= 0:
        _log.warning("%s has changed its type; older values count as missing", wanted.name)
    return pa.nulls(len(table), wanted.type)


def _fits(wanted: Any) -> bool:
    if wanted.name != BUCKET and not wanted.name.startswith(_PREFIXES):
        return False
    if wanted.name.startswith(FIELD):
        return bool(wanted.type == TEXT)
    return bool(wanted.type == NUMBER or (wanted.type == TEXT and wanted.name.startswith(FEATURE)))


Values = Mapping[str, float | str]


def click_rows(clicks: Sequence[ClosedClick]) -> Any:
    """One row per click in reading order; the order they came in changes nothing."""
    ordered = sorted(clicks, key=lambda click: (click.clicked_at, click.click_id, click.campaign))
    columns = {
        CLICK_ID: [click.click_id for click in ordered],
        CAMPAIGN: [click.campaign for click in ordered],
        CLICKED_AT: [click.clicked_at for click in ordered],
    }
    arrays = {name: pa.array(column, CLICK_COLUMNS[name]) for name, column in columns.items()}
    arrays |= value_columns(SCORE, [click.scores for click in ordered])
    arrays |= value_columns(PROBABILITY, [click.probabilities for click in ordered])
    arrays |= value_columns(FEATURE, [click.features for click in ordered])
    arrays |= value_columns(BEHAVIOUR, [click.behaviours for click in ordered])
    arrays |= value_columns(FIELD, [click.fields for click in ordered])
    if any(click.bucket is not None for click in ordered):
        arrays[BUCKET] = pa.array([click.bucket for click in ordered], NUMBER)
    return pa.table(arrays)


def value_columns(prefix: str, rows: Sequence[Values]) -> dict[str, Any]:
    """A column for each name that any of the rows has."""
    names = sorted({name for row in rows for name in row})
    return {prefix + name: _column([row.get(name) for row in rows]) for name in names}


def _column(values: Sequence[float | str | None]) -> Any:
    """Of the type of its first value; a value of the other type is missing, as nan is."""
    text = next(isinstance(value, str) for value in values if value is not None)
    kept = [value if isinstance(value, str) == text else None for value in values]
    return pa.array(kept, TEXT) if text else pa.array(kept, NUMBER, from_pandas=True)


def conversion_rows(conversions: Sequence[StoredConversion]) -> Any:
    """One row per conversion; the order they came in changes nothing."""
    ordered = sorted(conversions, key=lambda one: (one.occurred_at, one.click_id, one.target))
    columns = {
        CLICK_ID: [one.click_id for one in ordered],
        TARGET: [one.target for one in ordered],
        OCCURRED_AT: [one.occurred_at for one in ordered],
        VALUE: [one.value for one in ordered],
    }
    return pa.table({name: pa.array(columns[name], CONVERSION_COLUMNS[name]) for name in columns})


Hashes = NDArray[np.uint64]

HIGHEST = np.uint64(2**64 - 1)


def hash_ids(ids: Any, seed: int = 0) -> Hashes:
    """One number per id of a large_string column, (n,); another seed gives others.

    Multilinear hashing of the UTF-8 bytes, whose coefficients come from the seed, then the
    finalizer of splitmix64, so that ids that count upwards do not make an even comb.
    """
    chunks = [_hash_chunk(chunk, seed) for chunk in ids.chunks if len(chunk)]
    return np.concatenate([np.empty(0, np.uint64), *chunks])


def _hash_chunk(ids: Any, seed: int) -> Hashes:
    _, offsets, data = ids.buffers()
    bounds = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
    longest = int(lengths.max())
    # The bytes behind the last id may be looked at, but count for nothing.
    text = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    text = np.concatenate([text, np.zeros(longest, np.uint8)])
    length_coefficient, *coefficients = _coefficients(seed, longest + 1)
    # An id is not another one with zero bytes behind it: its length counts too.
    sums = lengths.astype(np.uint64) * length_coefficient
    for place, coefficient in enumerate(coefficients):
        sums += np.where(lengths > place, text[starts + place], 0) * coefficient
    return _mixed(sums)


def _coefficients(seed: int, count: int) -> Hashes:
    """The first so many, whatever their number: more of them begin with the same."""
    digest = shake_256(seed.to_bytes(8, "little", signed=True)).digest(8 * count)
    return np.frombuffer(digest, "<u8").astype(np.uint64)


def _mixed(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
