"""Samples: of bounded size, uniform, and the same in every repeat."""

import numpy as np
import pyarrow as pa
import pytest

from app.click_log.clicks import LoggedClicks
from app.click_log.log import ClickLog
from app.click_log.reading import Sample
from app.click_log.rows import hash_ids
from tests.click_log.rows import (
    DAY,
    START,
    TARGET,
    WINDOW,
    click,
    clicks_in,
    conversion,
    known_delays,
)

COUNT = 2000


def sample(log: ClickLog, size: int, seed: int = 0) -> LoggedClicks:
    return clicks_in(log, TARGET, START, START + DAY, size, seed)


@pytest.fixture
def filled(log) -> ClickLog:
    """Clicks whose ids count up, over four hours; every tenth converts."""
    log.write_clicks([click(f"click-{n:05d}", n * 7.0) for n in range(COUNT)])
    log.write_conversions(
        [conversion(f"click-{n:05d}", n * 7.0 + 1.0) for n in range(0, COUNT, 10)]
    )
    return log


def test_a_sample_has_the_size_asked_for_and_tells_the_total(filled):
    for size in (1, 100, 1999, COUNT, 5000):
        found = sample(filled, size)

        assert (len(found), found.total) == (min(size, COUNT), COUNT)
        assert (np.diff(found.clicks.clicked_at) > 0).all()


def test_a_larger_sample_holds_the_smaller_one(filled):
    small, large = (sample(filled, size).click_ids.to_pylist() for size in (100, 300))

    assert set(small) < set(large)


def test_a_sample_depends_on_the_seed_only(filled):
    """Not on the parts, nor on what is repeated in them."""
    before = [sample(filled, 200, seed).click_ids.to_pylist() for seed in (0, 1)]
    filled.write_clicks([click(f"click-{n:05d}", n * 7.0) for n in range(500, 900)])
    assert [sample(filled, 200, seed).click_ids.to_pylist() for seed in (0, 1)] == before
    filled.compact(START + DAY)
    filled.finalise({TARGET: WINDOW}, START + 30 * DAY)

    assert [sample(filled, 200, seed).click_ids.to_pylist() for seed in (0, 1)] == before
    assert before[0] != before[1]


def test_each_click_is_as_likely_as_any_other():
    """Over seeds: how often each is drawn, and how often two neighbours are, as by chance."""
    ids = pa.chunked_array([[f"click-{n:05d}" for n in range(COUNT)]], pa.large_string())
    table = pa.table({"click_id": ids, "number": np.arange(COUNT)})
    drawn = np.zeros((400, COUNT), np.bool_)
    for seed in range(400):
        chosen = Sample(COUNT // 10, seed)
        chosen.add(table, hash_ids(ids, seed))
        drawn[seed, chosen.rows()[0][0]["number"]] = True
    times = drawn.sum(0)
    neighbours = (drawn[:, 1:] & drawn[:, :-1]).sum()

    # Binomial(400, 0.1): mean 40, variance 36; neighbours 400 * 1999 * 0.01.
    assert times.sum() == 400 * COUNT // 10
    assert 0.85 < times.var() / 36.0 < 1.15
    assert times.max() < 40 + 6 * 6
    assert abs(neighbours - 7996) < 5 * 7996**0.5


@pytest.mark.parametrize("settled", [False, True])
def test_a_sampled_click_keeps_its_conversions(filled, settled):
    if settled:
        filled.finalise({TARGET: WINDOW}, START + 30 * DAY)
    clicks, known = filled.known(
        TARGET, START, START + DAY, START + 30 * DAY, WINDOW, max_clicks=300
    )
    whole = known_delays(filled)
    expected = [whole[name] is not None for name in clicks.click_ids.to_pylist()]

    assert known.converted.tolist() == expected
    assert 10 < sum(expected) < 60
    assert len(clicks.final) == (sum(expected) if settled else 0)


@pytest.mark.parametrize("size", [0, -1])
def test_a_sample_of_nothing_is_refused(log, size):
    with pytest.raises(ValueError, match=f"max_clicks = {size}: must be at least 1"):
        sample(log, size)
