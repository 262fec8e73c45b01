"""Impressions and outcomes admitted all at once: the same as one by one, and others in the same
words."""

from collections import Counter
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from app.events import admission
from app.events.admission import Admission, Trials
from app.events.reading import Parsed
from app.events.rejections import OpenTimes
from app.events.schema import Click, Impression, TargetOutcome
from app.settings import Settings
from calibrators.arms import ARMS
from tests.storage.gathered import rows_by_log

HOUR = 470_000
NOW = HOUR * 3600.0
SETTINGS = Settings(
    max_campaign_bytes=8,
    future_seconds=10,
    fields=("device", "placement"),
    targets=("click", "sale"),
)
TIMES = OpenTimes.at(NOW, SETTINGS)
FIRST = NOW - 24 * 3600

good_times = st.sampled_from([NOW, FIRST, NOW - 0.5, NOW + 10, datetime.fromtimestamp(NOW, UTC)])
bad_times = st.sampled_from([FIRST - 1, NOW + 11, 0.0, 1e18, -1e300])
good_scores = st.sampled_from([{"click": 0.25}, {"click": 1.0, "conversion": 0.5}])
bad_scores = st.sampled_from([{}, {"conversion": 0.5}, {"click": 0.5, "view": 0.5}])
good_campaigns = st.sampled_from(["a", "b", "x" * 8, "日日", "😀😀"])
bad_campaigns = st.sampled_from(["", "x" * 9, "日日日"])
good_ids = st.none() | st.sampled_from(["1", "2", "é" * 70, "x" * 256])
bad_ids = st.sampled_from(["", "x" * 257])
amounts = st.none() | st.sampled_from([0.0, 0.25, 1e6])
good_terms = {
    "unit": st.none() | st.sampled_from(["ann", "日" * 85]),
    "arm": st.none() | st.sampled_from(ARMS),
    **dict.fromkeys(("bid", "cost", "value"), amounts),
    "fields": st.none()
    | st.sampled_from([{}, {"device": "ios"}, {"device": "日" * 85, "placement": "top"}]),
}
bad_fields = st.sampled_from([{"device": ""}, {"colour": "red"}, {"device": "日" * 86}])
good = st.one_of(
    st.builds(Impression, good_campaigns, good_times, good_scores, good_ids),
    st.builds(Impression, good_campaigns, good_times, good_scores, good_ids, **good_terms),
)
mixed = st.builds(
    Impression,
    good_campaigns | bad_campaigns,
    good_times | bad_times,
    good_scores | bad_scores,
    good_ids | bad_ids,
    unit=good_terms["unit"] | st.sampled_from(["", "日" * 86]),
    fields=good_terms["fields"] | bad_fields,
)
clicks = st.builds(
    Click,
    st.sampled_from(["1", "2", ""]),
    good_campaigns,
    good_times,
    good_times | bad_times,
    good_scores,
    fields=good_terms["fields"] | bad_fields,
)
versions = st.none() | st.sampled_from(["m1", "m2"])
good_outcomes = st.builds(
    TargetOutcome,
    good_campaigns,
    st.sampled_from(["click", "sale"]),
    good_times,
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([0.0, 0.25, 1.0]),
    **good_terms,
    model_version=versions,
)
outcomes = st.builds(
    TargetOutcome,
    good_campaigns | bad_campaigns,
    st.sampled_from(["click", "sale", "view", "conversion"]),
    good_times | bad_times,
    st.just(0.5),
    st.just(UNSET) | st.just(0.5),
    st.just(UNSET) | st.just({"click": 0.5}),
    unit=good_terms["unit"] | st.sampled_from(["", "日" * 86]),
    fields=good_terms["fields"] | bad_fields,
    model_version=versions | st.just(""),
)
requests = st.one_of(
    st.lists(good | clicks | good_outcomes),
    st.lists(good | mixed | clicks | outcomes | good_outcomes),
)


def admitted(events, few, settings=SETTINGS):
    """What comes of the events where up to `few` are too few for arrays; None for one by one."""
    found = Admission(settings, TIMES)
    if few is None:
        found._admit_few = found._admit_many = lambda *given: False
    with patch.object(admission, "FEW", few or 0):
        list(found.admit_all(Parsed(range(len(events)), events)))
    return (
        found.rejections.shown,
        +Counter(found.admitted),
        len(found.batch),
        found.batch.repeats,
        found.batch,
    )


@pytest.mark.parametrize("few", [0, 1000])
@given(requests)
@example([Impression("a", NOW, {"click": 0.5}, "1"), Impression("b", NOW, {"click": 0.5})])
@example([Impression("a", NOW - hours * 3600, {"click": 0.5}) for hours in (0, 2, 1, 0, 2)])
def test_all_at_once_is_the_same_as_one_by_one(few, events):
    *fast, fast_batch = admitted(events, few)
    *slow, slow_batch = admitted(events, None)

    assert fast == slow
    assert rows_by_log(fast_batch) == rows_by_log(slow_batch)


@given(st.lists(good, min_size=1))
def test_good_impressions_are_taken_all_at_once(events):
    """Otherwise the test above would compare the slow way with itself."""
    many, few = Admission(SETTINGS, TIMES), Admission(SETTINGS, TIMES)

    assert many._admit_many(Trials.of_impressions, events)
    assert few._admit_few(events)
    assert len(many.batch) == len(few.batch) == len(events)


@given(st.lists(good_outcomes, min_size=1))
def test_good_outcomes_are_taken_all_at_once(events):
    found = Admission(SETTINGS, TIMES)

    assert found._admit_many(Trials.of_outcomes, events)
    assert len(found.batch) == len(events)


SALE = TargetOutcome("a", "sale", NOW, 0.5, 0.5)
SHOWN = Impression("a", NOW, {"click": 0.5})


@pytest.mark.parametrize(
    "change",
    [
        {"campaign": ""},
        {"campaign": "a\x1eb"},
        {"target": "view"},
        {"target": "conversion"},
        {"occurred_at": NOW + 11},
        {"score": UNSET},
        {"scores": {"click": 0.5}},
        {"unit": ""},
        {"model_version": ""},
        {"fields": {"colour": "red"}},
    ],
    ids=str,
)
def test_one_bad_outcome_leaves_all_to_the_slow_way(change):
    found = Admission(SETTINGS, TIMES)
    events = [SALE, replace(SALE, target="click"), replace(SALE, **change)]

    assert not found._admit_many(Trials.of_outcomes, events)
    assert not found.batch


@pytest.mark.parametrize(
    "change",
    [
        {"campaign": ""},
        {"campaign": "a\x1eb"},
        {"campaign": "日日日"},
        {"occurred_at": NOW + 11},
        {"occurred_at": FIRST - 1},
        {"scores": {"conversion": 0.5}},
        {"scores": {"click": 0.5, "view": 0.5}},
        {"id": ""},
        {"id": "x" * 257},
        {"unit": ""},
        {"unit": "日" * 86},
        {"fields": {"device": ""}},
        {"fields": {"device": "a\x1fb"}},
        {"fields": {"colour": "red"}},
    ],
    ids=str,
)
def test_one_bad_impression_leaves_all_to_the_slow_way(change):
    found = Admission(SETTINGS, TIMES)
    events = [SHOWN, replace(SHOWN, id="1"), replace(SHOWN, **change)]

    assert not found._admit_many(Trials.of_impressions, events)
    assert not found._admit_few(events)
    assert not found.batch


def test_where_click_is_no_target_no_impression_is_taken():
    settings = Settings(targets=("view",))
    events = [Impression("a", NOW, {"view": 0.5})] * 2

    rejections, counted, *_ = admitted(events, few=0, settings=settings)

    assert [rejection.index for rejection in rejections] == [0, 1]
    assert not counted


def test_a_field_that_breaks_a_rule_is_named_with_it():
    events = [
        Impression("a", NOW, {"click": 0.5}, fields=fields)
        for fields in ({"colour": "red"}, {"device": "x" * 257}, {"placement": "top\x1f"})
    ]

    rejections, *_ = admitted(events, few=0)
    (undeclared, *_), *_ = admitted(events, few=0, settings=Settings())

    rule = "must have 1 to 256 bytes of UTF-8, none of them U+001F"
    assert rejections[0].error == "fields.colour: unknown field; declared are device, placement"
    assert [rule in rejection.error for rejection in rejections] == [False, True, True]
    assert undeclared.error == "fields.colour: unknown field; none is declared"
