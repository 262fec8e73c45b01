"""The leaderboard as it is kept in a JSON file and shown again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from app.errors import CommandError

FORMAT: Final = "sirocco/contest"
VERSION: Final = 1
NAN: Final = float("nan")
_KEYS: Final = {"traffic": "contested", "targets": "verdicts"}
"""Names in the file that differ from ours."""

EXCESS: Final = "excess_log_loss"
GC_3_TRUE: Final = "gc_3_true"
GC_3: Final = "gc_3"
LOG_LOSS: Final = "log_loss"
PCOC: Final = "pcoc"
CPU: Final = "refit_cpu_seconds"


@dataclass(frozen=True, slots=True)
class Interval:
    """A number and its 95 % interval; nan where there is none."""

    value: float
    lower: float = NAN
    upper: float = NAN


@dataclass(frozen=True, slots=True)
class ResampledBlocks:
    """What the intervals are drawn from: how many, of what, and of how many equal ones."""

    count: int
    unit: str
    effective: float
    draws: int


@dataclass(frozen=True, slots=True)
class TrafficResult:
    """One regime of synthetic traffic over its seeds, or one log.

    name, about : what was run.
    truth_known : whether there is an excess log loss, and a GC-3 against true probabilities.
    seeds : of the platform, or of a log the single 0.
    campaigns, hours : of one seed; hours are those that were scored.
    impressions, positives : scored, of all seeds.
    rows : method -> metric -> mean over the seeds.
    by_seed : method -> metric -> one value a seed.
    missing : method -> why it did not run.
    differences : method -> metric -> the default method's less its own, with the interval.
    ratios : the same, divided.
    blocks : what the intervals are drawn from.
    """

    name: str
    about: str
    truth_known: bool
    seeds: list[int]
    campaigns: int
    hours: int
    impressions: float
    positives: float
    rows: dict[str, dict[str, float]]
    by_seed: dict[str, dict[str, list[float]]]
    missing: dict[str, str]
    differences: dict[str, dict[str, Interval]]
    ratios: dict[str, dict[str, Interval]]
    blocks: ResampledBlocks

    def value(self, method: str, metric: str) -> float:
        """A metric; nan where there is none."""
        return self.rows.get(method, {}).get(metric, NAN)

    @property
    def already_calibrated(self) -> bool:
        """Whether the scores are the truth, so that nothing can beat leaving them alone."""
        return self.truth_known and self.value("identity", EXCESS) < 1e-12


@dataclass(frozen=True, slots=True)
class DriftCurves:
    """Excess log loss around a jump, by time between refits.

    about : what jumped.
    hours : (k,) from the jump to the start of each scored hour; that of the jump is 0.
    excess : method and time between refits, such as "pooled, 5 min" -> (k,) excess log loss of
        the hour, mean over the seeds.
    seeds : of the platform.
    """

    about: str
    hours: list[float]
    excess: dict[str, list[float]]
    seeds: list[int]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a result comes from."""

    command: str
    at: str
    machine: str


class Leaderboard(msgspec.Struct, frozen=True, rename=_KEYS):
    """Regimes and logs, each with where it comes from, and the curves of a jump."""

    traffic: list[TrafficResult]
    origins: list[Origin]
    drift: DriftCurves | None = None
    format: str = FORMAT
    schema_version: int = VERSION
    targets: list[Any] = []

    @property
    def methods(self) -> list[str]:
        """All names, also of those that ran nowhere, in the order of the first one's rows."""
        names = (name for found in self.traffic for name in (*found.rows, *found.missing))
        return list(dict.fromkeys(names))


def result_json(result: Leaderboard, targets: Sequence[Mapping[str, Any]]) -> bytes:
    """The result for a file; an undefined number is null."""
    whole = {name: getattr(result, name) for name in ("format", "schema_version", "origins")}
    whole |= {"contested": result.traffic, "drift": result.drift, "verdicts": list(targets)}
    return orjson.dumps(whole, option=orjson.OPT_INDENT_2) + b"\n"


def read_result(path: Path) -> Leaderboard:
    """A kept result; a `CommandError` when the file is none."""
    try:
        raw = orjson.loads(path.read_bytes())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except orjson.JSONDecodeError as error:
        raise CommandError(f"{path}: is not JSON: {error}") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise CommandError(f"{path}: is no result of sirocco backtest --compare --json")
    if raw.get("schema_version") != VERSION:
        version = raw.get("schema_version")
        raise CommandError(f"{path}: schema_version = {version}: this sirocco reads {VERSION}")
    try:
        return msgspec.convert(_with_nan(raw), Leaderboard)
    except msgspec.ValidationError as error:
        raise CommandError(f"{path}: {error}") from error


def merged(results: Sequence[Leaderboard]) -> Leaderboard:
    """One result of several; of two with a name the last one holds."""
    traffic = {found.name: found for result in results for found in result.traffic}
    curves = [result.drift for result in results if result.drift is not None]
    origins = dict.fromkeys(origin for result in results for origin in result.origins)
    return Leaderboard([*traffic.values()], [*origins], curves[-1] if curves else None)


def _with_nan(raw: Any) -> Any:
    """The same with nan for null; only `drift` may be null."""
    return {name: value if name == "drift" and value is None else _filled(value)
            for name, value in raw.items()}  # fmt: skip


def _filled(raw: Any) -> Any:
    if isinstance(raw, dict):
        return {name: _filled(value) for name, value in raw.items()}
    if isinstance(raw, list):
        return [_filled(value) for value in raw]
    return math.nan if raw is None else raw
