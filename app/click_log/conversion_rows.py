"""Conversions as the columns of a table."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from app.click_log.columns import CLICK_ID, CONVERSION_COLUMNS, OCCURRED_AT, TARGET, VALUE
from app.storage.conversion_log import Conversion


def conversion_rows(conversions: Sequence[Conversion]) -> Any:
    """One row per conversion; the order they came in changes nothing."""
    ordered = sorted(conversions, key=lambda one: (one.occurred_at, one.click_id, one.target))
    columns = {
        CLICK_ID: [one.click_id for one in ordered],
        TARGET: [one.target for one in ordered],
        OCCURRED_AT: [one.occurred_at for one in ordered],
        VALUE: [one.value for one in ordered],
    }
    return pa.table({name: pa.array(columns[name], CONVERSION_COLUMNS[name]) for name in columns})
