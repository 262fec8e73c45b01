"""The client against a service that asks for keys."""

import asyncio

import pytest
from sirocco_client import AsyncSirocco, BadInput, EdgeCalibrator, Refused, Sirocco

from app.access.key_store import KeyStore
from app.access.keys import Scope
from calibrators import Atlas
from tests.api.running_service import RunningService, eventually


@pytest.fixture
def token(service: RunningService) -> str:
    """A key of every scope that a client needs; the service asks for one from now on."""
    scopes = frozenset((Scope.CALIBRATE, Scope.INGEST, Scope.READ))
    token = KeyStore(service.store).make(scopes)[1]
    eventually(lambda: service.http.get("/metrics").status_code == 401)
    return token


def test_the_key_goes_with_every_request(
    service: RunningService, version: str, atlas: Atlas, token: str
) -> None:
    async def ask() -> float:
        async with AsyncSirocco(service.url, api_key=token, timeout=20.0) as sirocco:
            return float((await sirocco.calibrate("click", "hats", [0.5])).probabilities[0])

    with Sirocco(service.url, api_key=token, timeout=20.0) as sirocco, sirocco.events() as events:
        assert sirocco.calibrate("click", "hats", [0.5]).probabilities[0] == 0.25
        events.impression("hats", {"click": 0.5})
        events.flush(10)
        assert events.counts.accepted == 1
    assert asyncio.run(ask()) == 0.25
    with EdgeCalibrator(service.url, "click", api_key=token) as edge:
        assert edge.wait(60)
        assert edge.at("hats", 0.5) == 0.25


def test_events_wait_for_a_key_that_is_not_known_yet(service: RunningService, token: str) -> None:
    """Another API process may have made it a moment ago."""
    with Sirocco(service.url, api_key="sir_x_y", retries=0, timeout=20.0) as sirocco:
        events = sirocco.events()
        events.impression("hats", {"click": 0.5})
        assert not events.flush(0.5)
        assert events.counts.rejected == 0
        events.close(0)


def test_a_key_is_shown_nowhere(service: RunningService, token: str) -> None:
    secret = token + "x"
    sirocco = Sirocco(service.url, api_key=secret, retries=0, timeout=20.0)
    with pytest.raises(Refused) as refused:
        sirocco.calibrate("click", "hats", [0.5])
    with pytest.raises(BadInput) as bad:
        Sirocco(service.url, api_key=secret + "\n", timeout=20.0)

    told = f"{sirocco!r} {sirocco._address!r} {refused.value!r} {bad.value!r}"
    assert (refused.value.status, refused.value.kind) == (401, "no-valid-key")
    assert secret not in told
    sirocco.close()
