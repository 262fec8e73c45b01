"""The synthetic regressions of papers 000 and 003: data, rounds, quantities and bands."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.special import expit, ndtri

from research.reproduction import Conclusion, linear, logistic
from research.reproduction.regression_quantities import (
    ACCURACY,
    GAP,
    MEAN,
    MEAN_CHANGE,
    QUANTITIES,
    RATIO,
    Band,
    normal_error,
    quantities_over_sets,
    variant_checks,
)
from research.reproduction.regressions import (
    CALIBRATED,
    LINEAR,
    LOGISTIC,
    LOSSES,
    PLAIN,
    SAME_ROWS,
    TRAINING_ROWS,
    least_squares,
)
from research.reproduction.training_rounds import Rounds
from tests.research.reproduction.unwatched import no_progress

BOTH = [linear, logistic]
each = pytest.mark.parametrize("module", BOTH, ids=lambda module: module.EXPERIMENT.name)


def run(module, seed=0, progress=no_progress):
    return module.EXPERIMENT.run(quick=True, seed=seed, progress=progress)


def rounds_of(a, b):
    """Rounds of given losses, (rounds, runs, 3) each."""
    return Rounds({"A": np.asarray(a), "B": np.asarray(b)}, {})


@pytest.fixture(scope="module", params=BOTH, ids=lambda module: module.EXPERIMENT.name)
def quick(request):
    """A module and its quick run, seen as it went on."""
    seen = []
    return request.param, run(request.param, progress=seen.append), seen


def test_a_quick_run_agrees(quick):
    """With bands as wide as so few runs need, and standard errors left out."""
    _, found, _ = quick

    assert not found.differs
    assert found.counts[Conclusion.NOT_CHECKED] == 4
    assert found.counts[Conclusion.AGREES] >= 20
    assert "400 models trained" in found.notes[0]


def test_a_run_repeats_itself(quick):
    """The same seed gives the same numbers."""
    module, found, _ = quick

    again = run(module)

    np.testing.assert_array_equal(
        [check.ours for check in again.checks], [check.ours for check in found.checks]
    )


def test_another_seed_is_another_evaluation_set():
    """And other training draws."""
    sets = [linear.LINEAR_EXPERIMENT.evaluation_rows(seed).outcomes for seed in (0, 1)]

    assert not np.isin(sets[0], sets[1]).any()


def test_both_papers_have_their_own_training_draws(quick):
    """In a quick run, where both have as many runs."""
    parts = {}
    for check in quick[1].checks:
        parts.setdefault(check.part[:3], []).append(check.ours)

    assert not np.isin(parts["000"], parts["003"]).all()


def test_progress_rises_to_the_end(quick):
    """Once for each round."""
    assert quick[2] == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_the_noise_as_a_variance_is_flagged(monkeypatch):
    """Sigma_e = 2 read as a variance: the mean loss is 2.04 and nearly all pairs go one way."""

    def outcomes(rng, features):
        return features.sum(axis=-1) + rng.normal(1.0, np.sqrt(2.0), features.shape[:-1])

    misread = replace(linear.LINEAR_EXPERIMENT, regression=replace(LINEAR, outcomes_of=outcomes))
    monkeypatch.setattr(linear, "LINEAR_EXPERIMENT", misread)

    assert run(linear).counts[Conclusion.DIFFERS] > 4


def test_a_regression_without_intercept_is_flagged(monkeypatch):
    """The risk is 4.65 instead of 4.09."""

    def fit(features, outcomes):
        transposed = np.swapaxes(features, -1, -2)
        moments = transposed @ outcomes[..., None]
        slopes = np.linalg.solve(transposed @ features, moments)[..., 0]
        return np.column_stack((slopes, np.zeros(len(slopes))))

    misread = replace(linear.LINEAR_EXPERIMENT, regression=replace(LINEAR, fit=fit))
    monkeypatch.setattr(linear, "LINEAR_EXPERIMENT", misread)

    differing = {c.what for c in run(linear).checks if c.verdict is Conclusion.DIFFERS}
    assert MEAN in differing


@each
def test_a_wrong_printed_number_is_flagged(module):
    """The paper's number has to lie in the band too."""
    experiment = getattr(module, f"{module.EXPERIMENT.name.upper()}_EXPERIMENT")
    middle = experiment.bands[MEAN].middle
    losses = np.random.default_rng(0).normal(middle, 1e-3, (2, 2, 3, 3))
    wrong = replace(experiment.variants[0], means=("5.0", "5.0"))

    checks = {c.what: c for c in variant_checks(wrong, experiment.bands, rounds_of(*losses))}

    assert checks[MEAN].paper == 5.0
    assert checks[MEAN].verdict is Conclusion.DIFFERS
    right = {
        c.what: c
        for c in variant_checks(experiment.variants[0], experiment.bands, rounds_of(*losses))
    }
    assert right[MEAN].verdict is Conclusion.AGREES


@each
def test_the_printed_numbers_lie_in_the_bands_of_a_full_run(module):
    """Both papers', every quantity."""
    experiment = getattr(module, f"{module.EXPERIMENT.name.upper()}_EXPERIMENT")
    for variant in experiment.variants:
        for what, value in variant.printed.items():
            low, high = experiment.bands[what].ends(variant.rounds, variant.runs)
            assert low <= value <= high, (variant.part, what)


@pytest.mark.parametrize(
    ("regression", "module", "runs"), [(LINEAR, linear, 200), (LOGISTIC, logistic, 100)]
)
def test_bands_are_those_of_evaluation_sets(regression, module, runs):
    """Of 12 sets, nearly all quantities lie inside, and the middle is where they are."""
    bands = getattr(module, f"{module.EXPERIMENT.name.upper()}_EXPERIMENT").bands

    found = quantities_over_sets(regression, 12, runs, seed=1)

    assert set(found) == set(QUANTITIES) == set(bands)
    for what, values in found.items():
        low, high = bands[what].ends(1, runs)
        assert np.mean((values >= low) & (values <= high)) >= 11 / 12, what
        assert abs(np.mean(values) - (low + high) / 2) < (high - low) / 3, what


def test_a_band_widens_with_fewer_runs():
    """To both sides, by training draws only."""
    band = Band(0.9, 1.1, 0.05)

    assert band.ends(10_000, 10_000) == pytest.approx((0.9, 1.1), abs=1e-4)
    low, high = band.ends(1, 100)
    assert high - 1.0 == pytest.approx(np.hypot(0.1, 0.15))
    assert 1.0 - low == pytest.approx(high - 1.0)


def test_linear_data():
    """20 features around -0.05 with deviation 0.25; noise around 1 with deviation 2."""
    features, outcomes = LINEAR.draw(np.random.default_rng(0), 4, 20_000)

    noise = outcomes - features.sum(axis=-1)
    assert features.shape == (4, 20_000, 20)
    assert features.mean() == pytest.approx(-0.05, abs=0.001)
    assert features.std() == pytest.approx(0.25, abs=0.001)
    assert noise.mean() == pytest.approx(1.0, abs=0.03)
    assert noise.std() == pytest.approx(2.0, abs=0.03)


def test_logistic_data():
    """Clicks come with the probability that the sum of the features says."""
    features, outcomes = LOGISTIC.draw(np.random.default_rng(0), 80_000)

    p = expit(features.sum(axis=-1))
    assert set(np.unique(outcomes)) == {0.0, 1.0}
    for part in np.array_split(np.argsort(p), 4):
        assert outcomes[part].mean() == pytest.approx(p[part].mean(), abs=0.015)


@pytest.mark.parametrize(("regression", "rows"), [(LINEAR, 11_000), (LOGISTIC, 12_000)])
def test_evaluation_rows(regression, rows):
    """V first, then 10,000."""
    found = regression.evaluation_rows(np.random.default_rng(0))

    assert len(found.outcomes) == rows
    assert rows - found.bias_rows == 10_000


@pytest.mark.parametrize("regression", [LINEAR, LOGISTIC])
def test_runs_train_on_draws_of_their_own(regression):
    """As many as asked for, also beyond what is drawn at once, all near the truth."""
    models = regression.trained(np.random.default_rng(0), 60, 20)

    assert models.shape == (60, 21)
    assert len(np.unique(models[:, 0])) == 60
    assert np.abs(models[:, :-1].mean(axis=0) - 1.0).max() < 0.3


def test_the_first_19_features_are_those_of_b():
    """B's fit is that of A's data without the last column."""
    features, outcomes = LINEAR.draw(np.random.default_rng(3), 1, TRAINING_ROWS)

    trained = LINEAR.trained(np.random.default_rng(3), 1, 19)

    np.testing.assert_allclose(trained, least_squares(features[..., :19], outcomes))


def test_accuracy_is_the_share_of_pairs():
    """Counted pair by pair in each round, then averaged."""
    rng = np.random.default_rng(2)
    rounds = rounds_of(rng.normal(0, 1, (3, 8, 3)), rng.normal(0.5, 1, (3, 8, 3)))

    for loss in LOSSES:
        column = LOSSES.index(loss)
        counted = [
            np.mean([x < y for x in a[:, column] for y in b[:, column]])
            for a, b in zip(rounds.losses["A"], rounds.losses["B"], strict=True)
        ]
        assert rounds.accuracies(loss) == pytest.approx(counted)
        assert rounds.accuracy(loss) == pytest.approx(np.mean(counted))
        assert rounds.accuracy_error(loss) == pytest.approx(np.std(counted, ddof=1) / np.sqrt(3))


def test_mean_and_deviation_are_of_a_inside_rounds():
    """A round that is shifted as a whole does not add to the deviation."""
    a = np.zeros((2, 2, 3))
    a[0, :, 0], a[1, :, 0] = (1.0, 3.0), (11.0, 13.0)
    rounds = rounds_of(a, np.zeros((2, 2, 3)))

    assert rounds.mean(PLAIN) == 7.0
    assert rounds.deviation(PLAIN) == pytest.approx(np.sqrt(2.0))


def test_one_round_has_no_standard_error():
    """nan, which agrees with nothing."""
    rounds = rounds_of(np.zeros((1, 2, 3)), np.ones((1, 2, 3)))

    assert np.isnan(rounds.accuracy_error(PLAIN))


def test_quantities_compare_the_calibrated_loss():
    """Gap and ratio against all rows, and against the same rows."""
    rng = np.random.default_rng(4)
    rounds = rounds_of(rng.normal(0, 1, (2, 30, 3)), rng.normal(0.5, 1, (2, 30, 3)))

    for ending, plain in (("", PLAIN), (", same rows", SAME_ROWS)):
        gap = 100 * (rounds.accuracy(CALIBRATED) - rounds.accuracy(plain))
        ratio = rounds.deviation(CALIBRATED) / rounds.deviation(plain)
        assert QUANTITIES[GAP.replace(", points", f"{ending}, points")](rounds) == gap
        assert QUANTITIES[f"{RATIO}{ending}"](rounds) == ratio
    assert QUANTITIES[ACCURACY](rounds) == 100 * rounds.accuracy(PLAIN)


@pytest.mark.parametrize("value", [0.6, 0.9])
def test_the_normal_error_is_that_of_normal_runs(value):
    """Of 3,000 rounds with 20 runs each."""
    rng = np.random.default_rng(0)
    shift = np.sqrt(2.0) * ndtri(value)
    a = rng.normal(0.0, 1.0, (3_000, 20, 1))
    b = rng.normal(shift, 1.0, (3_000, 1, 20))

    accuracies = (a < b).mean(axis=(1, 2))

    assert accuracies.mean() == pytest.approx(value, abs=0.01)
    assert accuracies.std() == pytest.approx(normal_error(value, 20, 1), rel=0.05)
    assert normal_error(value, 20, 4) == pytest.approx(normal_error(value, 20, 1) / 2)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_sure_accuracy_has_no_normal_error(value):
    """Not 0, which would agree with everything or nothing."""
    assert np.isnan(normal_error(value, 100, 20))


def test_printed_numbers_follow_from_the_tables():
    """Gap, change and ratio are not printed; what they are made of is."""
    printed = linear.VARIANTS[0].printed

    assert printed[GAP] == pytest.approx(2.32)
    assert printed[RATIO] == pytest.approx(0.0286 / 0.0295)
    assert printed[MEAN_CHANGE] == pytest.approx(0.003)


def test_a_full_run_checks_standard_errors():
    """Only with as many rounds and runs as the paper had."""
    variant = replace(linear.VARIANTS[0], rounds=3, runs=40)
    rows = LINEAR.evaluation_rows(np.random.default_rng(0))
    rounds = partial(Rounds.of, LINEAR, rows)

    full = list(variant_checks(variant, linear.BANDS, rounds((3, 40), (0,), lambda: None)))
    small = list(variant_checks(variant, linear.BANDS, rounds((2, 40), (0,), lambda: None)))

    assert Conclusion.NOT_CHECKED not in {check.verdict for check in full}
    assert [check.verdict for check in small[-2:]] == [Conclusion.NOT_CHECKED] * 2
