"""What a contest found: sums of every contender, over one seed or several.

One round of a contest: the sums of a play of one seed.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final, Self

import numpy as np

from calibrators.samples import Floats, Integers
from evaluation.bootstrap.blocks import effective_number, multiplicities
from evaluation.bootstrap.paired import Difference

TRUTH: Final = "truth"
"""Name under which the true probabilities are judged, where they are known."""

_DIGITS = 9


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums of one contender.

    Attributes
    ----------
    losses, excess : (b,) log loss, and divergence from the truth, of each block.
    hour_losses, hour_excess : (h,) the same of each judged hour.
    observed_errors, true_errors : (c,) Cal-3 of each campaign that counts in GC-3, against
        outcomes and against the truth.
    floors : (c,) Cal-3 of its predictions against outcomes drawn from them.
    """

    losses: Floats
    excess: Floats
    hour_losses: Floats
    hour_excess: Floats
    observed_errors: Floats
    true_errors: Floats
    floors: Floats

    def to_json(self) -> dict[str, Any]:
        """As JSON has it: lists of numbers, null where undefined."""
        return {each.name: listed(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The sums that `to_json` gave."""
        return cls(**{each.name: _array(data[each.name]) for each in fields(cls)})


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """What a play of one seed found.

    Attributes
    ----------
    seed : of the platform.
    hours, hour_counts : (h,) judged hours since 1970, and the impressions of each.
    unit : what a block is: "campaign-days", or "campaign-hours" where there would be fewer than 10.
    blocks : (b,) numbers of the blocks; from 1,000 campaigns on, campaigns whose numbers
        differ by 1,000 share theirs. counts, positives : (b,) their impressions and positives.
    campaigns, weights : (c,) those that count in GC-3, as their number in the traffic, and their
        impressions.
    sums : of each contender, and of "truth" where it is known.
    knows_truth : whether it is; where not, every excess is 0 and true errors are observed ones.
    """

    seed: int
    hours: Integers
    hour_counts: Floats
    unit: str
    blocks: Integers
    counts: Floats
    positives: Floats
    campaigns: Integers
    weights: Floats
    sums: Mapping[str, Sums]
    knows_truth: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON has it."""
        columns = {name: listed(getattr(self, name)) for name in _COLUMNS}
        sums = {name: each.to_json() for name, each in self.sums.items()}
        plain = {name: getattr(self, name) for name in _PLAIN}
        return {**plain, **columns, "sums": sums}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The round that `to_json` gave."""
        columns = {name: kind(data[name]) for name, kind in _COLUMNS.items()}
        sums = {name: Sums.from_json(each) for name, each in data["sums"].items()}
        return cls(**{name: data[name] for name in _PLAIN}, sums=sums, **columns)


def listed(values: Floats | Integers) -> list[float | int | None]:
    """The values with 9 significant digits, None for those that are not finite."""
    if values.dtype.kind == "i":
        found: list[float | int | None] = values.tolist()
        return found
    return [float(f"{v:.{_DIGITS}g}") if np.isfinite(v) else None for v in values.tolist()]


def _array(values: Any) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _integers(values: Any) -> Integers:
    return np.array(values, np.int64)


_PLAIN: Final = ("seed", "knows_truth", "unit")
_COLUMNS: Final[Mapping[str, Any]] = {
    "hours": _integers,
    "hour_counts": _array,
    "blocks": _integers,
    "counts": _array,
    "positives": _array,
    "campaigns": _integers,
    "weights": _array,
}


Pick = Callable[[Sums], Floats]

_losses: Pick = attrgetter("losses")
_excess: Pick = attrgetter("excess")
_hour_losses: Pick = attrgetter("hour_losses")
_hour_excess: Pick = attrgetter("hour_excess")
_observed: Pick = attrgetter("observed_errors")
_true: Pick = attrgetter("true_errors")
_floors: Pick = attrgetter("floors")


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What contenders were worth on one kind of traffic.

    Every figure is that of all rounds together: means over impressions (log loss, excess), or over
    campaigns weighted by their impressions (GC-3). `compare` and `compare_errors` give intervals.

    Attributes
    ----------
    contenders : their names, in the order they were given; those that were absent are not in it.
    rounds : one for each seed; `rounds[i].sums[name]` holds the sums of a contender.
    notes : what the reader of a contender's figures must know, by name.
    absent : the reason why a contender is not there, by name.
    """

    contenders: tuple[str, ...]
    rounds: tuple[Round, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def knows_truth(self) -> bool:
        """Whether excess losses and errors against the truth mean anything."""
        return all(each.knows_truth for each in self.rounds)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the rounds."""
        return tuple(each.seed for each in self.rounds)

    @property
    def unit(self) -> str:
        """What the blocks of an interval are: "campaign-days", or "campaign-hours"."""
        return self.rounds[0].unit

    @property
    def impressions(self) -> float:
        """Impressions judged."""
        return float(sum(each.counts.sum() for each in self.rounds))

    @property
    def positives(self) -> float:
        """Positives among them."""
        return float(sum(each.positives.sum() for each in self.rounds))

    @property
    def campaigns(self) -> int:
        """Campaigns that count in GC-3, those of every round by themselves."""
        return sum(len(each.campaigns) for each in self.rounds)

    def log_loss(self, name: str) -> float:
        """Mean log loss of a contender (or "truth") on the observed outcomes."""
        return self._mean(name, _losses)

    def excess(self, name: str) -> float:
        """Mean divergence from the truth: what its expected log loss has above the truth's own; nan
        where the truth is unknown."""
        return self._mean(name, _excess) if self.knows_truth else float("nan")

    def gc_3(self, name: str) -> float:
        """GC-3 against observed outcomes."""
        return self._error(name, _observed)

    def gc_3_true(self, name: str) -> float:
        """GC-3 against true probabilities, GC-3*; nan where these are unknown."""
        return self._error(name, _true) if self.knows_truth else float("nan")

    def floor(self, name: str) -> float:
        """GC-3 of the contender's predictions against outcomes drawn from them."""
        return self._error(name, _floors)

    def curve(self, name: str) -> list[tuple[int, float]]:
        """Hours since the first judged one, and the mean excess in each over all rounds (mean log
        loss where the truth is unknown); hours without impressions are left out."""
        pick = _hour_excess if self.knows_truth else _hour_losses
        length = max(len(each.hours) for each in self.rounds)
        sums, counts = np.zeros(length), np.zeros(length)
        for each in self.rounds:
            sums[: len(each.hours)] += pick(each.sums[name])
            counts[: len(each.hours)] += each.hour_counts
        return [
            (hour, float(sums[hour] / counts[hour])) for hour in np.flatnonzero(counts).tolist()
        ]

    def compare(
        self, a: str, b: str, *, ratio: bool = False, draws: int = 1000, seed: int = 0
    ) -> Difference:
        """Mean excess of A minus that of B (log loss where the truth is unknown), or their ratio,
        with its interval over paired draws of blocks, see `unit`."""
        return self._compare_losses(
            a, b, _excess if self.knows_truth else _losses, ratio, draws, seed
        )

    def compare_log_loss(self, a: str, b: str, *, draws: int = 1000, seed: int = 0) -> Difference:
        """Mean observed log loss of A minus that of B, over paired draws of blocks."""
        return self._compare_losses(a, b, _losses, False, draws, seed)

    def _compare_losses(
        self, a: str, b: str, pick: Pick, ratio: bool, draws: int, seed: int
    ) -> Difference:
        """See `compare`, of any sum of blocks."""
        weights = np.concatenate([each.counts for each in self.rounds])
        tops, bottoms = (self._blocks(name, pick) for name in (a, b))
        return _drawn(tops, bottoms, weights, ratio, draws, seed)

    def compare_errors(
        self, a: str, b: str, *, ratio: bool = False, draws: int = 1000, seed: int = 0
    ) -> Difference:
        """GC-3* of A minus that of B (GC-3 where the truth is unknown), or their ratio, with its
        interval over paired draws of campaigns."""
        pick = _true if self.knows_truth else _observed
        weights = np.concatenate([each.weights for each in self.rounds])
        tops, bottoms = (self._blocks(name, pick) * weights for name in (a, b))
        return _drawn(tops, bottoms, weights, ratio, draws, seed)

    @classmethod
    def merge(cls, parts: Iterable["Played"]) -> Self:
        """The rounds of several plays of the same contenders; one that is absent from any of them
        is absent from all. ValueError of none."""
        listed = list(parts)
        if not listed:
            raise ValueError("parts: there must be at least one")
        absent = {name: why for part in listed for name, why in part.absent.items()}
        notes = {name: note for part in listed for name, note in part.notes.items()}
        kept = tuple(name for name in listed[0].contenders if name not in absent)
        rounds = tuple(each for part in listed for each in part.rounds)
        return cls(kept, rounds, notes, absent)

    def to_json(self) -> dict[str, Any]:
        """As JSON has it; `from_json` reads it."""
        return {
            "contenders": list(self.contenders),
            "notes": dict(self.notes),
            "absent": dict(self.absent),
            "rounds": [each.to_json() for each in self.rounds],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        rounds = tuple(Round.from_json(each) for each in data["rounds"])
        return cls(tuple(data["contenders"]), rounds, data["notes"], data["absent"])

    def _blocks(self, name: str, pick: Pick) -> Floats:
        return np.concatenate([pick(each.sums[name]) for each in self.rounds])

    def _mean(self, name: str, pick: Pick) -> float:
        return float(self._blocks(name, pick).sum() / self.impressions)

    def _error(self, name: str, pick: Pick) -> float:
        weights = np.concatenate([each.weights for each in self.rounds])
        if not len(weights):
            return float("nan")
        return float(np.average(self._blocks(name, pick), weights=weights))


def _drawn(a: Floats, b: Floats, weights: Floats, ratio: bool, draws: int, seed: int) -> Difference:
    if not len(weights):
        return Difference.of(float("nan"), np.empty(0), 0.0)
    whole = np.ones((1, len(weights)))
    parts = [
        _compared(times, a, b, weights, ratio) for times in (whole, *_times(weights, draws, seed))
    ]
    return Difference.of(float(parts[0][0]), np.concatenate(parts[1:]), effective_number(weights))


def _times(weights: Floats, draws: int, seed: int) -> Iterable[Floats]:
    return multiplicities(len(weights), draws, seed)


def _compared(times: Floats, a: Floats, b: Floats, weights: Floats, ratio: bool) -> Floats:
    tops, bottoms = times @ a, times @ b
    with np.errstate(divide="ignore", invalid="ignore"):
        compared: Floats = tops / bottoms if ratio else (tops - bottoms) / (times @ weights)
    return compared
