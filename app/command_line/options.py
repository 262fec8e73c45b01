"""Options that several commands share, each described once."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.command_line.durations import hours, minutes_of_an_hour
from app.settings import Settings

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
