"""The columns of clicks and conversions, and tables whose columns differ."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

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

ID_TYPE = pa.large_string()
"""Ten million long ids are more than the 2 GiB of a plain string column."""
NUMBER = pa.float64()
TEXT = pa.string()
CATEGORY = pa.dictionary(pa.int32(), pa.string())

CLICK_COLUMNS = {CLICK_ID: ID_TYPE, CAMPAIGN: TEXT, CLICKED_AT: NUMBER}
CONVERSION_COLUMNS = {CLICK_ID: ID_TYPE, TARGET: TEXT, OCCURRED_AT: NUMBER, VALUE: NUMBER}

_log = logging.getLogger(__name__)

_PREFIXES = (SCORE, PROBABILITY, CONVERTED_AT, FEATURE, BEHAVIOUR)


def wrong_column(schema: Any, required: Mapping[str, Any]) -> str | None:
    """The first column of a part's schema that is missing or of another type; None if all fit."""
    for name, kind in required.items():
        if name not in schema.names or schema.field(name).type != kind:
            return name
    for field in schema:
        if field.name not in required and not _fits(field):
            return str(field.name)
    return None


def stacked(tables: Sequence[Any]) -> Any:
    """The rows of all tables, one after the other, under the union of their columns.

    A value that a table has no column for is missing. Should a feature be of two types, its type
    in the last table is right, and the values of another type are missing.
    """
    types = {field.name: field.type for table in tables for field in table.schema}
    schema = pa.schema([(name, types[name]) for name in sorted(types)])
    return pa.concat_tables([_under(table, schema) for table in tables]).unify_dictionaries()


def _under(table: Any, schema: Any) -> Any:
    return pa.table([_column(table, field) for field in schema], schema=schema)


def _column(table: Any, field: Any) -> Any:
    at = table.schema.get_field_index(field.name)
    if at >= 0 and table.schema.field(at).type == field.type:
        return table.column(at)
    if at >= 0:
        _log.warning("%s has changed its type; older values count as missing", field.name)
    return pa.nulls(len(table), field.type)


def _fits(field: Any) -> bool:
    if not field.name.startswith(_PREFIXES):
        return False
    return bool(field.type == NUMBER or (field.type == TEXT and field.name.startswith(FEATURE)))
