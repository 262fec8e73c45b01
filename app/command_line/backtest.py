"""`sirocco backtest`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from app.command_line import options
from app.command_line.backtest_log import LogBacktest
from app.command_line.canvas import check_picture
from app.command_line.click_files import ClickColumns
from app.command_line.delayed_run import DelayedRun, Read, files_of, simulated
from app.command_line.errors import CommandError
from app.command_line.judged_hours import RAW
from app.command_line.log_files import LogColumns
from app.command_line.report import report_backtest
from app.command_line.service_settings import settings_with
from app.reports.page import check_report
from calibrators import CALIBRATORS, Calibrator, make_calibrator

_RawSamples = Annotated[
    bool,
    typer.Option(
        "--raw-samples", help="Fit on every single sample as printed in the paper, not on bins."
    ),
]
_DRAWS = 1000
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
    against: _Against = None,
    draws: _Draws = None,
    seed: _Seed = None,
    report: options.Report = None,
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
    Differences from the raw scores, and from sir, come with intervals over
    campaign-days drawn again and again: which of them are beyond chance?

    With --delayed it compares ways to count young clicks whose conversions
    come late, judged by the final ones. [italic]none[/italic]: the scores as they are.
    [italic]stc[/italic]: conversions within the hour. [italic]ltc[/italic]: clicks a week old.
    [italic]pccem[/italic]: what the post-click model expects. [italic]pccem_posterior[/italic]:
    that, and what has been seen. [italic]oracle[/italic]: the future.

    [bold]Examples[/bold]

      sirocco backtest log.parquet --window 6h
      sirocco backtest log.parquet --calibrators sir,isotonic --bin-size 200
      sirocco backtest log.parquet --against beta --report backtest.html
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
    if report is not None:
        check_report(report)
    if delayed:
        plain = {"--against": against, "--draws": draws, "--seed": seed, "--report": report}
        _check_delayed(calibrators, plain, raw_samples=raw_samples)
        columns = ClickColumns(time, campaign, score, converted)
        run = DelayedRun(settings, judged or options.WEEK_HOURS)
        run.run(_clicks(logs or [], seeds, columns), picture=picture, as_json=json)
        return
    log = _one_log(logs or [], {"--seeds": seeds, "--judged": judged})
    chosen = _chosen(calibrators, settings.bin_size)
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


def _reference(against: str | None, chosen: Mapping[str, Calibrator]) -> str | None:
    if against is None or against in (RAW, *chosen):
        return against
    raise CommandError(f"--against {against!r}: give one of {', '.join((RAW, *chosen))}")


def _one_log(logs: Sequence[Path], of_delayed: Mapping[str, object]) -> Path:
    given = [option for option, value in of_delayed.items() if value is not None]
    if given:
        raise CommandError(f"{given[0]} goes with --delayed only")
    if len(logs) != 1:
        raise CommandError(f"{len(logs)} logs are given: give one (several go with --delayed)")
    return logs[0]


def _check_delayed(calibrators: str, plain: Mapping[str, object], *, raw_samples: bool) -> None:
    if raw_samples or calibrators != _COMPARED:
        option = "--raw-samples" if raw_samples else "--calibrators"
        raise CommandError(f"{option} does not go with --delayed: its rows differ in their labels")
    given = [option for option, value in plain.items() if value is not None]
    if given:
        raise CommandError(f"{given[0]} does not go with --delayed")


def _clicks(logs: Sequence[Path], seeds: int | None, columns: ClickColumns) -> dict[str, Read]:
    if bool(logs) == (seeds is not None):
        raise CommandError("--delayed: give click logs, or --seeds, not both")
    return files_of(logs, columns) if seeds is None else simulated(seeds)


def _chosen(names: str, bin_size: int) -> dict[str, Calibrator]:
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in CALIBRATORS]
    if unknown or not wanted:
        raise CommandError(
            f"--calibrators {names!r}: give some of {', '.join(CALIBRATORS)}, comma-separated"
        )
    return {name: make_calibrator(name, bin_size) for name in wanted}
