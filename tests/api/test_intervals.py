"""`POST /v1/calibrate` with `interval` and `quantile`, in every form, and in the clients."""

import struct

import numpy as np
import pytest
from sirocco_client import EdgeCalibrator, Sirocco

from calibrators import Atlas, CalibrationMap
from calibrators.maps.calibration_map import PLACES, Spreads
from tests.api.conftest import new_redis
from tests.api.problems import broken_rule
from tests.api.running_service import serving
from tests.columns.bodies import numbers, scores_body

PATH = "/v1/calibrate"
COLUMNS = {"Content-Type": "application/vnd.sirocco.columns"}
QUANTILES = 128
LEVELS = (0.05, 0.95, 0.2)


HALF = CalibrationMap.proportional(0.5)
PLAIN = Atlas.build({"hats": HALF, "shoes": HALF}, HALF)
DEVIATIONS = np.linspace(0.05, 1.0, 3 * PLACES).reshape(3, PLACES)
CLICKS = PLAIN.with_spreads(Spreads.of(-6.0, 0.0, DEVIATIONS))


@pytest.fixture(scope="module")
def service(settings):
    """Clicks have spreads, conversions have none."""
    with new_redis() as server, serving(settings, server.url) as running:
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
    with Sirocco(service.url) as client, EdgeCalibrator(service.url, "click") as edge:
        assert edge.wait(60)
        for calibrated in (
            client.calibrate("click", *given, interval=0.9, quantile=0.2),
            edge.calibrate(*given, interval=0.9, quantile=0.2),
        ):
            columns = (calibrated.lower, calibrated.upper, calibrated.quantiles)
            assert np.array_equal(columns, found[1:])
        assert edge.calibrate(*given).lower is None


def test_maps_without_intervals_say_so(service):
    request = asked(2, target="conversion")
    rule = "the maps of target conversion have no intervals"
    broken_rule(service.http.post(PATH, json={**request, "quantile": 0.2}), "quantile", rule, None)
    broken_rule(service.http.post(PATH, json={**request, "interval": 0.9}), "interval", rule, None)


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
