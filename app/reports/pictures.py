"""The pictures that commands save as files: reliability, conversion rates, a delayed backtest."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from app.errors import FAILED, CommandError
from app.reports.charts.by_score import quantile_chart, reliability_chart
from app.reports.charts.over_time import ratios_by_name_chart, ratios_over_time_chart
from app.reports.page import Chart
from app.results.backtest import RAW, ScoredEvents
from app.results.evaluation import EvaluatedLog
from app.results.formatting import shortened
from app.whole_files import check_new
from calibrators.samples import Floats, Integers, sum_at
from evaluation import (
    ClickStream,
    DelayedBacktest,
    EventTable,
    QuantileRates,
    ReliabilityDiagram,
    reliability_diagram,
    score_quantiles,
)
from evaluation.metrics.reliability import wilson_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FORMATS = (".png", ".svg", ".pdf")
INK, FAINT = "#333333", "#b5b5b5"
COLOURS = ("#c0504d", "#1f6f8b", "#7a9a3a", "#8064a2")
CAPTION: Final[dict[str, Any]] = {"loc": "left", "fontsize": 10, "color": INK}
_PANEL_WIDTH, _PANEL_HEIGHT = 5.6, 5.4


def check_picture(path: Path | None) -> None:
    """A `CommandError`, before any work is done, when no picture can be saved at `path`."""
    if path is None:
        return
    if path.suffix.lower() not in FORMATS:
        raise CommandError(f"{path}: a picture's name ends in {', '.join(FORMATS)}")
    check_new(path, "--picture", force=True)
    new_figure(1)


def new_figure(columns: int, rows: int = 1, height: float = _PANEL_HEIGHT) -> "Figure":
    """A figure of empty panels; `height` is that of one panel, in inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CommandError(
            "pictures need matplotlib: pip install 'sirocco[pictures]', or give --no-picture"
        ) from error
    figure = Figure(figsize=(_PANEL_WIDTH * columns, height * rows), layout="constrained")
    for axes in np.ravel(figure.subplots(rows, columns)):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK, labelsize=9)
        axes.grid(color="#eeeeee", linewidth=0.8)
        axes.set_axisbelow(True)
    return figure


def save(figure: "Figure", title: str, path: Path, dpi: int = 150) -> None:
    """Save the figure under its title, in the format that the name of the file tells."""
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=13, fontweight="bold")
    try:
        figure.savefig(path, dpi=dpi)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error


_RATIO_TICKS = (
    0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0,
)  # fmt: skip
_MOST_CAMPAIGNS = 20


def draw(scored: ScoredEvents, names: tuple[str, ...], title: str, path: Path) -> None:
    """Save the picture of the predictions `names`.

    Left, the rate of bins of equal frequency over their mean probability; right, where there are
    several campaigns, the PCOC of the largest.
    """
    campaigns, ratios = largest_campaigns(scored, names, _MOST_CAMPAIGNS)
    figure = new_figure(2 if len(campaigns) > 1 else 1)
    _draw_reliability(figure.axes[0], {name: diagram_of(scored, name) for name in names})
    if len(campaigns) > 1:
        _draw_campaigns(figure.axes[1], campaigns, ratios)
    save(figure, title, path)


def _draw_reliability(axes: "Axes", diagrams: Mapping[str, ReliabilityDiagram]) -> None:
    ends: list[float] = []
    for colour, (name, diagram) in zip(COLOURS, diagrams.items(), strict=False):
        ends += _draw_curve(axes, colour, name, diagram)
    if ends:
        _frame(axes, min(ends) / 1.6, min(1.0, max(ends) * 1.6))
    axes.set_title("Reliability: on the diagonal, predictions are right", **CAPTION)
    axes.set_xlabel("predicted: mean probability of the bin")
    axes.set_ylabel("observed: share of positives in the bin")
    axes.legend(frameon=False, loc="upper left", fontsize=10)


def _draw_curve(axes: "Axes", colour: str, name: str, diagram: ReliabilityDiagram) -> list[float]:
    # A logarithmic axis has no place for zero.
    held = (diagram.rates > 0) & (diagram.probabilities > 0)
    x, y = diagram.probabilities[held], diagram.rates[held]
    below, above = np.maximum(y - diagram.lower[held], 0), np.maximum(diagram.upper[held] - y, 0)
    axes.errorbar(
        x, y, [below, above], color=colour, marker="o", markersize=5, linewidth=1.6,
        elinewidth=1, capsize=2, label=name,
    )  # fmt: skip
    return [*x.tolist(), *y.tolist()]


def _frame(axes: "Axes", low: float, high: float) -> None:
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    axes.plot([low, high], [low, high], color=FAINT, linewidth=1.2, linestyle="--", zorder=0)
    from matplotlib.ticker import LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_formatter(NullFormatter())
        _in_percent(axis)


def _draw_campaigns(axes: "Axes", campaigns: Sequence[str], ratios: Mapping[str, Floats]) -> None:
    places = np.arange(len(campaigns))
    every = np.concatenate([*ratios.values()])
    known = np.log(every[(every > 0.0) & np.isfinite(every)])
    reach = max(1.5, 1.15 * float(np.exp(np.abs(known).max(initial=0.0))))
    # None is so far off that an axis of odds could not show it: 0 stands at its end.
    ends = [np.clip(values, 1 / reach, reach) for values in ratios.values()]
    axes.hlines(places, ends[0], ends[-1], color=FAINT, linewidth=1.5, zorder=1)
    for colour, name, values in zip(COLOURS, ratios, ends, strict=False):
        axes.scatter(values, places, color=colour, s=34, label=name, zorder=2)
    axes.axvline(1.0, color=FAINT, linewidth=1.2, linestyle="--", zorder=0)
    axes.set_yticks(places, [shortened(name, 18) for name in campaigns])
    axes.set_ylim(len(campaigns) - 0.4, -0.6)
    axes.set_title("PCOC of the largest campaigns: 1 is right", **CAPTION)
    axes.set_xlabel("predicted / actual positives")
    axes.set(xscale="log", xlim=(1 / reach, reach))
    _ratio_ticks(axes.xaxis, 1 / reach, reach)


def draw_evaluated(log: EvaluatedLog, path: Path) -> None:
    """Save the picture of the scores as they are."""
    rows = log.metrics.sketch
    events = EventTable(
        times=np.zeros(len(rows)),
        campaigns=tuple(log.campaign_numbers),
        rows=rows.slices.astype(np.int32),
        scores=rows.scores,
        outcomes=rows.outcomes,
        weights=rows.weights,
    )
    draw(ScoredEvents(events, {RAW: events.scores}), (RAW,), log.name, path)


def _in_percent(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


def _ratio_ticks(axis: Any, low: float, high: float) -> None:
    """Round ratios between the ends of a logarithmic axis."""
    from matplotlib.ticker import NullLocator

    ticks = [tick for tick in _RATIO_TICKS if low <= tick <= high]
    axis.set_minor_locator(NullLocator())
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])


_MOST_COLUMNS, _RATES_HEIGHT = 3, 4.2


def draw_rates(rates: Mapping[str, QuantileRates], title: str, path: Path) -> None:
    """Save one panel for each behaviour: the rate, and its interval, over groups of clicks."""
    columns = min(_MOST_COLUMNS, len(rates))
    figure = new_figure(columns, math.ceil(len(rates) / columns), _RATES_HEIGHT)
    for axes, (name, groups) in zip(figure.axes, rates.items(), strict=False):
        _draw_groups(axes, name, groups)
    for axes in figure.axes[len(rates) :]:
        axes.set_visible(False)
    highest = max((groups.upper.max(initial=0.0) for groups in rates.values()), default=0.0)
    for axes in figure.axes[: len(rates)]:
        axes.set_ylim(0.0, min(1.0, 1.08 * highest) or 1.0)
        _in_percent(axes.yaxis)
    save(figure, title, path)


def _draw_groups(axes: "Axes", name: str, groups: QuantileRates) -> None:
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


def _range(low: float, high: float) -> str:
    return _rounded(low) if low == high else f"{_rounded(low)} to\n{_rounded(high)}"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


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
    Right, predicted over actual conversions of the evaluated clicks, by hour or day.
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
    _in_percent(axes.yaxis)


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
    _legend_below(axes)


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
    every = np.concatenate([*ratios.values()])
    known = every[np.isfinite(every) & (every > 0)]
    low, high = 0.8 * known.min(initial=0.8), 1.25 * known.max(initial=1.25)
    axes.set(yscale="log", ylim=(low, high))
    _ratio_ticks(axes.yaxis, low, high)
    _label_time(axes, found)
    _legend_below(axes)


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


def _legend_below(axes: "Axes") -> None:
    # Below the axes: the lines of six rows leave no room among them.
    axes.legend(frameon=False, fontsize=9, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.15))


_MOST_BINS, _FEWEST_BINS, _POSITIVES_PER_BIN = 12, 3, 25.0
_QUANTILES: Final = 10
_LEAST_POSITIVES: Final = 30
_CONFIDENCE: Final = 0.95
_FEW_LEFT_OUT: Final = (
    f" Campaigns with fewer than {_LEAST_POSITIVES} positives are left out: chance alone moves"
    " them by a fifth and more. The largest stand first."
)


def reliability_of(scored: ScoredEvents, names: Sequence[str]) -> Chart:
    """What happened beside what was predicted, in groups of equal size."""
    return reliability_chart({name: diagram_of(scored, name) for name in names})


def diagram_of(scored: ScoredEvents, name: str) -> ReliabilityDiagram:
    """The diagram of one prediction, with as many groups as its positives allow."""
    events = scored.events
    bins = float(events.positives.sum()) / _POSITIVES_PER_BIN
    return reliability_diagram(
        scored.predictions[name],
        events.outcomes,
        int(np.clip(bins, _FEWEST_BINS, _MOST_BINS)),
        sample_weight=events.weights,
    )


def quantiles_of(scored: ScoredEvents, names: Sequence[str]) -> Chart:
    """The error from low scores to high, and where the loss is."""
    events = scored.events
    bins = int(np.clip(events.positives.sum() / _POSITIVES_PER_BIN, _FEWEST_BINS, _QUANTILES))
    return quantile_chart(
        {
            name: score_quantiles(
                scored.predictions[name], events.outcomes, bins, sample_weight=events.weights
            )
            for name in names
        }
    )


def hours_of(scored: ScoredEvents, names: Sequence[str]) -> Chart:
    """PCOC hour by hour; a band of what chance explains around the last of them."""
    events = scored.events
    hours, places = np.unique(events.hours, return_inverse=True)
    actual = sum_at(places, events.positives, len(hours))
    counts = sum_at(places, events.counts, len(hours))
    predicted = {name: _predicted_sums(scored, name, places, len(hours)) for name in names}
    ratios = {name: _ratios(sums, actual) for name, sums in predicted.items()}
    last = names[-1]
    low, high = wilson_interval(np.minimum(actual / counts, 1.0), counts, _CONFIDENCE)
    return ratios_over_time_chart(
        hours,
        ratios,
        lower={last: _ratios(predicted[last], counts * high)},
        upper={last: _ratios(predicted[last], counts * low)},
    )


def campaigns_of(scored: ScoredEvents, names: Sequence[str]) -> Chart:
    """PCOC of the campaigns that have enough positives."""
    shown, ratios = largest_campaigns(scored, names)
    return ratios_by_name_chart(
        shown,
        ratios,
        caption="Right of 1 more was predicted than happened, left of it less." + _FEW_LEFT_OUT,
    )


def largest_campaigns(
    scored: ScoredEvents, names: Sequence[str], most: int | None = None
) -> tuple[list[str], dict[str, Floats]]:
    """The campaigns with enough positives, those with most traffic first, (k,), and their PCOC by
    each of the predictions `names`, (k,)."""
    events, size = scored.events, len(scored.events.campaigns)
    rows = events.rows.astype(np.int64)
    actual = sum_at(rows, events.positives, size)
    by_traffic = np.argsort(-sum_at(rows, events.counts, size), kind="stable")
    shown = by_traffic[actual[by_traffic] >= _LEAST_POSITIVES][:most]
    ratios = {name: _ratios(_predicted_sums(scored, name, rows, size), actual) for name in names}
    return (
        [events.campaigns[row] for row in shown],
        {name: found[shown] for name, found in ratios.items()},
    )


def _predicted_sums(scored: ScoredEvents, name: str, places: Integers, size: int) -> Floats:
    weighted = scored.events.counts * scored.predictions[name]
    return sum_at(places, weighted, size)


def _ratios(predicted: Floats, actual: Floats) -> Floats:
    ratios: Floats = np.full(len(actual), np.nan)
    return np.divide(predicted, actual, out=ratios, where=actual > 0.0)
