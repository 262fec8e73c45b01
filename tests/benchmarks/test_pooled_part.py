"""The benchmark of the pooled method runs at a tiny size and yields its rows."""

import math

from benchmarks.core import pooled
from benchmarks.figures import middle


def test_it_has_a_row_for_each_number_of_campaigns():
    """Seconds of each method, and what each adds to the memory."""
    rows = pooled.measure(pooled.Sizes(campaigns=(3, 5)))

    assert list(rows) == ["3 campaigns", "5 campaigns"]
    assert {"pooled, cold s", "pooled, warm s", "sir s", "beta s"} <= {*rows["3 campaigns"]}
    figures = [middle(cell) for row in rows.values() for cell in row.values()]
    assert all(math.isfinite(figure) for figure in figures)


def test_two_days_of_bins_have_rows_of_their_own():
    """Of the pooled method alone, which remembers as many hours."""
    rows = pooled.measure(pooled.Sizes(campaigns=(), two_days=(3,)))

    assert list(rows) == ["3 campaigns, 48 h"]
    assert {*rows["3 campaigns, 48 h"]} == {
        "pooled, cold s",
        "pooled, warm s",
        "pooled, cold, grown MB",
    }
