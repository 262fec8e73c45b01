"""A page with every kind of part, whose names are as bad as names can be."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache

import numpy as np

from app.reports.charts.by_name import bars_chart, differences_chart
from app.reports.charts.by_score import quantile_chart, reliability_chart
from app.reports.charts.over_time import lines_chart, ratios_by_name_chart, ratios_over_time_chart
from app.reports.page import Chart, Page, Section, Table, Tile, how_made
from evaluation import reliability_diagram
from evaluation.metrics.reliability import score_quantiles

SCRIPT = "<script>alert(1)</script>"
BAD_NAMES = (
    SCRIPT,
    "</text></svg><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "&lt;b&gt; &amp; ]]> <!--",
    "$x_1$ and $\\frac{1}{0}$",
    "under_score^2 {{ 7 * 7 }} {% raw %}",
    "春のセール キャンペーン 大特価",
    "حملة الربيع",
    "a very long name of a campaign that goes on and on without an end in sight",
    "bell\x07 half\ud800 turned\u202e back",
    "line\nbreak\ttab",
    "",
)
HOUR = 493_000


def predictions(seed: int = 0, size: int = 4_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, outcomes and the truth behind them."""
    rng = np.random.default_rng(seed)
    truth = 1 / (1 + np.exp(-rng.normal(-3, 1.2, size)))
    return np.clip(1.5 * truth**0.9, 0, 1), (rng.random(size) < truth).astype(float), truth


def reliability(*names: str) -> Chart:
    """A reliability chart of series with these names."""
    scores, outcomes, _ = predictions()
    return reliability_chart({name: reliability_diagram(scores, outcomes, 8) for name in names})


def quantiles(*names: str) -> Chart:
    """A quantile chart of series with these names."""
    scores, outcomes, _ = predictions()
    return quantile_chart({name: score_quantiles(scores, outcomes, 6) for name in names})


def _ratios(size: int, seed: int) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(0, 0.3, size))


def _over_time() -> Chart:
    hours = np.delete(HOUR + np.arange(200), [50, 51])
    ratios = _ratios(198, 1)
    ratios[3], ratios[7] = np.nan, np.inf
    bands = {"raw": 0.9 * ratios}, {"raw": 1.1 * ratios}
    return ratios_over_time_chart(hours, {"raw": ratios, SCRIPT: _ratios(198, 2)}, *bands)


def _by_name() -> Chart:
    ratios = _ratios(len(BAD_NAMES), 3)
    ratios[:3] = 0, np.inf, np.nan
    series = {"raw": ratios, "sir": _ratios(len(BAD_NAMES), 4)}
    return ratios_by_name_chart(BAD_NAMES, series, "Right of the line more was predicted.")


def _bars() -> Chart:
    values = np.linspace(0.2, 0.9, len(BAD_NAMES))
    return bars_chart(BAD_NAMES, {"AUC": values, SCRIPT: values[::-1]}, "Bars", "Of names.", "%")


def _differences() -> Chart:
    middle = np.linspace(-1, 2, len(BAD_NAMES))
    ends = middle, middle - 0.7, middle + 0.7
    return differences_chart(BAD_NAMES, ends, "Lifts", "Of B over A.", "%")


def _small_differences() -> Chart:
    ends = [-0.0013, -0.0001], [-0.00396, -0.0002], [0.018, 0.0001]
    return differences_chart(["sir", "platt"], ends, "Small", "Left is better.")


def _lines() -> Chart:
    lines = {name: _ratios(5, place) for place, name in enumerate(BAD_NAMES)}
    return lines_chart([1, 10, 100, 1e3, 1e4], lines, "Lines", "A sweep.", SCRIPT, "$y$")


def _wide_table(rows: int, title: str) -> Table:
    columns = ("campaign", *(f"column {place}" for place in range(14)))
    cells = [(name, *["0.1234"] * 14) for name in (BAD_NAMES * rows)[:rows]]
    return Table(columns, cells, title, f"Note of {SCRIPT}.")


CHARTS: tuple[Callable[[], Chart], ...] = (
    lambda: reliability("raw", "sir"),
    _small_differences,
    lambda: quantiles("raw", SCRIPT),
    _over_time,
    _by_name,
    _bars,
    _differences,
    _lines,
)


@cache
def sample_page() -> Page:
    """The page, drawn once."""
    charts = [draw() for draw in CHARTS]
    return Page(
        title=f"{SCRIPT} and a file-name-without-any-place-to-break-it-" + "x" * 60,
        subtitle=f"4,000 impressions of {SCRIPT}",
        verdict=f"Too much is promised for {SCRIPT}.\n\nThe second paragraph.",
        tiles=[
            Tile("PCOC", "1.480", "1 is right", good=False),
            Tile("GC-3", "0.061", good=True),
            Tile(SCRIPT, SCRIPT, SCRIPT),
        ],
        sections=[
            Section("Charts", "One.\n\nTwo.", charts),
            Section(SCRIPT, "", charts[:1]),
            Section("Tables", "", [_wide_table(3, "Short"), _wide_table(40, "Long")]),
        ],
        warnings=[f"Too few clicks in {SCRIPT}."],
        footer=how_made(f"sirocco evaluate {SCRIPT}", datetime(2026, 3, 1, 12, tzinfo=UTC)),
    )
