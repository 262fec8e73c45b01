"""Counts in rows of plain numbers: the same text as ever, exact over processes, never falling."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest

from app.api.metrics.counters import (
    CODES,
    EVENT_TYPES,
    LEVELS,
    RESULTS,
    SECONDS,
    LayoutsDiffer,
    MetricLayout,
    Metrics,
    SharedCounters,
)
from app.api.metrics.workers import new_file, size_of
from app.tracing import RequestAbout
from tests.api.former_metrics import FormerMetrics

ROUTES = ["/v1/calibrate", "/v1/events", "/v1/maps/{target}/{campaign:path}"]
TARGETS = ["click", "conversion"]
LAYOUT = MetricLayout.of(ROUTES, TARGETS)
ROWS = 3

numbers = st.integers(1, 1000)
# Multiples of a power of two add up without rounding, in any order.
exact_seconds = st.integers(0, 2048).map(lambda number: number / 1024)
scores = st.tuples(
    st.just("count_scores"), st.sampled_from(TARGETS), st.sampled_from(LEVELS), numbers
)
events = st.tuples(
    st.just("count_events"), st.sampled_from(EVENT_TYPES), st.sampled_from(RESULTS), numbers
)
duplicates = st.tuples(st.just("count_duplicates"), numbers)


def requests(codes: st.SearchStrategy[int], seconds: st.SearchStrategy[float]) -> Any:
    """Requests of known routes and of others."""
    routes = st.sampled_from([*ROUTES, "other"])
    return st.tuples(st.just("count_request"), routes, codes, seconds)


def lines(metrics: Metrics | FormerMetrics) -> list[str]:
    """What `/metrics` says of requests, scores and events, in no order."""
    text = generate_latest(metrics.registry).decode()
    shared = ("requests", "request_seconds", "scores", "events", "duplicate_events")
    return sorted(
        line
        for line in text.splitlines()
        if line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith("sirocco_")
        and any(f"sirocco_{name}" in line for name in shared)
    )


def count(metrics: Any, what: tuple[Any, ...]) -> None:
    name, *given = what
    if isinstance(metrics, Metrics) and name == "count_request":
        metrics.count_answer(RequestAbout(*given))
    elif isinstance(metrics, Metrics) and name == "count_scores":
        target, level, number = given
        metrics.row[LAYOUT.scores[target, level]] += number
    else:
        getattr(metrics, name)(*given)


@given(
    st.lists(
        requests(st.sampled_from([*CODES]), st.floats(0, 5) | st.sampled_from(SECONDS))
        | scores
        | events
        | duplicates
    )
)
def test_the_text_is_that_of_prometheus_own_classes(counted):
    """Names, help, types, labels, buckets and every figure, to the last digit."""
    metrics, former = Metrics(LAYOUT, SharedCounters.alone(LAYOUT)), FormerMetrics()
    for what in counted:
        count(metrics, what)
        count(former, what)

    assert lines(metrics) == lines(former)


@given(
    st.lists(
        st.tuples(
            st.integers(0, ROWS - 1),
            requests(st.integers(100, 999), exact_seconds) | scores | events | duplicates,
        )
    )
)
def test_whoever_is_asked_answers_for_all_rows(counted):
    """Each process adds to its row, and every one of them shows the same exact sums."""
    file = new_file(ROWS)
    try:
        shared = [SharedCounters.shared(file, size_of(ROWS), ROWS, LAYOUT) for _ in range(ROWS)]
        everyone = [Metrics(LAYOUT, counters, row) for row, counters in enumerate(shared)]
        former = FormerMetrics()
        for row, what in counted:
            count(everyone[row], what)
            count(former, known(what))
    finally:
        os.close(file)

    assert [lines(metrics) for metrics in everyone] == [lines(former)] * ROWS


def known(what: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same with a status code that is on the list, or `other`."""
    if what[0] != "count_request":
        return what
    name, route, code, seconds = what
    return name, route, code if code in CODES else "other", seconds


def test_an_unknown_route_counts_as_other():
    metrics = Metrics(LAYOUT, SharedCounters.alone(LAYOUT))

    metrics.count_answer(RequestAbout("/of/a/stranger", 404, 0.1))

    labels = {"route": "other", "code": "404"}
    assert metrics.registry.get_sample_value("sirocco_requests_total", labels) == 1
    assert metrics.registry.get_sample_value("sirocco_request_seconds_sum", {"route": "other"}) == (
        0.1
    )


def test_no_two_series_share_a_place():
    """The block of each route, and each pair, reason and number behind the last block."""
    blocks = sorted(LAYOUT.routes.values())
    by_labels = (LAYOUT.scores, LAYOUT.arms, LAYOUT.events, LAYOUT.garbage)
    pairs = [place for places in by_labels for place in places.values()]
    single = [
        LAYOUT.duplicates,
        LAYOUT.refused_versions,
        LAYOUT.last_good_failures,
        LAYOUT.connections,
        *LAYOUT.closed.values(),
        *LAYOUT.shed.values(),
    ]
    taken = sorted([*pairs, *single])

    width = blocks[1] - blocks[0]
    assert blocks == [place * width for place in range(len(ROUTES) + 1)]
    assert taken == list(range(len(blocks) * width, LAYOUT.size))


@pytest.fixture
def file() -> Iterator[int]:
    """A file for the rows of some processes."""
    made = new_file(ROWS)
    yield made
    os.close(made)


@pytest.mark.parametrize(
    "other",
    [MetricLayout.of([*ROUTES, "/new"], TARGETS), MetricLayout.of(ROUTES[::-1], TARGETS)],
    ids=["longer", "as long"],
)
def test_series_with_other_places_are_refused(file, other):
    """Code or settings that changed under running processes must not mix up their counts."""
    counters = SharedCounters.shared(file, size_of(ROWS), ROWS, LAYOUT)
    Metrics(LAYOUT, counters).count_duplicates(3)

    with pytest.raises(LayoutsDiffer, match="stop sirocco and start it again"):
        SharedCounters.shared(file, size_of(ROWS), ROWS, other)

    assert (
        Metrics(LAYOUT, counters).registry.get_sample_value("sirocco_duplicate_events_total") == 3
    )
