"""The worst cumulative calibration error: against mcgrad, and against its definition."""

from itertools import combinations
from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from evaluation.fields.multicalibration import (
    Multicalibration,
    SegmentSums,
    cell_spreads,
    kuiper_chance,
    multicalibration,
)
from evaluation.fields.segments import SegmentLimits
from tests.evaluation.fields.against_mcgrad import as_mcgrad
from tests.evaluation.fields.field_logs import field_log
from tests.evaluation.predictions_of_kind import predictions

# By `against_mcgrad`, which brings torch along and is run where that is installed:
# digits of the scores, weights, values kept, segments, and mcgrad 0.1.5's mce_sigma, mce_pvalue,
# mce, mce_relative and mde, to ten digits, max_depth=2, min_samples_per_segment=20
RECORDED = [
    (None, False, 3, 37, 3.422853056, 0.002478702589, 0.01783188455, 12.44808694, 0.02604827647),
    (None, False, 10, 178, 3.566437632, 0.001447467511, 0.01857991069, 12.97026924, 0.02604827647),
    (None, True, 3, 37, 3.057206555, 0.008936402966, 0.01656232033, 11.7377333, 0.02708734269),
    (None, True, 10, 178, 3.572007625, 0.001417020373, 0.01935123893, 13.71424275, 0.02708734269),
    (2, False, 3, 37, 3.501253289, 0.001852301989, 0.01823121323, 12.63862269, 0.02603526755),
    (2, True, 10, 178, 3.460312341, 0.002158196591, 0.01873737149, 13.21303313, 0.02707468235),
]


@pytest.mark.parametrize(("digits", "weighted", "values", "segments", *"abcde"), RECORDED)
def test_it_is_mcgrads_as_recorded(digits, weighted, values, segments, a, b, c, d, e):
    """Without mcgrad, which brings torch along. Ties stand as an unstable sort leaves them, which
    is not of one kind on all processors, so they are compared with less digits."""
    found = as_mcgrad(digits, weighted, values)

    numbers = (found.sigmas, found.p_value, found.error, 100 * found.relative, found.detectable)
    assert numbers == pytest.approx((a, b, c, d, e), rel=1e-9 if digits is None else 0.05, abs=1e-9)
    assert found.segments == segments


def worst_by_definition(p, y, w, fields, least):
    """Sigmas of the worst of all segments, adding rows up one by one, and how many there are."""
    found = []
    for depth in range(len(fields) + 1):
        for chosen in combinations(fields, depth):
            keys = list(zip(*(fields[name] for name in chosen), strict=True)) or [()] * len(p)
            for key in dict.fromkeys(keys):
                rows = [i for i in range(len(p)) if keys[i] == key and w[i] > 0]
                if sum(w[rows].tolist()) >= max(least, 1):
                    found.append(sigmas_by_definition(p[rows], y[rows], w[rows]))
    return (max(found) if found else np.nan), len(found)


def sigmas_by_definition(p, y, w):
    sums = [0.0]
    for score in sorted(set(p.tolist())):
        sums.append(sums[-1] + float((w * (y - p))[p == score].sum()))
    spread, variance = max(sums) - min(sums), float((w * p * (1 - p)).sum())
    if spread < 1e-12:
        return 0.0
    return spread / variance**0.5 if variance else np.inf


@settings(max_examples=30)
@given(predictions(max_size=12), st.integers(1, 4), st.integers(0, 99))
def test_it_is_what_the_definition_says(rows, least, seed):
    """Ties, weights of 0, one class, probabilities of 0 and 1; and any order of the rows."""
    p, y, w = rows
    rng = np.random.default_rng(seed)
    fields = {name: rng.choice([*"xyz"], len(p)) for name in "ab"}
    limits = SegmentLimits(samples=least)
    found = multicalibration(p, y, fields, limits=limits, sample_weight=w)
    order = rng.permutation(len(p))
    again = {name: values[order].tolist() for name, values in fields.items()}
    other = multicalibration(p[order], y[order], again, limits=limits, sample_weight=w[order])
    sigmas, segments = worst_by_definition(p, y, w, fields, least)

    assert found.sigmas == pytest.approx(sigmas, rel=1e-9, abs=1e-6, nan_ok=True)
    assert found.segments == segments == other.segments
    assert other.sigmas == pytest.approx(found.sigmas, rel=1e-9, abs=1e-6, nan_ok=True)


def test_cells_come_near_to_rows():
    """4,000 rows in 1,000 cells of probability: the worst pair within 2 %, and it alone."""
    p, y, _, fields, _ = field_log()
    exact = multicalibration(p, y, fields).worst[0]
    rows = (fields["device"] == 1) & (fields["place"] == 3)
    places = np.searchsorted(np.quantile(p, np.arange(1, 1000) / 1000), p, side="right")
    sums = [np.bincount(places[rows], x[rows], 1000) for x in (p, y, p * (1 - p), np.ones(len(p)))]

    p, y, variance, rows = (values.sum(keepdims=True) for values in sums)
    cells = SegmentSums(rows, rows, p, y, variance, cell_spreads((sums[1] - sums[0])[None]))
    found = Multicalibration.of(cells, [(cells, [exact.fields].__getitem__)], SegmentLimits())

    assert exact.fields == {"device": "1", "place": "3"}
    assert found.worst[0].fields == exact.fields
    assert found.sigmas == pytest.approx(exact.sigmas, rel=0.02)
    assert found.worst[0].positives == exact.positives
    assert found.worst[0].samples == exact.samples


def test_a_weight_counts_as_so_many_rows():
    """Of a log of counts, too: which segments are looked at, how many rows they have."""
    p, y, device = [0.1, 0.2, 0.1], [1.0, 0.0, 0.0], [*"aab"]
    weights = [3, 20, 9]
    counted = multicalibration(p, y, {"device": device}, sample_weight=weights)
    rows = np.repeat(np.arange(3), weights)
    p, y, device = (np.take(column, rows) for column in (p, y, device))
    apart = multicalibration(p, y, {"device": device})

    assert counted.segments == apart.segments == 2
    assert [each.samples for each in counted.worst] == [23.0, 32.0]
    assert [each.fields for each in counted.worst] == [each.fields for each in apart.worst]
    assert counted.p_value_corrected == pytest.approx(apart.p_value_corrected)


def test_nothing_and_certainty():
    """No rows are no segment; a certain probability that is wrong is infinitely so."""
    nothing = multicalibration([], [], {"a": []})
    wrong = multicalibration([0.0, 1.0], [1.0, 1.0], {}, limits=SegmentLimits(samples=1))
    right = multicalibration([0.0, 1.0], [0.0, 1.0], {}, limits=SegmentLimits(samples=1))

    assert isnan(nothing.sigmas)
    assert (nothing.segments, nothing.worst) == (0, ())
    assert (wrong.sigmas, wrong.p_value, wrong.p_value_corrected) == (np.inf, 0.0, 0.0)
    assert (right.sigmas, right.p_value) == (0.0, 1.0)


def test_what_was_certain_and_right_is_not_wrong_by_the_rounding_of_others():
    rng = np.random.default_rng(0)
    p, device = rng.uniform(0.0, 0.05, 3_000), rng.integers(0, 4, 3_000)
    p[device == 2] = 0.0
    found = multicalibration(p, rng.random(3_000) < p, {"device": device})

    by_device = {segment.fields.get("device"): segment.sigmas for segment in found.worst}
    assert by_device["2"] == 0.0
    assert np.isfinite(found.sigmas)


def test_what_was_certain_and_wrong_is_looked_at():
    """However little it was to vary."""
    limits = SegmentLimits(variance=5.0)
    p, y, device = [0.0] * 20 + [0.5] * 80, [1.0] * 5 + [0.0] * 55 + [1.0] * 40, ["web"] * 20
    certain = multicalibration(p, y, {"device": device + ["ios"] * 80}, limits=limits)

    assert certain.worst[0].fields == {"device": "web"}
    assert certain.sigmas == np.inf


def test_rare_values_stand_together_and_missing_ones_by_themselves():
    """The most frequent first, of equals the first by name; NaN, None and "" are one value."""
    values = ["b", "b", "c", "c", "a", None, "", float("nan")]
    found = multicalibration(
        [0.5] * 8, [1.0] * 8, {"f": values}, limits=SegmentLimits(1, values=3, samples=1)
    )

    assert {(*s.fields.values(), s.samples) for s in found.worst} == {
        (8.0,), ("(none)", 3.0), ("b", 2.0), ("other", 3.0)
    }  # fmt: skip


def test_a_field_has_a_value_for_each_row():
    with pytest.raises(ValueError, match="probabilities has 2, field device has 1"):
        multicalibration([0.1, 0.2], [0, 1], {"device": ["a"]})


def test_the_chance_is_that_of_a_brownian_motion():
    """The two series meet; the far tail is that of the normal distribution."""
    near = kuiper_chance([1.5 - 1e-9, 1.5 + 1e-9])

    assert near[0] == pytest.approx(near[1], rel=1e-6)
    assert kuiper_chance(0.0) == 1.0
    assert kuiper_chance(12.0) == pytest.approx(8 * norm.sf(12.0), rel=1e-6)


def test_alarms_are_as_rare_as_they_say():
    """Of 20 calibrated logs of 500 segments, many with a click or two, none is called wrong at 1 %;
    mcgrad's p-value, times the segments, is below 1 % in most."""
    rng = np.random.default_rng(5)
    alarms = []
    for _ in range(20):
        fields = {name: rng.integers(0, size, 5000) for name, size in (("a", 5), ("b", 80))}
        p = 1 / (1 + np.exp(-rng.normal(-4, 0.8, 5000)))
        found = multicalibration(p, rng.random(5000) < p, fields)
        alarms.append((found.p_value_corrected, found.p_value * found.segments))

    corrected, plain = (np.array(alarms) < 0.01).sum(axis=0)

    assert (corrected, plain > 5) == (0, True)
