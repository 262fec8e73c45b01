"""`Sirocco.calibrate` against the real service."""

import re
from typing import SupportsFloat, get_args, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray
from sirocco_client import AsyncSirocco, BadInput, Closed, EdgeCalibrator, Refused, Sirocco

CAMPAIGNS = ["shoes", "hats", "never seen", "shoes"] * 30
SCORES = np.linspace(0.0, 1.0, len(CAMPAIGNS)) ** 3


@pytest.mark.parametrize("binary", [True, False, None])
def test_probabilities_are_the_atlas_own_to_the_last_bit(lasting, published, atlas, binary):
    """Neither JSON nor columns lose a bit."""
    with Sirocco(lasting.url, binary=binary, timeout=20.0) as sirocco:
        answer = sirocco.calibrate("click", CAMPAIGNS, SCORES)

    assert answer.probabilities.tobytes() == atlas(CAMPAIGNS, SCORES).tobytes()
    assert (answer.version, answer.levels, answer.is_raw) == (published, None, False)
    assert answer.map_age is not None
    assert 0 <= answer.map_age < 3600


@pytest.mark.parametrize("binary", [True, False])
def test_explain_tells_the_level_behind_each(lasting, published, binary):
    """Levels come only where they are asked for."""
    with Sirocco(lasting.url, binary=binary, timeout=20.0) as sirocco:
        own = sirocco.calibrate("click", ["shoes", "never seen"], [0.1, 0.2], explain=True)
        none = sirocco.calibrate("conversion", "shoes", [0.1], explain=True)

    assert own.levels == ("campaign", "target")
    assert none.levels == ("identity",)


@pytest.mark.parametrize("binary", [True, False])
def test_more_scores_than_the_service_takes_are_asked_in_parts(lasting, published, atlas, binary):
    """The parts come back as one answer in order, for both forms of campaigns."""
    with Sirocco(lasting.url, binary=binary, max_scores=7, timeout=20.0) as sirocco:
        mixed = sirocco.calibrate("click", CAMPAIGNS, SCORES, explain=True)
        one = sirocco.calibrate("click", "hats", SCORES)

    assert mixed.probabilities.tolist() == atlas(CAMPAIGNS, SCORES).tolist()
    assert mixed.levels == tuple(atlas.level(campaign) for campaign in CAMPAIGNS)
    assert one.probabilities.tolist() == atlas(["hats"] * len(SCORES), SCORES).tolist()


def test_a_closed_client_says_so():
    """No error of httpx, and no raw scores."""
    with Sirocco("http://127.0.0.1:9", fallback="raw") as sirocco:
        pass

    with pytest.raises(Closed, match="the client is closed"):
        sirocco.calibrate("click", "shoes", [0.1])


def test_before_the_first_version_scores_come_back(service):
    """Version `none`, and no age."""
    with Sirocco(service.url, timeout=20.0) as sirocco:
        answer = sirocco.calibrate("click", "a", [0.25])

    assert (answer.probabilities.tolist(), answer.version, answer.map_age) == ([0.25], "none", None)
    assert not answer.is_raw


def test_an_answer_is_an_array_to_numpy(lasting, published):
    """Bids multiply it as it is."""
    with Sirocco(lasting.url, timeout=20.0) as sirocco:
        answer = sirocco.calibrate("click", ["hats", "hats"], (0.5, 1.0))

    assert len(answer) == 2
    assert (np.asarray(answer) * 8.0).tolist() == [2.0, 4.0]
    assert np.array(answer, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("binary", [True, False])
def test_a_refusal_names_field_rule_and_value(lasting, binary):
    """What the service says about it can be read by a program."""
    with (
        Sirocco(lasting.url, binary=binary, timeout=20.0) as sirocco,
        pytest.raises(Refused) as refused,
    ):
        sirocco.calibrate("view", "a", [0.5])

    error = refused.value
    assert (error.status, error.kind, error.field) == (422, "broken-rule", "target")
    assert error.rule == "unknown target; known are click, conversion"
    assert error.value == '"view"'
    assert error.members["type"] == "urn:sirocco:problem:broken-rule"
    assert "unknown target" in str(error)


@pytest.mark.parametrize(
    ("campaigns", "scores", "said"),
    [
        (["a", "a"], [0.5, 1.7], "scores[1] = 1.7: must be a number in [0, 1]"),
        (["a"], [float("nan")], "scores[0] = nan: must be a number in [0, 1]"),
        (["a"], [-0.1], "scores[0] = -0.1: must be a number in [0, 1]"),
        (["a"], ["0.5"], "scores: must be numbers, not <U3"),
        (["a"], [True], "scores: must be numbers, not bool"),
        (["a"], [[0.5]], "scores: must have one dimension, not 2"),
        ([], [], "scores: has 0 items; must have at least 1"),
        (["a"], [0.1, 0.2], "campaigns: has 1 items beside 2 scores"),
        (["a", 7], [0.1, 0.2], "campaigns[1] = 7: must be a string"),
        (7, [0.1], "campaigns = 7: must be a string or one for each score"),
        ("\ud800", [0.5], "campaigns: must be text that UTF-8 can hold"),
    ],
)
@pytest.mark.parametrize("binary", [True, False])
def test_bad_input_is_refused_before_it_travels(campaigns, scores, said, binary):
    """It names the first bad value; nobody listens at the address."""
    with Sirocco("http://127.0.0.1:9", binary=binary) as sirocco, pytest.raises(BadInput) as bad:
        sirocco.calibrate("click", campaigns, scores)  # type: ignore[arg-type]

    assert str(bad.value) == said
    assert isinstance(bad.value, ValueError)


def test_campaigns_may_be_strings_of_numpy(lasting, published):
    """Columns of a data frame come as they are."""
    with Sirocco(lasting.url, timeout=20.0) as sirocco:
        answer = sirocco.calibrate("click", np.array(["hats", "hats"]), np.float32([0.5, 1.0]))

    assert answer.probabilities.tolist() == [0.25, 0.5]


@pytest.mark.parametrize(
    "method", [Sirocco.calibrate, AsyncSirocco.calibrate, EdgeCalibrator.calibrate]
)
def test_what_numpy_has_is_of_the_types_that_are_asked_for(method):
    """For type checkers: at run time it always was."""
    hints = get_type_hints(method)

    assert {NDArray[np.str_], NDArray[np.object_]} <= {*get_args(hints["campaigns"])}
    assert {NDArray[np.str_], NDArray[np.object_]} <= {*get_args(hints["units"])}
    assert SupportsFloat in get_args(hints["interval"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": "localhost:8080"}, "must be an address with http:// or https://"),
        ({"url": "http://"}, "must be an address with http:// or https://"),
        ({"url": "http://a\x01b"}, "must be an address with http:// or https://"),
        ({"timeout": 0.0}, "must be more than 0 seconds"),
        ({"connections": 0}, "must be at least 1"),
        ({"retries": -1}, "must be at least 0"),
        ({"max_scores": 0}, "must be at least 1"),
        ({"fallback": "guess"}, "must be 'raw' or None"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, said):
    """At once, and not with the first request."""
    given = {"url": "http://127.0.0.1:9", **options}
    with pytest.raises(BadInput, match=re.escape(said)):
        Sirocco(**given)  # type: ignore[arg-type]


def test_headers_of_the_callers_travel_along(lasting, proxy):
    """As a proxy before the service may want them."""

    with Sirocco(proxy.url, headers={"X-Caller": "bidder"}, timeout=20.0) as sirocco:
        sirocco.calibrate("click", "a", [0.5])

    assert {name.lower(): value for name, value in proxy.seen[0].headers.items()}[
        "x-caller"
    ] == "bidder"
