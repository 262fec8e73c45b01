"""`POST /v1/calibrate` with fields: the maps' probabilities with effects in them, in every form."""

import json
import math
import time

import numpy as np
import pytest

from calibrators import Atlas, CalibrationMap
from calibrators.arms import unit_numbers
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.maps.calibration_map import MapColumns
from calibrators.maps.groups import FieldGroups, GroupMaps
from tests.api.conftest import alone
from tests.api.problems import broken_rule
from tests.columns.bodies import (
    FIELDS,
    LEVELS,
    ONE_CAMPAIGN,
    UNITS,
    field_sections,
    read_answer,
    read_arms,
    scores_body,
)

PATH = "/v1/calibrate"
JSON = "application/json"
COLUMNS = {"Content-Type": "application/vnd.sirocco.columns"}
N = 100
CAMPAIGNS = ["hats", "shoes"] * 50
SCORES = np.linspace(0.0, 1.0, N).tolist()
DEVICES = ["ios", "android", "tv", "ios"] * 25
PLACES = ["top", "side"] * 50
FACTORS = {"hats": 0.5, "shoes": 0.25}
EFFECTS = {
    "device": {"": -0.1, "ios": 0.5, "android": -0.25},
    "placement": {"": 0.0, "top": 0.2},
    "device*placement": {"ios\x1ftop": 0.125},
    "campaign*device": {"hats\x1fios": 0.75},
}


def effects(by=1.0):
    table = {
        name: EffectTable.of({row: by * one for row, one in rows.items()}, dict.fromkeys(rows, 0.1))
        for name, rows in EFFECTS.items()
    }
    pair, campaign = table.pop("device*placement"), table.pop("campaign*device")
    return FieldEffects(table, {"device*placement": pair}, {"device": campaign})


def terms(campaign, device, place):
    of_device, of_place = EFFECTS["device"], EFFECTS["placement"]
    pair = EFFECTS["device*placement"].get(f"{device}\x1f{place}", 0.0)
    own = EFFECTS["campaign*device"].get(f"{campaign}\x1f{device}", 0.0)
    return {
        "device": of_device.get(device, of_device[""]),
        "placement": of_place.get(place, of_place[""]),
        "device*placement": pair,
        "campaign*device": own,
    }


def expected(devices=DEVICES, places=PLACES, campaigns=CAMPAIGNS):
    rows = zip(campaigns, SCORES, devices, places, strict=True)
    for campaign, score, device, place in rows:
        p = score * FACTORS.get(campaign, 1.0)
        m = math.exp(sum(terms(campaign, device, place).values()))
        yield p * m / (1 - p + p * m)


def maps():
    return {name: CalibrationMap.proportional(factor) for name, factor in FACTORS.items()}


@pytest.fixture(scope="module")
def fielded(settings):
    """A service that knows two fields, and effects of them on clicks; a conversion has none."""
    changes = {
        "fields": ("device", "placement"),
        "field_pairs": (("device", "placement"),),
        "targets": ("click", "install"),
        "products": {"pay": ("click", "conversion"), "both": ("click", "install")},
    }
    with alone(settings, **changes) as service:
        service.publish({"click": Atlas.build(maps()).with_effects(effects())})
        yield service


@pytest.fixture(scope="module")
def unpaired(settings):
    """One that knows no pairs, and leaves columns of fields in JSON."""
    with alone(settings, fields=("device", "placement")) as service:
        tables, _, campaigns = effects().tables
        service.publish(
            {
                "click": Atlas.build(maps()).with_effects(FieldEffects(tables)),
                "conversion": Atlas.build(maps()).with_effects(FieldEffects(tables, {}, campaigns)),
            }
        )
        yield service


def post(service, asked, **params):
    answer = service.http.post(PATH, json=asked, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def columns(number=N, **more):
    fields = {"device": DEVICES[:number], "placement": PLACES[:number]}
    base = {"target": "click", "campaigns": CAMPAIGNS[:number], "scores": SCORES[:number]}
    return {**base, "fields": fields, **more}


@pytest.mark.parametrize("number", [3, N])
def test_json_columns_and_rows_have_the_effects_in_them(fielded, number):
    rows = [
        {"target": t, "campaign": c, "score": s, "fields": {"device": d, "placement": p}}
        for c, s, d, p in zip(CAMPAIGNS, SCORES, DEVICES, PLACES, strict=True)
        for t in ("click", "conversion")
    ][: 2 * number]

    found = post(fielded, columns(number), explain="true")
    of_rows = post(fielded, {"rows": rows}, explain="true")

    assert found["probabilities"] == pytest.approx(list(expected())[:number])
    for one, given in zip(
        found["effects"], zip(CAMPAIGNS, DEVICES, PLACES, strict=True), strict=False
    ):
        assert one == pytest.approx(terms(*given))
    assert found["levels"] == ["campaign"] * number
    assert of_rows["probabilities"][::2] == found["probabilities"]
    assert of_rows["effects"][::2] == found["effects"]
    assert of_rows["probabilities"][1::2] == SCORES[:number]
    assert of_rows["effects"][1::2] == [{}] * number
    assert "effects" not in post(fielded, columns(number))


@pytest.mark.parametrize("target", ["click", "conversion"])
def test_every_way_to_write_columns_of_fields_gives_the_same(unpaired, target):
    asked = columns(target=target)
    rows = [
        {"target": target, "campaign": c, "score": s, "fields": {"device": d, "placement": p}}
        for c, s, d, p in zip(CAMPAIGNS, SCORES, DEVICES, PLACES, strict=True)
    ]
    odd = {**asked, "fields": {"device": ["ios", 'a"b', "tür", "tv"] * 25, "placement": "top"}}
    none = {**asked, "fields": {"device": ["ios", "none", "none", "tv"] * 25, "placement": "top"}}

    def sent(text: str):
        answer = unpaired.http.post(PATH, content=text.encode(), headers={"Content-Type": JSON})
        assert answer.status_code == 200, answer.text
        return answer.json()["probabilities"]

    expected = sent(json.dumps({"rows": rows}))
    dense, indented = json.dumps(asked, separators=(",", ":")), json.dumps(asked, indent=1)
    escaped = dense.replace('"ios"', '"\\u0069os"')
    twice = dense.replace('"fields":{', '"fields":{"device":7,')
    for text in (json.dumps(asked), dense, indented, escaped, twice):
        assert sent(text) == expected
    assert sent(json.dumps(odd)) == sent(json.dumps(odd, ensure_ascii=False))
    assert sent(json.dumps(odd)) == sent(json.dumps(none))


def test_what_is_left_out_counts_as_other(fielded):
    nothing = post(fielded, {**columns(), "fields": {}})
    one_for_all = post(
        fielded,
        {"target": "click", "campaign": "hats", "scores": SCORES, "fields": {"device": "ios"}},
    )
    some_rows = {"rows": [{"target": "click", "campaign": "hats", "score": 0.5}] * 2}
    some_rows["rows"][1] = {**some_rows["rows"][1], "fields": {"placement": "top"}}

    assert nothing["probabilities"] == pytest.approx(list(expected([""] * N, [""] * N)))
    alike = expected(["ios"] * N, [""] * N, ["hats"] * N)
    assert one_for_all["probabilities"] == pytest.approx(list(alike))
    both = post(fielded, some_rows, explain="true")["effects"]
    assert [one["placement"] for one in both] == pytest.approx([0.0, 0.2])


@pytest.mark.parametrize("form", ["names", "ids", "one", "json", "few"])
def test_binary_columns_are_answered_to_the_same_bits(fielded, form):
    number = 5 if form == "few" else N
    names, given = CAMPAIGNS[:number], {}
    if form == "ids":
        dictionary, numbers = fielded.ids()
        names, given = [numbers[name] for name in names], {"dictionary": dictionary}
    asked = columns(number)
    if form == "one":
        names = ["hats"]
        asked = {**asked, "campaign": "hats"}
        del asked["campaigns"]
    fields = field_sections(asked["fields"])
    flags = LEVELS | FIELDS | (ONE_CAMPAIGN if form == "one" else 0)
    body = scores_body(SCORES[:number], behind=fields, campaigns=names, flags=flags, **given)
    headers = {**COLUMNS, **({"Accept": "application/json"} if form == "json" else {})}

    answer = fielded.http.post(PATH, content=body, headers=headers)

    alike = post(fielded, asked, explain="true")
    if form == "json":
        assert answer.json() == alike
    else:
        assert read_answer(answer.content)[0] == alike["probabilities"]


def test_an_id_of_an_earlier_list_keeps_the_deviation_of_its_campaign(fielded):
    """Which has no map of its own any more."""
    dictionary, numbers = fielded.ids()
    fielded.publish({"click": Atlas.build({"shoes": maps()["shoes"]}).with_effects(effects())})
    for number in (3, N):
        sent, fields_of = columns(number), field_sections(columns(number)["fields"])
        named = {"campaigns": [numbers[name] for name in CAMPAIGNS[:number]], "flags": FIELDS}
        body = scores_body(SCORES[:number], behind=fields_of, dictionary=dictionary, **named)
        answer = fielded.http.post(PATH, content=body, headers=COLUMNS)

        assert read_answer(answer.content)[0] == post(fielded, sent)["probabilities"]
    fielded.publish({"click": Atlas.build(maps()).with_effects(effects())})


def test_each_arm_and_each_factor_has_effects_of_its_own(fielded):
    split = {
        "challenger": {"method": "sir"},
        "salt": "s",
        "shares": {"challenger": 0.4, "raw": 0.2},
    }
    about = {**split, "canary": True, "since": 0.0, "state": "running", "reason": None, "watch": {}}
    champion, challenger = (Atlas.build(maps()).with_effects(effects(by)) for by in (1.0, -1.0))
    fielded.publish(
        {"click": champion, "click:challenger": challenger}, {"experiments": {"click": about}}
    )
    units = [f"user-{number}" for number in range(N)]

    found = post(fielded, {**columns(), "units": units}, explain="true")
    plain = post(fielded, columns(), explain="true")
    product = columns(target="pay", scores={"click": SCORES, "conversion": [0.5] * N}, units=units)
    of_product = post(fielded, product, explain="true")
    body = scores_body(
        SCORES,
        units=unit_numbers(units).tolist(),
        behind=field_sections(columns()["fields"]),
        campaigns=CAMPAIGNS,
        flags=UNITS | FIELDS,
    )
    packed = fielded.http.post(PATH, content=body, headers=COLUMNS).content

    assert set(found["arms"]) == {"champion", "challenger", "raw"}
    sign = {"champion": 1.0, "challenger": -1.0}
    for arm, one, of_champion in zip(
        found["arms"], found["effects"], plain["effects"], strict=True
    ):
        want = {} if arm == "raw" else {name: sign[arm] * e for name, e in of_champion.items()}
        assert one == pytest.approx(want)
    assert read_answer(packed)[0] == found["probabilities"]
    assert read_arms(packed) == found["arms"]
    halves = [p * 0.5 for p in found["probabilities"]]
    assert of_product["probabilities"] == pytest.approx(halves)
    assert [one["click"] for one in of_product["effects"]] == found["effects"]


UNKNOWN = "unknown field; declared are device, placement"
LENGTH = "must have 1 to 256 bytes"


@pytest.mark.parametrize(
    ("fields", "field", "rule", "value"),
    [
        ({"colour": "red"}, "fields.colour", UNKNOWN, None),
        ({"device": ["ios"] * 3 + [""] + ["tv"] * 96}, "fields.device[3]", LENGTH, '""'),
        ({"device": "x" * 257}, "fields.device", LENGTH, '"' + "x" * 60 + "..."),
        ({"device": ["ios"] * 99}, "fields.device", "has 99 items beside 100 scores; ", None),
        ({"device": ["ios"] * 99 + ["a\x1fb"]}, "fields.device[99]", LENGTH, '"a\\u001fb"'),
        (
            {"device": ["ios"] * 99 + ["x" * 257]},
            "fields.device[99]",
            LENGTH,
            '"' + "x" * 60 + "...",
        ),
        ({"device": []}, "fields.device", "has 0 items beside 100 scores; ", None),
        ({"device": ["ios"] * 99 + [7]}, "fields.device[99]", "must be a string", "7"),
        ({"device": 7}, "fields.device", "must be a string, in columns an array", "7"),
        ([], "fields", "must be an object of declared fields", "[]"),
    ],
)
def test_a_refusal_names_field_value_and_rule(fielded, unpaired, fields, field, rule, value):
    for service in (fielded, unpaired):
        broken_rule(service.http.post(PATH, json=columns(fields=fields)), field, rule, value)


def test_refusals_of_rows_and_of_binary_columns(fielded):
    row = {"target": "click", "campaign": "a", "score": 0.5}
    rows = [row, {**row, "fields": {"device": "a\x1fb"}}]
    answer = fielded.http.post(PATH, json={"rows": rows})
    broken_rule(answer, "rows[1].fields.device", LENGTH, '"a\\u001fb"')
    beside = fielded.http.post(PATH, json={"rows": [row], "fields": {"device": "ios"}})
    broken_rule(beside, "fields", "stands beside rows", None)
    for given, field, rule, value in (
        ({"colour": ["red"] * N}, "fields.colour", UNKNOWN, None),
        (
            {"device": ["ios"] * 7 + ["x" * 300] * 93},
            "fields.device[7]",
            LENGTH,
            '"' + "x" * 60 + "...",
        ),
    ):
        body = scores_body(SCORES, behind=field_sections(given), campaigns=CAMPAIGNS, flags=FIELDS)
        broken_rule(fielded.http.post(PATH, content=body, headers=COLUMNS), field, rule, value)


def test_a_new_campaign_is_served_by_the_group_that_a_field_names(settings):
    half, own = (CalibrationMap.proportional(factor) for factor in (0.5, 0.25))
    groups = GroupMaps(FieldGroups("device"), ("ios",), MapColumns.of_maps([half]))
    with alone(settings, fields=("device",), group_field="device") as service:
        service.publish({"click": Atlas.build({"hats": own}, None, groups)})
        for times in (1, 40):
            campaigns, devices = ["hats", "new", "new"] * times, ["ios", "ios", "tv"] * times
            scores = [0.5] * len(campaigns)
            asked = {"target": "click", "campaigns": campaigns, "scores": scores}
            each = post(service, {**asked, "fields": {"device": devices}}, explain="true")
            every = post(service, {**asked, "fields": {"device": "ios"}})
            without = post(service, asked)
            said = {"flags": LEVELS | FIELDS, "behind": field_sections({"device": devices})}
            body = scores_body(scores, campaigns=campaigns, **said)
            binary = service.http.post(PATH, content=body, headers=COLUMNS)

            assert each["probabilities"] == [0.125, 0.25, 0.5] * times
            assert each["levels"] == ["campaign", "group", "identity"] * times
            assert every["probabilities"] == [0.125, 0.25, 0.25] * times
            assert without["probabilities"] == [0.125, 0.5, 0.5] * times
            assert read_answer(binary.content)[0] == each["probabilities"]


@pytest.mark.parametrize(
    ("product", "kind", "log"),
    [
        ("pay", {"type": "impression"}, "product:pay"),
        ("both", {"type": "outcome", "target": "both", "outcome": 1}, "outcomes:both"),
    ],
)
def test_a_trial_of_a_product_is_what_its_fields_make_of_the_maps(fielded, product, kind, log):
    at, second = time.time(), {"pay": "conversion", "both": "install"}[product]
    scores = {"click": SCORES, second: [0.5] * N}
    rows = zip(CAMPAIGNS, SCORES, DEVICES, PLACES, strict=True)
    events = [
        {
            **kind,
            "campaign": campaign,
            "occurred_at": at,
            "scores": {"click": score, second: 0.5},
            "fields": {"device": device, "placement": place},
        }
        for campaign, score, device, place in rows
    ]

    answer = fielded.http.post("/v1/events", json=events).json()

    assert answer["accepted"] == N
    asked = columns(target=product, scores=scores)
    served = post(fielded, asked)["probabilities"]
    table = fielded.bins(log, int(at // 3600))
    assert table.total().total_score == pytest.approx(sum(served), rel=1e-6)
    refused = {**events[0], "fields": {"colour": "red"}}
    rejected = fielded.http.post("/v1/events", json=[refused]).json()["rejected"][0]["error"]
    assert rejected.startswith("fields.colour: ")
