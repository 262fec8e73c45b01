"""`sirocco backtest`.

The backtest of one log, without a service.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import evaluation
from app.cli import options
from app.cli.backtest import leaderboard_options
from app.cli.backtest.delayed import DelayedRun, Read, files_of, simulated
from app.cli.backtest.methods import COMPARED, NAMES, Methods, chosen_methods
from app.cli.backtest.report import report_backtest
from app.cli.checkout import research
from app.cli.console import percent_bar, progress
from app.cli.options import refuse
from app.cli.serving.settings import settings_with
from app.datasets.clicks import ClickColumns
from app.datasets.impressions import MOST_ROWS, LogColumns, read_events
from app.errors import CommandError
from app.reports.page import check_report
from app.reports.pictures import check_picture
from app.results.backtest import Backtested
from app.results.formatting import Rows
from app.results.scored_events import RAW, Judged, after, first_judged_hour
from app.settings import Settings
from calibrators import Sufficiency
from evaluation import EventTable
from evaluation.comparison.significance import Significance, significance

_FIRST_CHOICE = "sir"


@dataclass(frozen=True, slots=True)
class LogBacktest:
    """How a log is backtested and its calibrators are compared.

    Attributes
    ----------
    settings : of the service whose refits are repeated.
    calibrators : by name.
    raw_samples : whether maps are fitted on every single row.
    against : what the calibrators are compared with, besides the raw scores; None chooses.
    draws : of campaign-days; 0 for no intervals.
    seed : of the draws.
    quiet : whether no progress is shown.
    """

    settings: Settings
    calibrators: Methods
    raw_samples: bool
    against: str | None
    draws: int
    seed: int
    quiet: bool

    def run(self, log: Path, columns: LogColumns) -> Backtested:
        """Read, judge hour by hour, compare."""
        events = read_events(log, columns, quiet=self.quiet, most_rows=MOST_ROWS)
        notes = _notes(events)
        if notes and self.raw_samples:
            raise CommandError(f"--raw-samples: the {notes[0].removeprefix('The ')}")
        judged, cards = self._judge(events)
        # The hours of the first window are needed no more.
        del events
        against = self._against(cards)
        found = None
        if self.draws:
            found = self._compare(judged, cards, against)
        return Backtested(
            log.name, after(self.settings.window_hours), judged, cards, found, against,
            notes,
        )  # fmt: skip

    def _judge(self, events: EventTable) -> tuple[Judged, Rows]:
        settings = self.settings
        first = first_judged_hour(events, settings.window_hours)
        total = len(np.unique(events.hours[events.hours >= first]))
        with progress("fitting and judging", total, "hours", shown=not self.quiet) as advance:
            found = evaluation.backtest(
                events,
                self.calibrators,
                window_hours=settings.window_hours,
                sufficiency=Sufficiency(settings.min_samples, settings.min_positives),
                raw_samples=self.raw_samples,
                progress=lambda done, of: advance(""),
            )
        return Judged(events.select(found.rows), found.probabilities), found.scorecards

    def _against(self, cards: Rows) -> str:
        if self.against is not None:
            return self.against
        if _FIRST_CHOICE in self.calibrators:
            return _FIRST_CHOICE
        return min(self.calibrators, key=lambda name: cards[name]["log_loss"])

    def _compare(self, judged: Judged, cards: Rows, against: str) -> Significance:
        pairs = [(name, RAW) for name in self.calibrators]
        pairs += [(name, against) for name in self.calibrators if against not in (name, RAW)]
        with percent_bar("drawing campaign-days", shown=not self.quiet) as reached:
            return significance(
                judged.events,
                judged.predictions,
                cards,
                pairs,
                draws=self.draws,
                seed=self.seed,
                progress=lambda done, of: reached(done / of),
            )


def _notes(events: EventTable) -> list[str]:
    if events.weights is None:
        return []
    return [
        f"The log has {events.counts.sum():,.0f} rows, more than {MOST_ROWS:,}: rows of one hour,"
        " campaign and cell of scores (0.8 % wide) were taken together and judged at their mean"
        " score."
    ]


_RawSamples = Annotated[
    bool,
    typer.Option(
        "--raw-samples", help="Fit on every single sample as printed in the paper, not on bins."
    ),
]
_DRAWS = 1000
_Calibrators = Annotated[
    str,
    typer.Option(
        "--calibrators",
        metavar="NAMES",
        help=f"Some of {', '.join(NAMES)}.",
        show_default="all but identity",
    ),
]

_Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="NAME",
        help="What the others are compared with, besides the raw scores.",
        show_default="sir, or the best",
    ),
]
_Draws = Annotated[
    int | None,
    typer.Option(
        "--draws",
        min=0,
        help="Draws of campaign-days behind each interval; 0 for no intervals.",
        show_default="1000; 300 for GC-3 and AUC",
    ),
]
_Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Of the draws.", show_default="0")]
_Delayed = Annotated[
    bool,
    typer.Option(
        "--delayed",
        help="The logs are click logs whose conversions come late, as `sirocco simulate` writes.",
        rich_help_panel=options.DELAYED,
    ),
]
_Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        min=1,
        help="Without a log: this many synthetic ones with --delayed, seeds of each regime with"
        " --compare.",
        show_default="1 with --compare",
        rich_help_panel=options.DELAYED,
    ),
]


def backtest(
    logs: options.Logs = None,
    calibrators: _Calibrators = COMPARED,
    raw_samples: _RawSamples = False,
    delayed: _Delayed = False,
    seeds: _Seeds = None,
    judged: options.JudgedHours = None,
    compare: leaderboard_options.Compare = False,
    regimes: leaderboard_options.Regimes = None,
    contenders: leaderboard_options.Contenders = None,
    drift: leaderboard_options.Drift = False,
    processes: leaderboard_options.Processes = None,
    kept: leaderboard_options.Kept = None,
    write: leaderboard_options.Write = None,
    against: _Against = None,
    draws: _Draws = None,
    seed: _Seed = None,
    report: options.Report = None,
    picture: options.OptionalPicture = None,
    json: options.Json = False,
    window: options.Window = None,
    calibrator: options.Calibrator = None,
    bin_size: options.BinSize = None,
    min_samples: options.MinSamples = None,
    min_positives: options.MinPositives = None,
    score: options.ScoreColumn = "score",
    outcome: options.OutcomeColumn = "outcome",
    campaign: options.CampaignColumn = "campaign",
    time: options.TimeColumn = "time",
    bid: options.BidColumn = "bid",
    converted: options.ConvertedColumn = "converted_at",
) -> None:
    """Compare calibrators on a log, without a service.

    Each hour is judged by maps fitted on the window before it, with the very
    code the service runs: the row `sir` is what `sirocco replay` prints for it.
    pooled learns from all campaigns at once, over a window of its own.
    Differences from the raw scores, and from sir, come with intervals over
    campaign-days drawn again and again: which of them are beyond chance?

    With --delayed it compares ways to count young clicks whose conversions
    come late, judged by the final ones. [italic]none[/italic]: the scores as they are.
    [italic]stc[/italic]: conversions within the hour. [italic]ltc[/italic]: clicks a week old.
    [italic]pccem[/italic]: what the post-click model expects. [italic]pccem_posterior[/italic]:
    that, and what has been seen. [italic]oracle[/italic]: the future.

    With --compare every method plays against every other, refitted hour by hour:
    without a log in regimes of synthetic traffic, where the truth is known and so
    is how far each method stays from it; with a log on what happened. --picture
    draws how far. --json keeps the result of a long run, --from shows it again.

    [bold]Examples[/bold]

      sirocco backtest log.parquet --window 6h
      sirocco backtest log.parquet --calibrators pooled,sir --bin-size 200
      sirocco backtest log.parquet --against beta --report backtest.html
      sirocco backtest clicks.parquet --delayed
      sirocco backtest --delayed --seeds 5 --calibrator pooled
      sirocco backtest --compare --regimes mixed,sparse --judged 6h
      sirocco backtest --compare --seeds 5 --processes 2 --json > result.json
      sirocco backtest --compare --from result.json --report result.html
      sirocco backtest log.parquet --compare --contenders identity,sir,pooled
    """
    plain: dict[str, object] = {"--against": against, "--seed": seed}
    of_leaderboard = {
        "--regimes": regimes, "--contenders": contenders, "--drift": drift or None,
        "--processes": processes, "--from": kept, "--write": write,
    }  # fmt: skip
    if compare:
        others = {"--delayed": delayed or None, "--raw-samples": raw_samples or None, **plain}
        others |= {"--calibrators": None if calibrators == COMPARED else calibrators}
        others |= {"--min-samples": min_samples, "--min-positives": min_positives}
        others |= {"--calibrator": calibrator}
        refuse(others, "does not go with --compare")
        leaderboard = research("leaderboard.command")
        leaderboard.run_leaderboard(
            leaderboard.CompareOptions(
                logs or [], regimes, seeds, contenders, judged, drift, processes, kept or [],
                window, bin_size, draws,
            ),
            LogColumns(score, outcome, campaign, time, bid),
            leaderboard.Outputs(picture, report, write, json),
        )  # fmt: skip
        return
    refuse(of_leaderboard, "goes with --compare only")
    settings = settings_with(
        {
            "window_hours": window,
            "bin_size": bin_size,
            "calibrator": calibrator,
            "min_samples": min_samples,
            "min_positives": min_positives,
        }
    )
    if picture is not None:
        check_picture(picture)
    if report is not None:
        check_report(report)
    if delayed:
        plain |= {"--draws": draws, "--report": report}
        _check_delayed(calibrators, plain, raw_samples=raw_samples)
        columns = ClickColumns(time, campaign, score, converted)
        run = DelayedRun(settings, judged or options.WEEK_HOURS)
        run.run(_clicks(logs or [], seeds, columns), picture=picture, as_json=json)
        return
    of_delayed = {"--seeds": seeds, "--judged": judged}
    refuse(of_delayed, "goes with --delayed or --compare only")
    refuse({"--calibrator": calibrator}, "goes with --delayed only: give --calibrators")
    log = _one_log(logs or [])
    chosen = chosen_methods(calibrators, settings, raw_samples=raw_samples)
    found = LogBacktest(
        settings,
        chosen,
        raw_samples=raw_samples,
        against=_reference(against, chosen),
        draws=_DRAWS if draws is None else draws,
        seed=seed or 0,
        quiet=json,
    ).run(log, LogColumns(score, outcome, campaign, time, bid))
    report_backtest(found, picture=picture, page=report, as_json=json)


def _reference(against: str | None, chosen: Methods) -> str | None:
    if against is None or against in (RAW, *chosen):
        return against
    raise CommandError(f"--against {against!r}: give one of {', '.join((RAW, *chosen))}")


def _one_log(logs: Sequence[Path]) -> Path:
    if len(logs) != 1:
        raise CommandError(f"{len(logs)} logs are given: give one (several go with --delayed)")
    return logs[0]


def _check_delayed(calibrators: str, plain: Mapping[str, object], *, raw_samples: bool) -> None:
    if raw_samples or calibrators != COMPARED:
        option = "--raw-samples" if raw_samples else "--calibrators"
        raise CommandError(f"{option} does not go with --delayed: its rows differ in their labels")
    refuse(plain, "does not go with --delayed")


def _clicks(logs: Sequence[Path], seeds: int | None, columns: ClickColumns) -> dict[str, Read]:
    if bool(logs) == (seeds is not None):
        raise CommandError("--delayed: give click logs, or --seeds, not both")
    return files_of(logs, columns) if seeds is None else simulated(seeds)
