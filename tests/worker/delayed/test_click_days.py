"""Expected and observed conversions by click day."""

import numpy as np
import pytest

from app.worker.relabelling import labelled_days, merged_days, observed_days
from tests.worker.delayed.click_world import DAY

HOUR = 3600.0


def test_a_window_is_cut_at_midnight():
    at = np.array([DAY - HOUR, DAY - 1, DAY, DAY + HOUR, DAY + 2 * HOUR])
    labels = np.array([1.0, 0.5, 0.25, 0.125, 1.0])

    days = list(labelled_days(at, labels, (DAY - HOUR, DAY + 2 * HOUR), as_of=7.0))

    assert days == [
        {"first": DAY - HOUR, "behind": DAY, "as_of": 7.0, "clicks": 2, "expected": 1.5},
        {"first": DAY, "behind": DAY + 2 * HOUR, "as_of": 7.0, "clicks": 2, "expected": 0.375},
    ]


def test_a_day_without_clicks_has_no_record():
    assert list(labelled_days(np.empty(0), np.empty(0), (0.0, 3 * DAY), 0.0)) == []


def test_a_window_that_ends_at_midnight_says_nothing_of_the_next_day():
    days = list(labelled_days(np.array([DAY - 1]), np.ones(1), (0.0, DAY), 0.0))

    assert [(day["first"], day["behind"]) for day in days] == [(0.0, DAY)]


def record(first, behind, as_of=0.0):
    return {"first": first, "behind": behind, "as_of": as_of, "expected": 1.0}


def test_of_each_day_the_longest_record_stays_and_of_those_the_first():
    before = [record(DAY, 1.5 * DAY, 1), record(0, DAY, 2)]
    new = [record(0.0, DAY, 3), record(1.2 * DAY, 2 * DAY, 4)]

    merged = merged_days(before, new, since=-1.0)

    assert [day["as_of"] for day in merged] == [2, 4]


def test_records_that_are_too_old_go():
    merged = merged_days([record(0, DAY)], [record(DAY, 2 * DAY)], since=DAY)

    assert merged == [record(DAY, 2 * DAY)]


@pytest.mark.parametrize(("span", "told"), [((0, 3 * DAY), 2), ((1, 3 * DAY), 1), ((0, DAY), 1)])
def test_only_days_inside_the_span_can_be_told(span, told):
    at = np.array([0.0, 0.5, 1.5]) * DAY
    converted = np.array([True, False, True])
    records = [record(0, DAY), record(DAY, 2 * DAY)]

    found = observed_days(records, at, converted, span, weight=2.0)

    assert len(found) == told
    assert all(day["observed"] == 2.0 for day in found)
