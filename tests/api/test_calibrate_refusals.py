"""What `POST /v1/calibrate` refuses: named by field, rule and value, and the service goes on."""

import json

import pytest

from tests.api.problems import broken_rule, problem

PATH = "/v1/calibrate"
SCORE_RULE = "must be a number in [0, 1]"


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("1e400", "1e400"),
        ("-1e400", "-1e400"),
        ("1.0000000000000002", "1.0000000000000002"),
        ("-5e-324", "-5e-324"),
        ("2", "2"),
        ("1" + "0" * 20, "1e+20"),
        ('"0.5"', '"0.5"'),
        ('"NaN"', '"NaN"'),
        ("true", "true"),
        ("null", "null"),
        ("[0.5]", "[0.5]"),
        ("{}", "{}"),
        ('{"a": NaN}', '{"a": "NaN"}'),
    ],
)
def test_only_numbers_in_the_unit_interval_are_scores(refusing, literal, value):
    """Nothing is coerced, and the answer says which of the scores is wrong."""
    columns = f'{{"target": "click", "campaigns": ["a", "b"], "scores": [0.5, {literal}]}}'
    rows = f'{{"rows": [{{"target": "click", "campaign": "a", "score": {literal}}}]}}'

    broken_rule(refusing.http.post(PATH, content=columns), "scores[1]", SCORE_RULE, value)
    broken_rule(refusing.http.post(PATH, content=rows), "rows[0].score", SCORE_RULE, value)


@pytest.mark.parametrize("digits", [400, 5_000, 4_000_000])
def test_huge_integers_are_refused_without_being_read_or_echoed(refusing, digits):
    body = b'{"target": "click", "campaign": "a", "scores": [%s]}' % (b"9" * digits)

    answer = refusing.http.post(PATH, content=body)

    broken_rule(answer, "scores[0]", SCORE_RULE, "9" * 61 + "...")


CLICK = {"target": "click", "campaign": "a"}
EQUALLY_LONG = "has 1 items beside 2 scores; the columns must be equally long"
KNOWN = "unknown target; known are click, conversion"
ROW = {**CLICK, "score": 0.1}


@pytest.mark.parametrize(
    ("request_body", "field", "rule", "value"),
    [
        ({}, "target", "is required", None),
        ({"target": "click"}, "scores", "is required", None),
        ({"target": "click", "scores": [0.5]}, "campaigns", "is required", None),
        (
            {"target": "click", "campaigns": ["a"], "scores": [0.1, 0.2]},
            "campaigns",
            EQUALLY_LONG,
            None,
        ),
        ({**CLICK, "campaigns": ["a"], "scores": [0.1]}, "campaign", "stands beside", None),
        ({"target": "click", "campaigns": [], "scores": []}, "scores", "has 0 items", None),
        ({"target": "click", "campaign": "a", "scores": []}, "scores", "has 0 items", None),
        ({"rows": []}, "rows", "has 0 items; must have 1 to 50000", None),
        ({"rows": [], "target": "click"}, "target", "stands beside rows", None),
        ({"rows": [], "scores": []}, "scores", "stands beside rows", None),
        ({**CLICK, "target": "view", "scores": [0.1]}, "target", KNOWN, '"view"'),
        ({"rows": [{**ROW, "target": "view"}]}, "rows[0].target", KNOWN, '"view"'),
        ({**CLICK, "scores": [0.1], "Scores": 1}, "Scores", "unknown field", None),
        ({"rows": [{**ROW, "bid": 1}]}, "rows[0].bid", "unknown field", None),
        ({"rows": [CLICK]}, "rows[0].score", "is required", None),
        ({"rows": {"0": {}}}, "rows", "must be an array of objects", '{"0": {}}'),
        ({"rows": [7]}, "rows[0]", "must be an object with target", "7"),
        ({"target": 7, "campaign": "a", "scores": [0.1]}, "target", "must be a string", "7"),
        ({"target": "click", "campaign": None}, "campaign", "must be a string", "null"),
        ({"target": "click", "scores": 0.5}, "scores", "must be an array of numbers", "0.5"),
        ({"campaigns": ["a", 7]}, "campaigns[1]", "must be a string", "7"),
        ({"campaigns": "a"}, "campaigns", "must be an array of strings", '"a"'),
        (None, "body", "expected object", "null"),
        ([], "body", "expected object", "[]"),
    ],
)
def test_every_broken_rule_is_named(refusing, request_body, field, rule, value):
    answer = refusing.http.post(PATH, content=json.dumps(request_body))

    broken_rule(answer, field, rule, value)


@pytest.mark.parametrize("campaign", ["", "x" * 257, "ä" * 129, "x" * 10_000])
def test_a_campaign_has_1_to_256_bytes(refusing, campaign):
    """In every form of the question, and never echoed whole."""
    value = json.dumps(campaign)
    shown = value if len(value) <= 64 else value[:61] + "..."
    rule = "must have 1 to 256 bytes of UTF-8"
    alone = {"target": "click", "campaign": campaign, "scores": [0.1]}
    column = {"target": "click", "campaigns": ["a", campaign], "scores": [0.1, 0.2]}
    rows = {"rows": [{"target": "click", "campaign": campaign, "score": 0.1}]}

    broken_rule(refusing.http.post(PATH, json=alone), "campaign", rule, shown)
    broken_rule(refusing.http.post(PATH, json=column), "campaigns[1]", rule, shown)
    broken_rule(refusing.http.post(PATH, json=rows), "rows[0].campaign", rule, shown)


def test_one_request_has_at_most_max_scores(refusing):
    scores = {"target": "click", "campaign": "a", "scores": [0.5] * 50_001}
    rows = {"rows": [{"target": "click", "campaign": "a", "score": 0.5}] * 50_001}
    rule = "has 50001 items; must have 1 to 50000"

    broken_rule(refusing.http.post(PATH, json=scores), "scores", rule, None)
    broken_rule(refusing.http.post(PATH, json=rows), "rows", rule, None)


def test_explain_is_a_truth_value(refusing):
    asked = {"target": "click", "campaign": "a", "scores": [0.5]}

    answer = refusing.http.post(PATH, json=asked, params={"explain": "maybe"})

    broken_rule(answer, "explain", "must be true or false", '"maybe"')


@pytest.mark.parametrize(
    "name", ["x" * 100_000, "a\n" + "x" * 100_000, "x - at `$.scores[5]", "`", "", "日本"]
)
def test_no_name_of_an_unknown_field_confuses_or_is_echoed(refusing, name):
    """Not even one that looks like the decoder's own messages."""
    shown = name if len(name) <= 64 else name[:61] + "..."
    nested = {"rows": [{"target": "click", "campaign": "a", "score": 0.1, name: 1}]}

    broken_rule(refusing.http.post(PATH, json={name: 1}), shown, "unknown field", None)
    content = problem(refusing.http.post(PATH, json=nested), 422, "broken-rule")
    assert content["field"] == f"rows[0].{name}" or content["field"].endswith("...")
