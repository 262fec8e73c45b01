"""Field-RCE, Field-ECE and MF-RCE: the numbers of published code, and what chance makes of them."""

from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.fields.field_errors import FieldSums, field_ece, field_errors, field_rce, mf_rce
from tests.evaluation.fields.field_logs import field_log
from tests.evaluation.predictions_of_kind import predictions


def test_they_are_those_of_the_published_evaluation():
    """F-RCE and F-W-ECE@3 as DESC's eval/eval_res.py prints them, of so many rows that it cuts
    those of each value where numpy.array_split does."""
    p, y, _, fields, _ = field_log()
    p, y, fields = p[:3986], y[:3986], {name: values[:3986] for name, values in fields.items()}

    assert field_rce(p, y, fields["device"]) == pytest.approx(0.05571656981856684, rel=1e-12)
    assert field_rce(p, y, fields["place"]) == pytest.approx(0.02684188674877988, rel=1e-12)
    assert field_ece(p, y, fields["device"], 3) == pytest.approx(0.01062813278760371, rel=1e-12)
    assert mf_rce(p, y, fields) == pytest.approx((0.05571656981856684 + 0.02684188674877988) / 2)


@settings(max_examples=30)
@given(predictions(max_size=15), st.integers(0, 99))
def test_they_are_what_the_definition_says(rows, seed):
    """Also for one class, weights of 0 and values without a positive, and from sums alone."""
    p, y, w = rows
    values = np.random.default_rng(seed).choice([*"xyz"], len(p)).tolist()
    n, errors, relative, kept = 0.0, 0.0, 0.0, 0.0
    for value in set(values):
        held = np.array([each == value for each in values])
        weight, came, error = w[held].sum(), w[held] @ y[held], w[held] @ (p - y)[held]
        n, errors = n + weight, errors + abs(error)
        if came > 0:
            relative, kept = relative + weight * abs(error) / came, kept + weight
    with np.errstate(invalid="ignore"):
        ece, rce = np.float64(errors) / n, np.float64(relative) / kept

    assert field_rce(p, y, values, sample_weight=w) == pytest.approx(rce, nan_ok=True)
    assert field_ece(p, y, values, sample_weight=w) == pytest.approx(ece, nan_ok=True)
    assert field_ece(p, y, values, 3, sample_weight=w) >= ece - 1e-12 or isnan(ece)


def test_floors_are_the_means_of_calibrated_outcomes():
    """Values of 0.1 to 3,000 clicks, and one where a click is likely."""
    rng = np.random.default_rng(2)
    counts, rates = np.array([10, 300, 4000, 60000, 20]), np.array([0.01, 0.02, 0.03, 0.05, 0.7])
    expected = counts * rates
    drawn = rng.binomial(counts, rates, (4000, 5))
    names = [*"abcde"]

    def measured(positives):
        return FieldSums.check(names, expected, positives, expected * (1 - rates), counts)

    found = field_errors(names, expected, drawn[0], expected * (1 - rates), counts)
    means = np.mean([(sums.rce, sums.ece) for sums in map(measured, drawn)], axis=0)

    assert found.field_rce_floor == pytest.approx(means[0], rel=0.06)
    assert found.field_ece_floor == pytest.approx(means[1], rel=0.03)
    assert found == field_errors(names, expected, drawn[0], expected * (1 - rates), counts)


def test_samples_come_from_the_sums_where_none_are_given():
    """Exactly where a value's rows have one probability."""
    given = ([*"ab"], [20.0, 5.0], [24.0, 2.0], [18.0, 4.5])

    assert field_errors(*given) == field_errors(*given, [200.0, 50.0])


def test_the_worst_value_is_the_one_that_chance_explains_least():
    """Not the one that is off by most: a click where 0.1 were predicted comes by chance."""
    found = field_errors([*"abc"], [0.1, 400.0, 90.0], [2.0, 500.0, 95.0], [0.1, 390.0, 85.0])

    assert (found.worst.name, found.values) == ("b", 3)
    assert found.worst.sigmas == pytest.approx(100 / 390**0.5)
    assert found.worst.pcoc == 0.8
    assert found.worst.p_value_corrected == pytest.approx(3 * found.worst.p_value)
    assert found.worst.p_value < 1e-5


def test_alarms_are_as_rare_as_they_say():
    """Of 2,000 looks at 200 calibrated values with 0.05 to 50 clicks, at most 5 % are below 5 %."""
    rng = np.random.default_rng(3)
    rates = np.tile([0.002, 0.02, 0.3], 67)[:200]
    counts = rng.integers(25, 160, 200)
    names, expected = [str(i) for i in range(200)], counts * rates
    looks = [
        FieldSums.check(names, expected, rng.binomial(counts, rates), expected * (1 - rates))
        for _ in range(2000)
    ]
    below = np.mean([sums.p_values.min() * 200 < 0.05 for sums in looks])

    assert 0.005 < below <= 0.055


def test_nothing_and_certainty():
    """Nothing is nan; what is certain and came has no chance to differ."""
    nothing = field_errors([], [], [], [])
    certain = field_errors(["a", "b"], [0.0, 3.0], [0.0, 3.0], [0.0, 0.0])

    assert (nothing.values, nothing.worst) == (0, None)
    assert all(map(isnan, (nothing.field_rce, nothing.field_rce_floor, nothing.field_ece)))
    assert (certain.field_rce, certain.field_rce_floor, certain.field_ece_floor) == (0, 0, 0)
    assert certain.worst.p_value == 1.0
    assert isnan(mf_rce([0.1], [1.0], {}))
    assert isnan(field_rce([0.1], [0.0], ["a"]))


@pytest.mark.parametrize("bad", [[float("nan")], [-1.0], [float("inf")]])
def test_sums_that_are_none_are_refused(bad):
    for place, name in enumerate(("expected", "positives", "variance", "samples")):
        sums = [[1.0], [1.0], [1.0], [1.0]]
        sums[place] = bad
        with pytest.raises(ValueError, match=rf"{name}\[0\]"):
            field_errors(["a"], *sums)
