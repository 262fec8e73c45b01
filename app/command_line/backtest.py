"""`sirocco backtest`."""

from typing import Annotated

import numpy as np
import typer

import evaluation
from app.command_line import options
from app.command_line.errors import CommandError
from app.command_line.judged import Judged
from app.command_line.judged_hours import after, first_judged_hour
from app.command_line.log_files import LogColumns, read_log
from app.command_line.progress import progress
from app.command_line.reliability_picture import check_picture
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


def backtest(
    log: options.Log,
    calibrators: _Calibrators = _COMPARED,
    raw_samples: _RawSamples = False,
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
) -> None:
    """Compare calibrators on a log, without a service.

    Each hour is judged by maps fitted on the window before it, with the very
    code the service runs: the row `sir` is what `sirocco replay` prints.

    [bold]Examples[/bold]

      sirocco backtest log.parquet --window 6h
      sirocco backtest log.parquet --calibrators sir,isotonic --bin-size 200
    """
    settings = settings_with(
        {
            "window_hours": window,
            "bin_size": bin_size,
            "min_samples": min_samples,
            "min_positives": min_positives,
        }
    )
    chosen = _chosen(calibrators, settings.bin_size)
    if picture is not None:
        check_picture(picture)
    events = read_log(log, LogColumns(score, outcome, campaign, time, bid))
    judged = _backtest(events, chosen, settings, raw_samples=raw_samples, quiet=json)
    report(judged, log.name, after(settings.window_hours), picture=picture, as_json=json)


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
