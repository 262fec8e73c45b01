"""SmoothedIsotonic: a worked example, hard inputs, settings."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Bins, CalibrationMap, SmoothedIsotonic
from calibrators.maps.calibration_map import Tails
from calibrators.methods.equal_frequency import Anchor
from tests.calibrators import strategies
from tests.calibrators.strategies import scores_around

ANCHORS: list[Anchor] = ["mean", "midpoint"]
TAILS: list[Tails] = ["proportional", "clip", "unit", "extend"]
every_setting = st.builds(
    SmoothedIsotonic,
    st.sampled_from([1, 2, 3, 7.5, 1000]),
    st.sampled_from(ANCHORS),
    st.sampled_from(TAILS),
    st.sampled_from([0.0, 0.5, 5.0]),
)


def test_the_worked_example_with_fewer_samples_than_a_bin():
    """x = (.1, .2, .3), y = (0, 1, 0), n = 1000: one bin, f(.05, .1, .3) = (.083, .167, .5)."""
    fitted = SmoothedIsotonic(1000).fit([0.1, 0.2, 0.3], [0, 1, 0])

    assert fitted([0.05, 0.1, 0.3]) == pytest.approx([1 / 12, 1 / 6, 1 / 2], abs=1e-12)


@given(every_setting, st.lists(strategies.samples, max_size=15))
def test_any_samples_give_a_monotone_map(calibrator, samples):
    """Denormal scores, scores one ulp apart, tiny and huge weights; raw, by bins, with a prior."""
    samples = [(x, y, min(w, 100.0)) for x, y, w in samples]
    samples.append((0.3, 0.5, 1.0))
    samples += [(math.nextafter(x, 1.0), y, w) for x, y, w in samples[:2]]
    drawn = np.array(samples).T
    bins = Bins.from_samples(*drawn)

    fitted = [
        calibrator.fit(*drawn),
        calibrator.fit_bins(bins),
        calibrator.fit_bins(bins, CalibrationMap.proportional(2.0)),
    ]

    for calibration_map in fitted:
        probabilities = calibration_map(scores_around(calibration_map.knots, drawn[0]))
        assert calibration_map.monotone
        assert (np.diff(probabilities) >= 0).all()
        assert ((probabilities >= 0) & (probabilities <= 1)).all()


def test_equal_pieces_of_one_cell_are_one_pool():
    """70,000 equal scores are cut into 700 bins of equal rate: one anchor, one ratio."""
    bins = Bins.from_samples([0.1, 0.3], [0.013, 0.17], [70_000, 33_333])

    fitted = SmoothedIsotonic(100, tails="clip").fit_bins(bins)

    assert fitted.at(0.1) == pytest.approx(0.013, rel=1e-4)
    assert len(fitted.knots) <= 7


def test_a_prior_of_no_strength_changes_nothing():
    bins = Bins.from_samples([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    calibrator = SmoothedIsotonic(1, prior_strength=0)

    assert calibrator.fit_bins(bins, CalibrationMap.identity()) == calibrator.fit_bins(bins)


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ({"bin_size": 0}, "bin_size = 0: must be at least 1 and finite"),
        ({"bin_size": math.inf}, "bin_size = inf"),
        ({"bin_size": math.nan}, "bin_size = nan"),
        ({"prior_strength": -1}, "prior_strength = -1: must be finite, at least 0"),
        ({"prior_strength": math.inf}, "prior_strength = inf"),
        ({"anchor": "median"}, "anchor = 'median': must be one of mean, midpoint"),
        ({"tails": "none"}, "tails = 'none': must be one of proportional, clip, unit, extend"),
    ],
)
def test_bad_settings_are_refused_by_name(setting, rule):
    with pytest.raises(ValueError, match=rule):
        SmoothedIsotonic(**setting)
