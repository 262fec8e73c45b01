"""Verdicts are computed from the numbers: none can be stated."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.reproduction import Check, Conclusion, Erratum
from research.reproduction.experiment import (
    banded,
    bounded,
    exact,
    number_shown,
    printed,
    printed_half_unit,
    ranged,
    shown,
)

WHY = "Counted by hand."


def test_a_verdict_cannot_be_given():
    """It is a property without a setter, and no field of a check."""
    check = printed("x", "0.5", 0.9)

    assert "verdict" not in {field.name for field in dataclasses.fields(Check)}
    with pytest.raises((AttributeError, TypeError)):
        check.verdict = Conclusion.AGREES
    with pytest.raises(TypeError):
        Check("x", 0.9, 0.4, 0.6, "", verdict=Conclusion.AGREES)


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("0.9193", 0.919324),
        ("0.0086", 0.00859355),
        ("1,128,800", 1_128_800.0),
        ("+30.0 %", 30.04),
        ("-9.5%", -9.52),
        ("10.0", 9.999),
    ],
)
def test_ours_rounded_as_printed_agrees(text, ours):
    """Signs, commas and per cent signs belong to the print."""
    check = printed("x", text, ours)

    assert check.verdict is Conclusion.AGREES
    assert check.paper_shown == text


@pytest.mark.parametrize(
    ("text", "ours"), [("0.9193", 0.9194), ("0.9548", 0.95485050), ("1,128,800", 1_128_801)]
)
def test_a_wrong_digit_differs(text, ours):
    """Half a unit of the last printed digit is all that is allowed, on both sides."""
    assert printed("x", text, ours).verdict is Conclusion.DIFFERS
    assert printed("x", text, 2 * float(text.replace(",", "")) - ours).verdict is Conclusion.DIFFERS


@given(st.integers(0, 6), st.integers(-(10**6), 10**6), st.floats(-0.499, 0.499))
def test_every_number_agrees_with_its_own_rounding(decimals, units, rest):
    """What rounding takes away is no difference, whatever the number of digits."""
    text = f"{units / 10**decimals:.{decimals}f}"
    ours = (units + rest) / 10**decimals

    assert printed("x", text, ours).verdict is Conclusion.AGREES


def test_a_printed_one_may_be_exact():
    """Among numbers of four digits a 1 is no rounded 0.6."""
    assert printed("x", "1", 0.6).verdict is Conclusion.AGREES
    assert printed("x", "1", 0.6, decimals=4).verdict is Conclusion.DIFFERS


@pytest.mark.parametrize("text", ["nan", "inf"])
def test_what_is_no_number_has_no_digits(text):
    """Nothing can be compared with it."""
    with pytest.raises(ValueError, match="must be a finite number"):
        printed("x", text, 1.0)


def test_the_half_unit_of_a_count_is_a_half():
    """A count has no digits to hide anything."""
    assert printed_half_unit("10,393,400") == 0.5
    assert printed("x", "4", 4.0).ours_shown == "4"


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        pytest.param(0.75, Conclusion.PAPER_ERRS, id="ours-is-what-the-argument-leaves"),
        pytest.param(0.76, Conclusion.DIFFERS, id="ours-is-neither"),
        pytest.param(0.9000001 + 0.05, Conclusion.DIFFERS, id="ours-just-off-the-paper"),
        pytest.param(math.nan, Conclusion.DIFFERS, id="ours-is-no-number"),
        pytest.param(math.inf, Conclusion.DIFFERS, id="ours-is-infinite"),
        pytest.param(0.9, Conclusion.AGREES, id="the-digit-is-right-whatever-is-said"),
    ],
)
def test_the_paper_errs_where_an_independent_argument_says_so(ours, verdict):
    """Where ours is neither the paper's nor the argument's number, we may be the ones who err."""
    check = printed("AUC", "0.9", ours, erratum=Erratum.exact(0.75, WHY))

    assert check.verdict is verdict


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(
            printed("AUC", "0.9", 0.75, erratum=Erratum(WHY, 0.7, 0.86)),
            id="the-argument-leaves-the-printed-digit-possible",
        ),
        pytest.param(
            exact("RIG", 0.3, 0.4, erratum=Erratum.exact(0.3, WHY)), id="nothing-is-printed"
        ),
    ],
)
def test_an_erratum_needs_a_printed_digit_that_is_outside(check):
    """Otherwise ours is just wrong."""
    assert check.verdict is Conclusion.DIFFERS


@pytest.mark.parametrize(
    ("reason", "low", "high"),
    [("", 0.0, 1.0), ("  ", 0.0, 1.0), (WHY, 1.0, 0.0), (WHY, math.nan, 1.0), (WHY, 0.0, math.inf)],
)
def test_an_erratum_says_why_and_where(reason, low, high):
    """A reason, and a finite range in order."""
    with pytest.raises(ValueError, match=r"must be a finite range|says what is wrong"):
        Erratum(reason, low, high)


def test_a_check_needs_a_range():
    """A limit that is nan says nothing."""
    for low, high in ((math.nan, 1.0), (0.0, math.nan)):
        with pytest.raises(ValueError, match="must be a range"):
            Check("x", 0.5, low, high, "")


def test_nothing_agrees_with_an_empty_range():
    """Not even what is infinite."""
    for ours in (0.0, 0.5, math.inf, -math.inf, math.nan):
        assert Check("x", ours, 1.0, 0.0, "").verdict is Conclusion.DIFFERS
        assert bounded("x", ours, below=-math.inf).verdict is Conclusion.DIFFERS
        assert bounded("x", ours, above=math.inf).verdict is Conclusion.DIFFERS


@pytest.mark.parametrize(
    ("ours", "paper", "verdict"),
    [
        (0.93, 0.95, Conclusion.AGREES),
        (0.83, 0.95, Conclusion.DIFFERS),
        (0.93, 0.83, Conclusion.DIFFERS),
        (0.93, None, Conclusion.AGREES),
        (math.nan, 0.95, Conclusion.DIFFERS),
    ],
)
def test_both_numbers_lie_within_three_deviations(ours, paper, verdict):
    """Of the mean over evaluation sets."""
    assert banded("Acc", ours, 0.93, 0.03, paper=paper).verdict is verdict


def test_a_range_includes_its_ends():
    """As a rounding interval does."""
    assert ranged("x", 1.0, 1.0, 2.0).verdict is Conclusion.AGREES
    assert ranged("x", 2.0, 1.0, 2.0, paper=1.0).verdict is Conclusion.AGREES
    assert ranged("x", 2.1, 1.0, 2.0).verdict is Conclusion.DIFFERS


def test_an_inequality_is_strict():
    """PCCEM as good as LTC is not better; infinity is above everything finite only."""
    assert bounded("x", 0.31, below=0.56).verdict is Conclusion.AGREES
    assert bounded("x", 0.56, below=0.56).verdict is Conclusion.DIFFERS
    assert bounded("x", math.inf, above=2.9).verdict is Conclusion.AGREES
    assert bounded("x", math.inf, above=math.inf).verdict is Conclusion.DIFFERS
    assert bounded("x", 2.0, above=1.0, below=3.0).verdict is Conclusion.AGREES
    assert bounded("x", 2.0, above=1.0, below=3.0, paper=3.5).verdict is Conclusion.DIFFERS


def test_an_inequality_has_a_limit():
    """Without one it would hold always."""
    with pytest.raises(ValueError, match="give above or below"):
        bounded("x", 1.0)


def test_what_is_only_shown_does_not_agree():
    """Numbers of another data set stand beside ours, and count for nothing."""
    assert shown("GC-3", 2.9, paper=4.46).verdict is Conclusion.SHOWN


def test_what_is_not_checked_does_not_agree():
    """Right or wrong, a run too small to tell says so."""
    for ours in (0.93, 0.1):
        check = banded("Acc", ours, 0.93, 0.03, checked=False)

        assert check.verdict is Conclusion.NOT_CHECKED


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "-"), (math.inf, "∞"), (-math.inf, "-∞"), (1234.5, "1,234.5")]
)
def test_numbers_are_shown(value, text):
    """Undefined is a dash."""
    assert number_shown(value, ",.1f") == text


def test_the_paper_is_shown_as_printed():
    """Its own text first, then its number, then a dash."""
    assert shown("x", 1.0, paper=2.0, paper_text="2.00").paper_shown == "2.00"
    assert shown("x", 1.0, paper=2.0).paper_shown == "2.000"
    assert shown("x", 1.0).paper_shown == "-"
