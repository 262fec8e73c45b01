"""A window that is kept packed is the window."""

import numpy as np

from app.worker.window import Window
from calibrators import Bins, BinsTable


def test_its_tables_come_back_as_often_as_they_are_asked_for():
    rng = np.random.default_rng(1)
    tables = [
        BinsTable.from_columns([name], np.zeros(50, int), rng.random(50), np.ones(50), np.ones(50))
        for name in "abc"
    ]

    window = Window.of(iter(tables))

    assert list(window) == list(window) == tables
    assert window.total == Bins.merge(table.total() for table in tables)


def test_a_window_without_events_is_empty():
    window = Window.of([BinsTable.empty()])

    assert list(window) == [BinsTable.empty()]
    assert window.total == Bins.empty()
