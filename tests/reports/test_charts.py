"""Charts: well-formed, the same every time, drawn whatever the numbers are."""

import math
import warnings
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.reports.charts.by_name import bars_chart, differences_chart
from app.reports.charts.by_score import quantile_chart, reliability_chart
from app.reports.charts.over_time import lines_chart, ratios_by_name_chart, ratios_over_time_chart
from app.reports.page import Chart
from evaluation import reliability_diagram
from evaluation.metrics.reliability import score_quantiles
from tests.reports.sample_page import BAD_NAMES, CHARTS, HOUR, SCRIPT, quantiles, reliability

SVG = "{http://www.w3.org/2000/svg}"
nan, inf = math.nan, math.inf


@pytest.fixture(scope="module", params=CHARTS)
def draw(request: pytest.FixtureRequest) -> Callable[[], Chart]:
    """Draws one of the charts of the sample page."""
    return request.param


@pytest.fixture(scope="module")
def chart(draw) -> Chart:
    """The chart, drawn once."""
    return draw()


def parsed(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg)


def texts(chart: Chart) -> list[str]:
    return [found.text or "" for found in parsed(chart).iter(f"{SVG}text")]


def cells(chart: Chart) -> list[list[str]]:
    assert chart.table is not None
    return [list(row) for row in chart.table.rows]


def marks(chart: Chart, colour: int) -> int:
    """How many marks of a series' colour there are, filled or hollow."""
    said = (f"fill: var(--series-{colour})", f"stroke: var(--series-{colour}); stroke-width: 1.4")
    return sum(
        "transform" in path.attrib and any(word in path.get("style", "") for word in said)
        for path in parsed(chart).iter(f"{SVG}path")
    )


def test_a_drawing_is_well_formed_and_named(chart):
    root = parsed(chart)

    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert root.get("aria-label") == chart.title
    assert "width" not in root.attrib


def test_a_drawing_has_no_ids_so_that_many_fit_in_a_page(chart):
    assert " id=" not in chart.svg
    assert "href" not in chart.svg
    assert "url(" not in chart.svg


def test_a_drawing_has_values_inside_of_it(chart):
    """From the left and from the top, in percent, each with a name and numbers."""
    assert chart.values
    for value in chart.values:
        assert value.width > 0
        assert value.height > 0
        assert -5 < value.left <= value.left + value.width < 105
        assert -5 < value.top <= value.top + value.height < 105
        assert ": " in value.text


def test_values_stand_where_they_are_drawn():
    """Rows from the top, hours from the left, and every cell of the table in its text."""
    by_name = bars_chart(["a", "b"], {"AUC": [0.7, 0.5]}, "", "")
    over_time = ratios_over_time_chart([HOUR, HOUR + 1, HOUR + 3], {"raw": [1.0, 1.1, 0.9]})

    assert [value.text for value in by_name.values] == ["a: AUC 0.7", "b: AUC 0.5"]
    assert by_name.values[0].top < by_name.values[1].top
    lefts = [value.left for value in over_time.values]
    assert lefts == sorted(lefts)
    assert len(lefts) == 3
    assert [value.text[-9:] for value in over_time.values] == [
        "raw 1.000",
        "raw 1.100",
        "raw 0.900",
    ]


def test_a_drawing_leaves_colours_and_fonts_to_the_page(chart):
    """Or it would be dark on dark at night."""
    styles = " ".join(found.get("style", "") for found in parsed(chart).iter())

    assert "#" not in styles
    assert "rgb" not in styles
    assert "font-family" not in styles
    assert "var(--series-" in styles


def test_the_same_numbers_give_the_same_bytes(chart, draw):
    assert chart == draw()


def test_a_chart_has_its_numbers_in_a_table_of_even_rows(chart):
    table = chart.table

    assert table is not None
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.columns)}


def test_a_chart_says_how_to_read_it(chart):
    assert chart.caption.strip()


def test_names_are_text_and_not_formulas():
    """Dollars, underscores and markup are what they are; a line break is none."""
    chart = ratios_by_name_chart(BAD_NAMES, {"raw": np.ones(len(BAD_NAMES))}, "c")

    assert "$x_1$ and $\\frac{…" in texts(chart)
    assert "<script>alert(1)<…" in texts(chart)
    assert "line break tab" in texts(chart)
    assert cells(chart)[0][0] == SCRIPT


def test_a_character_that_no_document_may_hold_is_replaced():
    chart = bars_chart(["a\x00b", "c\ud800"], {"\x01": [1, 2]}, "t\x02", "c", unit="\x03 long unit")

    assert "a\N{REPLACEMENT CHARACTER}b" in texts(chart)
    assert parsed(chart).get("aria-label") == "t\N{REPLACEMENT CHARACTER}"


def test_reliability_numbers_stand_in_the_table():
    diagram = reliability_diagram([0.1, 0.3], [0.2, 0.25], 2, sample_weight=[100, 100])

    assert cells(reliability_chart({"raw": diagram})) == [
        ["raw, 1", "100", "10 %", "20 %", "13.34 %", "28.88 %"],
        ["raw, 2", "100", "30 %", "25 %", "17.55 %", "34.3 %"],
    ]


def test_a_group_without_positives_has_a_mark_at_the_edge():
    """A logarithmic axis has no place for zero, but it was measured."""
    diagram = reliability_diagram([0.1, 0.1, 0.5, 0.6], [0, 0, 1, 0], 2)
    chart = reliability_chart({"sir": diagram})

    assert marks(chart, 2) == 2
    assert "hollow triangle" in chart.caption


def test_a_group_without_predictions_has_a_mark_at_the_edge():
    """Scores that were rounded to zero, and not to the lowest that there is."""
    diagram = reliability_diagram([0.0, 0.0, 0.5, 0.6], [0, 1, 1, 0], 2)
    chart = reliability_chart({"sir": diagram})

    assert marks(chart, 2) == 2
    assert "hollow triangle" in chart.caption


def test_many_series_have_no_whiskers():
    few, many = reliability("raw", "sir"), reliability(*"abcd")

    assert "whisker" in few.caption
    assert "whisker" not in many.caption
    assert "whisker" in quantiles("raw").caption
    assert "whisker" not in quantiles(*"abcd").caption


def test_quantile_errors_stand_in_the_table():
    found = score_quantiles([0.1, 0.1, 0.5, 0.5], [0, 1, 1, 0], 2)
    rows = cells(quantile_chart({"sir": found}))

    assert rows[0][:5] == ["sir, 1", "2", "10 %", "50 %", "-80 %"]
    assert rows[1][:5] == ["sir, 2", "2", "50 %", "50 %", "0 %"]


def test_hours_are_utc_and_in_order():
    chart = ratios_over_time_chart([HOUR + 1, HOUR], {"raw": [2.0, 1.0]})

    assert cells(chart) == [["2026-03-29 16:00", "1.000"], ["2026-03-29 17:00", "2.000"]]
    assert "2026-03-29 16:00 to 2026-03-29 17:00 UTC" in texts(chart)


def test_bands_stand_in_the_table_beside_their_line():
    chart = ratios_over_time_chart([HOUR], {"raw": [1.5], "sir": [1]}, {"raw": [1]}, {"raw": [2]})
    assert chart.table is not None

    assert list(chart.table.columns) == ["hour, UTC", "raw", "raw from", "raw to", "sir"]
    assert cells(chart) == [["2026-03-29 16:00", "1.500", "1.000", "2.000", "1.000"]]
    assert "band" in chart.caption


def test_a_line_does_not_cross_a_missing_hour():
    """Seven hours in a row are one line; without the middle one they are two."""
    whole = ratios_over_time_chart(range(7), {"raw": np.ones(7)})
    broken = ratios_over_time_chart([0, 1, 2, 4, 5, 6], {"raw": np.ones(6)})

    assert _longest_line(whole).count("M") == 1
    assert _longest_line(broken).count("M") == 2


def _longest_line(chart: Chart) -> str:
    lines = (
        path.attrib["d"]
        for path in parsed(chart).iter(f"{SVG}path")
        if "stroke: var(--series-1)" in path.get("style", "") and "transform" not in path.attrib
    )
    return max(lines, key=len)


def test_a_point_alone_has_a_mark():
    """No line would show it."""
    alone = lines_chart(range(200), {"sir": np.where(np.arange(200) == 101, 1, nan)}, *"tcxy")

    assert marks(alone, 2) == 1


def test_undefined_ratios_are_shown_as_such():
    chart = ratios_by_name_chart(["a", "b", "c"], {"raw": [nan, inf, 0.5]}, "c")

    assert cells(chart) == [["a", "-"], ["b", "∞"], ["c", "0.500"]]
    assert marks(chart, 1) == 2


def test_more_names_than_there_is_room_for_are_in_the_table_only():
    names = [f"name {place}" for place in range(100)]
    for chart in (
        ratios_by_name_chart(names, {"raw": np.ones(100)}, "c"),
        bars_chart(names, {"raw": np.arange(100)}, "t", "c"),
        differences_chart(names, np.outer([1, 0, 2], np.ones(100)), "t", "c"),
    ):
        assert len(cells(chart)) == 100
        assert "name 59" in texts(chart)
        assert "name 60" not in texts(chart)
        assert "first 60 of 100" in chart.caption


def test_values_that_differ_visibly_are_bars_from_zero():
    chart = bars_chart(["a", "b"], {"GC-3": [0.7, 0.06]}, "t", "c")

    assert "0.0" in texts(chart)
    assert "0.70" in texts(chart)
    assert "axis" not in chart.caption


def test_values_that_are_alike_are_marks_and_the_caption_says_that_zero_is_far():
    chart = bars_chart(["a", "b"], {"log loss": [0.2412, 0.25]}, "t", "c")

    assert {"0.2412", "0.2500"} <= set(texts(chart))
    assert "does not begin at zero" in chart.caption


def test_values_that_span_decades_are_marks_on_a_logarithmic_axis():
    assert "logarithmic" in bars_chart(["a", "b"], {"x": [1e-4, 1e3]}, "t", "c").caption


def test_losses_and_gains_are_bars_to_both_sides():
    chart = bars_chart(["a", "b"], {"lift": [-2, 3.5]}, "t", "c", "%")

    assert {"-2.0", "3.5", "-2 %", "0 %", "2 %"} <= set(texts(chart))


def test_one_series_needs_no_key():
    assert bars_chart(["a"], {"x": [1]}, "t", "c").keys == []
    assert len(bars_chart(["a"], {"x": [1], "y": [2]}, "t", "c").keys) == 2


def test_a_difference_is_filled_when_its_interval_leaves_zero_out():
    chart = differences_chart(["a", "b"], [[2, 0.5], [1, -1], [3, 2]], "t", "c", "%")

    assert marks(chart, 2) == 1
    assert "+2.00 %  (1.00 to 3.00)" in texts(chart)
    assert cells(chart)[1] == ["b", "0.5 %", "-1 %", "2 %"]


def test_a_difference_has_no_more_decimals_than_its_interval_tells():
    chart = differences_chart(
        ["a", "b"], [[-0.16789, 1e-9], [-0.56275, 0], [-0.00024, 2e-9]], *"tc"
    )

    assert "-0.168  (-0.563 to 0.000)" in texts(chart)
    assert "+1e-9  (0 to 2e-9)" in texts(chart)


def test_an_undefined_difference_is_said():
    chart = differences_chart(["a", "b"], [[nan, 1], [nan, 0], [nan, 2]], "t", "c")

    assert "undefined" in texts(chart)


def test_a_sweep_over_decades_has_a_logarithmic_axis():
    chart = lines_chart([10, 100, 1000], {"sir": [1, 2, 3]}, "t", "c", "bins", "GC-3")

    assert {"10", "30", "100", "300", "1,000", "bins", "GC-3"} <= set(texts(chart))
    assert cells(chart)[2] == ["1,000", "3"]


def test_positions_have_no_labels_between_them():
    chart = lines_chart([1, 2, 3], {"sir": [1.5, 1.2, 1.1]}, *"tcxy")

    assert {"1", "2", "3"} <= set(texts(chart))
    assert "1.5" in texts(chart)
    assert "2.5" not in texts(chart)


def test_the_scores_as_they_came_look_the_same_in_every_chart():
    """And so do the first series beside them."""
    assert dict(reliability("raw", "sir", "truth").keys) == {"raw": 0, "sir": 1, "truth": 7}
    assert dict(quantiles("truth", "beta").keys) == {"truth": 7, "beta": 1}


EMPTY = (
    lambda: reliability_chart({}),
    lambda: reliability_chart({"raw": reliability_diagram([], [])}),
    lambda: quantile_chart({}),
    lambda: quantile_chart({"raw": score_quantiles([], [])}),
    lambda: ratios_over_time_chart([], {}),
    lambda: ratios_over_time_chart([HOUR], {"raw": [nan]}),
    lambda: ratios_by_name_chart([], {}, "c"),
    lambda: ratios_by_name_chart(["a"], {"raw": [inf]}, "c"),
    lambda: bars_chart([], {}, "t", "c"),
    lambda: bars_chart(["a"], {"raw": [nan]}, "t", "c"),
    lambda: differences_chart([], [[], [], []], "t", "c"),
    lambda: lines_chart([], {}, *"tcxy"),
)


@pytest.mark.parametrize("draw_empty", EMPTY)
def test_nothing_to_draw_is_said(draw_empty):
    empty = draw_empty()

    assert texts(empty) == ["no value to draw"]
    assert "triangle" not in empty.caption


ODD = st.lists(
    st.one_of(
        st.floats(),
        st.sampled_from(
            [0.0, -0.0, 1.0, 0.5, 1e-300, 5e-324, 1e300, 123_456_789.0, nan, inf, -inf]
        ),
    ),
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(values=ODD)
def test_any_numbers_are_drawn(values):
    """Zeros, infinities and gaps, one point or none: no error and no warning."""
    names, places = [str(place) for place in range(len(values))], range(len(values))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for chart in (
            bars_chart(names, {"a": values}, "t", "c"),
            bars_chart(names, {"a": values, "b": values[::-1]}, "t", "c", "%"),
            differences_chart(names, [values, values[::-1], values], "t", "c"),
            lines_chart(places, {"a": values}, *"tcxy"),
            lines_chart(values, {"a": values}, *"tcxy"),
            ratios_by_name_chart(names, {"a": values, "raw": values[::-1]}, "c"),
            ratios_over_time_chart(places, {"a": values}, {"a": values}, {"a": values[::-1]}),
        ):
            assert len(cells(chart)) == len(values)
            parsed(chart)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.sampled_from([0.0, 1e-12, 0.1, 0.5, 1.0]), st.sampled_from([0, 1])),
        max_size=20,
    )
)
def test_any_predictions_are_drawn(pairs):
    p, y = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parsed(reliability_chart({"raw": reliability_diagram(p, y, 4)}))
        parsed(quantile_chart({"raw": score_quantiles(p, y, 4)}))


def test_two_hundred_hours_and_many_series_stay_small():
    ratios = {name: np.linspace(0.5, 2, 200) for name in ("raw", "sir", "isotonic", "truth")}

    assert len(ratios_over_time_chart(HOUR + np.arange(200), ratios).svg) < 60_000
