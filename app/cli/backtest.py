"""`sirocco backtest`: its options."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from app.cli import options

_compared = partial(
    typer.Option, rich_help_panel="The comparison of all methods", show_default=False
)
_delayed = partial(typer.Option, rich_help_panel=options.DELAYED)

_Logs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="LOG",
        help="Scored impressions: .parquet, .csv or .tsv; .gz, .bz2 or .zst may follow. With"
        " --delayed, click logs: .parquet, one or several.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class BacktestOptions:
    """What is backtested and how: one log, click logs with --delayed, all methods with --compare.

    None, or False, where nothing is given.
    """

    calibrators: Annotated[
        str | None,
        typer.Option(
            "--calibrators",
            metavar="NAMES",
            help="Some of pooled, identity, sir, isotonic, platt, temperature, beta, histogram,"
            " bbq.",
            show_default="all but identity",
        ),
    ] = None
    raw_samples: Annotated[
        bool,
        typer.Option(
            "--raw-samples", help="Fit on every single sample as printed in the paper, not on bins."
        ),
    ] = False
    delayed: Annotated[
        bool,
        _delayed(
            "--delayed",
            help="The logs are click logs whose conversions come late, as `sirocco simulate`"
            " writes.",
        ),
    ] = False
    seeds: Annotated[
        int | None,
        _delayed(
            "--seeds",
            min=1,
            help="Without a log: this many synthetic ones with --delayed, seeds of each regime with"
            " --compare.",
            show_default="1 with --compare",
        ),
    ] = None
    scored_hours: options.ScoredHours = None
    compare: Annotated[
        bool,
        _compared(
            "--compare",
            help="Every method in every regime of synthetic traffic, or on a log; see"
            " docs/proof.md.",
        ),
    ] = False
    regimes: Annotated[
        str | None,
        _compared(
            "--regimes",
            metavar="NAMES",
            help="Some of mixed, sparse, dense, jumps, steps, many, calibrated.",
            show_default="all",
        ),
    ] = None
    methods: Annotated[
        str | None,
        _compared(
            "--contenders",
            metavar="NAMES",
            help="Some of the methods, by their names in the tables.",
            show_default="all",
        ),
    ] = None
    drift: Annotated[
        bool,
        _compared(
            "--drift",
            help="Refits every 60, 15 and 5 minutes around a jump; the regimes only where named.",
        ),
    ] = False
    processes: Annotated[
        int | None,
        _compared(
            "--processes",
            min=1,
            max=256,
            help="Plays at a time; each takes a core and up to 2 GB.",
            show_default="1",
        ),
    ] = None
    saved: Annotated[
        list[Path] | None,
        _compared(
            "--from",
            metavar="PATH",
            help="Play nothing: show what --json has written; may be given again.",
        ),
    ] = None
    write: Annotated[
        Path | None,
        _compared(
            "--write",
            metavar="PAGE",
            help="Write the tables into a Markdown page, between its two marks.",
        ),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME",
            help="What the others are compared with, besides the raw scores.",
            show_default="the service's calibrator, or the best",
        ),
    ] = None
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws",
            min=0,
            help="Resamples of campaign-days behind each interval; 0 for no intervals.",
            show_default="1000; 300 for GC-3 and AUC",
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of the resamples.", show_default="0")
    ] = None
    report: options.Report = None
    picture: options.OptionalPicture = None
    json: options.Json = False


@options.grouped
def backtest(
    logs: _Logs = None,
    *,
    given: BacktestOptions,
    fit: options.FitOptions,
    columns: options.AnyLogColumnOptions,
) -> None:
    """Compare calibrators on a log, without a service.

    Each hour is evaluated by maps fitted on the window before it, with the very
    code the service runs: the row `sir` is what `sirocco replay` prints for it.
    pooled learns from all campaigns at once, over a window of its own.
    Differences from the raw scores, and from the service's calibrator (pooled),
    come with intervals over resampled campaign-days: which are beyond chance?

    With --delayed it compares ways to count young clicks whose conversions
    come late, evaluated by the final ones. [italic]none[/italic]: the scores as they are.
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
    from app.cli.measure.backtest import run_backtest

    run_backtest(logs or [], given, fit, columns)
