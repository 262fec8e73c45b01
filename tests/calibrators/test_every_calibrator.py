"""What every calibrator promises: each test runs over every entry of CALIBRATORS."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from calibrators import (
    CALIBRATORS,
    Bins,
    CalibrationMap,
    Calibrator,
    Histogram,
    SmoothedIsotonic,
    make_calibrator,
)
from tests.calibrators.samples_of_kind import Drawn, random_samples
from tests.calibrators.strategies import Floats, samples, scores_around

every_name = pytest.mark.parametrize("name", CALIBRATORS)

COUNT_WEIGHT = {"sir", "platt", "histogram", "bbq"}
"""Calibrators that say how many samples they want: for them a weight is more than a proportion."""

HARD_SCORES = np.array([0.0, 5e-324, 1e-300, 1e-12, 0.3, np.nextafter(1.0, 0.0), 1.0])


def with_small_bins(name: str) -> Calibrator:
    return make_calibrator(name, bin_size=5)


def fitted(name: str, drawn: Drawn) -> CalibrationMap:
    return with_small_bins(name).fit(drawn.scores, drawn.outcomes, drawn.weights)


def assert_sound(name: str, calibration_map: CalibrationMap, scores: Floats) -> None:
    """Probabilities at, beside and between all knots, ascending where order is promised."""
    around = scores_around(calibration_map.knots, scores)
    probabilities = calibration_map(around)

    assert np.isfinite(probabilities).all()
    assert probabilities.min() >= 0
    assert probabilities.max() <= 1
    if CALIBRATORS[name].monotone:
        assert calibration_map.monotone
        assert (np.diff(probabilities) >= 0).all()


def ad_events(n: int, seed: int = 7) -> tuple[Floats, Floats, Floats]:
    """Scores, clicks and true rates of a campaign whose scores are a third too low."""
    rng = np.random.default_rng(seed)
    scores = rng.beta(0.8, 20, n)
    rates = np.clip(1.5 * scores**1.05, 0, 1)
    return scores, (rng.random(n) < rates).astype(float), rates


def test_the_names_are_the_documented_ones():
    expected = ["identity", "sir", "isotonic", "platt", "temperature", "beta", "histogram", "bbq"]

    assert list(CALIBRATORS) == expected
    assert [kind().name for kind in CALIBRATORS.values()] == expected


@every_name
def test_bin_size_goes_to_those_that_have_bins_of_their_own(name):
    made = make_calibrator(name, bin_size=7)

    assert type(made) is CALIBRATORS[name]
    if isinstance(made, SmoothedIsotonic | Histogram):
        assert made.bin_size == 7


def test_an_unknown_name_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match=f"'nosuch'.*{', '.join(CALIBRATORS)}"):
        make_calibrator("nosuch", bin_size=1000)


@every_name
def test_the_docstring_gives_the_source(name):
    assert "Source: " in (CALIBRATORS[name].__doc__ or "")


@every_name
@given(st.lists(samples, min_size=1, max_size=30))
@example([(0.3, 1.0, 1.0)])
def test_any_samples_give_a_sound_map(name, drawn):
    scores, outcomes, weights = map(np.array, zip(*drawn, strict=True))
    assume(weights.any())

    calibration_map = with_small_bins(name).fit(scores, outcomes, weights)

    assert_sound(name, calibration_map, scores)


@every_name
@given(random_samples)
def test_any_bins_give_a_sound_map(name, drawn):
    bins = Bins.from_samples(drawn.scores, drawn.outcomes, drawn.weights)

    assert_sound(name, with_small_bins(name).fit_bins(bins), drawn.scores)


@pytest.mark.slow
@every_name
def test_hard_scores_and_weights_give_a_sound_map(name):
    """Scores 0, 1 and denormal, weights over 24 orders of magnitude, one class, separable."""
    hard_weights = (
        np.full(7, 1e-12),
        np.full(7, 1e12),
        np.logspace(-12, 12, 7),
        np.logspace(12, -12, 7),
        np.array([1e12, 1e-12] * 4)[:7],
    )
    upper_half = (HARD_SCORES > 1e-6).astype(float)
    hard_outcomes = np.zeros(7), np.ones(7), upper_half, 1 - upper_half, np.full(7, 0.5)
    for weights, outcomes in product(hard_weights, hard_outcomes):
        calibration_map = make_calibrator(name, 1000).fit(HARD_SCORES, outcomes, weights)

        assert_sound(name, calibration_map, HARD_SCORES)


@every_name
def test_constant_scores_give_a_sound_map(name):
    for score, rate in product(HARD_SCORES, (0.0, 0.25, 1.0)):
        scores, outcomes = np.full(2000, score), (np.arange(2000) < 2000 * rate).astype(float)

        calibration_map = make_calibrator(name, 1000).fit(scores, outcomes)

        assert_sound(name, calibration_map, scores)
        if name not in {"identity", "temperature"} and 1e-12 < score < 1:
            assert calibration_map.at(score) == pytest.approx(rate, abs=2e-3)


@every_name
def test_samples_of_weight_0_do_not_exist(name):
    scores, outcomes = [0.1, 0.2, 0.4, 0.6], [0, 1, 0, 1]

    without = with_small_bins(name).fit(scores, outcomes)
    with_ghosts = with_small_bins(name).fit(
        [*scores, 0.9, 0.2], [*outcomes, 1, 0], [1] * 4 + [0] * 2
    )

    assert with_ghosts == without


@pytest.mark.slow
@every_name
@given(random_samples)
@settings(max_examples=30)
def test_neither_a_second_fit_nor_the_order_of_rows_changes_a_bit(name, drawn):
    order = np.random.default_rng(len(drawn.scores)).permutation(len(drawn.scores))
    shuffled = Drawn(drawn.scores[order], drawn.outcomes[order], drawn.weights[order])

    assert fitted(name, drawn) == fitted(name, drawn) == fitted(name, shuffled)


@pytest.mark.slow
@every_name
@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_a_weight_of_k_equals_k_repetitions(name, seed):
    """Sums of eighths have no rounding, so the maps are equal to the bit."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    scores, outcomes = rng.integers(0, 20, n) / 20, rng.integers(0, 9, n) / 8
    weights = rng.integers(1, 5, n)

    weighted = with_small_bins(name).fit(scores, outcomes, weights)
    repeated = with_small_bins(name).fit(np.repeat(scores, weights), np.repeat(outcomes, weights))

    assert weighted == repeated


@every_name
@given(random_samples)
@settings(max_examples=20)
def test_a_fractional_outcome_is_its_share_of_both_classes(name, drawn):
    """y with weight w is a positive of weight w y beside a negative of weight w (1 - y)."""
    outcomes, weights = np.round(drawn.outcomes * 8) / 8, np.ceil(drawn.weights)
    whole = Drawn(drawn.scores, outcomes, weights)
    halves = Drawn(
        np.tile(drawn.scores, 2),
        np.repeat([1.0, 0.0], len(outcomes)),
        np.concatenate((weights * outcomes, weights * (1 - outcomes))),
    )

    assert fitted(name, halves) == fitted(name, whole)


@pytest.mark.parametrize("name", [name for name in CALIBRATORS if name not in COUNT_WEIGHT])
@pytest.mark.parametrize("factor", [2.0**-40, 1e-12, 3.7, 1e12])
def test_only_proportions_of_weights_matter(name, factor):
    scores, outcomes, _ = ad_events(3000)

    once = CALIBRATORS[name]().fit(scores, outcomes)
    scaled = CALIBRATORS[name]().fit(scores, outcomes, np.full(3000, factor))

    assert scaled(scores) == pytest.approx(once(scores), rel=1e-9)


@every_name
def test_any_scale_of_weights_gives_a_sound_map(name):
    scores, outcomes, _ = ad_events(300)
    for factor in (1e-12, 1e12, 1e300):
        calibration_map = CALIBRATORS[name]().fit(scores, outcomes, np.full(300, factor))

        assert_sound(name, calibration_map, scores)


@every_name
def test_nothing_to_fit_from_is_refused(name):
    calibrator = CALIBRATORS[name]()

    with pytest.raises(ValueError, match="nothing to fit from"):
        calibrator.fit([], [])
    with pytest.raises(ValueError, match="nothing to fit from"):
        calibrator.fit([0.1], [1], [0])
    with pytest.raises(ValueError, match="nothing to fit from"):
        calibrator.fit_bins(Bins.empty())


@every_name
def test_bad_samples_are_refused_with_the_value(name):
    with pytest.raises(ValueError, match=r"outcomes\[1\] = 2.0"):
        CALIBRATORS[name]().fit([0.1, 0.2], [0, 2])


@every_name
def test_bins_give_nearly_the_map_of_the_raw_samples(name):
    """The mean distance is small against the noise that the fit itself has."""
    scores, outcomes, _ = ad_events(50_000)

    from_raw = CALIBRATORS[name]().fit(scores, outcomes)(scores)
    from_bins = CALIBRATORS[name]().fit_bins(Bins.from_samples(scores, outcomes))(scores)

    distance = np.abs(from_raw - from_bins).mean() / from_raw.mean()
    assert distance < (0.02 if CALIBRATORS[name].monotone else 0.1)


@pytest.mark.parametrize("name", [name for name in CALIBRATORS if name != "identity"])
def test_calibration_brings_scores_closer_to_the_true_rates(name):
    scores, outcomes, rates = ad_events(50_000)

    calibrated = CALIBRATORS[name]().fit(scores, outcomes)(scores)

    assert np.square(calibrated - rates).mean() < np.square(scores - rates).mean()


@pytest.mark.parametrize("name", [name for name in CALIBRATORS if name != "sir"])
def test_only_sir_leans_on_a_prior(name):
    scores, outcomes, _ = ad_events(2000)
    bins, calibrator = Bins.from_samples(scores, outcomes), CALIBRATORS[name]()

    leaning = calibrator.fit_bins(bins, CalibrationMap.proportional(0.1))

    assert leaning == calibrator.fit_bins(bins)


@every_name
@pytest.mark.parametrize("outcome", [0.0, 0.5])
def test_heavy_weights_do_not_ask_for_heavy_memory(name, outcome):
    """10^12 samples at each score are not 10^9 bins."""
    scores = np.linspace(0.1, 0.9, 50)

    raw = CALIBRATORS[name]().fit(scores, np.full(50, outcome), np.full(50, 1e12))

    assert_sound(name, raw, scores)
    bins = Bins.from_samples(scores, np.full(50, outcome), np.full(50, 9e9))
    assert_sound(name, CALIBRATORS[name]().fit_bins(bins), scores)
