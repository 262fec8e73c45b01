"""`POST /v1/calibrate`: three forms of one question, answered from the version in force."""

import time

import pytest

PATH = "/v1/calibrate"
CAMPAIGNS = ["shoes", "hats", "unseen", "shoes"]
SCORES = [0.1, 0.4, 0.3, 0.6]
PROBABILITIES = pytest.approx([0.05, 0.2, 0.6, 0.5])
LEVELS = ["campaign", "campaign", "target", "campaign"]


def test_rows_are_answered_in_their_order_across_targets(lasting, published):
    """Delayed targets are served by the identity until they are fitted."""
    rows = [
        {"target": "conversion", "campaign": "shoes", "score": 0.6},
        {"target": "click", "campaign": "shoes", "score": 0.6},
        {"target": "conversion", "campaign": "hats", "score": 0.125},
        {"target": "click", "campaign": "hats", "score": 0.4},
    ]

    answer = lasting.http.post(PATH, json={"rows": rows}, params={"explain": "true"})

    assert answer.json() == {
        "probabilities": pytest.approx([0.6, 0.5, 0.125, 0.2]),
        "version": published,
        "levels": ["identity", "campaign", "identity", "campaign"],
    }


@pytest.mark.parametrize(
    ("explain", "levels"),
    [
        *((explain, {"levels": LEVELS}) for explain in ("true", "1")),
        *((explain, {}) for explain in (None, "0", "false")),
    ],
)
def test_columns_are_answered_in_order_with_the_level_behind_each(
    lasting, published, explain, levels
):
    """With the levels only where that is asked for."""
    asked = {"target": "click", "campaigns": CAMPAIGNS, "scores": SCORES}

    answer = lasting.http.post(PATH, json=asked, params=explain and {"explain": explain})

    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {"probabilities": PROBABILITIES, "version": published, **levels}


def test_a_large_body_is_answered_as_a_small_one(lasting, published):
    """Bodies that are worked on off the event loop give the same answers."""
    asked = {"target": "click", "campaign": "shoes", "scores": [0.1234567890123] * 30_000}
    one = lasting.http.post(PATH, json={**asked, "scores": asked["scores"][:1]}).json()

    answer = lasting.http.post(PATH, json=asked).json()

    assert answer["probabilities"] == one["probabilities"] * 30_000


def test_before_the_first_version_everything_is_served_by_the_identity(shared_service):
    asked = {"target": "click", "campaigns": ["a", "b"], "scores": [0.3, 0.0]}

    answer = shared_service.http.post(PATH, json=asked, params={"explain": "true"})

    assert answer.json() == {
        "probabilities": [0.3, 0.0],
        "version": "none",
        "levels": ["identity", "identity"],
    }
    assert "Sirocco-Map-Age" not in answer.headers


@pytest.mark.parametrize(("ago", "ages"), [(3600, range(3600, 3660)), (-3600, [0])])
def test_the_age_header_says_how_old_the_version_is(service, atlas, ago, ages):
    """Clocks of machines differ; the age of a version of the future is zero, never negative."""
    service.publish({"click": atlas}, published_at=time.time() - ago)

    answer = service.http.post(PATH, json={"target": "click", "campaign": "shoes", "scores": [0.1]})

    assert int(answer.headers["Sirocco-Map-Age"]) in ages


@pytest.mark.parametrize("score", ["0", "1", "0.0", "-0.0", "5e-324", "1e-400", "1e0", "1E-2"])
def test_every_literal_of_a_number_in_the_unit_interval_is_a_score(shared_service, score):
    body = b'{"target": "click", "campaign": "a", "scores": [%s]}' % score.encode()

    answer = shared_service.http.post(PATH, content=body)

    assert answer.json()["probabilities"] == [float(score)]


@pytest.mark.parametrize("campaign", ["ä" * 128, "x" * 256, "日本", "a/b c", "\u0000", '"'])
def test_any_text_within_the_bound_is_a_campaign(shared_service, campaign):
    asked = {"target": "click", "campaigns": [campaign], "scores": [0.5]}

    assert shared_service.http.post(PATH, json=asked).json()["probabilities"] == [0.5]


def test_the_last_of_two_equal_keys_counts(shared_service):
    body = b'{"target": "click", "campaign": "a", "scores": [0.1], "scores": [0.2]}'

    assert shared_service.http.post(PATH, content=body).json()["probabilities"] == [0.2]
