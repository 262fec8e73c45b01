"""What `sirocco backtest --compare` runs: regimes, a jump, or a log."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.command_line.contest_contenders import Terms
from app.command_line.contest_drift import DriftTask, drift_curves, drift_tasks
from app.command_line.contest_result import Contested, ContestResult, DriftCurves, Origin
from app.command_line.contest_run import Done, run_tasks
from app.command_line.contest_summary import contested
from app.command_line.contest_tasks import LogTask, RegimeTask
from app.command_line.event_batches import MOST_ROWS, read_events
from app.command_line.invocation import invocation
from app.command_line.judged_hours import first_judged_hour
from app.command_line.log_files import LogColumns
from app.command_line.reproduce_page import machine
from evaluation.contest import REGIMES


@dataclass(frozen=True, slots=True)
class Contest:
    """How methods are compared.

    Attributes
    ----------
    contenders : their names.
    draws : of campaign-days, for the intervals.
    processes : plays at a time.
    quiet : whether no progress is shown.
    """

    contenders: Sequence[str]
    draws: int
    processes: int
    quiet: bool

    def of_regimes(
        self, regimes: Sequence[str], seeds: int, judged: int | None, *, drift: bool
    ) -> ContestResult:
        """Synthetic traffic of each regime and seed, and a jump too if asked for."""
        plays = [
            RegimeTask(name, seed, self.contenders, judged)
            for name in regimes
            for seed in range(seeds)
        ]
        jumps = drift_tasks(range(seeds)) if drift else []
        done = run_tasks([*plays, *jumps], self.processes, shown=not self.quiet)
        found = [
            self._regime(name, done[place * seeds : (place + 1) * seeds])
            for place, name in enumerate(regimes)
        ]
        return ContestResult(found, [_origin()], _curves(jumps, done[len(plays) :]))

    def of_log(self, log: Path, columns: LogColumns, terms: Terms) -> ContestResult:
        """The hours of a log that have a whole window before them."""
        events = read_events(log, columns, quiet=self.quiet, most_rows=MOST_ROWS)
        first_judged_hour(events, terms.hours)
        task = LogTask(log.name, events, self.contenders, terms)
        done = run_tasks([task], 1, shown=not self.quiet)
        about = f"windows of {terms.hours} h, bins of {terms.bin_size:,}"
        found = contested(log.name, about, len(events.campaigns), done, self.draws)
        return ContestResult([found], [_origin()])

    def _regime(self, name: str, done: Sequence[Done]) -> Contested:
        regime = REGIMES[name]
        return contested(name, regime.description, regime.campaigns, done, self.draws)


def _curves(tasks: Sequence[DriftTask], done: Sequence[Done]) -> DriftCurves | None:
    return drift_curves(tasks, done) if tasks else None


def _origin() -> Origin:
    return Origin(invocation(), f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", machine())
