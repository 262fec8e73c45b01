"""`sirocco backtest --compare`: what was asked for, and its run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.command_line.contest import Contest
from app.command_line.contest_contenders import Terms, chosen, chosen_contenders
from app.command_line.contest_report import Outlets, report_contest
from app.command_line.contest_result import ContestResult, merged, read_result
from app.command_line.contest_summary import DRAWS
from app.command_line.errors import CommandError
from app.command_line.log_files import LogColumns
from app.command_line.refused_options import refuse
from evaluation.contest import REGIMES

_USUAL: Final = Terms()


@dataclass(frozen=True, slots=True)
class Asked:
    """The options as they were given; None where one was not."""

    logs: Sequence[Path]
    regimes: str | None
    seeds: int | None
    contenders: str | None
    judged: int | None
    drift: bool
    processes: int | None
    kept: Sequence[Path]
    window: int | None
    bin_size: int | None
    draws: int | None


def run_contest(asked: Asked, columns: LogColumns, outlets: Outlets) -> None:
    """Play or read, then show; a `CommandError` for what does not go together."""
    if asked.draws == 0:
        raise CommandError("--draws 0: must be at least 1 with --compare")
    outlets.check()
    if asked.kept:
        report_contest(_kept(asked), outlets)
        return
    contest = Contest(
        chosen_contenders(asked.contenders), asked.draws or DRAWS, asked.processes or 1,
        outlets.as_json,
    )  # fmt: skip
    found = _of_log(contest, asked, columns) if asked.logs else _of_regimes(contest, asked)
    report_contest(found, outlets)


def _kept(asked: Asked) -> ContestResult:
    given = {
        "LOG": asked.logs or None,
        "--regimes": asked.regimes,
        "--seeds": asked.seeds,
        "--contenders": asked.contenders,
        "--drift": asked.drift or None,
        "--processes": asked.processes,
        "--draws": asked.draws,
        "--judged": asked.judged,
        "--window": asked.window,
        "--bin-size": asked.bin_size,
    }
    refuse(given, "does not go with --from: it shows what was played")
    return merged([read_result(path) for path in asked.kept])


def _of_log(contest: Contest, asked: Asked, columns: LogColumns) -> ContestResult:
    given = {
        "--regimes": asked.regimes,
        "--seeds": asked.seeds,
        "--judged": asked.judged,
        "--drift": asked.drift or None,
        "--processes": asked.processes,
    }
    refuse(given, "goes with synthetic regimes, not with a log")
    if len(asked.logs) != 1:
        raise CommandError(f"{len(asked.logs)} logs are given: --compare takes one, or none")
    terms = Terms(asked.window or _USUAL.hours, asked.bin_size or _USUAL.bin_size)
    return contest.of_log(asked.logs[0], columns, terms)


def _of_regimes(contest: Contest, asked: Asked) -> ContestResult:
    given = {"--window": asked.window, "--bin-size": asked.bin_size}
    refuse(given, "goes with a log, not with synthetic regimes")
    only_drift = asked.drift and asked.regimes is None
    regimes = [] if only_drift else chosen("--regimes", asked.regimes, list(REGIMES))
    return contest.of_regimes(regimes, asked.seeds or 1, asked.judged, drift=asked.drift)
