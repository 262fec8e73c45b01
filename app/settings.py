"""Every setting of the service, read once from the environment and passed on from there."""

import logging
import os
import re
from collections.abc import Mapping
from functools import cached_property
from ipaddress import ip_address
from math import ceil, inf
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from calibrators.maps.groups import LONGEST_EXPRESSION, CampaignGroups, FieldGroups, StoredGroups
from calibrators.registry import METHODS

_MINUTES_OF_AN_HOUR = 60


def _names(value: object) -> object:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


def _some_target(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError("at least one immediate target is needed")
    return value


def _each_once(value: tuple[Any, ...]) -> tuple[Any, ...]:
    twice = sorted({str(one) for one in value if value.count(one) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)}: declared twice")
    return value


def _by_target(value: object) -> object:
    if not isinstance(value, str):
        return value
    parts = [part.partition("=") for part in value.split(",") if part.strip()]
    names = _each_once(tuple(name.strip() for name, _, _ in parts))
    return dict(zip(names, (text.strip() for _, _, text in parts), strict=True))


def _factors(value: object) -> object:
    return tuple(one.strip() for one in value.split("*")) if isinstance(value, str) else value


def _known_method(value: str) -> str:
    if value not in METHODS:
        raise ValueError(f"must be a monotone calibrator: {', '.join(sorted(METHODS))}")
    return value


def _url_of(*schemes: str, or_path: bool = False) -> AfterValidator:
    def check(value: str) -> str:
        if not value.startswith(schemes) and not (or_path and ":/" not in value):
            begins = f"must begin with {' or '.join(schemes)}"
            raise ValueError(begins + ", or be a path" * or_path)
        return value

    return AfterValidator(check)


def _divisor(value: int) -> int:
    if _MINUTES_OF_AN_HOUR % value:
        raise ValueError("must be a divisor of 60")
    return value


_unset_if_empty = BeforeValidator(lambda value: value or None)
TargetName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Names = Annotated[tuple[TargetName, ...], NoDecode, BeforeValidator(_names)]
HostNames = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[a-z0-9.:\[\]-]{1,253}$")], ...],
    NoDecode,
    BeforeValidator(_names),
]
SomeNames = Annotated[Names, AfterValidator(_some_target)]
AttributionHours = Annotated[int, Field(ge=1, le=2160)]
HoursByTarget = Annotated[dict[str, AttributionHours], NoDecode, BeforeValidator(_by_target)]
MethodName = Annotated[str, AfterValidator(_known_method)]
Factors = Annotated[tuple[TargetName, ...], Field(min_length=2), BeforeValidator(_factors)]
Products = Annotated[
    dict[TargetName, Factors], Field(max_length=10), NoDecode, BeforeValidator(_by_target)
]
MOST_FIELDS = 20
FieldName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
MaybeField = Annotated[FieldName | None, _unset_if_empty]
FieldNames = Annotated[
    tuple[FieldName, ...],
    Field(max_length=MOST_FIELDS),
    NoDecode,
    BeforeValidator(_names),
    AfterValidator(_each_once),
]
FieldPairs = Annotated[
    tuple[Annotated[tuple[FieldName, FieldName], BeforeValidator(_factors)], ...],
    Field(max_length=MOST_FIELDS),
    NoDecode,
    BeforeValidator(_names),
    AfterValidator(_each_once),
]
MethodsByTarget = Annotated[dict[str, MethodName], NoDecode, BeforeValidator(_by_target)]
GroupExpression = Annotated[
    str,
    Field(max_length=LONGEST_EXPRESSION),
    AfterValidator(lambda value: CampaignGroups(value).expression),
]
MaybeSecret = Annotated[SecretStr | None, _unset_if_empty]
DataDir = Annotated[Path, BeforeValidator(lambda value: value or "sirocco-data")]
MaybePath = Annotated[Path | None, _unset_if_empty]
MaybeUrl = Annotated[Annotated[str, _url_of("http://", "https://")] | None, _unset_if_empty]
_STORES = tuple(
    f"{tls}{kind}://" for tls in ("redis", "rediss") for kind in ("", "+sentinel", "+cluster")
)
FolderUrl = Annotated[str, _url_of("file:///", "s3://", "gs://", or_path=True)]
RedisUrl = Annotated[Annotated[str, _url_of(*_STORES, "unix://")] | None, _unset_if_empty]
Count = Annotated[int, Field(le=10**9)]
MinutesOfAnHour = Annotated[int, AfterValidator(_divisor)]


def groups_of(settings: "Settings") -> StoredGroups | None:
    """What names the group of a campaign: its name, or a field; None where there are no groups."""
    if settings.group_field is not None:
        return FieldGroups(settings.group_field)
    return None if settings.campaign_group is None else CampaignGroups(settings.campaign_group)


PREFIX = "SIROCCO_"
_LOCAL_NAMES = {"localhost", "localhost.localdomain", "ip6-localhost"}
SECONDS_PER_HOUR = 3600
SECONDS_PER_DAY = 24 * SECONDS_PER_HOUR
# Folding and refitting the last hour still need its events after window and grace have passed.
_SPARE_HOURS = 2
_ATTRIBUTION_HOURS = 168
# The day that is being closed, and the one whose training may be late.
_SPARE_DAYS = 2
SECRETS = ("redis_url", "bootstrap_admin_key", "signing_key")
"""Settings that may stand in a file that `SIROCCO_<NAME>_FILE` names, and that no error shows."""
_OF_FILE = "_FILE"
# What commands that call a running service read; not of the service itself.
_OF_COMMANDS = {"api_key", "api_key_file"}

_OF_GROUP_AND_OTHERS, _OF_OTHERS = 0o077, 0o007
_log = logging.getLogger(__name__)


class BadConfiguration(ValueError):
    """The environment breaks rules of the settings; the text names every one, a line each."""


class Settings(BaseSettings):
    """Read from `SIROCCO_*` variables; immutable. Use `load_settings` for readable errors."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    # Not shown: it may hold a password.
    redis_url: RedisUrl = Field(
        None,
        repr=False,
        description="redis://, unix://, redis+sentinel:// or redis+cluster:// address; unset starts"
        " a private embedded server.",
    )
    redis_timeout_seconds: float = Field(
        1.0, gt=0, le=60, description="Longest wait for one answer of Redis."
    )
    redis_wait: int = Field(
        0,
        ge=0,
        le=100,
        description="Replicas that must have an event before it is acknowledged; 0 waits for none.",
    )
    redis_wait_seconds: float = Field(
        0.5, ge=0.001, le=60, description="Longest wait for these replicas."
    )
    allow_volatile_store: bool = Field(
        False, description="Do not call a service degraded whose Redis keeps no append-only file."
    )
    data_dir: DataDir = Field(
        Path("sirocco-data"),
        description="Where the embedded server, the click log, the signing key and the last good"
        " maps are kept.",
    )
    snapshot_dir: MaybePath = Field(
        None,
        description="Where this host keeps the last good maps, to start from when Redis is away or"
        " damaged; unset keeps them in `last-good` under the data directory, `off` nowhere.",
    )
    host: str = Field("127.0.0.1", description="Address the API listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port of the API; 0 takes a free one.")
    workers: int = Field(
        1, ge=1, le=256, description="API processes that share the port; more than cores is waste."
    )
    keep_alive_seconds: float = Field(
        65.0, gt=0, le=3600, description="How long a connection may idle before it is closed."
    )
    receive_seconds: float = Field(
        20.0, gt=0, le=600, description="Longest time that a request may take to arrive whole."
    )
    max_connections: Count = Field(
        16_000, ge=1, description="Most open connections of one API process."
    )
    shed_requests: Count = Field(
        128,
        ge=1,
        description="Requests that may be worked on at one time in one API process; more events and"
        " reads are refused with 503, large calibrations from four times as many on.",
    )
    shed_lag_seconds: float = Field(
        0.025,
        gt=0,
        le=60,
        description="How long requests may have waited for one API process, at its own work: after"
        " more, events and reads are refused with 503, calibrations after four times as long.",
    )
    drain_seconds: float = Field(
        0.0,
        ge=0,
        le=600,
        description="How long a process told to end still takes requests while `/readyz` says 503:"
        " as long as the load balancer needs to look.",
    )
    admin_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port of the admin routes, which are then absent from the API's own port; 0"
        " leaves them there.",
    )
    allowed_hosts: HostNames = Field(
        (),
        description="Names, comma-separated, by which a reverse proxy on this machine asks while"
        " there are no API keys; others are refused then.",
    )
    bootstrap_admin_key: MaybeSecret = Field(
        None,
        min_length=32,
        description="Key with the scopes `admin` and `read` that is stored nowhere, at least 32"
        " characters: it makes the first API key.",
    )
    audit_log: MaybePath = Field(
        None, description="File that gets a line of JSON for every change by an admin."
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="How a line of the log is written: for people, or for machines."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least of what is logged."
    )
    otlp_endpoint: MaybeUrl = Field(
        None,
        description="OpenTelemetry collector, such as `http://127.0.0.1:4318`; unset for none.",
    )
    trace_ratio: float = Field(
        0.01, ge=0, le=1, description="Share of requests without a `traceparent` that are traced."
    )
    targets: SomeNames = Field(
        ("click",), description="Immediate targets, comma-separated; their outcomes come at once."
    )
    delayed_targets: Names = Field(
        ("conversion",),
        description="Delayed targets, comma-separated; their conversions come days after a click.",
    )
    products: Products = Field(
        {},
        description="Products of targets, comma-separated, such as `pay=click*conversion`: requests"
        " with the score of each factor get the product of the calibrated probabilities.",
    )
    fields: FieldNames = Field(
        (),
        description="Fields of events and of requests, comma-separated, such as `device,placement`,"
        " at most 20: probabilities are calibrated for each value of each of them, too.",
    )
    field_pairs: FieldPairs = Field(
        (), description="Pairs of fields that act together, such as `device*placement`, at most 20."
    )
    group_field: MaybeField = Field(
        None,
        description="One of the fields, such as `advertiser`: a campaign without a map of its own"
        " starts from the map of its value's campaigns. In place of SIROCCO_CAMPAIGN_GROUP.",
    )
    clock: Literal["wall", "event"] = Field(
        "wall", description="What `now` means: this machine's clock, or the version in force."
    )
    window_hours: int = Field(24, ge=1, le=720, description="Hours of events a refit learns from.")
    grace_hours: int = Field(2, ge=0, le=720, description="Hours events are kept past the window.")
    idempotency_hours: int = Field(
        1, ge=1, le=720, description="Hours that an `Idempotency-Key` is remembered."
    )
    refit_delay_seconds: float = Field(
        120.0, ge=0, le=3600, description="Wait after an hour's end before its refit."
    )
    fold_seconds: float = Field(10.0, gt=0, le=600, description="Pause between folds of the logs.")
    refit_minutes: MinutesOfAnHour = Field(
        60, ge=1, le=60, description="Minutes from refit to refit, a divisor of 60."
    )
    calibrator: MethodName = Field(
        "pooled", description="What fits the maps: `pooled`, or the name of a monotone calibrator."
    )
    target_calibrators: MethodsByTarget = Field(
        {}, description="Calibrators of single targets, such as `click=sir,conversion=pooled`."
    )
    history_hours: int = Field(
        48, ge=1, le=720, description="Hours of events the calibrator `pooled` learns from."
    )
    campaign_group: GroupExpression | None = Field(
        None,
        description="Regular expression on campaign ids whose first group names what a campaign"
        " belongs to, such as `^([^/]+)/`; `pooled` lets campaigns of one group learn from each"
        " other.",
    )
    guard: bool = Field(
        True,
        description="Hold a new map back where it predicts the newest hour worse than the map in"
        " force.",
    )
    bin_size: Count = Field(1000, ge=1, description="Samples per bin of the calibrator `sir`.")
    prior_strength: float = Field(
        5.0,
        ge=0,
        description="Pseudo-samples of the target's map in each bin of the calibrator `sir`;"
        " 0: none, as published.",
    )
    min_samples: float = Field(100, ge=0, description="Fewest samples for a map of one's own.")
    min_positives: float = Field(10, ge=0, description="Fewest positives for a map of one's own.")
    versions_kept: int = Field(24, ge=1, le=1000, description="Published versions kept.")
    refresh_seconds: float = Field(
        0.2,
        gt=0,
        le=60,
        description="How often an API process looks for a new version of which it had no notice.",
    )
    lease_seconds: float = Field(15.0, ge=1, le=600, description="Life of the worker's lease.")
    top_campaigns: int = Field(
        20, ge=0, le=1000, description="Campaigns with metrics of their own, by traffic."
    )
    max_body_bytes: Count = Field(
        8 * 1024 * 1024, ge=1024, description="Largest request body, packed and unpacked."
    )
    max_scores: Count = Field(50_000, ge=1, description="Most scores of one calibrate request.")
    max_events: Count = Field(50_000, ge=1, description="Most events of one request.")
    max_campaign_bytes: int = Field(256, ge=1, le=4096, description="Longest campaign id, UTF-8.")
    future_seconds: float = Field(
        300.0, ge=0, le=31_622_400, description="How far ahead of the clock an event may be."
    )

    post_click_minutes: int = Field(
        60, ge=1, le=1440, description="How long a click gathers behaviours before it is closed."
    )
    attribution_hours: HoursByTarget = Field(
        {},
        description="Hours after its click in which a conversion counts, by delayed target, such as"
        " `conversion=168,install=72`; 168 where none is given.",
    )
    behaviours: Names = Field(
        ("session_seconds", "page_views", "add_to_cart", "favorites", "purchases"),
        description="Known behaviours after a click, comma-separated.",
    )
    max_features: int = Field(
        64, ge=0, le=1000, description="Most names of pre-click features, over all clicks."
    )
    waiting_hours: int = Field(
        24, ge=1, le=720, description="How long a behaviour waits for a click that comes later."
    )
    max_waiting: Count = Field(
        100_000, ge=0, description="Most clicks that behaviours may wait for at one time."
    )
    click_log_url: FolderUrl | None = Field(
        None,
        description="Folder or object-store URL of the click log (a path, file://, s3://, gs://);"
        " unset keeps it in `click-log` under the data directory.",
    )
    click_log_days: int = Field(35, ge=2, le=400, description="Days that closed clicks are kept.")
    labels: Literal["posterior", "paper"] = Field(
        "posterior",
        description="How clicks of delayed targets are labelled before their conversions are in:"
        " by what has been seen and what is still to come, or by the model alone.",
    )
    drift_correction: bool = Field(
        True, description="Correct expected conversions by those seen so far, by campaign."
    )
    training_days: int = Field(
        14, ge=2, le=90, description="Days of clicks with matured labels to train on."
    )
    training_clicks: Count = Field(
        2_000_000, ge=1000, description="Most clicks to train on; a sample of more."
    )
    min_training_clicks: Count = Field(
        1000, ge=1, description="Fewest clicks with matured labels for a post-click model."
    )
    min_training_conversions: Count = Field(
        100, ge=1, description="Fewest conversions of such clicks for a post-click model."
    )
    training_threads: int = Field(
        0,
        ge=0,
        le=1024,
        description="Threads that post-click models train and score with; 0 takes all cores.",
    )
    signing_key: SecretStr | None = Field(
        None,
        min_length=32,
        description="Secret that signs post-click models, at least 32 characters; unset makes one"
        " in the data directory.",
    )

    @model_validator(mode="after")
    def _distinct_targets(self) -> Self:
        twice = sorted({name for name in self.known_targets if self.known_targets.count(name) > 1})
        if twice:
            raise ValueError(f"targets and delayed_targets name {', '.join(twice)} twice")
        unknown = sorted(self.attribution_hours.keys() - set(self.delayed_targets))
        if unknown:
            raise ValueError(f"attribution_hours: {', '.join(unknown)} is no delayed target")
        windows = {self.attribution_seconds(name): name for name in self.delayed_targets}
        if (least := min(windows, default=inf)) < self.post_click_seconds:
            rule = f"{windows[least]} has less than post_click_minutes = {self.post_click_minutes}"
            raise ValueError(f"attribution_hours: {rule}")
        unknown = sorted(self.target_calibrators.keys() - set(self.known_targets))
        if unknown:
            raise ValueError(f"target_calibrators: {', '.join(unknown)} is no target")
        return self

    @model_validator(mode="after")
    def _products_of_targets(self) -> Self:
        for name, factors in self.products.items():
            if name in self.known_targets:
                raise ValueError(f"products: {name} is the name of a target")
            for factor in factors:
                if factor not in self.known_targets:
                    raise ValueError(f"products: {factor} of {name} is no target")
            if len({*factors}) < len(factors):
                raise ValueError(f"products: {name} has a factor twice")
        return self

    @model_validator(mode="after")
    def _pairs_of_fields(self) -> Self:
        if self.group_field is not None:
            if self.group_field not in self.fields:
                raise ValueError(f"group_field: {self.group_field} is no field")
            if self.campaign_group is not None:
                raise ValueError("group_field, campaign_group: both are given; give one")
        for pair in self.field_pairs:
            for name in pair:
                if name not in self.fields:
                    raise ValueError(f"field_pairs: {name} of {'*'.join(pair)} is no field")
            if pair[0] == pair[1] or (pair[1], pair[0]) in self.field_pairs:
                raise ValueError(f"field_pairs: {'*'.join(pair)} must be two fields, given once")
        return self

    @model_validator(mode="after")
    def _ports_of_their_own(self) -> Self:
        if self.port == self.admin_port != 0:
            raise ValueError(f"admin_port = {self.admin_port}: must be another than the API's")
        return self

    @model_validator(mode="after")
    def _waits_within_the_timeout(self) -> Self:
        if self.redis_wait and self.redis_wait_seconds >= self.redis_timeout_seconds:
            rule = f"must be less than redis_timeout_seconds, {self.redis_timeout_seconds:g}"
            raise ValueError(f"redis_wait_seconds = {self.redis_wait_seconds:g}: {rule}")
        return self

    @model_validator(mode="after")
    def _training_has_its_clicks(self) -> Self:
        least, most = self.min_training_clicks, self.training_clicks
        if least > most:
            rule = f"must be at most training_clicks, {most}"
            raise ValueError(f"min_training_clicks = {least}: {rule}")
        longest = max(map(self.attribution_seconds, self.delayed_targets), default=0.0)
        days = self.training_days + ceil(longest / SECONDS_PER_DAY) + _SPARE_DAYS
        if self.delayed_targets and self.click_log_days < days:
            raise ValueError(
                f"click_log_days = {self.click_log_days}: must be at least {days}, the"
                f" {self.training_days} days of training, the longest attribution window and"
                f" {_SPARE_DAYS} days to spare"
            )
        return self

    @cached_property
    def known_targets(self) -> tuple[str, ...]:
        """Immediate targets, then delayed ones."""
        return self.targets + self.delayed_targets

    def delayed_factors(self, product: str) -> tuple[str, ...]:
        """The factors whose clicks tell what came of a product's trials, in its order: all that are
        not `click`, where these are delayed targets. None of any other product, whose outcomes
        come apart."""
        immediate = ("click",) if "click" in self.targets else ()
        others = tuple(name for name in self.products[product] if name not in immediate)
        return others if {*others} <= {*self.delayed_targets} else ()

    def evaluated_by(self, product: str) -> str:
        """The delayed target whose refit evaluates the product; `outcomes`, where they are sent."""
        return ("outcomes", *self.delayed_factors(product))[-1]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, which are not checked."""
        copied = super().model_copy(update=update, deep=deep)
        # Its targets may be others.
        copied.__dict__.pop("known_targets", None)
        return copied

    def calibrator_of(self, target: str) -> str:
        """What fits the maps of a target, but for campaigns with a calibrator of their own."""
        return self.target_calibrators.get(target, self.calibrator)

    def attribution_seconds(self, target: str) -> float:
        """How long after its click a conversion of the delayed target counts."""
        hours = self.attribution_hours.get(target, _ATTRIBUTION_HOURS)
        return float(hours * SECONDS_PER_HOUR)

    @property
    def is_public(self) -> bool:
        """Whether other machines may reach the address that the API listens on."""
        return not is_local(self.host)

    @property
    def post_click_seconds(self) -> float:
        """How long a click gathers behaviours."""
        return self.post_click_minutes * 60.0

    @property
    def click_log(self) -> str:
        """Where the click log is kept: a path or a URL."""
        return self.click_log_url or str(self.data_dir / "click-log")

    @property
    def last_good_dir(self) -> Path | None:
        """Where the last good maps are kept; None for nowhere."""
        if str(self.snapshot_dir) == "off":
            return None
        return self.snapshot_dir or self.data_dir / "last-good"

    @property
    def ttl_seconds(self) -> int:
        """How long bins live after their last write: through the window of every calibrator, since
        each may come into use at any time."""
        longer = max(0, self.history_hours - self.window_hours)
        return self.event_ttl_seconds + longer * SECONDS_PER_HOUR

    @property
    def event_ttl_seconds(self) -> int:
        """How long the hours of events are known, and the clicks and conversions of each; and ids,
        where the wall clock does not say when no event of their hour can come any more."""
        return (self.window_hours + self.grace_hours + _SPARE_HOURS) * SECONDS_PER_HOUR


def is_local(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    try:
        return host in _LOCAL_NAMES or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def load_settings(**overrides: Any) -> Settings:
    """Settings of the environment under overrides; BadConfiguration lists all that is wrong."""
    unknown = sorted(filter(_is_unknown, os.environ))
    wrong = [f"{name}: there is no such setting" for name in unknown]
    secrets: dict[str, str] = {}
    for field in SECRETS:
        try:
            if (secret := secret_in_file(variable_of(field))) is not None:
                secrets[field] = secret
        except BadConfiguration as error:
            wrong.append(str(error))
    if secrets.get("redis_url") == "":
        # It would be a private server. An empty file takes the first key away, on purpose.
        wrong.append(f"{variable_of('redis_url')}{_OF_FILE}: the file is empty")
    try:
        settings = Settings(**(secrets | overrides))
    except ValidationError as error:
        raise BadConfiguration("\n".join([*map(_error_line, error.errors()), *wrong])) from None
    if wrong:
        raise BadConfiguration("\n".join(wrong))
    return settings


def secret_in_file(variable: str) -> str | None:
    """What stands in the file that `<variable>_FILE` names, without white space around it; None
    where it names none. Raises BadConfiguration if it cannot be read, or both are given."""
    named = os.environ.get(variable + _OF_FILE)
    if not named:
        return None
    if os.environ.get(variable):
        raise BadConfiguration(f"{variable}, {variable}{_OF_FILE}: both are given; give one")
    try:
        with open(named, encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            # One that containers mount belongs to root: we read it by its group.
            is_ours = found.st_uid == os.geteuid()
            if found.st_mode & (_OF_GROUP_AND_OTHERS if is_ours else _OF_OTHERS):
                _log.warning("%s: others than its owner may read it: chmod 600", named)
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise BadConfiguration(f"{variable}{_OF_FILE} = {named}: {reason}") from None


def environment_of(field: str, value: str) -> dict[str, str]:
    """The variables that give a child process this value, whatever file ours names for it."""
    variable = variable_of(field)
    return {variable: value} | ({variable + _OF_FILE: ""} if field in SECRETS else {})


def variable_of(field: str) -> str:
    """The environment variable of a field of `Settings`."""
    return PREFIX + field.upper()


def _is_unknown(name: str) -> bool:
    field = name.removeprefix(PREFIX).lower()
    files = {secret + _OF_FILE.lower() for secret in SECRETS}
    return name.startswith(PREFIX) and field not in {*Settings.model_fields, *files, *_OF_COMMANDS}


def _error_line(error: ErrorDetails) -> str:
    rule = re.sub(r"^\w+ should\b", "must", error["msg"].removeprefix("Value error, "))
    if not error["loc"]:
        known = Settings.model_fields
        # Of several settings: it names them by their fields, first of all.
        return re.sub(
            r"^\w+|\w+_\w+", lambda it: variable_of(it[0]) if it[0] in known else it[0], rule
        )
    field = str(error["loc"][0])
    if field in SECRETS:
        # Whoever mistypes a secret must not find it in a log.
        return f"{variable_of(field)}: {rule.replace('items after validation', 'characters')}"
    return f"{variable_of(field)} = {str(error['input'])[:64]}: {rule}"
