"""Clicks with the labels that are known of them, as a history that methods learn from."""

import numpy as np

from calibrators import BinsTable
from calibrators.history import History
from calibrators.samples import Floats, Integers
from evaluation.event_table import SECONDS_PER_HOUR
from pccem import Clicks


def labelled_history(clicks: Clicks, labels: Floats) -> History:
    """The bins of the clicks by the hour of the click; labels, (n,), are their positives.

    Its moment is the end of the newest click's hour, not that of the refit: labels come a window
    late, and clicks of a week ago are the newest that have final ones.
    """
    hours = np.floor(clicks.clicked_at / SECONDS_PER_HOUR).astype(np.int64)
    if not len(hours):
        return History(0.0, [{}])
    present = np.unique(hours).tolist()
    tables = {hour: _bins(clicks, labels, np.flatnonzero(hours == hour)) for hour in present}
    return History(present[-1] + 1.0, [tables])


def _bins(clicks: Clicks, labels: Floats, chosen: Integers) -> BinsTable:
    rows = clicks.rows[chosen].astype(np.int64)
    counts = np.ones(len(rows))
    return BinsTable.from_columns(
        clicks.campaigns, rows, clicks.scores[chosen], counts, labels[chosen]
    )
