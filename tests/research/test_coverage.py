"""True probabilities are inside their intervals as often as these say."""

import pytest

from evaluation.simulation.parts import START
from research.coverage import Counts, coverage
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
        for hour in coverage(platform, first=30, hours=4):
            counts += hour
    found = counts.found()["all"]
    assert 0.85 < found["coverage"] < 0.985
    assert found["width"] < 1.3 * found["needed"]
