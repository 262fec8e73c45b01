"""Closed clicks of one target as arrays."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.click_log.columns import (
    BEHAVIOUR,
    CAMPAIGN,
    CATEGORY,
    CLICK_ID,
    CLICKED_AT,
    FEATURE,
    PROBABILITY,
    SCORE,
)
from app.click_log.logged_conversions import LoggedConversions
from pccem import Categorical, Clicks, Column, Features

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LoggedClicks:
    """n clicks of one target by (clicked_at, click_id), each id once.

    Attributes
    ----------
    clicks : the clicks; campaigns and categories are sorted and in use.
    click_ids : (n,) Arrow column of their ids.
    probabilities : (n,) what the atlas in force gave when each was closed; nan if nothing did.
    settled : the conversions that are written into the clicks' own rows.
    total : clicks that the log holds; more than n where a sample was asked for.
    repeats : rows that were left out because another says the same.
    conflicts : rows that were left out because their click id belongs to another campaign.
    """

    clicks: Clicks
    click_ids: Any
    probabilities: Floats
    settled: LoggedConversions
    total: int
    repeats: int
    conflicts: int

    def __len__(self) -> int:
        return len(self.clicks)

    @classmethod
    def of(
        cls,
        table: Any,
        target: str,
        settled: LoggedConversions,
        *,
        total: int,
        repeats: int,
        conflicts: int,
    ) -> Self:
        """The arrays of a table with one row per click in reading order."""
        campaign = _categories(table[CAMPAIGN])
        clicks = Clicks(
            _numbers(table[CLICKED_AT]),
            campaign.categories,
            campaign.codes,
            _numbers(table[SCORE + target]),
            _features(table),
        )
        probabilities = _numbers(table[PROBABILITY + target])
        return cls(clicks, table[CLICK_ID], probabilities, settled, total, repeats, conflicts)


def _features(table: Any) -> Features:
    names = [name for name in table.schema.names if name.startswith((BEHAVIOUR, FEATURE))]
    return Features({name: _feature(table[name]) for name in names}, len(table))


def _feature(column: Any) -> Column:
    return _categories(column) if column.type == CATEGORY else _numbers(column)


def _numbers(column: Any) -> Floats:
    """Missing values are nan."""
    return np.asarray(column.to_numpy(), np.float64)


def _categories(column: Any) -> Categorical:
    """The dictionary column with its categories sorted, those that no row uses left out."""
    encoded = column.unify_dictionaries()
    indices = pa.chunked_array([chunk.indices for chunk in encoded.chunks], pa.int32())
    codes = pc.fill_null(indices, -1).to_numpy()
    names = encoded.chunk(0).dictionary.to_pylist() if encoded.num_chunks else []
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(names))).tolist()
    ordered = sorted(used, key=names.__getitem__)
    # Behind the last code stands -1, which is where a missing value points.
    ranks = np.full(len(names) + 1, -1, np.int32)
    ranks[ordered] = np.arange(len(ordered))
    return Categorical(ranks[codes], tuple(names[code] for code in ordered))
