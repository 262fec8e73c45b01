"""The levels of a delay distribution: the target's curve and those of its larger campaigns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pccem.arrays import Flags, Floats, Rows, as_vector, check_equal_lengths, check_rows
from pccem.delay_curve import delay_curve
from pccem.dirichlet import curve_strength

_QUANTILES: Final = 128
_TIMES: Final = 64
_DECIMALS: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class SeenDelays:
    """The conversions among n clicks: delay and age in seconds, campaign, all of shape (m,)."""

    delay: Floats
    age: Floats
    rows: Rows
    window: float

    @classmethod
    def check(
        cls, delay: ArrayLike, age: ArrayLike, rows: ArrayLike, n_campaigns: int, window: float
    ) -> Self:
        """From columns of all clicks, nan the delay of one that has not converted."""
        if not 0.0 < window < np.inf:
            raise ValueError(f"window = {window}: must be finite and above 0 seconds")
        delays, ages = as_vector("delay", delay), as_vector("age", age)
        campaigns = check_rows("rows", rows, 0, n_campaigns)
        check_equal_lengths(delay=len(delays), age=len(ages), rows=len(campaigns))
        seen = np.flatnonzero(~np.isnan(delays))
        found = cls(delays[seen], ages[seen], campaigns[seen], window)
        found._check_values(seen)
        return found

    def _check_values(self, places: NDArray[np.int64]) -> None:
        holds = (self.delay >= 0.0) & (self.delay < self.window) & (self.delay <= self.age)
        if not holds.all():
            first = int(np.argmin(holds))
            raise ValueError(
                f"delay[{places[first]}] = {self.delay[first]} at age {self.age[first]}: must be "
                f"in [0, {self.window}), the window, and at most the age"
            )

    @property
    def mature(self) -> Flags:
        """Whether the click's window is over, (m,)."""
        return self.age >= self.window


@dataclass(frozen=True, slots=True, eq=False)
class DelayLevels:
    """Knots (k,), shares (1 + campaigns, k), the campaigns' names, and their common strength."""

    knots: Floats
    shares: Floats
    campaigns: tuple[str, ...]
    strength: float

    @classmethod
    def fit(
        cls,
        seen: SeenDelays,
        campaigns: Sequence[str],
        min_conversions: int,
        strength: float | None,
    ) -> Self:
        """The target's level, and one for each campaign with enough mature conversions."""
        curve = delay_curve(seen.delay, seen.age)
        knots = _knots(*curve, seen.window)
        target = _at(knots, *curve)
        counts = np.bincount(seen.rows[seen.mature], minlength=len(campaigns))
        chosen = np.flatnonzero(counts >= min_conversions)
        own = _own_curves(seen, chosen, knots)
        k = curve_strength(own, counts[chosen]) if strength is None else strength
        weights = (counts[chosen] / (counts[chosen] + k))[:, None]
        shares = np.vstack((target, weights * own + (1.0 - weights) * target))
        names = tuple(campaigns[row] for row in chosen.tolist())
        # Rounded, so that its JSON is short; 1 stays 1 and the order stays.
        return cls(knots, shares.round(_DECIMALS), names, k)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From what came out of JSON; ValueError that says what is wrong with it."""
        campaigns, strength = data.get("campaigns"), data.get("strength")
        if not isinstance(campaigns, list) or not all(isinstance(c, str) for c in campaigns):
            raise ValueError("delays: campaigns must be a list of names")
        if len(set(campaigns)) < len(campaigns):
            raise ValueError("delays: a campaign stands twice")
        if not isinstance(strength, float) or not 0.0 < strength < np.inf:
            raise ValueError(f"delays: strength = {strength!r}: must be finite and above 0")
        try:
            knots = np.array(data.get("knots"), np.float64)
            shares = np.array(data.get("shares"), np.float64)
        except (TypeError, ValueError):
            raise ValueError("delays: knots and shares must be tables of numbers") from None
        _check_tables(knots, shares, len(campaigns))
        return cls(knots, shares, tuple(campaigns), strength)


def _check_tables(knots: Floats, shares: Floats, n_campaigns: int) -> None:
    if knots.ndim != 1 or len(knots) < 2 or shares.shape != (n_campaigns + 1, len(knots)):
        raise ValueError(
            f"delays: knots {knots.shape}, shares {shares.shape}: must be (k,) and "
            f"({n_campaigns + 1}, k), k at least 2"
        )
    if knots[0] != 0.0 or not knots[-1] < np.inf or not (np.diff(knots) > 0.0).all():
        raise ValueError("delays: knots must increase from 0 to the window")
    if not (shares[:, 0] >= 0.0).all() or not (shares[:, -1] == 1.0).all():
        raise ValueError("delays: shares must be in [0, 1] and end at 1")
    if not (np.diff(shares, axis=1) >= 0.0).all():
        raise ValueError("delays: shares must not decrease")


def _own_curves(seen: SeenDelays, chosen: NDArray[np.int64], knots: Floats) -> Floats:
    order = np.argsort(seen.rows, kind="stable")
    starts = np.searchsorted(seen.rows[order], chosen, side="left")
    ends = np.searchsorted(seen.rows[order], chosen, side="right")
    curves = np.empty((len(chosen), len(knots)))
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        part = order[start:end]
        curves[place] = _at(knots, *delay_curve(seen.delay[part], seen.age[part]))
    return curves


def _at(knots: Floats, times: Floats, shares: Floats) -> Floats:
    """The step function at the knots, (k,)."""
    steps = np.concatenate(([0.0], shares))
    return steps[np.searchsorted(times, knots, side="right")]


def _knots(times: Floats, shares: Floats, window: float) -> Floats:
    """Times at equal steps of F, and at equal ratios for the tails; 0 and the window."""
    quantiles = np.linspace(0.0, 1.0, _QUANTILES + 1)
    at_quantiles = times[np.searchsorted(shares, quantiles)]
    spread = np.geomspace(max(times[times > 0.0].min(initial=window), 1e-6), window, _TIMES)
    inner = np.concatenate((at_quantiles, spread))
    return np.unique(np.concatenate(([0.0], inner[inner < window], [window])))
