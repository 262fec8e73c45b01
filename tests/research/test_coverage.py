"""True probabilities are inside their intervals as often as these say."""

import numpy as np
import pytest

from evaluation.simulation.ad_platform import Platform
from evaluation.simulation.parts import START
from research.coverage import (
    ALL,
    CERTAIN,
    RAREST,
    Counts,
    coverage,
    field_coverage,
    found_on,
    ideal_coverage,
)
from research.leaderboard.fields.platform import FIELD_REGIMES, FieldPlatform
from research.leaderboard.platform import Distortions, DriftingPlatform

STEADY = Distortions(level=0.25, slope=0.1)
DRIFTING = Distortions(level=0.2, slope=0.1, drift=0.1, walk=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("distortions", [STEADY, DRIFTING], ids=["steady", "drifting"])
def test_nine_of_ten_true_probabilities_are_inside(distortions):
    """Of 8 platforms of 15 campaigns; intervals are not much wider than they need to be, though so
    little traffic cannot show that levels stay."""
    counts = Counts()
    for seed in range(8):
        platform = DriftingPlatform(15, 3_000, 0.03, seed, distortions, START)
        for hour in coverage(platform, first=30, hours=2):
            counts += hour
    found = counts.found()["all"]
    assert 0.85 < found["coverage"] < 0.985
    assert found["width"] < 1.3 * found["needed"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_intervals_of_rare_values_know_that_their_effects_are_uncertain():
    """Of platforms with 800 sites and 300 cities, most of them rare: were the effects taken for
    certain, seven of ten true probabilities would be inside."""
    counts = Counts()
    for seed in range(3):
        base = Platform(campaigns=20, impressions_per_hour=12_000, ctr=0.05, seed=seed)
        platform = FieldPlatform(base, FIELD_REGIMES["sparse"], seed)
        for hour in field_coverage(platform, first=16, hours=1):
            counts += hour
    found = counts.found()
    rare = RAREST[0][2]
    assert found[rare + CERTAIN]["coverage"] < 0.78
    assert 0.87 < found[rare]["coverage"] < 0.95
    assert 0.87 < found[ALL]["coverage"] < 0.95
    assert found[rare]["width"] > found[RAREST[2][2]]["width"]


def test_nine_of_ten_levels_are_inside_for_an_observer_who_knows_their_law():
    """And fewer where jumps are taken to be ten times as rare as they are."""
    rules, shares = Distortions(level=0.25, jumps=1.6, jump=0.7), []
    for frequency in (1.0, 0.1):
        counts = Counts()
        for seed in range(16):
            platform = DriftingPlatform(40, 1_000, 0.1, seed, rules, START)
            for hour in ideal_coverage(platform, 48, 4, frequency):
                counts += hour
        shares.append(counts.found()[ALL]["coverage"])
    assert 0.86 < shares[0] < 0.94
    assert shares[1] < shares[0] - 0.05


def test_the_error_of_a_coverage_is_that_of_platforms_not_of_impressions():
    """Of 4,000 platforms of which three of four are inside as a whole, the error that is found on
    16 at a time is as large as their coverages scatter; of one, nobody can tell."""
    rng = np.random.default_rng(5)

    def platform():
        counts, impressions = Counts(), int(rng.integers(500, 1_500))
        inside = np.full(impressions, rng.random() < 0.75)
        counts.add(ALL, inside, np.ones(impressions), np.ones(impressions))
        return counts

    found = [found_on([platform() for _ in range(16)])[ALL] for _ in range(250)]
    scatter = np.std([each["coverage"] for each in found])
    assert np.mean([each["error"] for each in found]) == pytest.approx(scatter, rel=0.15)
    assert "error" not in found_on([platform()])[ALL]
