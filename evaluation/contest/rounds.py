"""One round of a contest: the sums of a play of one seed."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

import numpy as np

from calibrators.samples import Floats, Integers

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
