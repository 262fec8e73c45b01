"""What is said in words, where the numbers leave little to say."""

from math import nan
from types import SimpleNamespace
from typing import Any

import pytest

from app.results.backtest import backtest_conclusion
from app.results.comparison import compare_conclusion
from app.results.formatting import block_warnings, decimals_for, interval_text, listed, value_text
from evaluation import Difference
from evaluation.bootstrap.blocks import Blocks
from evaluation.comparison.models import ModelComparison
from evaluation.comparison.significance import Significance

NOTHING = Difference(0.001, nan, nan, nan, nan)
BETTER, WORSE = Difference(-0.02, -0.03, -0.01, 0.005, 1), Difference(0.02, 0.01, 0.03, 0.005, 0)
UNCLEAR = Difference(-0.02, -0.03, 0.01, 0.01, 0.8)


def significance(**pairs: tuple[Difference, Difference]) -> Significance:
    """Log loss and GC-3 of each name against raw, or of a_b against b."""
    differences = {
        tuple(pair.split("_")): {"log_loss": log_loss, "gc_3": gc_3, "auc": UNCLEAR}
        for pair, (log_loss, gc_3) in pairs.items()
    }
    return Significance(differences, 40, "campaign-days", 40.0, {"log_loss": 9, "gc_3": 9}, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("log_loss", "gc_3", "said"),
    [
        (BETTER, BETTER, "sir beats raw: log loss -0.020 (-0.030 to -0.010)."),
        (BETTER, WORSE, "sir beats raw: log loss -0.020 (-0.030 to -0.010), but GC-3 says the opp"),
        (WORSE, UNCLEAR, "sir is worse than raw: log loss +0.020 (0.010 to 0.030)."),
        (UNCLEAR, BETTER, "sir and raw cannot be told apart on this log: log loss -0.020"),
        (NOTHING, NOTHING, "sir and raw cannot be compared on this log: there is too little of it"),
    ],
)
def test_a_pair(log_loss, gc_3, said):
    """The log loss decides; GC-3 is mentioned where it is beyond chance the other way."""
    assert backtest_conclusion(significance(sir_raw=(log_loss, gc_3)), "sir").startswith(said)


def test_the_others_stand_in_groups():
    found = significance(
        sir_raw=(BETTER, BETTER),
        beta_sir=(BETTER, BETTER),
        platt_sir=(BETTER, BETTER),
        isotonic_sir=(WORSE, BETTER),
        bbq_sir=(UNCLEAR, BETTER),
    )

    assert backtest_conclusion(found, "sir").endswith(
        "beta and platt are better, isotonic is worse than sir; bbq cannot be told apart from sir."
    )


def test_names_are_listed():
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == [
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize(
    ("blocks", "unit", "effective", "said"),
    [
        (40, "campaign-days", 30.0, []),
        (40, "campaign-days", 2.0, ["A few of the 40 campaign-days have most"]),
        (19, "campaign-hours", 15.0, ["There are fewer than 10 campaign-days"]),
        (3, "campaign-hours", 3.0, ["There are fewer than 10", "Only 3 campaign-hours"]),
    ],
)
def test_how_far_intervals_can_be_trusted(blocks, unit, effective, said):
    found = block_warnings(blocks, unit, effective)

    assert len(found) == len(said)
    assert all(text.startswith(part) for text, part in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("difference", "value", "interval"),
    [
        (Difference(-1e-9, -2.2e-6, 2.2e-6, 1e-6, 0.5), "0.0000000", "-0.0000022 to 0.0000022"),
        (Difference(0.0, 0.0, 0.0, 0.0, 0.5), "0.00000", "0.00000 to 0.00000"),
        (Difference(12.0, 10.0, 14.0, 1.0, 0.0), "+12.0", "10.0 to 14.0"),
        (Difference(120.0, 100.0, 180.0, 1.0, 0.0), "+120", "100 to 180"),
        (Difference(nan, nan, nan, nan, nan), "-", "- to -"),
    ],
)
def test_decimals_are_worth_what_the_interval_is(difference, value, interval):
    """Two digits of its half count, and nothing is minus zero."""
    assert value_text(difference) == value
    assert interval_text(difference) == interval


def test_a_column_shares_its_decimals():
    assert (decimals_for(BETTER), value_text(BETTER, 5)) == (3, "-0.02000")
    assert interval_text(BETTER, 1) == "0.0 to 0.0"


def compared(log_loss: Difference, blocks: int = 40) -> Any:
    """A comparison in which only log losses are known."""
    unknown = dict.fromkeys(("calibrated_log_loss", "auc", "cal_1"), UNCLEAR)
    metrics = {side: {"auc": 0.7, "pcoc": 1.0} for side in "AB"}
    models = {
        side: SimpleNamespace(blocks=Blocks([], blocks, "campaign-days"), metrics=metrics[side])  # type: ignore[arg-type]
        for side in "AB"
    }
    found = ModelComparison(models, {**unknown, "log_loss": log_loss}, {}, 40.0, (9, 9))  # type: ignore[arg-type]
    return SimpleNamespace(found=found, log=SimpleNamespace(identical=False))


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        (Difference(1.0, -2.0, 4.0, 1.5, 0.3), "roughly 670 more campaign-days would be needed"),
        (Difference(0.1, -3.0, 3.1, 1.5, 0.5), "more than 100 times as many campaign-days"),
        (Difference(0.0, -3.0, 3.0, 1.5, 0.5), "more than 100 times as many campaign-days"),
        (Difference(3.0, -0.1, 6.0, 1.0, 0.1), "It is close: a few more campaign-days may tell."),
    ],
)
def test_what_it_would_take_to_see_a_difference(difference, said):
    """(2.8 standard errors / difference)^2 times as many, to two digits."""
    assert said in compare_conclusion(compared(difference))
