"""One order for the same clicks, however they come."""

import numpy as np
from numpy.typing import NDArray

from pccem.arrays import Floats
from pccem.clicks import Clicks
from pccem.features import Categorical, Column

Integers = NDArray[np.int64]


def canonical_order(clicks: Clicks, outcomes: Floats) -> Integers:
    """Indices, (n,), that sort clicks by time, campaign, score, each feature by name, and outcome.

    Categories are compared by name. Clicks that are equal in all of that stay as they come: it
    makes no difference. So a sum, a sample or a model over the clicks in this order does not depend
    on the order they came in.
    """
    order = np.argsort(clicks.clicked_at, kind="stable")
    if not len(clicks):
        return order
    times = clicks.clicked_at[order]
    same = times[1:] == times[:-1]
    tied = np.append(same, False) | np.append(False, same)
    # Only clicks of one moment need the other keys, and sorting by all keys costs many passes.
    places = order[tied]
    order[tied] = places[_order_by_all(clicks.select(places), outcomes[places])]
    return order


def _order_by_all(clicks: Clicks, outcomes: Floats) -> Integers:
    columns = [column for _, column in sorted(clicks.features.columns.items())]
    campaign = Categorical(clicks.rows, clicks.campaigns)
    keys = [clicks.clicked_at, campaign, clicks.scores, *columns, outcomes]
    return np.lexsort([_ranked(key) for key in reversed(keys)])


def _ranked(column: Column) -> NDArray[np.generic]:
    """What sorts as the column's values do; missing categories first."""
    if not isinstance(column, Categorical):
        return column
    return column.codes_among(sorted(column.categories))
