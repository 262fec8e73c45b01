"""Names and numbers as charts show them."""

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.reports.scale import alike, number, percent, percents
from app.results.formatting import cells, clean, counted, shortened, shown
from app.results.formatting import percent as share


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.25, "0.25"),
        (-0.123456, "-0.1235"),
        (1234.5678, "1,235"),
        (1_200_000, "1,200,000"),
        (0.00012345, "0.0001234"),
        (0.00001, "1e-5"),
        (-2.5e-9, "-2.5e-9"),
        (1.5e13, "1.5e13"),
        (math.nan, "-"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
    ],
)
def test_a_number_is_short(value, said):
    assert number(value) == said


@given(st.floats(1e-11, 1e11))
def test_a_number_keeps_four_digits(value):
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=5e-4, abs=0.5)


def test_numbers_of_a_column_have_as_many_decimals():
    assert alike([0.5, 0.25, 2]) == ["0.50", "0.25", "2.00"]
    assert alike([0.5, math.nan, math.inf]) == ["0.5", "-", "∞"]
    assert alike([1e-9, 1.0]) == ["1e-9", "1"]
    assert percents([0.1, 0.125]) == ["10.0 %", "12.5 %"]


def test_a_share_is_in_percent():
    assert (percent(0.1234), percent(math.nan)) == ("12.3 %", "-")
    assert [shown(value, ".3f") for value in (0.5, math.inf, -math.inf)] == ["0.500", "∞", "-∞"]


def test_what_fills_no_page():
    assert [shown(value, ".3f") for value in (1e14, 1e200)] == ["100000000000000.000", "1.000e+200"]
    assert (shown(-6.5e268, "+.2f"), share(1e98)) == ("-6.50e+268", "1e+100 %")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("short", "short"),
        ("exactly 10", "exactly 10"),
        ("more than ten", "more than…"),
        ("two\nlines", "two lines"),
        ("春のセール特価", "春のセー…"),
        ("e\u0301" * 10, "e\u0301" * 10),
        ("", ""),
    ],
)
def test_a_long_name_is_shortened_by_its_width(name, said):
    assert shortened(name, 10) == said


@given(st.text(), st.integers(2, 30))
def test_a_shortened_name_is_never_wider(name, most):
    assert cells(shortened(name, most)) <= most


@given(st.text(st.characters(codec=None, max_codepoint=sys.maxunicode)))
def test_a_clean_text_has_nothing_that_a_document_may_not_hold(text):
    clean(text).encode("utf-8")

    assert not set(clean(text)) & {"\x00", "\x08", "\x1b", "\x7f", "\u202e", "\ufffe"}


def test_a_clean_text_is_left_alone():
    assert clean("Ωmega ёлка\n👩\u200d🚀") == "Ωmega ёлка\n👩\u200d🚀"


@pytest.mark.parametrize(("number", "told"), [(0.544, "1 positive"), (1.6, "2 positives")])
def test_a_weighted_count_is_as_many_as_it_is_shown(number, told):
    assert counted(number, "positive") == told
