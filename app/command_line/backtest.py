"""`sirocco backtest`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import evaluation
from app.command_line import options
from app.command_line.canvas import check_picture
from app.command_line.click_files import ClickColumns
from app.command_line.delayed_run import DelayedRun, Read, files_of, simulated
from app.command_line.errors import CommandError
from app.command_line.judged import Judged
from app.command_line.judged_hours import after, first_judged_hour
from app.command_line.log_files import LogColumns, read_log
from app.command_line.progress import progress
from app.command_line.report import report
from app.command_line.service_settings import settings_with
from app.settings import Settings
from calibrators import CALIBRATORS, Calibrator, Sufficiency, make_calibrator
from evaluation import EventTable

_RawSamples = Annotated[
    bool,
    typer.Option(
        "--raw-samples", help="Fit on every single sample as printed in the paper, not on bins."
    ),
]
# The identity is the row `raw`.
_COMPARED = ",".join(name for name in CALIBRATORS if name != "identity")
_Calibrators = Annotated[
    str,
    typer.Option(
        "--calibrators",
        metavar="NAMES",
        help=f"Some of {', '.join(CALIBRATORS)}.",
        show_default="all but identity",
    ),
]

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
        help="Instead of logs, this many synthetic ones.",
        show_default=False,
        rich_help_panel=options.DELAYED,
    ),
]


def backtest(
    logs: options.Logs = None,
    calibrators: _Calibrators = _COMPARED,
    raw_samples: _RawSamples = False,
    delayed: _Delayed = False,
    seeds: _Seeds = None,
    judged: options.JudgedHours = None,
    picture: options.OptionalPicture = None,
    json: options.Json = False,
    window: options.Window = None,
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
    code the service runs: the row `sir` is what `sirocco replay` prints.

    With --delayed it compares ways to count young clicks whose conversions
    come late, judged by the final ones. [italic]none[/italic]: the scores as they are.
    [italic]stc[/italic]: conversions within the hour. [italic]ltc[/italic]: clicks a week old.
    [italic]pccem[/italic]: what the post-click model expects. [italic]pccem_posterior[/italic]:
    that, and what has been seen. [italic]oracle[/italic]: the future.

    [bold]Examples[/bold]

      sirocco backtest log.parquet --window 6h
      sirocco backtest log.parquet --calibrators sir,isotonic --bin-size 200
      sirocco backtest clicks.parquet --delayed
      sirocco backtest --delayed --seeds 5
    """
    settings = settings_with(
        {
            "window_hours": window,
            "bin_size": bin_size,
            "min_samples": min_samples,
            "min_positives": min_positives,
        }
    )
    if picture is not None:
        check_picture(picture)
    if delayed:
        _check_delayed(calibrators, raw_samples=raw_samples)
        columns = ClickColumns(time, campaign, score, converted)
        run = DelayedRun(settings, judged or options.WEEK_HOURS)
        run.run(_clicks(logs or [], seeds, columns), picture=picture, as_json=json)
        return
    log = _one_log(logs or [], {"--seeds": seeds, "--judged": judged})
    chosen = _chosen(calibrators, settings.bin_size)
    events = read_log(log, LogColumns(score, outcome, campaign, time, bid))
    found = _backtest(events, chosen, settings, raw_samples=raw_samples, quiet=json)
    report(found, log.name, after(settings.window_hours), picture=picture, as_json=json)


def _one_log(logs: Sequence[Path], of_delayed: Mapping[str, object]) -> Path:
    given = [option for option, value in of_delayed.items() if value is not None]
    if given:
        raise CommandError(f"{given[0]} goes with --delayed only")
    if len(logs) != 1:
        raise CommandError(f"{len(logs)} logs are given: give one (several go with --delayed)")
    return logs[0]


def _check_delayed(calibrators: str, *, raw_samples: bool) -> None:
    if raw_samples or calibrators != _COMPARED:
        option = "--raw-samples" if raw_samples else "--calibrators"
        raise CommandError(f"{option} does not go with --delayed: its rows differ in their labels")


def _clicks(logs: Sequence[Path], seeds: int | None, columns: ClickColumns) -> dict[str, Read]:
    if bool(logs) == (seeds is not None):
        raise CommandError("--delayed: give click logs, or --seeds, not both")
    return files_of(logs, columns) if seeds is None else simulated(seeds)


def _backtest(
    events: EventTable,
    calibrators: dict[str, Calibrator],
    settings: Settings,
    *,
    raw_samples: bool,
    quiet: bool,
) -> Judged:
    first = first_judged_hour(events, settings.window_hours)
    total = len(np.unique(events.hours[events.hours >= first]))
    with progress("fitting and judging", total, "hours", shown=not quiet) as advance:
        found = evaluation.backtest(
            events,
            calibrators,
            window_hours=settings.window_hours,
            sufficiency=Sufficiency(settings.min_samples, settings.min_positives),
            raw_samples=raw_samples,
            progress=lambda done, of: advance(""),
        )
    return Judged(events.select(found.rows), found.probabilities)


def _chosen(names: str, bin_size: int) -> dict[str, Calibrator]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in CALIBRATORS]
    if unknown or not wanted:
        raise CommandError(
            f"--calibrators {names!r}: give some of {', '.join(CALIBRATORS)}, comma-separated"
        )
    return {name: make_calibrator(name, bin_size) for name in wanted}
