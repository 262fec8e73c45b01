"""Spreads of maps, the quantiles made of them, and whether they hold the truth."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrators import Atlas, CalibrationMap
from calibrators.maps.calibration_map import PLACES, Spreads, quantiles_of
from calibrators.pooled import Pooled
from research.coverage import ALL, NEW, Counts, coverage
from research.leaderboard.platform import Distortions, DriftingPlatform
from tests.calibrators.pooled.pooled_traffic import drawn_hours, history

unit = st.floats(0, 1)
inside = st.floats(1e-6, 1 - 1e-6)


@given(unit, st.floats(0, 4), inside, inside)
def test_quantiles_rise_with_the_level_around_the_probability(
    probability, deviation, first, second
):
    p, sd = np.array([probability]), np.array([deviation])
    low, high = quantiles_of(p, sd, sorted((first, second)))[:, 0]
    assert [low] == quantiles_of(p, sd, [min(first, second)])[0]
    assert 0 <= low <= high <= 1 or low == pytest.approx(high, rel=1e-12)
    for level, found in zip(sorted((first, second)), (low, high), strict=True):
        assert level == 0.5 or (found <= probability if level < 0.5 else found >= probability)
        assert 0 < probability < 1 or found == probability


rows_scores_and_probabilities = st.lists(st.tuples(st.integers(0, 2), unit, unit), max_size=70)


@given(rows_scores_and_probabilities, st.lists(inside, max_size=3), st.booleans())
def test_quantiles_of_maps_are_those_of_their_deviations(asked, levels, with_fields):
    """Compiled, too: but for a bit or two of what the C library makes of exp and log."""
    rng = np.random.default_rng(3)
    spreads = Spreads.of(-6.0, -1.0, rng.uniform(1e-3, 4, (3, PLACES)))
    columns = np.array(asked, np.float64).reshape(-1, 3).T
    rows, scores, probabilities = columns[0].astype(np.int64), *columns[1:]
    variances = rng.random(len(rows)) if with_fields else None

    found = spreads.quantiles(rows, scores, probabilities, levels, variances)

    deviations = np.sqrt(spreads.at(rows, scores) ** 2 + (0.0 if variances is None else variances))
    assert found.shape == (len(levels), len(rows))
    assert found == pytest.approx(quantiles_of(probabilities, deviations, levels), rel=1e-12)
    with patch("calibrators.maps.calibration_map.fill_quantiles", None):
        again = spreads.quantiles(rows, scores, probabilities, levels, variances)
    assert again == pytest.approx(found, rel=1e-13)


@given(st.lists(st.floats(1e-3, 4), min_size=PLACES, max_size=PLACES), unit)
def test_spreads_lie_between_those_of_their_places(deviations, score):
    spreads = Spreads.of(-6.0, -1.0, np.array([[0.5] * PLACES, deviations]))
    found = spreads.at(np.array([1]), np.array([score]))[0]
    assert 0.98 * min(deviations) <= found <= 1.02 * max(deviations)
    again = Spreads.from_bytes(spreads.to_bytes(), 2)
    assert again.at(np.array([1]), np.array([score]))[0] == found


@pytest.mark.parametrize("ends", [(-1.0, -6.0), (float("nan"), 0.0), (-99.0, 0.0)])
def test_spreads_of_bad_bytes_are_refused(ends):
    data = Spreads.of(-6.0, -1.0, np.ones((1, PLACES))).to_bytes()
    with pytest.raises(ValueError, match="spreads: from"):
        Spreads.from_bytes(np.array(ends).tobytes() + data[16:], 1)
    with pytest.raises(ValueError, match="spreads: 2 maps need"):
        Spreads.from_bytes(data, 2)


def test_an_atlas_keeps_its_spreads():
    """In its bytes, with other maps of campaigns, and by name in another atlas."""
    atlas = Pooled().refit(history(drawn_hours([0.2, -0.3], [300, 30], seed=1))).atlas
    read = Atlas.from_bytes(atlas.to_bytes())
    assert read.spreads.to_bytes() == atlas.spreads.to_bytes()
    new = read.with_own({"a0000x": CalibrationMap.identity()})
    codes = atlas.spreads.codes
    assert new.spreads.codes.tolist() == codes[[0, 1, 0, 2]].tolist()
    # Less traffic, less certain; least certain is who has none.
    assert codes[0].mean() > codes[2].mean()
    assert (codes[2] > codes[1]).all()
    assert len(atlas.with_spreads(None).to_bytes()) < len(atlas.to_bytes())


def counted(distortions: Distortions, seeds: int, hours: int) -> dict[str, dict[str, float]]:
    total = Counts()
    for seed in range(seeds):
        platform = DriftingPlatform(60, 9_000, 0.03, seed, distortions)
        for counts in coverage(platform, 20, hours):
            total += counts
    return total.found()


@pytest.mark.slow
def test_most_true_probabilities_are_inside():
    """Of campaigns known and new, on platforms that drift a little: eight of ten, not nine."""
    found = counted(Distortions(level=0.3, slope=0.1, drift=0.05, walk=0.01), seeds=3, hours=3)
    assert 0.75 <= found[ALL]["coverage"] <= 0.95
    assert found[NEW]["coverage"] >= 0.75
    assert found["decile 10"]["width"] < 0.6 * found["decile  1"]["width"]
