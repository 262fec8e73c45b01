"""Options that several commands share, each described once.

Durations and moments as people type them.
Options that do not go together.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.errors import CommandError
from app.settings import Settings

EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
LATEST: Final = datetime(2100, 1, 1, tzinfo=UTC).timestamp()

_HOURS = {"h": 1, "d": 24}
_MINUTES = {"m": 1, "h": 60}
_MINUTES_OF_AN_HOUR = 60
_PATTERN = re.compile(r"([1-9][0-9]{0,3})([hd])")
_SHORT_PATTERN = re.compile(r"([1-9][0-9]?)([mh])")


def hours(text: str, option: str = "--window") -> int:
    """Whole hours of `6h` or `2d`; a `CommandError` names the option, the value and the rule.

    >>> hours("6h"), hours("2d")
    (6, 48)
    """
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise CommandError(f"{option} {text!r}: give whole hours or days, such as 6h, 24h or 2d")
    return int(match[1]) * _HOURS[match[2]]


def minutes_of_an_hour(text: str, option: str) -> int:
    """Whole minutes of `5m` or `1h`, which must divide an hour; a `CommandError` as above.

    >>> minutes_of_an_hour("5m", "--refit-every"), minutes_of_an_hour("1h", "--refit-every")
    (5, 60)
    """
    match = _SHORT_PATTERN.fullmatch(text.strip())
    minutes = int(match[1]) * _MINUTES[match[2]] if match else 0
    if not minutes or _MINUTES_OF_AN_HOUR % minutes:
        raise CommandError(
            f"{option} {text!r}: give whole minutes that divide an hour, such as 5m, 15m or 1h"
        )
    return minutes


def moment(text: str, option: str) -> float:
    """Seconds since 1970, in the years 2000 to 2099; a `CommandError` as above.

    >>> moment("2026-03-01T12:00:00Z", "--start") == moment("1772366400", "--start")
    True
    """
    try:
        seconds = epoch_seconds_of(text)
    except ValueError:
        raise CommandError(
            f"{option} {text!r}: give RFC 3339, such as 2026-03-01T12:00:00Z, or seconds since 1970"
        ) from None
    if not EARLIEST <= seconds < LATEST:
        raise CommandError(f"{option} {text!r}: {out_of_range(seconds)}")
    return seconds


def epoch_seconds_of(text: str) -> float:
    """Of a number, or of RFC 3339 text (without a zone: UTC); ValueError of anything else."""
    text = text.strip()
    try:
        return float(text)
    except ValueError:
        time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def out_of_range(seconds: float) -> str:
    """What is wrong with a moment outside of [EARLIEST, LATEST)."""
    rule = "the year must be from 2000 to 2099"
    if EARLIEST <= seconds / 1e3 < LATEST:
        return f"{rule} (these look like milliseconds: divide them by 1000)"
    return rule


_COLUMNS = "Columns of the log"
_FIT = "How maps are fitted"
_SERVICE = "Service"
DELAYED = "Delayed conversions"
WEEK_HOURS = 7 * 24

Log = Annotated[
    Path,
    typer.Argument(
        metavar="LOG",
        help="Scored impressions: .parquet, .csv or .tsv; .gz, .bz2 or .zst may follow.",
        show_default=False,
    ),
]
Logs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="LOG",
        help="Scored impressions: .parquet, .csv or .tsv; .gz, .bz2 or .zst may follow. With"
        " --delayed, click logs: .parquet, one or several.",
        show_default=False,
    ),
]
ScoreColumn = Annotated[
    str, typer.Option("--score", help="Raw probability, in [0, 1].", rich_help_panel=_COLUMNS)
]
OutcomeColumn = Annotated[
    str, typer.Option("--outcome", help="0 or 1, or between.", rich_help_panel=_COLUMNS)
]
CampaignColumn = Annotated[
    str, typer.Option("--campaign", help="Campaign of the impression.", rich_help_panel=_COLUMNS)
]
TimeColumn = Annotated[
    str,
    typer.Option(
        "--time", help="Timestamp, RFC 3339 or seconds since 1970.", rich_help_panel=_COLUMNS
    ),
]
ConvertedColumn = Annotated[
    str,
    typer.Option(
        "--converted",
        help="With --delayed: time of the conversion, empty where none came.",
        rich_help_panel=_COLUMNS,
    ),
]
BidColumn = Annotated[
    str, typer.Option("--bid", help="Bid, where the log has one.", rich_help_panel=_COLUMNS)
]


def _window(default: str) -> Any:
    return typer.Option(
        "--window",
        parser=hours,
        metavar="DURATION",
        help="Hours of events a refit learns from, such as 6h or 2d; pooled has hours of its"
        " own, SIROCCO_HISTORY_HOURS.",
        rich_help_panel=_FIT,
        show_default=default,
    )


Window = Annotated[int | None, _window("24h")]
DemoWindow = Annotated[int | None, _window("6h")]
BinSize = Annotated[
    int | None,
    typer.Option(
        "--bin-size",
        min=1,
        help="Samples per bin of sir; fewer for little traffic.",
        rich_help_panel=_FIT,
        show_default="1000",
    ),
]
Calibrator = Annotated[
    str | None,
    typer.Option(
        "--calibrator",
        metavar="NAME",
        help="pooled, sir, or another monotone calibrator.",
        rich_help_panel=_FIT,
        show_default=Settings.model_fields["calibrator"].default,
    ),
]
RefitEvery = Annotated[
    int | None,
    typer.Option(
        "--refit-every",
        parser=lambda text: minutes_of_an_hour(text, "--refit-every"),
        metavar="DURATION",
        help="Time from refit to refit, such as 5m; it must divide an hour.",
        rich_help_panel=_FIT,
        show_default="1h",
    ),
]
CampaignGroup = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="REGEX",
        help="Names the group of a campaign, such as '^([^/]+)/'; pooled lets campaigns of one"
        " group learn from each other.",
        rich_help_panel=_FIT,
        show_default=False,
    ),
]
MinSamples = Annotated[
    float | None,
    typer.Option(
        "--min-samples",
        min=0,
        help="Samples in the window below which the target's map serves a campaign.",
        rich_help_panel=_FIT,
        show_default="100",
    ),
]
MinPositives = Annotated[
    float | None,
    typer.Option(
        "--min-positives",
        min=0,
        help="Positives in the window below which the target's map serves a campaign.",
        rich_help_panel=_FIT,
        show_default="10",
    ),
]

JudgedHours = Annotated[
    int | None,
    typer.Option(
        "--judged",
        parser=lambda text: hours(text, "--judged"),
        metavar="DURATION",
        help="With --delayed: how much of a log's end is judged, such as 2d. With --compare: how"
        " many hours of each regime.",
        show_default="7d; with --compare the regime's own",
        rich_help_panel=DELAYED,
    ),
]

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="What the outcome is.",
        show_default="click; with --delayed the first delayed target",
    ),
]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis-url",
        metavar="URL",
        help="redis:// or unix:// address; without one an embedded Redis is started.",
        rich_help_panel=_SERVICE,
        show_default=False,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Where the embedded Redis keeps its data.",
        rich_help_panel=_SERVICE,
        show_default="sirocco-data",
    ),
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host",
        help="Address the API listens on.",
        rich_help_panel=_SERVICE,
        show_default="127.0.0.1",
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        help="Port of the API.",
        rich_help_panel=_SERVICE,
        show_default="8080",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        max=256,
        help="API processes that share the port; more than cores is waste.",
        rich_help_panel=_SERVICE,
        show_default="1",
    ),
]
AllowPublic = Annotated[
    bool | None,
    typer.Option(
        "--allow-public",
        help="Allow an address that other machines reach. There are no API keys yet.",
        rich_help_panel=_SERVICE,
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of a running service.", show_default=False),
]
RunningUrl = Annotated[str, typer.Option("--url", help="Address of a running service.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables and notes.")]
Picture = Annotated[
    Path, typer.Option("--picture", metavar="PATH", help="Where the reliability picture is saved.")
]
OptionalPicture = Annotated[
    Path | None,
    typer.Option(
        "--picture", metavar="PATH", help="Save a reliability picture there.", show_default=False
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="PATH",
        help="Write one HTML page with charts there: it needs no other file and no network.",
        show_default=False,
    ),
]
NoPicture = Annotated[bool, typer.Option("--no-picture", help="Save no picture.")]


def refuse(given: Mapping[str, object], why: str) -> None:
    """A `CommandError` about the first option that has a value; None is none."""
    for option, value in given.items():
        if value is not None:
            raise CommandError(f"{option} {why}")
