"""The picture of a delayed backtest: delays, expected against observed conversions, and PCOC."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from app.reports.pictures import CAPTION, FAINT, INK, new_figure, save
from calibrators.samples import Floats
from evaluation import ClickStream, DelayedBacktest

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_DELAY_TICKS: Final = {
    _MINUTE: "1 min",
    10 * _MINUTE: "10 min",
    _HOUR: "1 h",
    10 * _HOUR: "10 h",
    _DAY: "1 d",
    7 * _DAY: "7 d",
    30 * _DAY: "30 d",
}
_MARKS = (_HOUR, 100 * _HOUR)
_RATIO_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
_MOST_POINTS = 60
_INCHES, _DPI = (14.0, 4.4), 120


class _Style(NamedTuple):
    colour: str
    dashes: str
    marker: str


# Colours of Okabe and Ito; dashes and markers tell them apart without any colour.
_STYLES: Final = {
    "none": _Style("#7f7f7f", ":", "x"),
    "stc": _Style("#d55e00", "--", "v"),
    "ltc": _Style("#e69f00", "-.", "s"),
    "pccem": _Style("#56b4e9", "--", "^"),
    "pccem_posterior": _Style("#0072b2", "-", "o"),
    "oracle": _Style("#009e73", ":", "D"),
}
_OTHER = _Style("#cc79a7", "-.", "P")


def draw_delayed(
    stream: ClickStream, found: DelayedBacktest, attribution: float, title: str, path: Path
) -> None:
    """Save the picture of what a delayed backtest found on a stream.

    Left, the share of a click's conversions that has come by each delay up to `attribution`
    seconds. Middle, the conversions that each refit expected of its clicks, and what came of them.
    Right, predicted over actual conversions of the judged clicks, by hour or day.
    """
    figure = new_figure(3)
    figure.set_size_inches(_INCHES)
    _draw_delays(figure.axes[0], stream.delay[stream.delay < attribution], attribution)
    _draw_expected(figure.axes[1], found)
    _draw_pcoc(figure.axes[2], stream.clicks.clicked_at[found.rows], found)
    save(figure, title, path, _DPI)


def _draw_delays(axes: "Axes", delays: Floats, attribution: float) -> None:
    shares = np.arange(1, len(delays) + 1) / max(len(delays), 1)
    axes.step(np.sort(delays), shares, where="post", color=_STYLES["pccem_posterior"].colour)
    for mark in (at for at in _MARKS if at < attribution):
        _mark(axes, mark, float(np.mean(delays < mark)) if len(delays) else 0.0)
    _scale_delays(axes, attribution)
    axes.set_title("Delays: how much of a click's conversions is seen", **CAPTION)
    axes.set_xlabel("time since the click")
    axes.set_ylabel("share of the conversions that come in the end")


def _mark(axes: "Axes", mark: float, share: float) -> None:
    axes.plot([mark, mark], [0, share], color=FAINT, linewidth=1.2, linestyle="--", zorder=0)
    axes.plot([mark], [share], "o", color=INK, markersize=5)
    said = f"{100 * share:.0f} % within {mark / _HOUR:g} h"
    axes.annotate(
        said, (mark, share), (-8, 6), textcoords="offset points", ha="right", fontsize=9, color=INK
    )


def _scale_delays(axes: "Axes", attribution: float) -> None:
    from matplotlib.ticker import NullLocator

    ticks = {at: name for at, name in _DELAY_TICKS.items() if at <= attribution}
    axes.set(xscale="log", xlim=(_MINUTE, max(attribution, 2 * _MINUTE)), ylim=(0, 1.03))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(list(ticks), list(ticks.values()))
    _in_percent(axes)


def _draw_expected(axes: "Axes", found: DelayedBacktest) -> None:
    days = _days_after_first(found.refits, float(found.refits[0]))
    for name, values in found.expected.items():
        if name not in ("ltc", "oracle"):
            _line(axes, name, days, values)
    if "oracle" in found.expected:
        observed = found.expected["oracle"]
        axes.plot(days, observed, color=INK, linewidth=3.5, alpha=0.45, label="came in the end")
    axes.set_ylim(bottom=0)
    axes.set_title("Expected conversions of the clicks behind each refit", **CAPTION)
    axes.set_ylabel("conversions of the window's clicks")
    _label_time(axes, found)
    _legend(axes)


def _draw_pcoc(axes: "Axes", clicked_at: Floats, found: DelayedBacktest) -> None:
    span = _HOUR if np.ptp(clicked_at) <= _MOST_POINTS * _HOUR else _DAY
    starts, groups = np.unique(clicked_at // span, return_inverse=True)
    days = _days_after_first(starts * span, float(found.refits[0]))
    actual = np.bincount(groups, found.outcomes, len(starts))
    ratios = {
        name: np.bincount(groups, p, len(starts)) / np.where(actual > 0, actual, np.nan)
        for name, p in found.probabilities.items()
    }
    for name, values in ratios.items():
        _line(axes, name, days, values)
    axes.axhline(1.0, color=FAINT, linewidth=1.2, linestyle="--", zorder=0)
    by = "hour" if span == _HOUR else "day"
    axes.set_title(f"PCOC of what was served, by {by}: 1 is right", **CAPTION)
    axes.set_ylabel("predicted / actual conversions")
    _scale_ratios(axes, np.concatenate([*ratios.values()]))
    _label_time(axes, found)
    _legend(axes)


def _days_after_first(times: Floats, first: float) -> Floats:
    return (times - first) / _DAY


def _line(axes: "Axes", name: str, x: Floats, y: Floats) -> None:
    style = _STYLES.get(name, _OTHER)
    axes.plot(
        x, y, color=style.colour, linestyle=style.dashes, marker=style.marker, linewidth=1.7,
        markersize=4.5, markevery=max(1, len(x) // 14), label=name,
    )  # fmt: skip


def _label_time(axes: "Axes", found: DelayedBacktest) -> None:
    first = datetime.fromtimestamp(float(found.refits[0]), UTC)
    axes.set_xlabel(f"days since the first refit, {first:%Y-%m-%d %H:%M} UTC")


def _legend(axes: "Axes") -> None:
    # Below the axes: the lines of six rows leave no room among them.
    axes.legend(frameon=False, fontsize=9, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.15))


def _scale_ratios(axes: "Axes", ratios: Floats) -> None:
    from matplotlib.ticker import NullLocator

    known = ratios[np.isfinite(ratios) & (ratios > 0)]
    low, high = (0.8 * known.min(initial=0.8), 1.25 * known.max(initial=1.25))
    ticks = [tick for tick in _RATIO_TICKS if low <= tick <= high]
    axes.set(yscale="log", ylim=(low, high))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])


def _in_percent(axes: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
