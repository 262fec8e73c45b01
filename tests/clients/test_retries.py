"""Backoff and the budget of retries."""

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sirocco_client.connections import Deadline
from sirocco_client.errors import TimedOut, Unavailable
from sirocco_client.requests import HttpResponse
from sirocco_client.retries import Backoff, Retries, RetryBudget, Tries


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_pauses_are_drawn_up_to_a_doubling_limit(tries, drawn):
    """Full jitter: from nothing to the limit, and the limit stops growing."""
    limit = min(8.0, 0.5 * 2.0 ** (min(tries, 100) - 1))

    assert Backoff(0.5, 8.0).pause(tries, lambda: drawn) == pytest.approx(drawn * limit)


@given(st.lists(st.booleans(), max_size=500))
@example([False] * 20)
def test_the_budget_allows_a_tenth_and_ten(asks):
    """Whatever the order of requests and retries."""
    budget = RetryBudget()
    requests = retries = 0
    for is_request in asks:
        if is_request:
            budget.earn()
            requests += 1
        else:
            retries += budget.spend()
        assert retries <= 10 + requests * 0.1 + 1e-9


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (httpx.ReadTimeout(""), TimedOut),
        (httpx.ConnectError("refused"), Unavailable),
        (HttpResponse(503, {}, b""), Unavailable),
    ],
)
def test_the_last_try_says_what_was_wrong(found, kind):
    """With no retry left each comes as its own error."""
    tries = Tries(Retries(0, RetryBudget()), Deadline(100.0))
    assert not tries.is_response(found)  # type: ignore[arg-type]

    with pytest.raises(kind) as error:
        tries.pause_after(found)  # type: ignore[arg-type]

    assert type(error.value) is kind
    assert error.value.tries == 1


def test_retry_after_is_waited_for():
    """Plus the jitter, so that not all come back in the same moment."""
    tries = Tries(Retries(2, RetryBudget()), Deadline(100.0))
    found = HttpResponse(503, {"retry-after": "7"}, b"")
    assert HttpResponse(503, {"retry-after": "9" * 400}, b"").retry_after == 300.0
    assert not tries.is_response(found)

    assert 7.0 <= tries.pause_after(found) <= 8.0
