"""Products of targets in calibrate requests: answers and refusals, over HTTP on real Redis."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.settings import Settings
from calibrators import Atlas, CalibrationMap
from tests.api.conftest import alone
from tests.api.problems import broken_rule

PATH = "/v1/calibrate"
DECLARED = "pay=click*conversion, all=conversion*install*click"
FACTORS = ("conversion", "install", "click")
PAY = {"target": "pay", "campaign": "shoes", "scores": {"click": [0.1], "conversion": [0.2]}}
LEVELS = ("campaign", "target")
ROW = {"target": "pay", "campaign": "shoes", "scores": {"click": 0.1, "conversion": 0.2}}


def atlas(slope: float) -> Atlas:
    """Shoes have a map of their own, everybody else the target's."""
    scores = (0.0, 0.3, 1.0)
    own = CalibrationMap(scores, (0.0, 0.3 * slope, 0.9))
    others = CalibrationMap(scores, (0.001, 0.2 * slope, 1.0))
    return Atlas.build({"shoes": own}, target_map=others)


@pytest.fixture(scope="module")
def service():
    settings = Settings(port=0, refresh_seconds=0.01, products=DECLARED, targets="click,install")
    with alone(settings) as running:
        running.publish({name: atlas(0.3 + 0.2 * i) for i, name in enumerate(FACTORS)})
        yield running


def ask(service, body, **params):
    return service.http.post(PATH, json=body, params=params)


@given(st.data())
def test_a_product_is_that_of_the_single_answers_to_the_last_bit(service, data):
    number = data.draw(st.sampled_from([1, 2, 40, 300]))
    column = st.lists(st.floats(0, 1), min_size=number, max_size=number)
    scores = {name: data.draw(column) for name in FACTORS}
    names = st.lists(st.sampled_from(["shoes", "hats"]), min_size=number, max_size=number)
    campaigns = data.draw(names)
    expected = [1.0] * number
    for name in FACTORS:
        single = ask(service, {"target": name, "campaigns": campaigns, "scores": scores[name]})
        found = single.json()["probabilities"]
        expected = [product * one for product, one in zip(expected, found, strict=True)]

    each = [{name: scores[name][i] for name in FACTORS} for i in range(number)]
    rows = [
        {"target": "all", "campaign": campaign, "scores": of_each}
        for campaign, of_each in zip(campaigns, each, strict=True)
    ]
    columns = {"target": "all", "campaigns": campaigns, "scores": scores}

    assert ask(service, columns).json()["probabilities"] == expected
    assert ask(service, {"rows": rows}).json()["probabilities"] == expected


def test_values_levels_and_counts(service):
    scores = {"conversion": [0.5, 0.1], "click": [0.2, 0.3]}
    asked = {"target": "pay", "campaigns": ["shoes", "hats"], "scores": scores, "values": [40, 0]}
    counted = service.metric("sirocco_scores_total", target="click", level="target")

    answer = ask(service, asked, explain="true").json()

    assert answer["expected_values"] == [40 * answer["probabilities"][0], 0.0]
    own, shared = (dict.fromkeys(("click", "conversion"), level) for level in LEVELS)
    assert answer["levels"] == [own, shared]
    after = service.metric("sirocco_scores_total", target="click", level="target")
    assert after == (counted or 0) + 1


def test_rows_mix_products_and_targets(service):
    plain = {"target": "install", "campaign": "hats", "score": 0.4}
    rows = [plain, {**ROW, "value": 10}, ROW, plain]

    answer = ask(service, {"rows": rows}, explain="true").json()

    one, product, again, last = answer["probabilities"]
    assert (one, product) == (last, again)
    assert product == ask(service, PAY).json()["probabilities"][0]
    assert answer["expected_values"] == [None, 10 * product, None, None]
    assert answer["levels"][0] == "target"
    assert answer["levels"][1] == {"click": "campaign", "conversion": "campaign"}


NEEDS_BOTH = "pay is a product, which takes JSON with scores of each factor: click, conversion"
NO_FACTOR = "is no factor of pay: click, conversion"
EQUALLY_LONG = "has 2 items beside 1 of scores.click; the columns must be equally long"
VALUE = "must be a number from 0 to 1000000"
OF_PRODUCTS = "is for products only"
LEFT_OUT = "is required: it is a factor of pay"
NO_SCORES = "is required: those of each factor"
A_NUMBER = "must be a number in [0, 1], in columns an array of such"
NUMBERS = "must be an array of numbers in [0, 1]"
KNOWN = "unknown target; known are click, install, conversion, pay, all"
BOTH = '{"click": [0.1], "conversion": [0.2]}'
CLICK = {"target": "click", "campaign": "a", "score": 0}


def scored(click, conversion):
    return {"scores": {"click": click, "conversion": conversion}}


@pytest.mark.parametrize(
    ("changed", "field", "rule", "value"),
    [
        ({"scores": [0.1]}, "target", NEEDS_BOTH, '"pay"'),
        ({"scores": {"click": [0.1]}}, "scores.conversion", LEFT_OUT, None),
        ({"scores": {**PAY["scores"], "install": [0.1]}}, "scores.install", NO_FACTOR, None),
        (scored([0.1], [0.2, 0.1]), "scores.conversion", EQUALLY_LONG, None),
        (scored(0.1, [0.2]), "scores.click", A_NUMBER, "0.1"),
        (scored([0.1], [1.2]), "scores.conversion[0]", "must be a number in [0, 1]", "1.2"),
        (scored([], []), "scores", "has 0 items; must have 1 to 50000", None),
        ({"campaign": ""}, "campaign", "must have 1 to 256 bytes of UTF-8", '""'),
        ({"values": [1, 2]}, "values", EQUALLY_LONG, None),
        ({"values": [-1]}, "values[0]", VALUE, "-1"),
        ({"values": [1000001]}, "values[0]", VALUE, "1000001"),
        ({"target": "click"}, "scores", NUMBERS, BOTH),
        ({"target": "click", "scores": [0.1], "values": [1]}, "values", OF_PRODUCTS, None),
        ({"target": "buy"}, "target", KNOWN, '"buy"'),
    ],
)
def test_broken_columns_name_field_value_and_rule(service, changed, field, rule, value):
    broken_rule(ask(service, {**PAY, **changed}), field, rule, value)


@pytest.mark.parametrize(
    ("row", "field", "rule", "value"),
    [
        ({**ROW, "score": 0.1}, "rows[1].score", NEEDS_BOTH, None),
        ({"target": "pay", "campaign": "a"}, "rows[1].scores", NO_SCORES, None),
        ({**ROW, "scores": {"click": 0.1}}, "rows[1].scores.conversion", LEFT_OUT, None),
        ({**ROW, "scores": {**ROW["scores"], "x": 1}}, "rows[1].scores.x", NO_FACTOR, None),
        ({**ROW, "value": 1e7}, "rows[1].value", VALUE, "10000000.0"),
        ({"target": "click", "campaign": "a"}, "rows[1].score", "is required", None),
        ({**CLICK, "value": 1}, "rows[1].value", OF_PRODUCTS, None),
        ({**CLICK, "scores": {}}, "rows[1].scores", OF_PRODUCTS, None),
    ],
)
def test_broken_rows_name_field_value_and_rule(service, row, field, rule, value):
    broken_rule(ask(service, {"rows": [ROW, row]}), field, rule, value)


@pytest.mark.parametrize(
    ("declared", "rule"),
    [
        ("click=click*conversion", "click is the name of a target"),
        ("pay=click*buy", "buy of pay is no target"),
        ("pay=click*click", "pay has a factor twice"),
        ("pay=click*conversion,both=pay*click", "pay of both is no target"),
        ("pay=click", "at least 2"),
        ("Pay=click*conversion", "pattern"),
        ("pay=click*conversion,pay=conversion*click", "pay: declared twice"),
        (",".join(f"p{i}=click*conversion" for i in range(11)), "at most 10"),
    ],
)
def test_a_declaration_must_keep_the_rules(declared, rule):
    with pytest.raises(ValidationError, match=rule):
        Settings(products=declared)


def test_impressions_with_all_scores_are_trials_once_and_count_as_one_event(service):
    now = time.time()
    scores = {"click": 0.2, "conversion": 0.5}
    event = {"type": "impression", "campaign": "shoes", "occurred_at": now}
    named = [{**event, "id": f"i-{i}", "scores": scores} for i in range(100)]
    others = [{**event, "scores": {"click": 0.2}}, {**event, "scores": scores}]

    sent = [service.http.post("/v1/events", json=some).json() for some in (named, named, others)]

    counts = [(answer["accepted"], answer["duplicates"]) for answer in sent]
    assert counts == [(100, 0), (0, 100), (2, 0)]
    asked = {**PAY, "scores": {name: [score] for name, score in scores.items()}}
    product = ask(service, asked).json()["probabilities"][0]
    bins = service.bins("product:pay", int(now // 3600)).total()
    assert bins.total_count == 101
    assert bins.total_score == pytest.approx(101 * product, rel=1e-6)
    assert service.bins("click", int(now // 3600)).total().total_count == 102


def test_the_report_and_its_gauges(service):
    row = {"trials": 9.0, "predicted": 2.0, "clicks": 3.0, "positives": 1.0, "pcoc": 2.0}
    found = {
        "evaluated_until": 7.0,
        "hour": None,
        "window": {**row, "pcoc_floor": 0.5},
        "off": True,
    }
    before = service.app.state.resources.refresher.current.report
    service.publish({"click": atlas(0.5)}, {**before, "products": {"pay": found}})

    answer = service.http.get("/v1/products").json()

    nothing = dict.fromkeys(found)
    assert answer["version"] == service.serving
    assert answer["products"] == {
        "pay": {"factors": ["click", "conversion"], "evaluated_by": "conversion", **found},
        "all": {
            "factors": ["conversion", "install", "click"],
            "evaluated_by": "outcomes",
            **nothing,
        },
    }
    assert service.metrics("sirocco_product_pcoc") == {(("product", "pay"), ("span", "window")): 2}
    assert service.metric("sirocco_product_pcoc_floor", product="pay", span="window") == 0.5
    assert service.metric("sirocco_product_off", product="pay") == 1


def test_what_tells_of_each_product_what_came():
    declared = f"{DECLARED},apart=click*install,buy=click*order*conversion,both=conversion*order"
    delayed = {"targets": "click,install", "delayed_targets": "conversion,order"}
    settings = Settings(products=declared, **delayed)

    assert {name: settings.evaluated_by(name) for name in settings.products} == {
        "pay": "conversion",
        "all": "outcomes",
        "apart": "outcomes",
        "buy": "conversion",
        "both": "order",
    }


ALL = {"type": "outcome", "campaign": "shoes", "target": "all", "outcome": 1}
OF_EACH = "must be those of each factor of all: conversion, install, click"


def test_an_outcome_of_a_product_is_a_trial_by_the_maps_in_force(service):
    now = time.time()
    scores = {"conversion": 0.5, "install": 0.4, "click": 0.2}
    events = [{**ALL, "scores": scores, "occurred_at": now, "outcome": i % 2} for i in range(6)]

    answers = [
        service.http.post("/v1/events", json=events, headers={"Idempotency-Key": "twice"}).json()
        for _ in range(2)
    ]

    assert [(one["accepted"], one["duplicates"]) for one in answers] == [(6, 0), (0, 6)]
    asked = {"target": "all", "campaign": "shoes", "scores": {k: [v] for k, v in scores.items()}}
    product = ask(service, asked).json()["probabilities"][0]
    found = service.bins("outcomes:all", int(now // 3600)).total()
    assert (found.total_count, found.total_positives) == (6, 3)
    assert found.total_score == pytest.approx(6 * product, rel=1e-6)


EACH = {"scores": {"conversion": 0.5, "install": 0.4, "click": 0.2}}
NOT_KEPT = "is not kept of outcomes of products"
BY_CLICKS = "is evaluated by clicks and conversions of conversion; send these"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"scores": {"click": 0.1}}, f'scores = {{"click": 0.1}}: {OF_EACH}'),
        ({"score": 0.1}, f"scores = {{}}: {OF_EACH}"),
        ({**EACH, "score": 0.1}, f"score: {NOT_KEPT}"),
        ({**EACH, "unit": "u"}, f"unit: {NOT_KEPT}"),
        ({**EACH, "target": "pay"}, f'target = "pay": {BY_CLICKS}'),
        ({**EACH, "occurred_at": 1e9}, "occurred_at = 1000000000.0: late"),
        ({"target": "install"}, "score: is required"),
        ({"target": "install", "score": 0.1, "scores": {}}, "scores: is for products only"),
    ],
)
def test_an_outcome_that_cannot_be_one_of_a_product_is_rejected(service, said, error):
    now = {**ALL, "occurred_at": time.time()}
    events = [{**now, "target": "click", "score": 0.1}, {**now, **said}]

    answer = service.http.post("/v1/events", json=events).json()

    assert (answer["accepted"], answer["rejected"][0]["index"]) == (1, 1)
    assert answer["rejected"][0]["error"].startswith(error)
