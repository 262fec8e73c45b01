"""`POST /v1/events` in binary columns: stores the same, and refuses the same, as in JSON."""

import json
import math
import time

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.storage.bins import BinsStore
from app.storage.keys import BREAKDOWNS
from calibrators.arms import unit_number
from tests.api.conftest import new_redis
from tests.api.events import HOUR_SECONDS, NONE_REJECTED
from tests.api.problems import problem
from tests.api.running_service import serving
from tests.columns.bodies import (
    ARM_NAMES,
    CLICKS,
    EVENT_IDS,
    IMPRESSIONS,
    ONE_CAMPAIGN,
    clicks_body,
    impressions_body,
    numbers,
    outcomes_body,
    term_sections,
    texts,
)
from tests.columns.bodies import OUTCOMES as OUTCOMES_KIND
from tests.columns.bodies import body as raw_body
from tests.storage.contents import damaged_blocks

PATH = "/v1/events"
COLUMNS = "application/vnd.sirocco.columns"
MANY = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
AS_OF = 1_700_000_000.0 // HOUR_SECONDS * HOUR_SECONDS
FIRST = AS_OF - 24 * HOUR_SECONDS
"""Where the open times begin: at events' clock, one window before the last refit."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
NAMES = st.sampled_from(["shoes", "hats", "ö" * 128]) | TEXT
BAD_NAMES = st.sampled_from(["", "x" * 257])
SCORES = st.floats(0, 1) | st.sampled_from([0.0, -0.0, 1.0, 0.25])
WRONG_VALUES = [-0.5, 1 + 2**-52, math.nan, math.inf, -math.inf]
BAD_VALUES = st.sampled_from(WRONG_VALUES)
HOURS = [FIRST, AS_OF - 3600, AS_OF]
TIMES = (
    st.floats(FIRST, AS_OF + 3600)
    | st.sampled_from(HOURS)
    | st.sampled_from(HOURS).map(lambda hour: math.nextafter(hour + 3600, 0))
)
WRONG_TIMES = [math.nextafter(FIRST, 0), 0.0, -1e300, 4102444800.0, math.nan, math.inf, 1e308]
BAD_TIMES = st.sampled_from(WRONG_TIMES)
IDS = st.sampled_from(["1", "2", "3", "y" * 65, "z" * 256]) | TEXT
BAD_IDS = st.sampled_from(["", "i" * 257])


def some(good, bad):
    """Mostly good: three in four lists have nothing else."""
    return st.sampled_from([good, good, good, good | bad])


def each_wrong(good, wrong):
    """The good row, and rows with each wrong value in each column: by the column's place."""
    rows = [good]
    for place, values in wrong.items():
        rows += [(*good[:place], value, *good[place + 1 :]) for value in values]
    return rows


@st.composite
def events(draw, *columns):
    """Rows of these (good, bad) columns."""
    kinds = [draw(some(*column)) for column in columns]
    rows = draw(st.lists(st.tuples(*kinds), min_size=1, max_size=12))
    # As many as are admitted all at once, too.
    return rows * draw(st.sampled_from([1, 1, 10]))


@pytest.fixture(scope="module")
def counting(settings):
    """A service at the events' clock, whose version says where the open times begin."""
    by_events = settings.model_copy(update={"clock": "event", "targets": ("click", "view")})
    with new_redis() as server, serving(by_events, server.url) as service:
        service.publish({}, as_of=AS_OF)
        yield service


def post(service, body):
    return service.http.post(PATH, content=body, headers={"Content-Type": COLUMNS})


def post_json(service, sent):
    # `json` writes NaN and Infinity as strangers do.
    return service.http.post(PATH, content=json.dumps(sent))


def stored(service, targets=("click", "view")):
    """Everything that is stored, as it adds up, and forgotten then."""
    store = BinsStore(service.store, service.settings.ttl_seconds)
    store.fold()
    tables = {
        (target, hour): store.hour(target, hour).to_bytes()
        for target in targets
        for hour in store.hours(target)
    }
    assert damaged_blocks(store) == 0
    # Sums by arm, by unit and of money stand beside the bins.
    beside = {
        key: service.store.hmget(key, BREAKDOWNS)
        for key in service.store.scan_iter("sirocco:{[0-9]*:bins:*")
    }
    for key in service.store.scan_iter("sirocco:{[0-9]*"):
        service.store.delete(key)
    return tables, beside


def check_same(service, body, sent):
    """Answer and store are the same for both bodies, to the last bit."""
    in_columns, tables = post(service, body), stored(service)
    in_json, expected = post_json(service, sent), stored(service)

    assert (in_columns.status_code, in_columns.json()) == (in_json.status_code, in_json.json())
    assert tables == expected


def impressions_of(rows, ids=None):
    columns = zip(rows, ids or [None] * len(rows), strict=True)
    return [
        {"type": "impression", "campaign": name, "occurred_at": at, "scores": {"click": score}}
        | ({} if event_id is None else {"id": event_id})
        for (name, score, at), event_id in columns
    ]


@pytest.mark.slow
@settings(MANY, max_examples=75)
@given(
    rows=events((NAMES, BAD_NAMES), (SCORES, BAD_VALUES), (TIMES, BAD_TIMES), (IDS, BAD_IDS)),
    with_ids=st.booleans(),
    of_one_campaign=st.booleans(),
)
@example([("shoes", 0.5, AS_OF, "1")] * 50 + [("shoes", 0.5, 4102444800.0, "1")], False, False)
@example(
    each_wrong(("shoes", 0.5, AS_OF, "1"), {0: [""], 1: WRONG_VALUES, 2: WRONG_TIMES}), False, False
)
@example(
    each_wrong(("shoes", 0.5, AS_OF, "1"), {3: ["1", "2", "", "i" * 257, "ö" * 64]}), True, False
)
def test_impressions_are_counted_as_in_json(counting, rows, with_ids, of_one_campaign):
    """Bad ones among them are rejected with the same words, by the same index; repeats of an id are
    duplicates."""
    if of_one_campaign:
        rows = [(rows[0][0], *row[1:]) for row in rows]
    names, scores, times, ids = zip(*rows, strict=True)
    named = {"campaigns": names}
    if of_one_campaign:
        named = {"campaigns": names[:1], "flags": ONE_CAMPAIGN}

    body = impressions_body(scores, times, ids if with_ids else None, **named)

    check_same(counting, body, impressions_of([row[:3] for row in rows], ids if with_ids else None))


@pytest.mark.slow
@MANY
@given(
    rows=events(
        (NAMES, BAD_NAMES),
        (SCORES, BAD_VALUES),
        (TIMES, BAD_TIMES),
        (TIMES, BAD_TIMES),
        (IDS, BAD_IDS),
    )
)
@example(
    rows=each_wrong(
        ("shoes", 0.5, AS_OF, AS_OF, "1"),
        {0: [""], 1: WRONG_VALUES, 2: WRONG_TIMES, 3: WRONG_TIMES, 4: ["", "i" * 257]},
    )
)
def test_clicks_are_counted_as_in_json(counting, rows):
    names, scores, times, shown_at, ids = zip(*rows, strict=True)
    sent = [
        {
            "type": "click",
            "click_id": click_id,
            "campaign": name,
            "occurred_at": at,
            "impression_at": shown,
            "scores": {"click": score},
        }
        for name, score, at, shown, click_id in rows
    ]

    check_same(counting, clicks_body(scores, times, shown_at, ids, campaigns=names), sent)


PRICED = ("bid", "cost", "value")
UNIT_NAMES = st.none() | st.sampled_from(["ann", "bob", "ö"])
ARM_NUMBERS = st.sampled_from([0, 1, 2, 255])
PRICES = st.none() | st.sampled_from([0.0, 1e6, 0.125]) | st.floats(0, 1e6)
WRONG_PRICES = [-1.0, math.nextafter(1e6, math.inf), math.inf, -math.inf]
TERMS = (
    *((SCORES, BAD_VALUES), (TIMES, BAD_TIMES), (UNIT_NAMES, st.none())),
    *((ARM_NUMBERS, st.integers(3, 9)), *[(PRICES, st.sampled_from(WRONG_PRICES))] * 3),
)
GOOD_TERMS = (0.5, AS_OF, "ann", 1, 1.0, 2.0, 3.0)
WRONG_TERMS = {0: [-0.5], 3: [3, 254], **dict.fromkeys((4, 5, 6), WRONG_PRICES)}


def named_terms(unit, arm, *money):
    """As JSON says them; what is wrong is wrong there, too."""
    names = {255: None, **dict(enumerate(ARM_NAMES))}
    said = {"unit": unit, "arm": names.get(arm, str(arm))}
    said |= zip(PRICED, money, strict=True)
    return {name: value for name, value in said.items() if value is not None}


def check_terms(service, kind, rows, with_units, with_money):
    kept = {*(("unit", "arm") if with_units else ()), *(PRICED if with_money else ())}
    scores, times, units, arms, *money = zip(*rows, strict=True)
    flags, behind = term_sections(
        [0 if unit is None else unit_number(unit) for unit in units] if with_units else None,
        arms,
        [[math.nan if price is None else price for price in column] for column in money]
        if with_money
        else (),
    )
    ids = [f"c{place}" for place in range(len(rows))]
    more = {"outcome": [times, scores], "click": [times, times], "impression": [times]}[kind]
    sections = b"".join(numbers("d", column) for column in (scores, *more))
    if kind == "click":
        sections, flags = sections + texts(ids), flags | EVENT_IDS
    kinds = {"impression": IMPRESSIONS, "click": CLICKS, "outcome": OUTCOMES_KIND}
    campaigns = ["shoes"] * len(rows)
    body = raw_body(kinds[kind], len(rows), sections + behind, campaigns=campaigns, flags=flags)
    sent = [
        {"type": kind, "campaign": "shoes", "occurred_at": row[1]}
        | {
            "impression": {"scores": {"click": row[0]}},
            "click": {"scores": {"click": row[0]}, "impression_at": row[1], "click_id": event_id},
            "outcome": {"target": "click", "score": row[0], "outcome": row[0]},
        }[kind]
        | {name: one for name, one in named_terms(*row[2:]).items() if name in kept}
        for row, event_id in zip(rows, ids, strict=True)
    ]
    check_same(service, body, sent)


@pytest.mark.slow
@MANY
@given(
    kind=st.sampled_from(["impression", "click", "outcome"]),
    rows=events(*TERMS),
    with_units=st.booleans(),
    with_money=st.booleans(),
)
@example("impression", [GOOD_TERMS] * 70, True, True)
@example("impression", each_wrong(GOOD_TERMS, WRONG_TERMS), True, True)
@example("click", each_wrong(GOOD_TERMS, WRONG_TERMS), True, True)
@example("outcome", each_wrong(GOOD_TERMS, WRONG_TERMS), True, True)
def test_units_arms_and_money_are_kept_as_in_json(counting, kind, rows, with_units, with_money):
    """A unit in columns is its number; the sums by arm, by unit and of money are the same."""
    check_terms(counting, kind, rows, with_units, with_money)


OUTCOMES = events(
    (NAMES, BAD_NAMES), (SCORES, BAD_VALUES), (TIMES, BAD_TIMES), (SCORES, BAD_VALUES)
)


@MANY
@given(rows=OUTCOMES, target=st.sampled_from(["click", "view", "conversion", "other"]))
@example(rows=[("shoes", 0.5, AS_OF, 1.0)] * 50, target="conversion")
@example(
    rows=each_wrong(("hats", 0.5, AS_OF, 1.0), {1: WRONG_VALUES, 2: WRONG_TIMES, 3: WRONG_VALUES}),
    target="view",
)
def test_outcomes_are_counted_as_in_json(counting, rows, target):
    """Of delayed and unknown targets none is, for the same reason."""
    names, scores, times, came_true = zip(*rows, strict=True)
    sent = [
        {
            "type": "outcome",
            "campaign": name,
            "target": target,
            "occurred_at": at,
            "score": score,
            "outcome": outcome,
        }
        for name, score, at, outcome in rows
    ]

    body = outcomes_body(scores, times, came_true, campaigns=names, target=target)

    check_same(counting, body, sent)


def test_names_that_stand_twice_are_one_campaign(counting):
    """A caller may send a name for each row, and number them."""
    rows = [("shoes", 0.5, AS_OF), ("hats", 0.25, AS_OF), ("shoes", 0.75, AS_OF)]
    body = bytearray(
        impressions_body([0.5, 0.25, 0.75], [AS_OF] * 3, campaigns=["shoes", "hats!", "shoe!"])
    )
    place = body.index(b"shoeshats!shoe!")
    body[place : place + 15] = b"shoeshats!shoes"
    rows[1] = ("hats!", *rows[1][1:])

    check_same(counting, bytes(body), impressions_of(rows))


def test_without_immediate_clicks_impressions_are_refused_as_in_json(settings, redis_url):
    """Where the target `click` is delayed."""
    no_clicks = settings.model_copy(update={"targets": ("view",), "clock": "event"})
    rows = [("shoes", 0.5, AS_OF)] * 50
    with serving(no_clicks, redis_url) as service:
        check_same(
            service,
            impressions_body([0.5] * 50, [AS_OF] * 50, campaigns=["shoes"] * 50),
            impressions_of(rows),
        )


def test_interned_campaigns_are_stored_by_name(service, atlas):
    service.publish({"click": atlas})
    dictionary = service.ids()[0]
    now = time.time()
    body = impressions_body([0.25, 0.5, 0.5], [now] * 3, campaigns=[2, 1, 2], dictionary=dictionary)

    answer = post(service, body).json()

    table = service.bins("click", int(now // HOUR_SECONDS))
    assert answer == {"accepted": 3, "duplicates": 0, **NONE_REJECTED}
    assert {name: bins.total_count for name, bins in table} == {"shoes": 2, "hats": 1}


def test_interned_campaigns_of_a_former_list_are_stored_by_name(service, atlas):
    """Also one that lost its map meanwhile."""
    service.publish({"click": atlas})
    dictionary = service.ids()[0]
    service.publish({})
    now = time.time()
    body = impressions_body([0.5], [now], campaigns=[1], dictionary=dictionary, flags=ONE_CAMPAIGN)

    assert post(service, body).json()["accepted"] == 1
    assert service.bins("click", int(now // HOUR_SECONDS)).campaigns == ("hats",)


def test_the_id_zero_names_no_campaign(service, version):
    """Nothing could be counted for it; its neighbours are."""
    dictionary = service.ids()[0]
    now = time.time()
    body = impressions_body([0.5] * 3, [now] * 3, campaigns=[1, 0, 1], dictionary=dictionary)

    answer = post(service, body).json()

    assert answer["accepted"] == 2
    (rejected,) = answer["rejected"]
    assert rejected["index"] == 1
    assert rejected["error"].startswith("campaign = 0: must be an id from 1 on")


@pytest.mark.parametrize(
    ("more", "status", "slug"),
    [
        ({"announced": {"version": 9}}, 415, "unsupported-columns-version"),
        ({"campaigns": [1], "dictionary": 1}, 409, "unknown-dictionary"),
        ({"announced": {"rows": 50_001}}, 413, "too-many-events"),
        ({"announced": {"rows": 0}}, 422, "broken-rule"),
        ({"announced": {"magic": b"JSON"}}, 422, "broken-rule"),
    ],
)
def test_a_body_that_cannot_be_is_refused_whole(refusing, more, status, slug):
    body = impressions_body([0.5], [AS_OF], **{"campaigns": ["a"], **more})

    problem(post(refusing, body), status, slug)


def test_an_id_beyond_the_list_refuses_the_request(refusing):
    dictionary = refusing.ids()[0]

    answer = post(refusing, impressions_body([0.5], [AS_OF], campaigns=[1], dictionary=dictionary))

    assert problem(answer, 422, "broken-rule")["field"] == "campaigns[0]"


def test_outcomes_of_an_unknown_target_have_no_ids(refusing):
    answer = post(
        refusing, outcomes_body([0.5], [AS_OF], [1.0], campaigns=[0], dictionary=1, target="other")
    )

    assert problem(answer, 422, "broken-rule")["field"] == "target"


def test_future_events_of_columns_are_rejected_by_the_wall_clock(service):
    now = time.time()
    body = impressions_body([0.5, 0.5], [now + 3600, now], campaigns=["a", "a"])

    answer = post(service, body).json()

    assert answer["accepted"] == 1
    (rejected,) = answer["rejected"]
    assert rejected["index"] == 0
    assert rejected["error"].startswith(f"occurred_at = {now + 3600}: future, after ")


def test_events_of_columns_are_counted_by_type_and_result(service):
    now = time.time()
    scores = [0.5] * 49 + [1.5]

    post(service, impressions_body(scores, [now] * 50, campaigns=["a"] * 50))
    post(service, outcomes_body(scores, [now] * 50, [1.0] * 50, campaigns=["a"] * 50))

    for event_type in ("impression", "outcome"):
        counted = service.metrics("sirocco_events_total")
        results = {
            dict(labels)["result"]: number
            for labels, number in counted.items()
            if dict(labels)["type"] == event_type and number
        }
        assert results == {"accepted": 49, "invalid": 1}


def test_a_large_request_is_stored_whole(counting):
    """Off the event loop, over all shards and several hours."""
    number = 20_000
    names = [f"campaign-{row % 500}" for row in range(number)]
    times = [AS_OF - row % 3 * HOUR_SECONDS for row in range(number)]
    scores = [row / number for row in range(number)]

    check_same(
        counting,
        impressions_body(scores, times, campaigns=names),
        impressions_of(list(zip(names, scores, times, strict=True))),
    )


@pytest.mark.slow
def test_a_click_of_a_version_owns_its_id_as_in_json(service):
    """By the campaign alone: the same click in the other form is a repeat."""
    at = time.time()
    click = {"type": "click", "click_id": "c", "campaign": "a", "occurred_at": at}
    as_json = {**click, "impression_at": at - 1, "scores": {"click": 0.1}, "model_version": "v2"}
    body = clicks_body([0.1], [at], [at - 1], ["c"], campaigns=["a\x1ev2"])

    first, again = post(service, body).json(), service.http.post(PATH, json=[as_json]).json()

    assert (first["accepted"], again["duplicates"], again["rejected_total"]) == (1, 1, 0)


def test_one_campaign_may_be_any_of_the_names(counting):
    """The second here."""
    sections = texts(["hats", "shoes"]) + numbers("I", [1])
    sections += numbers("d", [0.25, 0.5]) + numbers("d", [AS_OF, AS_OF])
    announced = {"names": 2, "names_bytes": 9}

    body = raw_body(IMPRESSIONS, 2, sections, flags=ONE_CAMPAIGN, announced=announced)

    check_same(counting, body, impressions_of([("shoes", 0.25, AS_OF), ("shoes", 0.5, AS_OF)]))
