"""`sirocco backtest --delayed`: which clicks are evaluated, and the paper's Table 2 of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from app.cli.console import note, note_files, numbers_table, print_table, progress
from app.cli.measure.scorecards import (
    differences_of,
    drawn_differences,
    print_rows,
    show_differences,
)
from app.datasets.clicks import ClickColumns, ClickFile, read_click_log
from app.datasets.options import Reading
from app.datasets.parts import name_of
from app.datasets.parts import shown as shown_place
from app.errors import CommandError
from app.reports.backtest import delayed_page
from app.reports.page import write_page
from app.reports.pictures import draw, draw_delayed
from app.results.backtest import RAW, Backtested, ScoredEvents
from app.results.formatting import Rows, shown
from app.settings import SECONDS_PER_DAY, SECONDS_PER_HOUR, Settings, groups_of
from app.worker.training import training_rules
from calibrators import Calibrator, Method, Sufficiency, make_calibrator
from calibrators.registry import POOLED, make_method
from calibrators.samples import Floats
from evaluation import ClickPlatform, ClickWindows, DelayedBacktest, EventTable, delayed_backtest
from evaluation.backtest.delayed import NONE, ORACLE
from evaluation.backtest.event_table import scorecards
from evaluation.bootstrap.paired import sample_deviation
from pccem import LabelRules

Card = dict[str, float]

HOW_TO_READ = (
    "PCOC is predicted over actual conversions: 1 is right. GC-N is how far off the prediction is"
    " inside a campaign's N score bins, in campaigns with 5 N conversions or more: 0 is right; in"
    " brackets, how much lower (-) or higher (+) than without calibration."
)
ABOUT_ROWS = f"The row {NONE} is of the {RAW} scores; {ORACLE} learns what nobody can know yet."
_COLUMNS = {"pcoc": "PCOC", "gc_3": "GC-3", "gc_4": "GC-4", "gc_5": "GC-5"}


def show_delayed(logs: Mapping[str, Rows], title: str) -> None:
    """Print the rows of a log; of several, their mean and then their standard deviation."""
    listed = [*logs.values()]
    means = mean_of(listed)
    _show(title, means, lambda row, column: _compared(means, row, column))
    if len(listed) > 1:
        spreads = spread_of(listed)
        about = f"Standard deviation over the {len(listed)} logs"
        _show(about, spreads, lambda row, column: shown(spreads[row][column], ".3f"))


def print_delayed_json(
    logs: Mapping[str, Rows], single: Backtested | None = None, notes: Sequence[str] = ()
) -> None:
    """Print `{"rows": ...}`, as of any table, with the differences of a `single` one. Of several
    logs the rows are the mean; then their standard deviation is `spread`, and the rows of each log
    are `logs`."""
    listed, more = [*logs.values()], {"differences": single and differences_of(single)}
    if len(listed) > 1:
        more = {"spread": spread_of(listed), "logs": dict(logs)}
    print_rows(mean_of(listed), **more, notes=notes)


def mean_of(logs: Sequence[Rows]) -> dict[str, Card]:
    """The mean of each number over the logs."""
    return _over(logs, lambda values: float(values.mean()))


def spread_of(logs: Sequence[Rows]) -> dict[str, Card]:
    """The standard deviation of each number over the logs; nan of a single one."""
    return _over(logs, sample_deviation)


def _over(logs: Sequence[Rows], of: Callable[[Floats], float]) -> dict[str, Card]:
    return {
        row: {column: of(np.array([log[row][column] for log in logs])) for column in card}
        for row, card in logs[0].items()
    }


def _show(title: str, rows: Rows, cell: Callable[[str, str], str]) -> None:
    table = numbers_table("", *_COLUMNS.values())
    for row in rows:
        cells = [cell(row, column) for column in _COLUMNS]
        table.add_row(row, *cells, style="dim" if row == ORACLE else "")
    print_table(table, title)


def _compared(rows: Rows, row: str, column: str) -> str:
    """The number, and for GC-N by how much it differs from the first row, no calibration."""
    raw = next(iter(rows))
    value, before = rows[row][column], rows[raw][column]
    text = shown(value, ".3f")
    if column == "pcoc" or row == raw or not 0 < before < np.inf or not np.isfinite(value):
        return text
    change = 100 * (value / before - 1)
    return f"{text} ({change:+.{0 if change >= 100 else 1}f}%)"


def report_delayed(scored: ScoredEvents, name: str, *, picture: Path | None, as_json: bool) -> None:
    """Print the scorecards of replayed clicks in the shape of a delayed backtest."""
    if picture is not None:
        draw(scored, tuple(scored.predictions)[:2], name, picture)
    cards = scorecards(scored.events, scored.predictions)
    if as_json:
        print_rows(cards)
        return
    show_delayed({name: cards}, _title(name, len(scored.events)))
    note(f"\n{HOW_TO_READ}")
    note_files(picture=picture)


Span = tuple[float, float]
Read = Callable[[], ClickFile]

_SIMULATED_DAYS = 21
_SERVED = "pccem_posterior"
"""The row of the service's labels."""


@dataclass(frozen=True, slots=True)
class DelayedRun:
    """How logs are backtested: as a service with these settings would treat the first delayed
    target, the last `scored_hours` of each log, read as `reading` says, evaluated."""

    settings: Settings
    scored_hours: int
    draws: int = 0
    seed: int = 0
    reading: Reading = field(default_factory=Reading)

    def run(
        self,
        logs: Mapping[str, Read],
        *,
        picture: Path | None,
        as_json: bool,
        page: Path | None = None,
    ) -> None:
        """Backtest each log and print what came of it; the picture is that of the first.

        Of a single log also which rows differ beyond chance, over `draws` resamples of its
        campaign-days, and the page.
        """
        single: Backtested | None = None
        found: dict[str, DelayedBacktest] = {}
        for name, read in logs.items():
            file = read()
            found[name] = self.backtest(name, file, quiet=as_json)
            if picture is not None and len(found) == 1:
                draw_delayed(file.stream, found[name], self.windows.attribution, name, picture)
            if len(logs) == 1 and (self.draws or page is not None):
                single = self._compared(name, file, found[name], quiet=as_json)
        if single is not None and page is not None:
            write_page(delayed_page(single), page)
        if as_json:
            print_delayed_json(_cards(found), single, [*_remarks(found, self.reading)])
            return
        self._print(found, single)
        note_files(report=page)

    def _print(self, found: Mapping[str, DelayedBacktest], single: Backtested | None) -> None:
        clicks = sum(len(backtest.rows) for backtest in found.values())
        what = next(iter(found)) if len(found) == 1 else f"mean of {len(found)} logs"
        show_delayed(_cards(found), _title(what, clicks))
        note(f"\n{HOW_TO_READ} {ABOUT_ROWS}")
        if single is not None and single.significance is not None:
            show_differences(single, single.significance)
        for line in _remarks(found, self.reading):
            note(line)

    def _compared(
        self, name: str, file: ClickFile, backtest: DelayedBacktest, *, quiet: bool
    ) -> Backtested:
        """The rows as predictions of the evaluated clicks, the service's labels against the others;
        without calibration they are called raw, as in any report."""
        clicks = file.stream.clicks.select(backtest.rows)
        events = EventTable(
            clicks.clicked_at, clicks.campaigns, clicks.rows, clicks.scores, backtest.outcomes
        )
        called = {row: RAW if row == NONE else row for row in backtest.probabilities}
        rows = {called[row]: p for row, p in backtest.probabilities.items()}
        cards = {called[row]: card for row, card in backtest.scorecards.items()}
        pairs = [(_SERVED, RAW), *((row, _SERVED) for row in rows if row not in (RAW, _SERVED))]
        scored = ScoredEvents(events, rows)
        found = drawn_differences(scored, cards, pairs, self.draws, seed=self.seed, quiet=quiet)
        how = "each hour evaluated with maps of the labels known before it"
        notes = [*_remarks({name: backtest}, self.reading)]
        return Backtested(name, how, scored, cards, found, _SERVED, notes)

    @property
    def windows(self) -> ClickWindows:
        """Those of the first delayed target."""
        settings = self.settings
        if not settings.delayed_targets:
            raise CommandError("SIROCCO_DELAYED_TARGETS is empty: there is no delayed target")
        attribution = settings.attribution_seconds(settings.delayed_targets[0])
        return ClickWindows(settings.window_hours, settings.post_click_seconds, attribution)

    def evaluated_span(self, name: str, file: ClickFile) -> Span:
        """The last hours whose clicks have had their attribution window, as far back as wanted
        and as a first refit leaves room; a `CommandError` where there is none."""
        times = file.stream.clicks.clicked_at
        known = file.known_until - self.windows.attribution
        until = _whole(min(known, times[-1] + SECONDS_PER_HOUR))
        earliest = _whole(times[0] + self.windows.longest)
        first = max(until - self.scored_hours * SECONDS_PER_HOUR, earliest)
        if first >= until:
            least = (self.windows.longest + self.windows.attribution) / SECONDS_PER_DAY
            raise CommandError(
                f"{name}: no click is left to evaluate; clicks and their conversions must span more"
                f" than {least:g} days"
            )
        return first, until

    def backtest(self, name: str, file: ClickFile, *, quiet: bool) -> DelayedBacktest:
        """What each row would have served in the evaluated hours."""
        first, until = self.evaluated_span(name, file)
        hours = round((until - first) / SECONDS_PER_HOUR)
        settings = self.settings
        with progress(f"backtesting {name}", hours, "hours", shown=not quiet) as advance:
            return delayed_backtest(
                file.stream,
                method_of(settings.calibrator_of(settings.delayed_targets[0]), settings),
                evaluated_from=first,
                evaluated_until=until,
                windows=self.windows,
                pccem={
                    "pccem": LabelRules("paper", drift_correction=False),
                    _SERVED: LabelRules("posterior", settings.drift_correction),
                },
                training=training_rules(settings),
                sufficiency=Sufficiency(settings.min_samples, settings.min_positives),
                progress=lambda done, of: advance(""),
            )


def _cards(found: Mapping[str, DelayedBacktest]) -> dict[str, Rows]:
    return {name: backtest.scorecards for name, backtest in found.items()}


def _whole(moment: float) -> float:
    """The start of the hour of a moment."""
    return float(moment // SECONDS_PER_HOUR * SECONDS_PER_HOUR)


def files_of(logs: Sequence[str], columns: ClickColumns, reading: Reading) -> dict[str, Read]:
    """Logs in files, by name."""
    names = [name_of(log) for log in logs]
    if len({*names}) < len(names):
        names = [shown_place(log) for log in logs]
    reads = (partial(read_click_log, log, columns, reading) for log in logs)
    return dict(zip(names, reads, strict=True))


def simulated(seeds: int) -> dict[str, Read]:
    """Logs of the synthetic platform, as `sirocco simulate` writes them."""
    return {f"seed {seed}": partial(_draw, seed) for seed in range(seeds)}


def _draw(seed: int) -> ClickFile:
    stream = ClickPlatform(seed=seed).hours(0, _SIMULATED_DAYS * 24).stream
    return ClickFile(stream, float("inf"))


def _title(what: str, clicks: int) -> str:
    return f"{what}: {clicks:,} clicks evaluated by their final conversions"


def _remarks(found: Mapping[str, DelayedBacktest], reading: Reading) -> Iterator[str]:
    yield from reading.skipped.notes()
    for name, backtest in found.items():
        others = {s: hours for s, hours in backtest.sources.items() if s != "model"}
        for source, hours in others.items():
            yield f"{name}: {hours} h without a post-click model; labels came from: {source}."
        for day, reason in backtest.refusals.items():
            at = datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC)
            yield f"{name}: no new model on {at:%Y-%m-%d}: {reason}."


def method_of(name: str, settings: Settings) -> Calibrator | Method:
    """The method of this name, as a service with these settings would run it."""
    if name != POOLED:
        return make_calibrator(name, settings.bin_size, settings.prior_strength)
    groups = groups_of(settings)
    return make_method(POOLED, history_hours=settings.history_hours, groups=groups)
