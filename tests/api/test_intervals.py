"""`POST /v1/calibrate` with `interval` and `quantile`, in every form, and in the clients."""

import struct

import numpy as np
import pytest
from sirocco_client import BadInput, EdgeCalibrator, Sirocco

from app.api.contract import Calibration
from calibrators import Atlas, CalibrationMap
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.maps.calibration_map import PLACES, Spreads
from tests.api.conftest import alone
from tests.api.problems import broken_rule
from tests.columns.bodies import field_sections, numbers, scores_body

PATH = "/v1/calibrate"
COLUMNS = {"Content-Type": "application/vnd.sirocco.columns"}
FIELDS, QUANTILES = 64, 128
LEVELS = (0.05, 0.95, 0.2)


HALF = CalibrationMap.proportional(0.5)
PLAIN = Atlas.build({"hats": HALF, "shoes": HALF}, HALF)
DEVIATIONS = np.linspace(0.05, 1.0, 3 * PLACES).reshape(3, PLACES)
CLICKS = PLAIN.with_spreads(Spreads.of(-6.0, 0.0, DEVIATIONS))
DEVICE = EffectTable.of({"": 0.0, "ios": 0.3, "tv": -0.2}, {"": 0.5, "ios": 0.02, "tv": 0.4})
PLACE = EffectTable.of({"": 0.0, "top": 0.1}, {"top": 0.1})
PAIR = EffectTable.of({"ios\x1ftop": 0.1, "tv\x1ftop": 0.0}, {"ios\x1ftop": 0.05, "tv\x1ftop": 0.2})
OWN = EffectTable.of({"hats\x1fios": 0.1}, {"hats\x1fios": 0.25})
EFFECTS = FieldEffects({"device": DEVICE, "place": PLACE}, {"device*place": PAIR}, {"device": OWN})
TERMS = {"alone": FieldEffects({"device": DEVICE, "place": PLACE}), "with pairs": EFFECTS}


@pytest.fixture(scope="module")
def service(settings):
    """Clicks have spreads, conversions have none."""
    with alone(settings) as running:
        running.publish({"click": CLICKS, "conversion": PLAIN})
        yield running


def asked(number, **more):
    campaigns = (["hats", "shoes", "new"] * number)[:number]
    scores = np.linspace(0.001, 1.0, number).tolist()
    return {"target": "click", "campaigns": campaigns, "scores": scores, **more}


def post(service, **request):
    answer = service.http.post(PATH, **request)
    assert answer.status_code == 200, answer.text
    return answer


def expected(request):
    rows, scores = CLICKS.rows(request["campaigns"]), np.array(request["scores"])
    return CLICKS.quantiles(rows, scores, CLICKS.look_up(rows, scores), LEVELS)


@pytest.mark.parametrize("number", [6, 100])
def test_ends_and_quantiles_stand_beside_the_probabilities(service, number):
    request = asked(number)
    plain = post(service, json=request).json()
    answer = post(service, json={**request, "interval": 0.9, "quantile": 0.2}).json()
    rows = [
        {"target": "click", "campaign": campaign, "score": score}
        for campaign, score in zip(request["campaigns"], request["scores"], strict=True)
    ]

    assert answer.keys() <= {*Calibration.__struct_fields__}, "the OpenAPI document has it"
    found = [answer.pop(name) for name in ("lower", "upper", "quantiles")]

    assert answer == plain
    assert found == pytest.approx(np.array(expected(request)), rel=1e-12)
    lower, upper, quantiles = np.array(found)
    served = np.array(plain["probabilities"])
    assert (lower < quantiles)[:-1].all()
    assert (quantiles <= served).all()
    assert (served <= upper).all()
    assert post(service, json={"rows": rows, "interval": 0.9}).json()["lower"] == found[0]


@pytest.mark.parametrize("number", [6, 100])
def test_binary_columns_and_clients_give_the_same(service, number):
    request = asked(number)
    section = numbers("I", [len(LEVELS)]) + numbers("d", LEVELS)
    body = scores_body(request["scores"], campaigns=request["campaigns"], flags=QUANTILES)
    plain = post(service, content=scores_body(request["scores"], campaigns=request["campaigns"]),
                 headers=COLUMNS).content  # fmt: skip

    answer = post(service, content=body + section, headers=COLUMNS).content

    found = np.frombuffer(answer, "<f8", offset=32).reshape(1 + len(LEVELS), number)
    assert answer[32:][: 8 * number] == plain[32:]
    assert found[1:] == pytest.approx(np.array(expected(request)), rel=1e-12)
    given = request["campaigns"], request["scores"]
    with Sirocco(service.url, timeout=20.0) as client, EdgeCalibrator(service.url, "click") as edge:
        assert edge.wait(60)
        for calibrated in (
            client.calibrate("click", *given, interval=0.9, quantile=0.2),
            edge.calibrate(*given, interval=0.9, quantile=0.2),
        ):
            columns = (calibrated.lower, calibrated.upper, calibrated.quantiles)
            assert np.array_equal(columns, found[1:])
        assert edge.calibrate(*given).lower is None


@pytest.fixture(scope="module")
def fielded(settings):
    with alone(settings, fields=("device", "place")) as running:
        yield running


@pytest.mark.parametrize("effects", TERMS)
@pytest.mark.parametrize("number", [6, 100, 1500])
def test_intervals_hold_the_variance_of_the_effects_on_every_way_in(fielded, effects, number):
    """Symmetrical in log-odds around what is served; a value, or a pair or deviation, without a row
    is as uncertain as the least certain one."""
    atlas = CLICKS.with_effects(TERMS[effects])
    fielded.publish({"click": atlas})
    values = {"device": ["ios", "tv", "new", "ios"], "place": ["top", "side", "top"]}
    fields = {name: (given * number)[:number] for name, given in values.items()}
    request = asked(number, fields=fields)
    request["scores"][-1] = 0.5
    answer = post(fielded, json={**request, "interval": 0.9, "quantile": 0.2}).json()
    found = np.array([answer[name] for name in ("lower", "upper", "quantiles")])

    rows, scores = CLICKS.rows(request["campaigns"]), np.array(request["scores"])
    variances = TERMS[effects].variances(request["campaigns"], fields, number)
    sds = np.sqrt(CLICKS.spreads.at(rows, scores) ** 2 + variances)
    served = np.array(answer["probabilities"])
    odds = [np.log(each / (1 - each)) for each in (served, *found)]
    assert (found[0] < found[2]).all()
    assert (found[2] < served).all()
    below, above = odds[0] - odds[1], odds[2] - odds[0]
    assert below == pytest.approx(1.6448536 * sds, rel=1e-6)
    assert above == pytest.approx(below, rel=1e-9)
    assert answer["probabilities"] == post(fielded, json=request).json()["probabilities"]

    of_rows = [
        {"target": "click", "campaign": name, "score": score, "fields": {"device": d, "place": p}}
        for name, score, d, p in zip(request["campaigns"], scores, *fields.values(), strict=True)
    ]
    again = post(fielded, json={"rows": of_rows, "interval": 0.9}).json()
    assert [again["lower"], again["upper"]] == found[:2].tolist()
    section = field_sections(fields) + numbers("I", [len(LEVELS)]) + numbers("d", LEVELS)
    body = scores_body(scores, campaigns=request["campaigns"], flags=QUANTILES | FIELDS)
    packed = post(fielded, content=body + section, headers=COLUMNS).content
    assert np.array_equal(np.frombuffer(packed, "<f8", offset=32).reshape(-1, number)[1:], found)
    given = {"fields": fields, "interval": 0.9, "quantile": 0.2}
    with Sirocco(fielded.url, timeout=20.0) as client, EdgeCalibrator(fielded.url, "click") as edge:
        assert edge.wait(60)
        for calibrated in (
            client.calibrate("click", request["campaigns"], scores, **given),
            edge.calibrate(request["campaigns"], scores, **given),
        ):
            columns = (calibrated.lower, calibrated.upper, calibrated.quantiles)
            assert np.array_equal(columns, found)


def test_without_fields_intervals_are_those_of_the_maps(fielded, service):
    fielded.publish({"click": CLICKS.with_effects(EFFECTS)})
    request = asked(100, interval=0.9)
    plain, answer = post(service, json=request).json(), post(fielded, json=request).json()
    unsaid = [
        {"target": "click", "campaign": name, "score": score}
        for name, score in zip(request["campaigns"], request["scores"], strict=True)
    ]
    said = {"target": "click", "campaign": "hats", "score": 0.1, "fields": {"device": "tv"}}
    beside = post(fielded, json={"rows": [*unsaid, said], "interval": 0.9}).json()
    for name in ("probabilities", "lower", "upper"):
        assert answer[name] == plain[name] == beside[name][:-1]


@pytest.mark.parametrize("binary", [True, False])
def test_a_level_may_be_a_number_of_numpy_and_no_text(service, binary):
    level, given = np.float32(0.9), ("click", ["hats"], [0.1])
    with Sirocco(service.url, binary=binary, timeout=20.0) as client:
        found = client.calibrate(*given, interval=level, quantile=level)
        expected = client.calibrate(*given, interval=float(level), quantile=float(level))
        with pytest.raises(BadInput, match=r"^interval = '0.9': must be above 0 and below 1"):
            client.calibrate(*given, interval="0.9")

    for name in ("lower", "upper", "quantiles"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()


def test_maps_without_intervals_say_so(service):
    request = asked(2, target="conversion")
    rule = "the maps of target conversion have no intervals"
    broken_rule(service.http.post(PATH, json={**request, "quantile": 0.2}), "quantile", rule, None)
    broken_rule(service.http.post(PATH, json={**request, "interval": 0.9}), "interval", rule, None)


def test_what_no_map_serves_has_no_width(service):
    service.publish({"click": Atlas.empty(), "conversion": PLAIN})
    request = asked(3, interval=0.9)
    with EdgeCalibrator(service.url, "click") as edge:
        assert edge.wait(60)
        there = edge.calibrate(request["campaigns"], request["scores"], interval=0.9)
    answer = post(service, json=request).json()
    service.publish({"click": CLICKS, "conversion": PLAIN})
    assert answer["lower"] == answer["probabilities"] == answer["upper"] == request["scores"]
    assert there.lower.tolist() == there.upper.tolist() == request["scores"]


def test_the_widest_interval_is_answered(service):
    request = asked(3, interval=1.0 - 2.0**-53)
    answer = post(service, json=request).json()
    with EdgeCalibrator(service.url, "click") as edge:
        assert edge.wait(60)
        there = edge.calibrate(request["campaigns"], request["scores"], interval=1.0 - 2.0**-53)
    assert (np.array(answer["upper"]) > answer["probabilities"]).all()
    assert there.upper.tolist() == answer["upper"]


@pytest.mark.parametrize("level", [0, 1, -0.1, 2])
def test_levels_are_between_0_and_1(service, level):
    rule = "must be a number above 0 and below 1"
    for name in ("interval", "quantile"):
        answer = service.http.post(PATH, json=asked(2, **{name: level}))
        assert (answer.status_code, answer.json()["field"]) == (422, name)
        assert rule in answer.json()["rule"]
    section = numbers("I", [1]) + struct.pack("<d", level)
    body = scores_body([0.5], campaigns=["hats"], flags=QUANTILES) + section
    broken = service.http.post(PATH, content=body, headers=COLUMNS)
    assert broken.json()["field"] == "quantiles[0]"
