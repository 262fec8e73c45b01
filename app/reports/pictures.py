"""What every picture is drawn on, and the file it is saved in.

The reliability picture: promises beside what came true, before and after calibration.
The reliability picture of a log of any length.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from app.errors import FAILED, CommandError
from app.results.evaluation import EvaluatedLog
from app.results.scored_events import RAW, ScoredEvents
from calibrators.samples import Floats
from evaluation import EventTable, reliability_diagram

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
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.absolute().parent}")
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


_MOST_BINS, _POSITIVES_PER_BIN = 12, 25
_RATIO_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0)
_MOST_CAMPAIGNS, _LEAST_POSITIVES = 20, 30


def draw(scored: ScoredEvents, names: tuple[str, ...], title: str, path: Path) -> None:
    """Save the picture of the predictions `names`.

    Left, the rate of bins of equal frequency over their mean probability; right, where there are
    several campaigns, the PCOC of the largest.
    """
    shown = {name: scored.predictions[name] for name in names}
    campaigns = _largest_campaigns(scored)
    figure = new_figure(2 if len(campaigns) > 1 else 1)
    _draw_reliability(figure.axes[0], scored, shown)
    if len(campaigns) > 1:
        _draw_campaigns(figure.axes[1], scored, shown, campaigns)
    save(figure, title, path)


def _draw_reliability(axes: "Axes", scored: ScoredEvents, shown: Mapping[str, Floats]) -> None:
    ends: list[float] = []
    for colour, (name, probabilities) in _coloured(shown):
        ends += _draw_curve(axes, colour, name, probabilities, scored.events)
    if ends:
        _frame(axes, min(ends) / 1.6, min(1.0, max(ends) * 1.6))
    axes.set_title("Reliability: on the diagonal, promises come true", **CAPTION)
    axes.set_xlabel("promised: mean probability of the bin")
    axes.set_ylabel("came true: share of positives in the bin")
    axes.legend(frameon=False, loc="upper left", fontsize=10)


def _draw_curve(
    axes: "Axes", colour: str, name: str, probabilities: Floats, events: EventTable
) -> list[float]:
    bins = int(np.clip(events.positives.sum() / _POSITIVES_PER_BIN, 3, _MOST_BINS))
    diagram = reliability_diagram(
        probabilities, events.outcomes, bins, sample_weight=events.weights
    )
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
    for axis in (axes.xaxis, axes.yaxis):
        _label_in_percent(axis)


def _label_in_percent(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    axis.set_minor_formatter(NullFormatter())


def _draw_campaigns(
    axes: "Axes", scored: ScoredEvents, shown: Mapping[str, Floats], campaigns: list[int]
) -> None:
    places = np.arange(len(campaigns))
    ratios = {name: _pcoc(scored, p)[campaigns] for name, p in shown.items()}
    ends = [*ratios.values()]
    axes.hlines(places, ends[0], ends[-1], color=FAINT, linewidth=1.5, zorder=1)
    for colour, (name, values) in _coloured(ratios):
        axes.scatter(values, places, color=colour, s=34, label=name, zorder=2)
    axes.axvline(1.0, color=FAINT, linewidth=1.2, linestyle="--", zorder=0)
    names = [_short(scored.events.campaigns[campaign]) for campaign in campaigns]
    axes.set_yticks(places, names)
    axes.set_ylim(len(campaigns) - 0.4, -0.6)
    axes.set_title("PCOC of the largest campaigns: 1 is right", **CAPTION)
    axes.set_xlabel("promised / actual positives")
    _scale_ratios(axes, np.concatenate(ends))


def _scale_ratios(axes: "Axes", ratios: Floats) -> None:
    from matplotlib.ticker import NullLocator

    reach = max(1.5, 1.15 * float(np.exp(np.abs(np.log(ratios)).max())))
    ticks = [tick for tick in _RATIO_TICKS if 1 / reach <= tick <= reach]
    axes.set(xscale="log", xlim=(1 / reach, reach))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])


def _largest_campaigns(scored: ScoredEvents) -> list[int]:
    events, size = scored.events, len(scored.events.campaigns)
    traffic = np.bincount(events.rows, events.counts, minlength=size)
    positives = np.bincount(events.rows, events.positives, minlength=size)
    largest = np.argsort(-traffic, kind="stable")
    return [int(row) for row in largest if positives[row] >= _LEAST_POSITIVES][:_MOST_CAMPAIGNS]


def _pcoc(scored: ScoredEvents, probabilities: Floats) -> Floats:
    events, size = scored.events, len(scored.events.campaigns)
    promised = np.bincount(events.rows, events.counts * probabilities, minlength=size)
    actual = np.bincount(events.rows, events.positives, minlength=size)
    return promised / np.where(actual > 0, actual, np.nan)


def _coloured(shown: Mapping[str, Floats]) -> Iterator[tuple[str, tuple[str, Floats]]]:
    return zip(COLOURS, shown.items(), strict=False)


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"


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
