"""The whole way: events over HTTP, a refit by the worker, its maps and its numbers over HTTP."""

import numpy as np
import pytest

from tests.api.events import HOUR_SECONDS, outcome
from tests.api.running_service import serving

pytestmark = pytest.mark.slow

FIRST = 470_000 * HOUR_SECONDS
SPANS = [(stage, span) for stage in ("raw", "calibrated") for span in ("hour", "window")]


@pytest.fixture
def replayed(settings, redis_url):
    """A service in event time that was sent two hours of outcomes twice as likely as scored."""
    changes = {"clock": "event", "bin_size": 100, "min_samples": 50, "min_positives": 5}
    with serving(settings.model_copy(update=changes), redis_url) as service:
        yield service


def send_hour(service, hour, rng):
    scores = rng.beta(2, 20, 2000)
    came_true = (rng.random(2000) < 2 * scores).astype(float)
    events = [
        outcome(FIRST + hour * HOUR_SECONDS, f"c{number % 3}", score, outcome=true)
        for number, (score, true) in enumerate(zip(scores, came_true, strict=True))
    ]
    assert service.http.post("/v1/events", json=events).json()["accepted"] == 2000


def test_scores_get_better_and_gauges_say_so_in_the_reports_numbers(replayed):
    rng = np.random.default_rng(5)
    for hour in range(2):
        send_hour(replayed, hour, rng)
        report = replayed.refit(FIRST + (hour + 1) * HOUR_SECONDS)
    click = report["targets"]["click"]

    for stage, span in SPANS:
        labels, row = {"target": "click", "stage": stage, "span": span}, click[span][stage]
        assert replayed.metric("sirocco_pcoc", **labels) == row["pcoc"]
        for n in "35":
            assert replayed.metric("sirocco_cal_n", n=n, **labels) == row[f"cal_{n}"]
        for n in "345":
            assert replayed.metric("sirocco_gc_n", n=n, **labels) == row[f"gc_{n}"]
    assert click["hour"]["raw"]["pcoc"] == pytest.approx(0.5, abs=0.1)
    assert click["hour"]["calibrated"]["pcoc"] == pytest.approx(1.0, abs=0.2)
    assert replayed.metric("sirocco_campaigns_fitted", target="click") == 3
    top = replayed.http.get("/v1/campaigns").json()["campaigns"]
    assert [row["report"] for row in top] == sorted(click["top"], key=lambda row: row["campaign"])


def probability(atlas, campaign, score):
    """In plain Python by the map that serves: on the line between the knots around the score."""
    served = atlas.map_of(campaign)
    knots, values = served.knots.tolist(), served.values.tolist()
    for left in range(len(knots) - 1):
        if knots[left] <= score <= knots[left + 1]:
            share = (score - knots[left]) / (knots[left + 1] - knots[left])
            return values[left] + share * (values[left + 1] - values[left])
    raise AssertionError(f"{score} lies between no knots")


def test_the_maps_served_are_the_maps_published(replayed):
    send_hour(replayed, 0, np.random.default_rng(6))
    version = replayed.refit(FIRST + HOUR_SECONDS)["version"]
    scores = np.linspace(0, 1, 101).tolist()

    asked = {"target": "click", "campaign": "c1", "scores": scores}
    answer = replayed.http.post("/v1/calibrate", json=asked).json()

    atlas = replayed.app.state.resources.refresher.current.atlases["click"]
    assert answer["version"] == version
    assert answer["probabilities"] == pytest.approx(
        [probability(atlas, "c1", score) for score in scores], abs=1e-12
    )
    assert answer["probabilities"] == sorted(answer["probabilities"])
