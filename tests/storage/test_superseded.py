"""Which versions may go first: never one that an hour is still to be judged by."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.versions import NEWEST_KEPT, beyond_retention
from app.worker.atlas_cache import version_as_of

Manifests = list[dict[str, Any]]


def manifests(minutes: list[int]) -> Manifests:
    """Of versions as of so many minutes, the newest first."""
    entries = [
        {"version": f"v{number}", "as_of": minute * 60.0} for number, minute in enumerate(minutes)
    ]
    return entries[::-1]


def test_of_one_hours_versions_all_but_the_last_are_superseded_oldest_first():
    history = manifests([60, 70, 80, 120, 130, 140, 150])
    assert beyond_retention(history) == ["v1", "v2"]


def test_a_version_as_of_a_whole_hour_is_the_last_of_the_hour_before():
    assert beyond_retention(manifests([55, 60, 65, 121, 122, 123])) == ["v0"]


def test_the_newest_few_are_never_among_them():
    history = manifests([60] * 10)
    assert beyond_retention(history) == [f"v{number}" for number in range(10 - NEWEST_KEPT)]


@given(st.lists(st.integers(0, 600), max_size=30))
def test_without_them_every_hour_is_judged_by_the_same_version(minutes):
    history = manifests(minutes)
    gone = set(beyond_retention(history))

    kept = [entry for entry in history if entry["version"] not in gone]

    for hour in range(12):
        moment = hour * SECONDS
        assert version_as_of(kept, moment) == version_as_of(history, moment)


@given(st.lists(st.integers(0, 600), max_size=60))
def test_no_more_than_one_an_hour_is_left_beside_the_newest(minutes):
    history = manifests(minutes)
    left = len(history) - len(beyond_retention(history))
    hours = {-(-entry["as_of"] // SECONDS) for entry in history}
    assert left <= len(hours) + NEWEST_KEPT
