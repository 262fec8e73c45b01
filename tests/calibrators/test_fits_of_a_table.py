"""A table is fitted as its campaigns one by one would be, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrators import CALIBRATORS, BinsTable, CalibrationMap, SmoothedIsotonic
from calibrators.maps.calibration_map import MapColumns, knots_with_tails
from calibrators.methods import equal_frequency
from calibrators.methods.calibrator import Calibrator
from calibrators.methods.smoothed_isotonic import with_proportional_tails
from tests.calibrators import strategies

COUNTS = st.sampled_from([0.0, 1.0, 2.0, 7.0, 1000.0, 0.25, 1e-9, 1e4])
SAMPLES = st.tuples(strategies.scores, COUNTS, st.floats(0.0, 1.0))
BIN_SIZES = st.sampled_from([1.0, 2.0, 3.5, 50.0, 1e6])
PRIORS = st.one_of(st.none(), strategies.maps(monotone=True))


@st.composite
def tables(draw: st.DrawFn) -> BinsTable:
    """A few campaigns, each with something to fit from, of cells that are empty, light or heavy."""
    campaigns = draw(st.lists(st.lists(SAMPLES, max_size=25), min_size=1, max_size=5))
    rows = [row for row, samples in enumerate(campaigns) for _ in [*samples, None]]
    # One sample of weight 1 each, so that every campaign can be fitted.
    listed = [sample for samples in campaigns for sample in [*samples, (0.1, 1.0, 0.5)]]
    scores, counts, rates = np.array(listed).T
    names = [f"{row}" for row in range(len(campaigns))]
    return BinsTable.from_columns(names, np.array(rows), scores, counts, counts * rates)


def assert_same(found: MapColumns, expected: MapColumns) -> None:
    assert found.lengths.tolist() == expected.lengths.tolist()
    assert found.knots.tobytes() == expected.knots.tobytes()
    assert found.values.tobytes() == expected.values.tobytes()


def one_by_one(
    calibrator: Calibrator, table: BinsTable, prior: CalibrationMap | None
) -> MapColumns:
    return MapColumns.of_maps([calibrator.fit_bins(bins, prior) for _, bins in table])


@pytest.mark.slow
@given(
    tables(),
    BIN_SIZES,
    st.sampled_from(["mean", "midpoint"]),
    st.sampled_from(["proportional", "proportional", "clip", "unit", "extend"]),
    PRIORS,
)
@settings(max_examples=60)
def test_smoothed_isotonic_of_a_table_is_that_of_each_campaign(
    table, bin_size, anchor, tails, prior
):
    calibrator = SmoothedIsotonic(bin_size, anchor=anchor, tails=tails)

    with pytest.MonkeyPatch.context() as patch:
        # Met by ten thousand impressions in bins of one: a million of them took a second each.
        patch.setattr(equal_frequency, "MOST_BINS", 2**12)
        assert_same(calibrator.begin_table(table)(prior), one_by_one(calibrator, table, prior))


@pytest.mark.parametrize("name", sorted(CALIBRATORS))
@pytest.mark.parametrize("prior", [None, CalibrationMap.proportional(1.2)])
def test_every_calibrator_fits_tables(name, prior):
    rng = np.random.default_rng(4)
    scores = rng.beta(1.0, 10.0, 6000)
    outcomes = (rng.random(6000) < scores).astype(float)
    rows = np.sort(rng.integers(0, 3, 6000))
    table = BinsTable.from_columns("abc", rows, scores, np.ones(6000), outcomes)
    calibrator = CALIBRATORS[name]()

    found = calibrator.begin_table(table)(prior)

    assert_same(found, one_by_one(calibrator, table, prior))


@pytest.mark.parametrize("size", [1.0, 40.0, 200.0])
def test_many_campaigns_of_every_size_with_ties_and_violations(size):
    """From one impression to many thousands, in order and out of order, in more parts than one."""
    rng = np.random.default_rng(int(size))
    sizes = rng.zipf(1.4, 300).clip(1, 9000)
    rows = np.repeat(np.arange(300), sizes)
    scores = np.round(rng.beta(1.0, 20.0, len(rows)), rng.integers(2, 8))
    outcomes = (rng.random(len(rows)) < 0.05 + scores * (rows % 3 - 0.5).clip(0)).astype(float)
    names = [f"{row:03}" for row in range(300)]
    table = BinsTable.from_columns(names, rows, scores, np.ones(len(rows)), outcomes)
    calibrator = SmoothedIsotonic(size)
    prior = CalibrationMap.proportional(0.7)

    assert_same(calibrator.begin_table(table)(prior), one_by_one(calibrator, table, prior))


def test_a_table_without_campaigns_has_no_maps():
    assert len(SmoothedIsotonic().begin_table(BinsTable.empty())(None)) == 0


def test_a_campaign_without_samples_is_refused_as_its_bins_are():
    """A click whose impression was never recorded has nothing to be a rate of."""
    columns = (np.array([0.5, 0.5]), np.array([1.0, 0.0]), np.ones(2))
    table = BinsTable.from_columns("ab", np.array([0, 1]), *columns)

    calibrator = SmoothedIsotonic()
    with pytest.raises(ValueError, match="nothing to fit from"):
        calibrator.fit_bins(table.bins("b"))
    with pytest.raises(ValueError, match="nothing to fit from"):
        calibrator.begin_table(table)(None)


@given(
    st.lists(
        st.lists(st.tuples(strategies.scores, strategies.scores), min_size=1, max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_tails_in_proportion_are_those_of_each_campaign(campaigns):
    """Anchors at 0, at 1 and in the denormals, values from 0 to 1."""
    anchors = [np.unique([anchor + 0.0 for anchor, _ in campaign]) for campaign in campaigns]
    values = [
        np.sort([value for _, value in campaign])[: len(at)] + 0.0
        for campaign, at in zip(campaigns, anchors, strict=True)
    ]
    offsets = np.concatenate(([0], np.cumsum([len(at) for at in anchors])))

    found = with_proportional_tails(np.concatenate(anchors), np.concatenate(values), offsets)

    pairs = zip(anchors, values, strict=True)
    expected = [knots_with_tails(at, to, "proportional") for at, to in pairs]
    assert_same(found, MapColumns.of_maps(expected))
