"""Options that several commands share, each described once, and groups of them as dataclasses."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from app.datasets.options import EARLIEST, LATEST, Reading, epoch_seconds_of, out_of_range
from app.errors import CommandError

WEEK_HOURS = 7 * 24
DELAYED = "Delayed conversions"
_HOURS = {"h": 1, "d": 24}
_MINUTES = {"m": 1, "h": 60}
_MINUTES_OF_AN_HOUR = 60
_PATTERN = re.compile(r"([1-9][0-9]{0,3})([hd])")
_SHORT_PATTERN = re.compile(r"([1-9][0-9]?)([mh])")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command for typer: a parameter whose type is a dataclass stands for the options that are
    its fields, and gets an instance of them."""
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature(command).parameters.items()
        if is_dataclass(parameter.annotation)
    }

    @wraps(command)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        command(**given)

    parameters = [
        option.replace(kind=Parameter.KEYWORD_ONLY)
        for parameter in signature(command).parameters.values()
        for option in _options_of(parameter)
    ]
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {option.name: option.annotation for option in parameters}
    return called


def _options_of(parameter: Parameter) -> list[Parameter]:
    if not is_dataclass(parameter.annotation):
        return [parameter]
    types = get_type_hints(parameter.annotation, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=_annotated(each, types[each.name]),
        )
        for each in fields(parameter.annotation)
    ]


def _annotated(each: Field[Any], kind: Any) -> Any:
    if not each.metadata:
        return kind
    names = each.metadata["names"] or (f"--{each.name.replace('_', '-')}",)
    how: dict[str, Any] = {"callback": _finite} if float in (kind, *get_args(kind)) else {}
    return Annotated[kind, typer.Option(*names, **(how | each.metadata["how"]))]


def _finite(value: float | None) -> float | None:
    # No bound holds back what is no number, and JSON has none: it would be as if not given.
    if value is not None and not isfinite(value):
        raise typer.BadParameter(f"{value} is no finite number.")
    return value


def option(default: Any, about: str, *names: str, **how: Any) -> Any:
    """A field of a group of options: its default (... for none) and its help; its name where that
    is not the field's; and what else `typer.Option` takes."""
    given = MISSING if default is ... else default
    return field(default=given, metadata={"names": names, "how": {"help": about, **how}})


def named(panel: str | None, name: str, about: str, shown: str | bool = False, **how: Any) -> Any:
    """An option of a panel of the help, or of none; `shown` stands for its default there."""
    return typer.Option(name, help=about, show_default=shown, rich_help_panel=panel, **how)


flag = partial(named, None)


def refuse(given: Mapping[str, object], why: str) -> None:
    """A `CommandError` about the first option that has a value; None is none."""
    for option, value in given.items():
        if value is not None:
            raise CommandError(f"{option} {why}")


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


def names(text: str | None) -> tuple[str, ...]:
    """The fields between commas; nothing of an option that is not given.

    >>> names("device, placement")
    ('device', 'placement')
    """
    found = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if text is not None and not found:
        raise CommandError(f"--fields {text!r}: give names, comma-separated")
    return found


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
        rule = out_of_range(seconds, hint="give seconds")
        raise CommandError(f"{option} {text!r}: {rule}")
    return seconds


def log_argument(what: str, metavar: str = "LOG") -> Any:
    """The argument that names a log, or several."""
    return typer.Argument(metavar=metavar, help=f"{what}: {LOG_FORMS}", show_default=False)


LOG_FORMS = (
    ".parquet, .csv, .tsv or .jsonl (texts also as .gz, .bz2 or .zst); or a folder of such"
    " parts, a quoted pattern such as 'log/*/*.parquet', or a URL of an object store (s3://, gs://)."
)
Log = Annotated[str, log_argument("Scored impressions")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables and notes.")]
_picture = partial(typer.Option, "--picture", metavar="PATH")
Picture = Annotated[Path, _picture(help="Where the reliability picture is saved.")]
NoPicture = Annotated[bool, typer.Option("--no-picture", help="Save no picture.")]
OptionalPicture = Annotated[
    Path | None, _picture(help="Save a reliability picture there.", show_default=False)
]
_PAGE = "Write one HTML page with charts there: it needs no other file and no network."
Report = Annotated[Path | None, flag("--report", _PAGE, metavar="PATH")]
PlatformSeed = Annotated[
    int, typer.Option("--seed", min=0, help="Another seed is another platform.")
]
Campaigns = Annotated[
    int, typer.Option("--campaigns", min=1, max=1_000_000, help="How many campaigns.")
]
_VALUES = (
    "Fields of the impressions, such as device,placement: each of their values has clicks more"
    " often, or less often, than the scores say."
)
SyntheticFields = Annotated[str | None, flag("--fields", _VALUES, metavar="NAMES")]

column = partial(option, rich_help_panel="Columns of the log")


@dataclass(frozen=True, slots=True)
class LogColumnOptions:
    """The columns of a log of impressions."""

    score: str = column("score", "Raw probability, in [0, 1].")
    outcome: str = column("outcome", "0 or 1, or between.")
    campaign: str = column("campaign", "Campaign of the impression.")
    time: str = column("time", "Timestamp, RFC 3339 or seconds since 1970.")
    bid: str = column("bid", "Bid, where the log has one.")


_read = partial(option, rich_help_panel="How the log is read", show_default=False)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How the values of a log are read, and what its rows stand for."""

    delimiter: str | None = _read(
        None, "What separates the columns of a text, such as ';' or tab.", metavar="CHARACTER"
    )
    time_unit: str = _read(
        "s", "Of times that are numbers.", metavar="s|ms|us|ns", show_default=True
    )
    time_zone: str | None = _read(
        None, "Of times without a zone, such as Europe/Vienna.", metavar="NAME", show_default="UTC"
    )
    percent: bool = _read(False, "Scores are from 0 to 100.")
    skip_bad: bool = _read(False, "Skip rows that break a rule, and say how many and why.")
    weights: str | None = _read(
        None, "As how many rows each counts, such as 10 where 1 of 10 was kept.", metavar="COLUMN"
    )
    impressions: str | None = _read(
        None, "With --clicks: a row stands for so many impressions of one score.", metavar="COLUMN"
    )
    clicks: str | None = _read(
        None, "With --impressions: how many of them were clicked.", metavar="COLUMN"
    )

    def reading(self, unweighted: str | None = None) -> Reading:
        """How values are read; a `CommandError` for what does not go together, and for weights
        where `unweighted` says why rows cannot have any."""
        if (self.impressions is None) != (self.clicks is None):
            raise CommandError("--impressions and --clicks go together: a column each")
        if self.impressions is not None:
            refuse({"--weights": self.weights}, "does not go with --impressions, which are weights")
        if unweighted is not None:
            given = {"--weights": self.weights, "--impressions": self.impressions}
            refuse(given, unweighted)
        return Reading(self.delimiter, self.time_unit, self.time_zone, self.percent, self.skip_bad)


@dataclass(frozen=True, slots=True)
class AnyLogColumnOptions(LogColumnOptions):
    """The columns of a log of impressions, or with --delayed of a click log."""

    converted: str = column(
        "converted_at", "With --delayed: time of the conversion, empty where none came."
    )
    model_version: str | None = column(
        None,
        "Version of the model that made the score, empty for none: each has maps of its own.",
        "--model-version",
        metavar="COLUMN",
        show_default=False,
    )

    def refuse_others(self, *, delayed: bool) -> None:
        """A `CommandError` about a column of the other kind of log, which would be ignored."""
        usual = AnyLogColumnOptions()
        others = ("outcome", "bid", "model_version") if delayed else ("converted",)
        for name in others:
            if getattr(self, name) != getattr(usual, name):
                why = "does not go with --delayed" if delayed else "goes with --delayed only"
                raise CommandError(f"--{name.replace('_', '-')} {why}")


_fit = partial(named, "How maps are fitted")
_window = partial(
    _fit,
    "--window",
    "Hours of events a refit learns from, such as 6h or 2d; pooled has hours of its own,"
    " SIROCCO_HISTORY_HOURS.",
    parser=hours,
    metavar="DURATION",
)
Window = Annotated[int | None, _window("24h")]
DemoWindow = Annotated[int | None, _window("6h")]
BinSize = Annotated[
    int | None,
    _fit("--bin-size", "Samples per bin of sir; fewer for little traffic.", "1000", min=1),
]
_KNOWN = "pooled, sir, or another monotone calibrator."
Calibrator = Annotated[str | None, _fit("--calibrator", _KNOWN, "pooled", metavar="NAME")]
RefitEvery = Annotated[
    int | None,
    _fit(
        "--refit-every",
        "Time from refit to refit, such as 5m; it must divide an hour.",
        "1h",
        parser=lambda text: minutes_of_an_hour(text, "--refit-every"),
        metavar="DURATION",
    ),
]
CampaignGroup = Annotated[
    str | None,
    _fit(
        "--group",
        "Names the group of a campaign, such as '^([^/]+)/'; pooled lets campaigns of one group"
        " learn from each other.",
        metavar="REGEX",
    ),
]
_LEAST = "{} in the window below which the target's map serves a campaign."
MinSamples = Annotated[float | None, _fit("--min-samples", _LEAST.format("Samples"), "100", min=0)]
MinPositives = Annotated[
    float | None, _fit("--min-positives", _LEAST.format("Positives"), "10", min=0)
]


@dataclass(frozen=True, slots=True)
class FitOptions:
    """How maps are fitted, named after the settings; None where nothing is given."""

    window_hours: Window = None
    bin_size: BinSize = None
    calibrator: Calibrator = None
    min_samples: MinSamples = None
    min_positives: MinPositives = None


@dataclass(frozen=True, slots=True)
class RefitOptions:
    """How a worker refits, named after the settings; None where nothing is given."""

    window_hours: Window = None
    bin_size: BinSize = None
    calibrator: Calibrator = None
    refit_minutes: RefitEvery = None
    campaign_group: CampaignGroup = None
    min_samples: MinSamples = None
    min_positives: MinPositives = None


_judged = partial(
    named, DELAYED, "--judged", parser=lambda text: hours(text, "--judged"), metavar="DURATION"
)
_AT_END = "With --delayed: how much of a log's end is evaluated, such as 2d."
_OR_REGIME = f"{_AT_END} With --compare: how many hours of each regime."
LastHours = Annotated[int | None, _judged(_AT_END, "7d")]
ScoredHours = Annotated[int | None, _judged(_OR_REGIME, "7d; with --compare the regime's own")]
_FIRST = "click; with --delayed the first delayed target"
Target = Annotated[str | None, flag("--target", "What the outcome is.", _FIRST)]

_service = partial(named, "Service")
_ADDRESS = "Address the API listens on; one that other machines reach needs API keys."
Host = Annotated[str | None, _service("--host", _ADDRESS, "127.0.0.1")]
Port = Annotated[int | None, _service("--port", "Port of the API.", "8080", min=0, max=65535)]
_WHICH_REDIS = (
    "redis://, unix://, redis+sentinel:// or redis+cluster:// address; without one an embedded"
    " Redis is started."
)
RedisUrl = Annotated[str | None, _service("--redis-url", _WHICH_REDIS, metavar="URL")]
DataDir = Annotated[
    Path | None, _service("--data-dir", "Where the embedded Redis keeps its data.", "sirocco-data")
]
_CORES = "API processes that share the port; more than cores is waste."
Workers = Annotated[int | None, _service("--workers", _CORES, "1", min=1, max=256)]


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Which Redis a process works with, named after the settings."""

    redis_url: RedisUrl = None
    data_dir: DataDir = None


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where the API listens and which Redis it works with, named after the settings."""

    host: Host = None
    port: Port = None
    redis_url: RedisUrl = None
    data_dir: DataDir = None
    workers: Workers = None


_OTHERWISE = {"window_hours": "window", "refit_minutes": "refit-every", "campaign_group": "group"}
OF_SETTINGS = {
    one.name: f"--{_OTHERWISE.get(one.name, one.name.replace('_', '-'))}"
    for group in (RefitOptions, ServeOptions)
    for one in fields(group)
}
"""The option that gives a setting, by the setting's name."""


Url = Annotated[
    str | None, typer.Option("--url", help="Address of a running service.", show_default=False)
]
# With the settings of the service that `sirocco up` starts here, its own address.
LOCAL_URL = f"http://127.0.0.1:{os.environ.get('SIROCCO_PORT') or 8080}"
RunningUrl = Annotated[str, typer.Option("--url", help="Address of a running service.")]
_KEY = (
    "Key to call it with. Others on this machine see what a command is given: better set"
    " SIROCCO_API_KEY, or SIROCCO_API_KEY_FILE."
)
ApiKeyOption = Annotated[str | None, flag("--api-key", _KEY, metavar="KEY")]
