"""What comparisons ask of the hour, worked out once, is what its tables say."""

import numpy as np
import pytest

from calibrators import Bins, BinsTable, CalibrationMap
from calibrators.guard.rules import Evidence, NewestHour, log_odds_of

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def table() -> BinsTable:
    rng = np.random.default_rng(5)
    rows, scores = rng.integers(0, 4, 4000), rng.beta(1.0, 30.0, 4000)
    # Clicks of impressions that nobody recorded have no count.
    counts = (rng.random(4000) < 0.95).astype(float)
    return BinsTable.from_columns(NAMES, rows, scores, counts, (rng.random(4000) < scores) * 1.0)


@pytest.mark.parametrize("left_out", [set(), {"b"}, {"a", "d"}, {"nobody", ""}, set(NAMES)])
def test_it_says_what_all_but_some_campaigns_brought(table, left_out):
    hour = NewestHour([table.select("ac"), table.select("bd")])

    found = hour.without(left_out)

    rest = table.select(set(NAMES) - left_out).total()
    for column, expected in zip(
        (found.scores, found.outcomes, found.weights), rest.samples(), strict=True
    ):
        assert column.tobytes() == expected.tobytes()
    assert hour.total == table.total()


def test_gains_are_differences_of_likelihoods_campaign_by_campaign(table):
    better, worse = CalibrationMap.proportional(1.1), CalibrationMap.proportional(0.3)
    hour = NewestHour([table.select("ac"), BinsTable.empty(), table.select("bd")])

    for _ in "ab":
        gains = hour.gains(better, worse)

    assert hour.campaigns == ("a", "c", "b", "d")
    evidence = Evidence.of_table(table)
    ours, theirs = (
        evidence.log_likelihood(log_odds_of(each(evidence.scores))) for each in (better, worse)
    )
    assert dict(zip(hour.campaigns, gains, strict=True)) == pytest.approx(
        dict(zip(NAMES, ours - theirs, strict=True)), rel=1e-12
    )


def test_of_no_tables_nothing_is_said():
    hour = NewestHour([])

    assert hour.total == Bins.empty()
    assert len(hour.gains(CalibrationMap.identity(), CalibrationMap.proportional(2.0))) == 0
