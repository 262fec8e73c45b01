"""Figure 2 of paper 001: RIG against the click rate."""

import numpy as np
import pytest
from scipy.special import expit

from evaluation import rig
from research.reproduction import Conclusion
from research.reproduction.rate_curve import EXPERIMENT


@pytest.fixture(scope="module")
def found(shares):
    """A run."""
    return EXPERIMENT.run(quick=False, seed=0, progress=shares.append)


def test_every_known_number_is_met(found):
    """The four ways for the rate to move, each with its own curve."""
    assert {check.verdict for check in found.checks} == {Conclusion.SHOWN, Conclusion.AGREES}
    assert {check.part[:3] for check in found.checks} == {"(a)", "(b)", "(c)", "(d)"}


def test_nothing_is_left_to_chance(found):
    """Another seed and a quick run give the same numbers."""
    other = EXPERIMENT.run(quick=True, seed=7, progress=lambda share: None)

    assert [check.ours for check in other.checks] == [check.ours for check in found.checks]


def test_the_curve_is_that_of_drawn_clicks(found):
    """RIG at a rate of one half, from outcomes that were drawn."""
    rng = np.random.default_rng(1)
    p = expit(1.2 * rng.normal(size=400_000))
    drawn = rig(p, rng.random(len(p)) < p)

    expected = next(c.ours for c in found.checks if c.what == "RIG at click rate 0.5")
    assert drawn == pytest.approx(expected, abs=0.004)


def test_the_peak_is_where_the_error_is_none(found):
    """On both sides RIG is lower, though the rate goes on rising."""
    curve = [c.ours for c in found.checks if c.part.startswith("(b)") and "click rate" in c.what]

    assert np.argmax(curve) == 2
    assert np.diff(curve)[:2].min() > 0.0 > np.diff(curve)[2:].max()


def test_progress_runs_to_the_end(found, shares):
    """One step for each way."""
    assert shares == [0.25, 0.5, 0.75, 1.0]
