"""The client against a service that asks for keys."""

import asyncio

import pytest
from sirocco_client import AsyncSirocco, BadInput, EdgeCalibrator, Refused, Sirocco

from app.access.key_store import KeyStore
from app.access.keys import Scope
from tests.api.running_service import RunningService, eventually
from tests.clients.faulty_proxy import answers, passes


@pytest.fixture
def token(service: RunningService) -> str:
    """A key of every scope that a client needs; the service asks for one from now on."""
    scopes = frozenset((Scope.CALIBRATE, Scope.INGEST, Scope.READ))
    token = KeyStore(service.store).make(scopes)[1]
    service.know_keys()
    return token


def test_the_key_goes_with_every_request(service, version, atlas, token):
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


def test_events_wait_for_a_key_that_is_not_known_yet(service, token):
    """Another API process may have made it a moment ago."""
    with Sirocco(service.url, api_key="sir_x_y", retries=0, timeout=20.0) as sirocco:
        events = sirocco.events()
        events.impression("hats", {"click": 0.5})
        assert not events.flush(0.5)
        assert events.counts.rejected == 0
        events.close(0)


def test_a_key_is_shown_nowhere(service, token):
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


NO_KEY = "the service answered 401: give a valid API key, as `Authorization: Bearer sir_...`"


def test_who_polls_says_that_its_key_has_ended(service, version, proxy, caplog):
    """Also where the service was away before, and once: not at every poll."""
    keys = KeyStore(service.store)
    key, token = keys.make(frozenset({Scope.READ}))
    with EdgeCalibrator(proxy.url, "click", refresh_seconds=600, api_key=token) as edge:
        assert edge.wait(60)
        proxy.always = answers(503)
        assert not edge.refresh()
        proxy.always = passes
        keys.revoke(key.id)
        eventually(lambda: not edge.refresh())
        edge.refresh()

    away, refused = [record.getMessage() for record in caplog.records]
    assert away.startswith(f"no new atlas, still serving {version}: ")
    assert refused == f"no new atlas, still serving {version}: {NO_KEY}"


def test_events_that_wait_say_when_it_is_for_another_reason(service, token, proxy, caplog):
    """A key may end while the service is away."""
    proxy.always = answers(503)
    with Sirocco(proxy.url, api_key=f"{token}x", timeout=20.0) as sirocco:
        events = sirocco.events()
        events.impression("hats", {"click": 0.5})
        assert not events.flush(0.2)
        proxy.always = passes
        eventually(lambda: f"events are waiting: {NO_KEY}" in caplog.messages)
        assert len(caplog.messages) == 2
        events.close(0)
