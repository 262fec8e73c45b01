"""`POST /v1/calibrate` with units: each score by the maps of its unit's arm, in every form."""

import numpy as np
import pytest
from sirocco_client import EdgeCalibrator

from calibrators import Atlas, CalibrationMap
from calibrators.arms import ARMS, Split, unit_numbers
from calibrators.maps.calibration_map import PLACES, Spreads
from tests.api.conftest import alone
from tests.api.problems import broken_rule, problem
from tests.columns.bodies import LEVELS, ONE_CAMPAIGN, UNITS, read_answer, read_arms, scores_body

PATH = "/v1/calibrate"
COLUMNS = {"Content-Type": "application/vnd.sirocco.columns"}
SHARES = {"challenger": 0.3, "raw": 0.2}
SPLIT = Split("spring", SHARES)
UNIT_NAMES = [f"user-{number}" for number in range(100)]
CAMPAIGNS = ["hats", "shoes"] * 50
SCORES = np.linspace(0.01, 0.9, 100).tolist()
FACTORS = {"champion": {"hats": 0.5, "shoes": 0.25}, "challenger": {"hats": 0.125, "shoes": 0.75}}
LEVEL_OF = {"champion": "campaign", "challenger": "campaign", "raw": "raw"}


def expected(units=UNIT_NAMES):
    """The arms, and the probabilities by the maps of each."""
    arms = [SPLIT.arm(unit) for unit in units]
    factors = [
        FACTORS.get(arm, {}).get(name, 1.0) for arm, name in zip(arms, CAMPAIGNS, strict=True)
    ]
    return arms, [score * factor for score, factor in zip(SCORES, factors, strict=True)]


def experiment(**changes):
    about = {"challenger": {"method": "sir"}, "salt": "spring", "shares": SHARES, "canary": True}
    return {**about, "since": 0.0, "state": "running", "reason": None, "watch": {}} | changes


@pytest.fixture(scope="module")
def split(settings):
    """A service that splits clicks; the challenger has maps for hats and shoes, in other rows."""
    atlases = {
        "click": Atlas.build(proportional(FACTORS["champion"])),
        "click:challenger": Atlas.build(
            proportional({"a hat more": 0.9, **FACTORS["challenger"]}),
            CalibrationMap.proportional(0.0625),
        ),
    }
    with alone(settings) as service:
        service.publish(atlases, {"experiments": {"click": experiment()}})
        yield service


def proportional(factors):
    return {name: CalibrationMap.proportional(factor) for name, factor in factors.items()}


def post(service, asked, **params):
    answer = service.http.post(PATH, json=asked, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("number", [6, 100])
def test_each_score_is_served_by_the_maps_of_its_units_arm(split, number):
    """Few and many, in columns and in rows across targets."""
    units, (arms, probabilities) = UNIT_NAMES[:number], (part[:number] for part in expected())
    assert number < 100 or set(arms) == set(ARMS)
    asked = {"target": "click", "campaigns": CAMPAIGNS[:number], "scores": SCORES[:number]}
    rows = [
        {"target": target, "campaign": campaign, "score": score, "unit": unit}
        for campaign, score, unit in zip(CAMPAIGNS, SCORES, units, strict=False)
        for target in ("click", "conversion")
    ]

    answer = post(split, {**asked, "units": units}, explain="true")
    of_rows = post(split, {"rows": rows})

    assert answer["arms"] == arms
    assert answer["probabilities"] == pytest.approx(probabilities)
    assert answer["levels"] == [LEVEL_OF[arm] for arm in arms]
    assert of_rows["arms"][::2] == arms
    assert of_rows["probabilities"][::2] == answer["probabilities"]
    # No experiment runs there.
    assert of_rows["arms"][1::2] == ["champion"] * number
    assert of_rows["probabilities"][1::2] == SCORES[:number]


def test_maps_on_trial_without_intervals_have_no_width(settings):
    """They do not turn answers into errors, of the service or at the edge."""
    spreads = Spreads.of(-6.0, 0.0, np.full((3, PLACES), 0.5))
    atlases = {
        "click": Atlas.build(proportional(FACTORS["champion"])).with_spreads(spreads),
        "click:challenger": Atlas.build(proportional(FACTORS["challenger"])),
    }
    asked = {"campaigns": CAMPAIGNS, "scores": SCORES, "units": UNIT_NAMES, "interval": 0.9}
    with alone(settings) as service:
        service.publish(atlases, {"experiments": {"click": experiment()}})
        answer = post(service, {"target": "click", **asked})
        with EdgeCalibrator(service.url, "click") as edge:
            assert edge.wait(60)
            there = edge.calibrate(**asked)

    widths = np.array(answer["upper"]) - answer["lower"]
    assert np.array_equal(widths > 0.0, np.array(answer["arms"]) == "champion")
    assert np.array_equal(there.upper - there.lower, widths)


def test_one_unit_for_all_scores(split):
    for unit in UNIT_NAMES[:10]:
        arm = SPLIT.arm(unit)
        asked = {"target": "click", "campaign": "new", "scores": [0.5, 0.25], "unit": unit}
        factor = 0.0625 if arm == "challenger" else 1.0

        answer = post(split, asked, explain="true")

        assert answer["arms"] == [arm, arm]
        assert answer["probabilities"] == [0.5 * factor, 0.25 * factor]
        shared = {"champion": "identity", "challenger": "target", "raw": "raw"}
        assert answer["levels"] == [shared[arm]] * 2


@pytest.mark.parametrize("form", ["names", "ids", "one", "json"])
def test_binary_columns_are_answered_alike(split, form):
    given, names = {}, CAMPAIGNS
    if form == "ids":
        dictionary, of_names = split.ids()
        names, given = [of_names[name] for name in CAMPAIGNS], {"dictionary": dictionary}
    if form == "one":
        names = ["hats"]
    flags = LEVELS | UNITS | (ONE_CAMPAIGN if form == "one" else 0)
    numbers = unit_numbers(UNIT_NAMES).tolist()
    body = scores_body(SCORES, campaigns=names, units=numbers, flags=flags, **given)
    headers = COLUMNS | ({"Accept": "application/json"} if form == "json" else {})
    asked = {"target": "click", "scores": SCORES, "units": UNIT_NAMES}
    asked |= {"campaign": "hats"} if form == "one" else {"campaigns": CAMPAIGNS}
    expected = post(split, asked, explain="true")

    answer = split.http.post(PATH, content=body, headers=headers)

    if form == "json":
        assert answer.json() == expected
    else:
        probabilities, levels, _ = read_answer(answer.content)
        assert probabilities == expected["probabilities"]
        assert levels == expected["levels"]
        assert read_arms(answer.content) == expected["arms"]


@pytest.mark.parametrize("number", [6, 100])
def test_an_id_beyond_the_list_is_named_by_its_place_in_the_request(split, number):
    """Not by that among the scores of its arm, whichever that is."""
    dictionary, _ = split.ids()
    units = unit_numbers(UNIT_NAMES[:number]).tolist()
    named = []
    for place in range(number):
        ids = [1] * place + [3] + [1] * (number - place - 1)
        body = scores_body(
            SCORES[:number], campaigns=ids, units=units, flags=UNITS, dictionary=dictionary
        )
        answer = split.http.post(PATH, content=body, headers=COLUMNS)
        named.append(problem(answer, 422, "broken-rule")["field"])

    assert named == [f"campaigns[{place}]" for place in range(number)]


def test_without_units_nothing_is_split(split):
    asked = {"target": "click", "campaigns": CAMPAIGNS, "scores": SCORES}

    answer = post(split, asked)

    assert answer.keys() == {"probabilities", "version"}
    factors = [FACTORS["champion"][name] for name in CAMPAIGNS]
    assert answer["probabilities"] == pytest.approx(np.multiply(SCORES, factors).tolist())


def test_arms_are_counted(split):
    name = "sirocco_arm_scores_total"
    before = {arm: split.metric(name, target="click", arm=arm) or 0.0 for arm in ARMS}
    raw = split.metric("sirocco_scores_total", target="click", level="raw")

    post(split, {"target": "click", "campaigns": CAMPAIGNS, "scores": SCORES, "units": UNIT_NAMES})

    arms, _ = expected()
    for arm in ARMS:
        assert split.metric(name, target="click", arm=arm) == before[arm] + arms.count(arm)
    found = split.metric("sirocco_scores_total", target="click", level="raw")
    assert found == (raw or 0.0) + arms.count("raw")


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"units": ["u"]}, "units", "has 1 items beside 2 scores"),
        ({"units": ["u", ""]}, "units[1]", "must have 1 to 256 bytes of UTF-8"),
        ({"units": ["u", "ä" * 129]}, "units[1]", "must have 1 to 256 bytes of UTF-8"),
        ({"unit": ""}, "unit", "must have 1 to 256 bytes of UTF-8"),
        ({"unit": "u", "units": ["u", "u"]}, "unit", "stands beside units"),
        ({"units": [7, "u"]}, "units[0]", "must be a string"),
        ({"unit": 7}, "unit", "must be a string"),
    ],
)
def test_a_unit_that_is_none_is_refused(split, changes, field, rule):
    asked = {"target": "click", "campaign": "a", "scores": [0.1, 0.2]} | changes

    found = problem(split.http.post(PATH, json=asked), 422, "broken-rule")

    assert found["field"] == field
    assert rule in found["rule"]


def test_all_rows_have_a_unit_or_none(split):
    row = {"target": "click", "campaign": "a", "score": 0.1}

    answer = split.http.post(PATH, json={"rows": [{**row, "unit": "u"}, row]})

    broken_rule(answer, "rows[1].unit", "is required, because other rows have one", None)
