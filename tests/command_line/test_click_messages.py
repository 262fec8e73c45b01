"""Every click, behaviour and conversion of a stream is sent once, in its hour."""

import numpy as np

from app.cli.serving.replay import ClickMessages
from evaluation import ClickStream
from pccem import Categorical, Clicks, Features

HOUR = 3600.0


def stream() -> ClickStream:
    features = Features(
        {
            "behaviour.page_views": np.array([0.0, np.nan, 7.0]),
            "feature.device": Categorical.of(["app", None, "web"]),
            "feature.price": np.array([np.nan, 2.5, 3.0]),
        },
        3,
    )
    clicks = Clicks(
        np.array([10.0, 3590.0, 3700.0]), ("a", "b"), np.array([1, 0, 1]),
        np.array([0.1, 0.2, 0.3]), features,
    )  # fmt: skip
    return ClickStream(clicks, np.array([3695.0, 5.0, np.nan]))


def test_an_hour_tells_what_became_known_in_it():
    messages = ClickMessages(stream(), "conversion")

    first, second = ([*messages.between(n * HOUR, (n + 1) * HOUR)] for n in (0, 1))

    assert first == [
        {
            "type": "click",
            "click_id": "0",
            "campaign": "b",
            "occurred_at": 10.0,
            "impression_at": 10.0,
            "scores": {"conversion": 0.1},
            "features": {"device": "app"},
        },
        {
            "type": "click",
            "click_id": "1",
            "campaign": "a",
            "occurred_at": 3590.0,
            "impression_at": 3590.0,
            "scores": {"conversion": 0.2},
            "features": {"price": 2.5},
        },
        {
            "type": "behaviour",
            "click_id": "0",
            "occurred_at": 15.0,
            "name": "page_views",
            "value": 0.0,
        },
        conversion("1", 3595.0),
    ]
    assert [message["type"] for message in second] == ["click", "behaviour", "conversion"]
    assert second[0]["features"] == {"device": "web", "price": 3.0}
    assert second[2] == conversion("0", 3705.0)


def conversion(click_id: str, at: float) -> dict[str, object]:
    return {"type": "conversion", "click_id": click_id, "occurred_at": at, "target": "conversion"}


def test_ids_sort_as_clicks_do():
    many = ClickStream.concatenate([_shifted(step) for step in range(12)])

    ids = [m["click_id"] for m in ClickMessages(many, "t").between(0, np.inf) if "campaign" in m]

    assert ids == sorted(ids)
    assert len(set(ids)) == 36


def _shifted(steps: int) -> ClickStream:
    one = stream()
    clicks = one.clicks
    times = clicks.clicked_at + steps * 10_000.0
    return ClickStream(
        Clicks(times, clicks.campaigns, clicks.rows, clicks.scores, clicks.features), one.delay
    )
