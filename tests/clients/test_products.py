"""Products of targets over the client, against the real service."""

import asyncio

import numpy as np
import pytest
from sirocco_client import AsyncSirocco, BadInput, Refused, Sirocco

from app.settings import Settings
from calibrators import Atlas, CalibrationMap
from calibrators.fields.effects import EffectTable, FieldEffects
from tests.api.conftest import alone

CAMPAIGNS = ["shoes", "hats", "never seen"] * 15
SCORES = {"click": np.linspace(0, 1, 45), "conversion": np.linspace(1, 0.5, 45)}
VALUES = np.linspace(0, 40, 45)
EXPECTED = (SCORES["click"] * 0.5) * (SCORES["conversion"] * 0.25)


def scaled(factor):
    return Atlas.build(
        {"shoes": CalibrationMap.proportional(factor)}, CalibrationMap.proportional(factor)
    )


DECLARED = Settings(port=0, refresh_seconds=0.01, products="pay=click*conversion")


@pytest.fixture(scope="module")
def service():
    with alone(DECLARED) as running:
        running.publish({"click": scaled(0.5), "conversion": scaled(0.25)})
        yield running


@pytest.mark.parametrize("binary", [True, False, None])
def test_a_product_is_that_of_its_factors(service, binary):
    """In parts, too, and with what a success is worth."""
    with Sirocco(service.url, binary=binary, max_scores=7, timeout=20.0) as sirocco:
        found = sirocco.calibrate("pay", CAMPAIGNS, SCORES, values=VALUES, explain=True)
        plain = sirocco.calibrate("pay", "hats", SCORES)

    assert found.probabilities == pytest.approx(EXPECTED, rel=1e-12)
    assert found.expected_values == pytest.approx(found.probabilities * VALUES)
    assert found.levels[0] == {"click": "campaign", "conversion": "campaign"}
    assert len(found.levels) == 45
    assert (plain.expected_values, plain.levels) == (None, None)


def test_effects_of_parts_stay_with_their_scores():
    """A part all of whose units are served raw comes without any."""
    about = {"salt": "s", "shares": {"raw": 0.5}, "state": "running", "challenger": None}
    effects = FieldEffects({"device": EffectTable.of({"": 0.5}, {})})
    given = {"units": [f"user-{number}" for number in range(45)], "explain": True}
    with alone(DECLARED) as running:
        report = {"experiments": {"click": {**about, "canary": False}}}
        running.publish({"click": scaled(0.5).with_effects(effects)}, report)
        with (
            Sirocco(running.url, binary=False, max_scores=1, timeout=20.0) as in_parts,
            Sirocco(running.url, binary=False, timeout=20.0) as whole,
        ):
            for asked in (("click", "hats", SCORES["click"]), ("pay", "hats", SCORES)):
                expected = whole.calibrate(*asked, **given)
                assert in_parts.calibrate(*asked, **given).effects == expected.effects
                assert len({str(one) for one in expected.effects}) == 2


def test_the_asynchronous_client_does_the_same(service):
    async def calibrated():
        async with AsyncSirocco(service.url, timeout=20.0) as sirocco:
            return await sirocco.calibrate("pay", CAMPAIGNS, SCORES, values=VALUES)

    assert asyncio.run(calibrated()).probabilities == pytest.approx(EXPECTED, rel=1e-12)


def test_without_the_service_it_is_the_product_of_the_scores():
    with Sirocco("http://127.0.0.1:9", fallback="raw", retries=0) as sirocco:
        found = sirocco.calibrate("pay", CAMPAIGNS, SCORES, values=VALUES)

    assert found.is_raw
    assert found.probabilities == pytest.approx(SCORES["click"] * SCORES["conversion"])
    assert found.expected_values == pytest.approx(found.probabilities * VALUES)


@pytest.mark.parametrize(
    ("scores", "values", "words"),
    [
        ({"click": [0.5]}, None, "scores: must have the scores of two factors"),
        ({"click": [0.5], "conversion": [1.5]}, None, r"scores.conversion\[0\] = 1.5: must be"),
        (
            {"click": [0.5], "conversion": [0.5, 0.5]},
            None,
            "scores.conversion: has 2 items beside 1",
        ),
        ({"click": [0.5], "conversion": [0.5]}, [-1.0], r"values\[0\] = -1.0: must be a number"),
        ({"click": [0.5], "conversion": [0.5]}, [1.0, 1.0], "values: has 2 items beside 1"),
        ([0.5], [1.0], "values: is for products only"),
    ],
)
def test_what_the_service_would_refuse_is_not_sent(scores, values, words):
    with Sirocco("http://127.0.0.1:9") as sirocco, pytest.raises(BadInput, match=words):
        sirocco.calibrate("pay", "shoes", scores, values=values)


def test_a_factor_that_is_none_is_the_services_to_refuse(service):
    with (
        Sirocco(service.url, timeout=20.0) as sirocco,
        pytest.raises(Refused, match="is no factor"),
    ):
        sirocco.calibrate("pay", "shoes", {"click": [0.5], "other": [0.5]})
