"""What a caller meets when the service is away, slow or odd."""

import pytest
from sirocco_client import BadAnswer, Refused, Sirocco, TimedOut, Unavailable

from tests.api.running_service import IDLE_SECONDS, serving
from tests.clients.faulty_proxy import (
    answers,
    cuts_short,
    drops,
    loses_the_answer,
    spoils,
    stalls,
    trickles,
)
from tests.reserved_ports import reserved_port


def test_without_a_service_the_error_is_typed():
    """A caller catches one type for everything that is no answer."""
    url = f"http://127.0.0.1:{reserved_port()}"
    with Sirocco(url, retries=1, timeout=20.0) as sirocco, pytest.raises(Unavailable) as away:
        sirocco.calibrate("click", "a", [0.5])

    assert (away.value.tries, away.value.status) == (2, None)
    assert "ConnectError" in str(away.value)


def test_the_raw_fallback_marks_its_scores():
    """Scores come back as they are, and nobody can take them for probabilities."""
    url = f"http://127.0.0.1:{reserved_port()}"
    with Sirocco(url, fallback="raw", timeout=20.0) as sirocco:
        answer = sirocco.calibrate("click", ["a", "b"], [0.5, 0.25])

    assert (answer.probabilities.tolist(), answer.levels) == ([0.5, 0.25], ("raw", "raw"))
    assert answer.is_raw
    assert (answer.version, answer.map_age) == ("none", None)


def test_a_client_outlives_a_restart(settings, redis_url, monkeypatch):
    """The connections that it kept open are dead, and the call does not tell."""
    monkeypatch.setattr(IDLE_SECONDS, 0.1)
    placed = settings.model_copy(update={"port": reserved_port()})
    with serving(placed, redis_url) as first:
        sirocco = Sirocco(first.url, timeout=20.0)
        before = sirocco.calibrate("click", "a", [0.5])

    with serving(placed, redis_url), sirocco:
        after = sirocco.calibrate("click", "a", [0.5])

    assert before.probabilities.tolist() == after.probabilities.tolist() == [0.5]


@pytest.mark.parametrize(
    "fault",
    [
        answers(503, Retry_After="0"),
        answers(429),
        answers(502),
        drops,
        loses_the_answer,
        cuts_short,
    ],
    ids=["503", "429", "502", "dropped", "lost", "half of it"],
)
def test_what_may_pass_is_tried_again(published, proxy, fault):
    """To calibrate changes nothing, so to ask twice is safe."""
    proxy.faults.extend([fault, fault])  # type: ignore[list-item]

    with Sirocco(proxy.url, timeout=20.0) as sirocco:
        answer = sirocco.calibrate("click", "hats", [0.5])

    assert answer.probabilities.tolist() == [0.25]
    assert len(proxy.seen) == 3


@pytest.mark.parametrize(
    ("status", "headers"),
    [(503, {"Retry_After": "100"}), (500, {})],
    ids=["asks for more patience than the caller has", "would most likely fail again"],
)
def test_what_would_be_of_no_use_is_not_asked_again(proxy, status, headers):
    """The error comes at once."""
    proxy.always = answers(status, **headers)

    with Sirocco(proxy.url, timeout=20.0) as sirocco, pytest.raises(Unavailable) as away:
        sirocco.calibrate("click", "hats", [0.5])

    assert (away.value.tries, away.value.status) == (1, status)


@pytest.mark.parametrize("fault", [stalls, trickles])
def test_a_slow_answer_is_given_up_and_not_asked_again(proxy, fault):
    """The deadline holds for the whole call, and the slow are not asked more."""
    proxy.always = fault  # type: ignore[assignment]

    with Sirocco(proxy.url, timeout=0.1) as sirocco, pytest.raises(TimedOut) as late:
        sirocco.calibrate("click", "hats", [0.5])

    # A busy machine may let the deadline pass before the one request has come.
    assert (late.value.tries, len(proxy.seen) <= 1) == (1, True)


def test_clients_do_not_storm(proxy):
    """When every request fails, retries add a tenth, and the ten that were saved up."""
    proxy.always = answers(503, Retry_After="0")
    calls = 100

    with Sirocco(proxy.url, retries=5, timeout=20.0, fallback="raw") as sirocco:
        answered = [sirocco.calibrate("click", "a", [0.5]) for _ in range(calls)]

    assert all(answer.is_raw for answer in answered)
    assert calls < len(proxy.seen) <= calls * 1.1 + 10


@pytest.mark.parametrize(
    "fault",
    [
        answers(200, b"<html>welcome</html>"),
        answers(200, b'{"probabilities": [0.5], "version": "x"}'),
        answers(200, b'{"probabilities": [0.5, 1.5], "version": "x"}'),
        answers(200, b'{"probabilities": [0.5, NaN], "version": "x"}'),
        answers(200, b'["probabilities"]'),
        spoils(lambda body: body[:-9]),
    ],
)
@pytest.mark.parametrize("binary", [True, False])
def test_what_is_no_answer_is_none(lasting, proxy, fault, binary):
    """Something else listens there; the fallback covers that too."""
    proxy.always = fault  # type: ignore[assignment]

    with Sirocco(proxy.url, binary=binary, timeout=20.0) as sirocco, pytest.raises(BadAnswer):
        sirocco.calibrate("click", ["a", "b"], [0.5, 0.5], explain=False)


def test_a_refusal_without_a_problem_tells_its_status(proxy):
    """A gateway's own page has no field and no rule."""
    proxy.always = answers(403, b"<html>no</html>")
    with (
        Sirocco(proxy.url, fallback="raw", timeout=20.0) as sirocco,
        pytest.raises(Refused) as refused,
    ):
        sirocco.calibrate("click", "a", [0.5])

    assert (refused.value.kind, refused.value.field) == ("status-403", None)


def test_levels_that_are_not_there_are_missed(proxy):
    """An answer without what was asked for is not whole."""
    proxy.always = answers(200, b'{"probabilities": [0.5], "version": "x"}')

    with Sirocco(proxy.url, binary=False, timeout=20.0) as sirocco, pytest.raises(BadAnswer):
        sirocco.calibrate("click", "a", [0.5], explain=True)


def test_an_answer_without_end_is_given_up(proxy, monkeypatch):
    """Whatever sends it, the caller's memory is bounded."""
    monkeypatch.setattr("sirocco_client.connections._MOST_BYTES", 1000)
    proxy.always = answers(200, b" " * 1001)

    with (
        Sirocco(proxy.url, retries=0, timeout=20.0) as sirocco,
        pytest.raises(Unavailable, match="1000 bytes"),
    ):
        sirocco.calibrate("click", "a", [0.5])
