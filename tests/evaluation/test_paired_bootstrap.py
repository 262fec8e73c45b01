"""The paired bootstrap: what it finds, what it must not find, and what it does not depend on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import Difference, auc, log_loss, mse, paired_bootstrap
from evaluation.bootstrap.blocks import centred, multiplicities, resample
from evaluation.bootstrap.paired import expanded_tail, less

DRAWS = 200


def two_models(seed, blocks=40, size=5, gap=0.0, zipf=False):
    """Two models whose errors each block shares; B's log-odds are `gap` further off."""
    rng = np.random.default_rng(seed)
    sizes = np.maximum(1, (blocks * size / np.arange(1, blocks + 1)).astype(int))
    owner = np.repeat(np.arange(blocks), sizes if zipf else size)
    rate = rng.uniform(0.05, 0.4, len(owner))
    odds = np.log(rate / (1 - rate))
    a, b = (
        1 / (1 + np.exp(-odds - rng.normal(0, 0.4, blocks)[owner] - more)) for more in (0.0, gap)
    )
    return a, b, rate, owner


def found(seed, **options):
    a, b, rate, owner = two_models(seed, **options)
    return paired_bootstrap(a, b, rate, owner, draws=DRAWS, seed=seed)


@pytest.mark.slow
def test_equal_models_are_told_apart_one_time_in_twenty():
    """300 pairs that differ by chance alone: 5 % within three standard deviations."""
    alarms = np.mean([found(seed).sign != 0 for seed in range(300)])

    assert 0.01 < alarms < 0.09


@pytest.mark.slow
def test_few_blocks_do_not_raise_more_false_alarms():
    """Twelve blocks: the tails are widened for it."""
    alarms = np.mean([found(seed, blocks=12).sign != 0 for seed in range(300)])

    assert 0.01 < alarms < 0.09


def test_a_few_large_blocks_do_not_raise_many_more_false_alarms():
    """One block with a quarter of the rows: the tails go by the effective number."""
    alarms = np.mean([found(seed, blocks=30, zipf=True).sign != 0 for seed in range(200)])

    assert alarms < 0.13


def test_a_better_model_is_found():
    """A is lower in nearly every sample, and never found to be higher."""
    signs = [found(seed, gap=0.7).sign for seed in range(60)]

    assert np.mean(np.array(signs) == -1) > 0.95
    assert 1 not in signs


@pytest.mark.parametrize(("name", "function"), [("log_loss", log_loss), ("mse", mse), ("auc", auc)])
def test_a_name_is_the_function_made_fast(name, function):
    """The same draws, the same numbers."""
    a, b, rate, owner = two_models(1, size=20)
    y = (np.random.default_rng(2).random(len(a)) < rate).astype(float)

    fast, slow = (
        paired_bootstrap(a, b, y, owner, metric=metric, draws=50) for metric in (name, function)
    )

    for field in ("value", "lower", "upper", "standard_error", "share_below"):
        assert getattr(fast, field) == pytest.approx(getattr(slow, field), abs=1e-12)
    assert fast.value == pytest.approx(function(a, y) - function(b, y), abs=1e-12)


@given(st.permutations(range(20)))
def test_the_order_of_rows_is_of_no_effect(order):
    """Nor on which blocks are drawn."""
    a, b, rate, owner = two_models(3, blocks=4)
    order = list(order)
    names = np.array(["d", "a", "c", "b"])[owner]

    expected = paired_bootstrap(a, b, rate, names, draws=20)

    assert paired_bootstrap(
        a[order], b[order], rate[order], names[order], draws=20
    ).upper == pytest.approx(expected.upper, rel=1e-9)


def test_a_model_is_not_better_than_itself():
    """Paired: every draw is exactly 0."""
    a, _, rate, owner = two_models(4)

    assert paired_bootstrap(a, a, rate, owner, draws=20) == Difference(0, 0, 0, 0, 0.5)


def test_turned_round_the_difference_is_too():
    """A less B is B less A with the ends exchanged."""
    a, b, rate, owner = two_models(5)

    one, other = (paired_bootstrap(*pair, rate, owner, draws=99) for pair in ((a, b), (b, a)))

    assert (one.value, one.lower, one.upper) == pytest.approx(
        (-other.value, -other.upper, -other.lower)
    )
    assert one.share_below == pytest.approx(1 - other.share_below)


def test_a_whole_weight_is_so_many_rows():
    """And rows of weight 0 are not there, nor are blocks of nothing else."""
    a, b, rate, owner = two_models(6)
    weights = np.random.default_rng(0).integers(0, 3, len(a))
    weights[owner == 7] = 0
    rows = np.repeat(np.arange(len(a)), weights)

    weighted = paired_bootstrap(a, b, rate, owner, draws=50, sample_weight=weights)

    repeated = paired_bootstrap(a[rows], b[rows], rate[rows], owner[rows], draws=50)
    for field in ("value", "lower", "upper", "standard_error"):
        assert getattr(weighted, field) == pytest.approx(getattr(repeated, field))


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_fewer_than_two_blocks_have_no_interval(rows):
    """All but the value is nan: nothing is known of other blocks."""
    difference = paired_bootstrap([0.5] * rows, [0.4] * rows, [1] * rows, ["day"] * rows, draws=5)

    assert np.isnan([difference.lower, difference.upper, difference.share_below]).all()
    assert np.isnan(difference.value) == (rows == 0)
    assert difference.sign == 0


def test_draws_without_a_metric_are_left_out_and_told():
    """With all clicks on one of six days, a third of the draws know no AUC."""
    y = [1, 1] + [0] * 10
    a, day = np.linspace(0.9, 0.1, 12), np.repeat(range(6), 2)

    difference = paired_bootstrap(a, a[::-1], y, day, metric="auc", draws=400)

    assert difference.undefined == pytest.approx((5 / 6) ** 6, abs=0.06)
    assert difference.sign == 1


def test_the_share_of_draws_below_zero():
    """Equal ones count one half."""
    difference = Difference.of(0.0, np.array([-1.0, -1.0, 0.0, 0.0, 2.0, np.nan]), 30)

    assert difference.share_below == pytest.approx(0.6)
    assert difference.undefined == pytest.approx(1 / 6)


def test_infinite_draws_leave_no_standard_error():
    """The ends are order statistics, so one infinite draw does not spoil them."""
    difference = Difference.of(1.0, np.array([*np.linspace(0.5, 1.5, 99), np.inf]), 1000)

    assert np.isfinite(difference.lower)
    assert np.isnan(difference.standard_error)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (1.0, 1.0 + 1e-13, 0.0),
        (1.0, 1.0 + 1e-6, -1e-6),
        (np.inf, 1.0, np.inf),
        (1.0, np.inf, -np.inf),
        (np.inf, np.inf, np.nan),
        (np.nan, 1.0, np.nan),
        (0.0, 0.0, 0.0),
    ],
)
def test_a_difference_by_rounding_is_none(a, b, expected):
    """And one to an infinite error is infinite."""
    assert less(np.array([a]), np.array([b]))[0] == pytest.approx(expected, nan_ok=True)


def test_the_tails_of_many_blocks_are_the_usual_ones():
    """And those of few are smaller: wider intervals."""
    tails = [expanded_tail(0.95, blocks) for blocks in (1.05, 2, 5, 20, 1e9)]

    assert tails == sorted(tails)
    assert tails[-1] == pytest.approx(0.025, abs=1e-6)
    assert tails[0] < 1e-9


def test_how_many_blocks_a_difference_takes():
    """(1.96 + 0.84)^2 standard errors of the difference: at 2.8 of them, as many as there are."""
    at_the_edge = Difference(2.8, 0.84, 4.76, 1.0, 0.0)

    assert at_the_edge.blocks_for(40) == pytest.approx(40, rel=0.01)
    assert Difference(1.4, -0.5, 3.3, 1.0, 0.1).blocks_for(40) == pytest.approx(160, rel=0.01)
    assert Difference(0.0, -1, 1, 1.0, 0.5).blocks_for(40) == np.inf
    assert np.isnan(Difference(0.0, 0, 0, 0.0, 0.5).blocks_for(40))


@pytest.mark.parametrize("blocks", [1, 7, 500])
def test_a_draw_has_as_many_blocks_as_there_are(blocks):
    """Whole numbers, and the same whatever came before in one call."""
    drawn = np.vstack([*multiplicities(blocks, 70, seed=3)])

    assert drawn.shape == (70, blocks)
    assert (drawn.sum(axis=1) == blocks).all()
    assert np.array_equal(drawn[:9], np.vstack([*multiplicities(blocks, 9, seed=3)]))


def test_progress_reaches_the_end():
    """In steps that ascend."""
    seen = []
    a, b, rate, owner = two_models(8)

    paired_bootstrap(a, b, rate, owner, draws=75, progress=lambda done, of: seen.append((done, of)))

    assert seen == sorted(seen)
    assert seen[-1] == (75, 75)


def test_centred_draws_vary_around_the_value():
    """Undefined ones stay so; with infinite ones there is no mean to move."""
    moved = centred(np.array([1.0, 3.0, np.nan]), 10.0)

    assert moved[:2].tolist() == [9.0, 11.0]
    assert np.isnan(moved[2])
    assert centred(np.array([1.0, np.inf]), 5.0).tolist() == [1.0, np.inf]
    assert np.isnan(centred(np.array([np.nan]), 5.0)).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"draws": 0}, "draws = 0: must be whole and at least 1"),
        ({"draws": 1.5}, r"draws = 1.5"),
        ({"confidence": 1.0}, "confidence = 1.0: must be between 0 and 1"),
        ({"metric": "recall"}, "metric = 'recall': must be auc, cal_1, log_loss"),
        ({"a": [0.5, 1.5]}, r"a\[1\] = 1.5: every value must be in"),
        ({"b": [0.5, np.nan]}, r"b\[1\] = nan: every value must be in"),
        ({"b": [0.5]}, "equal lengths: a has 2, b has 1"),
        ({"y": [1]}, "outcomes has 1"),
        ({"blocks": ["a"]}, "blocks has 1"),
        ({"sample_weight": [1.0, -1.0]}, r"sample_weight\[1\] = -1.0"),
    ],
)
def test_bad_arguments_are_named(changes, message):
    """ValueError with the argument, the value and the rule."""
    arguments = {"a": [0.5, 0.5], "b": [0.4, 0.4], "y": [0, 1], "blocks": ["a", "b"]} | changes
    with pytest.raises(ValueError, match=message):
        paired_bootstrap(**arguments)


def test_metrics_without_blocks_are_undefined():
    """Nothing to draw from."""
    assert np.isnan(resample({"one": lambda times: times.sum(axis=1)}, 0, draws=3)["one"]).all()
