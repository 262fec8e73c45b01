"""`sirocco backtest`: which backtest the options ask for, and the one of a log of impressions."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np

import evaluation
from app.cli.checkout import research
from app.cli.console import note_files, percent_bar, progress
from app.cli.measure.delayed_backtest import DelayedRun, Read, files_of, method_of, simulated
from app.cli.measure.scorecards import drawn_differences, report_backtest
from app.cli.options import (
    WEEK_HOURS,
    AnyLogColumnOptions,
    FitOptions,
    ReadingOptions,
    names,
    refuse,
)
from app.cli.serving.settings import settings_with
from app.cli.simulations import BacktestOptions
from app.datasets.clicks import ClickColumns
from app.datasets.impressions import MOST_ROWS, LogColumns, ReadEvents, read_events
from app.datasets.options import Reading
from app.datasets.parts import Where, name_of, refuse_inside
from app.datasets.predictions import check_output, prediction_file
from app.errors import CommandError
from app.reports.page import check_report
from app.reports.pictures import check_picture
from app.results.backtest import RAW, Backtested, ScoredEvents, after, first_evaluated_hour
from app.results.formatting import Rows
from app.settings import Settings
from calibrators import CALIBRATORS, Calibrator, Method, Sufficiency
from calibrators.bins.codecs import BinOverflow
from calibrators.fields.sums import PAIR
from calibrators.registry import POOLED
from evaluation.backtest.backtest import Scored
from evaluation.comparison.significance import Significance

_NAMES: Final = (POOLED, *CALIBRATORS)
# The identity is the row `raw`.
_COMPARED: Final = ",".join(name for name in _NAMES if name != "identity")

Methods = Mapping[str, Calibrator | Method]

_DRAWS = 1000
_PUBLISHED = "sir"


def run_backtest(
    logs: Sequence[str],
    given: BacktestOptions,
    fit: FitOptions,
    columns: AnyLogColumnOptions,
    reading: ReadingOptions,
) -> None:
    """Run the backtest of the options, and print, draw and write what came of it."""
    columns.refuse_others(delayed=given.delayed)
    pages = {"--picture": given.picture, "--report": given.report}
    refuse_inside(logs, {**pages, "--output": given.output})
    if given.compare:
        others = {"--output": given.output, "--model-version": columns.model_version}
        refuse(others, "does not go with --compare")
        _run_leaderboard(logs, given, fit, LogColumns.of(columns, reading), reading.reading())
        return
    refuse(_of_leaderboard(given), "goes with --compare only")
    fields = names(given.fields)
    settings = settings_with(asdict(fit) | ({"fields": fields} if fields else {}))
    check_picture(given.picture)
    check_report(given.report)
    if given.output is not None:
        check_output(given.output, force=given.force)
    if given.raw_samples:
        refuse({"--model-version": columns.model_version}, "does not go with --raw-samples")
    if given.delayed:
        refuse({"--fields": given.fields}, "does not go with --delayed")
        how = reading.reading("does not go with --delayed: a row is one click")
        _run_delayed(logs, given, settings, columns, how)
        return
    refuse(
        {"--seeds": given.seeds, "--judged": given.scored_hours},
        "goes with --delayed or --compare only",
    )
    refuse({"--feature": given.feature, "--behaviour": given.behaviour}, "goes with --delayed only")
    refuse({"--calibrator": fit.calibrator}, "goes with --delayed only: give --calibrators")
    _run_log(
        _one_log(logs),
        given,
        settings,
        replace(LogColumns.of(columns, reading), fields=fields),
        reading.reading(),
    )


def _run_log(
    log: str, given: BacktestOptions, settings: Settings, columns: LogColumns, reading: Reading
) -> None:
    methods = _chosen_methods(given.calibrators, settings, raw_samples=given.raw_samples)
    if given.against not in (None, RAW, *methods):
        known = ", ".join((RAW, *methods))
        raise CommandError(f"--against {given.against!r}: give one of {known}")
    try:
        found = LogBacktest(settings, methods, given).run(log, columns, reading)
    except BinOverflow as error:
        raise CommandError(f"{log}: {error}; dividing all weights by one number helps") from None
    report_backtest(found, picture=given.picture, page=given.report, as_json=given.json)
    if not given.json:
        note_files(predictions=given.output)


def _run_delayed(
    logs: Sequence[str],
    given: BacktestOptions,
    settings: Settings,
    columns: AnyLogColumnOptions,
    reading: Reading,
) -> None:
    labels = {"--raw-samples": given.raw_samples or None, "--calibrators": given.calibrators}
    refuse(labels, "does not go with --delayed: its rows differ in their labels")
    refuse({"--against": given.against, "--output": given.output}, "does not go with --delayed")
    named = ClickColumns(
        columns.time,
        columns.campaign,
        columns.score,
        columns.converted,
        tuple(given.behaviour or ()),
        tuple(given.feature or ()),
    )
    clicks = _clicks(logs, given.seeds, named, reading)
    if len(clicks) > 1:
        of_one = {"--report": given.report, "--draws": given.draws, "--seed": given.seed}
        refuse(of_one, "goes with --delayed of one log only")
    # Several rows of one log are many resamples: they are made where somebody asks for them.
    draws = (_DRAWS if given.report else 0) if given.draws is None else given.draws
    run = DelayedRun(settings, given.scored_hours or WEEK_HOURS, draws, given.seed or 0, reading)
    run.run(clicks, picture=given.picture, page=given.report, as_json=given.json)


def _run_leaderboard(
    logs: Sequence[str],
    given: BacktestOptions,
    fit: FitOptions,
    columns: LogColumns,
    reading: Reading,
) -> None:
    others = {
        "--fields": given.fields,
        "--delayed": given.delayed or None, "--raw-samples": given.raw_samples or None,
        "--against": given.against, "--seed": given.seed, "--calibrators": given.calibrators,
        "--min-samples": fit.min_samples, "--min-positives": fit.min_positives,
        "--calibrator": fit.calibrator,
    }  # fmt: skip
    refuse(others, "does not go with --compare")
    leaderboard = research("leaderboard.command")
    leaderboard.run_leaderboard(
        leaderboard.CompareOptions(
            logs, given.regimes, given.seeds, given.methods, given.scored_hours, given.drift,
            given.processes, given.saved or [], fit.window_hours, fit.bin_size, given.draws,
        ),
        columns,
        reading,
        leaderboard.Outputs(given.picture, given.report, given.write, given.json),
    )  # fmt: skip


def _of_leaderboard(given: BacktestOptions) -> Mapping[str, object]:
    return {
        "--regimes": given.regimes, "--contenders": given.methods, "--drift": given.drift or None,
        "--processes": given.processes, "--from": given.saved, "--write": given.write,
    }  # fmt: skip


def _chosen_methods(names: str | None, settings: Settings, *, raw_samples: bool) -> Methods:
    """The methods of a list with commas, None for all; on raw samples those that can learn from
    them."""
    wanted = [
        name.strip() for name in (_COMPARED if names is None else names).split(",") if name.strip()
    ]
    if not wanted or not set(wanted) <= set(_NAMES):
        raise CommandError(
            f"--calibrators {names!r}: give some of {', '.join(_NAMES)}, comma-separated"
        )
    if raw_samples and names is None:
        wanted.remove(POOLED)
    if raw_samples and POOLED in wanted:
        raise CommandError(f"--raw-samples: {POOLED} learns from bins of all campaigns")
    return {name: method_of(name, settings) for name in wanted}


def _one_log(logs: Sequence[str]) -> str:
    if len(logs) != 1:
        raise CommandError(
            f"{len(logs)} logs are given: give one, parts by their folder or a pattern in quotes"
            " (several go with --delayed)"
        )
    return logs[0]


def _clicks(
    logs: Sequence[str], seeds: int | None, columns: ClickColumns, reading: Reading
) -> dict[str, Read]:
    if logs and seeds is not None:
        raise CommandError("--delayed: give click logs, or --seeds, not both")
    if not logs and seeds is None:
        raise CommandError(
            "--delayed: no click log is given: name one, or give --seeds for synthetic ones"
        )
    return files_of(logs, columns, reading) if seeds is None else simulated(seeds)


@dataclass(frozen=True, slots=True)
class LogBacktest:
    """How a log is backtested, with the settings of the service whose refits are repeated, and its
    calibrators, by name, are compared."""

    settings: Settings
    calibrators: Methods
    given: BacktestOptions

    def run(self, log: Where, columns: LogColumns, reading: Reading | None = None) -> Backtested:
        """Read, evaluate hour by hour, compare."""
        reading = reading or Reading()
        with percent_bar(f"reading {name_of(log)}", shown=not self.given.json) as reached:
            read = read_events(log, columns, reached, most_rows=MOST_ROWS, reading=reading)
        notes = _notes(read)
        for option in ("raw_samples", "output", "fields"):
            if notes and getattr(self.given, option):
                name = option.replace("_", "-")
                raise CommandError(f"--{name}: the {notes[0].removeprefix('The ')}")
        notes += reading.skipped.notes()
        scored, cards = self._evaluate(read)
        # The hours of the first window are needed no more.
        del read
        against = self._against(cards)
        found = self._compare(scored, cards, against)
        return Backtested(
            name_of(log), after(self.settings, self.calibrators), scored, cards, found, against,
            notes,
        )  # fmt: skip

    def _evaluate(self, read: ReadEvents) -> tuple[ScoredEvents, Rows]:
        settings, given, events = self.settings, self.given, read.events
        first = first_evaluated_hour(events, settings.window_hours)
        total = len(np.unique(events.hours[events.hours >= first]))
        with (
            progress("fitting and evaluating", total, "hours", shown=not given.json) as advance,
            self._output(read) as scored,
        ):
            found = evaluation.backtest(
                events,
                self.calibrators,
                window_hours=settings.window_hours,
                sufficiency=Sufficiency(settings.min_samples, settings.min_positives),
                raw_samples=given.raw_samples,
                guarded=settings.guard and not given.raw_samples,
                pairs=[PAIR.join(pair) for pair in settings.field_pairs if given.fields],
                progress=lambda done, of: advance(""),
                scored=scored,
            )
        scored_events = events.select(found.rows).without_versions()
        return ScoredEvents(scored_events, found.probabilities), found.scorecards

    @contextmanager
    def _output(self, read: ReadEvents) -> Iterator[Scored | None]:
        """What writes the probabilities of each hour, if they are wanted."""
        if self.given.output is None or read.numbers is None:
            yield None
            return
        with prediction_file(self.given.output, read.numbers) as file:
            yield file.add

    def _against(self, cards: Rows) -> str:
        """The one asked for, else the method of the settings, else sir, else the best."""
        if self.given.against is not None:
            return self.given.against
        for choice in (self.settings.calibrator, _PUBLISHED):
            if choice in self.calibrators:
                return choice
        return min(self.calibrators, key=lambda name: cards[name]["log_loss"])

    def _compare(self, scored: ScoredEvents, cards: Rows, against: str) -> Significance | None:
        given = self.given
        pairs = [(name, RAW) for name in self.calibrators]
        pairs += [(name, against) for name in self.calibrators if against not in (name, RAW)]
        draws = _DRAWS if given.draws is None else given.draws
        return drawn_differences(
            scored, cards, pairs, draws, seed=given.seed or 0, quiet=given.json
        )


def _notes(read: ReadEvents) -> list[str]:
    if read.numbers is not None:
        return []
    return [
        f"The log has {read.rows:,} rows, more than {MOST_ROWS:,}: rows of one hour,"
        " campaign and cell of scores (0.8 % wide) were taken together and evaluated at their mean"
        " score."
    ]
