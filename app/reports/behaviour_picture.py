"""The picture of conversion rates by quintile of behaviours (paper 004, figure 4)."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.reports.pictures import CAPTION, COLOURS, INK, new_figure, save
from evaluation import QuantileRates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_COLUMNS, _HEIGHT = 3, 4.2


def draw_rates(rates: Mapping[str, QuantileRates], title: str, path: Path) -> None:
    """Save one panel for each behaviour: the rate, and its interval, over groups of clicks."""
    columns = min(_MOST_COLUMNS, len(rates))
    figure = new_figure(columns, math.ceil(len(rates) / columns), _HEIGHT)
    for axes, (name, groups) in zip(figure.axes, rates.items(), strict=False):
        _draw(axes, name, groups)
    for axes in figure.axes[len(rates) :]:
        axes.set_visible(False)
    _scale_alike(figure.axes[: len(rates)], rates)
    save(figure, title, path)


def _draw(axes: "Axes", name: str, groups: QuantileRates) -> None:
    places = np.arange(len(groups.rates))
    below, above = groups.rates - groups.lower, groups.upper - groups.rates
    # Rounding may leave the rate 0 a hair below its interval.
    whiskers = np.maximum([below, above], 0.0)
    axes.bar(places, groups.rates, width=0.62, color=COLOURS[1])
    axes.errorbar(places, groups.rates, whiskers, fmt="none", ecolor=INK, elinewidth=1, capsize=3)
    ranges = zip(groups.lowest.tolist(), groups.highest.tolist(), strict=True)
    axes.set_xticks(places, [_range(low, high) for low, high in ranges])
    axes.grid(visible=False, axis="x")
    axes.set_title(f"Conversion rate by {name}", **CAPTION)
    axes.set_xlabel(f"{name}, groups of about as many clicks each")


def _scale_alike(panels: Any, rates: Mapping[str, QuantileRates]) -> None:
    from matplotlib.ticker import FuncFormatter

    highest = max((groups.upper.max(initial=0.0) for groups in rates.values()), default=0.0)
    for axes in panels:
        axes.set_ylim(0.0, min(1.0, 1.08 * highest) or 1.0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


def _range(low: float, high: float) -> str:
    return _short(low) if low == high else f"{_short(low)} to\n{_short(high)}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
