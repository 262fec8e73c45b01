"""What hours say of campaigns: each hour once, whatever happens."""

import numpy as np
import pytest

from app.storage import keys
from app.storage.bins import BinsStore
from app.worker.monitoring import PcocBounds
from calibrators import BinsTable
from calibrators.evidence import bound_of

HOUR = 400_000
NAMES = tuple(f"c{row:02}" for row in range(40))


@pytest.fixture
def bounds(redis_client):
    return PcocBounds(BinsStore(redis_client, 3600), 24)


def evaluate(bounds, hour, positives):
    """Store an hour as evaluated: 1,000 impressions of .1 each, and so many positives."""
    ones = np.ones(len(NAMES))
    rows = np.arange(len(NAMES))
    table = BinsTable.from_columns(NAMES, rows, ones / 10, ones * 1000, positives)
    shards = [table.select(n for n in NAMES if keys.shard_of(n) == s) for s in range(keys.SHARDS)]
    bounds.bins.write_calibrated("click", hour, shards)


def test_what_is_off_is_found(bounds):
    positives = np.full(len(NAMES), 100.0)
    positives[3], positives[5] = 200.0, 40.0
    for hour in range(HOUR, HOUR + 12):
        evaluate(bounds, hour, positives)
        bounds.take_in("click", hour + 2)

    report = bounds.report("click")

    assert report["campaigns"] == len(NAMES)
    assert report["bound"] == bound_of(len(NAMES))
    assert report["off"] == {"over": 1, "under": 1}
    whole = report["target"]
    assert whole["lower"] < len(NAMES) * 100 / positives.sum() < whole["upper"]
    assert max(whole["over"], whole["under"]) < report["bound"]


def test_an_hour_counts_once_and_when_it_is_complete(bounds):
    """An hour is evaluated once more after it has closed, when its late clicks are in."""
    for hour in range(HOUR, HOUR + 3):
        evaluate(bounds, hour, np.full(len(NAMES), 100.0))
    bounds.take_in("click", HOUR + 3)
    first = bounds.report("click")

    bounds.take_in("click", HOUR + 3)
    bounds.take_in("click", HOUR - 20)

    assert bounds.bins.evidence.read("click", None).until == HOUR + 2
    assert bounds.report("click") == first


def test_a_worker_that_died_between_shards_leaves_nothing_to_count_twice(bounds, redis_client):
    evaluate(bounds, HOUR, np.linspace(50, 150, len(NAMES)))
    bounds.take_in("click", HOUR + 2)
    expected = bounds.report("click")
    for shard in (3, 7, None):
        redis_client.delete(keys.evidence("click", shard))

    bounds.take_in("click", HOUR + 2)

    assert bounds.report("click") == expected


def test_a_target_without_traffic_is_not_watched(bounds):
    assert bounds.report("click") == {
        "campaigns": 0,
        "bound": bound_of(0),
        "off": {"over": 0, "under": 0},
        "target": None,
    }
