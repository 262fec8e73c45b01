"""The levels of a delay distribution: the target's curve and those of its larger campaigns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pccem.arrays import Flags, Floats, Rows, as_vector, check_equal_lengths, check_rows


def delay_curve(delay: Floats, age: Floats) -> tuple[Floats, Floats]:
    """The most likely distribution of delays behind conversions seen so far.

    A conversion is seen only if its delay is at most its click's age: the delays are truncated on
    the right, and their plain shares would run far too early. With time reversed this is truncation
    on the left, whose nonparametric maximum likelihood is a product limit: with n_t the number of
    conversions of delay t and Y_t that of clicks with delay <= t <= age,

        F(t) = prod over s > t of (1 - n_s / Y_s).

    Conversions of every age count; where all clicks are old this is the plain share. Where all of
    Y_s converted at s, though shorter delays have been seen, the product would be 0 below for good;
    its factor is 1 / (Y_s + 1) there instead.

    Parameters
    ----------
    delay : (n,) seconds, at least 0.
    age : (n,) seconds, at least the delay.

    Returns
    -------
    times, shares : both (t,)
        The distinct delays, ascending, and F at each; the last share is 1: what comes later than
        any delay seen is not known, so clicks must be among them whose window is over.

    References
    ----------
    Lynden-Bell (1971), MNRAS 155, 95-118; Woodroofe (1985), Annals of Statistics 13, 163-177;
    Lagakos, Barraj and De Gruttola (1988), Biometrika 75, 515-523.

    Examples
    --------
    Two of four conversions came within 1 s; that of a click which is only 1 s old tells nothing
    about how many come later.

    >>> delay_curve(np.array([1.0, 1.0, 3.0, 4.0]), np.full(4, 9.0))[1]
    array([0.5 , 0.75, 1.  ])
    >>> delay_curve(np.array([1.0, 1.0, 3.0, 4.0, 1.0]), np.array([9.0, 9.0, 9.0, 9.0, 1.0]))[1]
    array([0.5 , 0.75, 1.  ])
    """
    times, counts = np.unique(delay, return_counts=True)
    begun = np.cumsum(counts)
    at_risk = begun - np.searchsorted(np.sort(age), times, side="left")
    factors = _factors(counts, at_risk)
    # F(t) leaves out the factor of t itself.
    shares = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)
    return times, shares


def _factors(counts: NDArray[np.int64], at_risk: NDArray[np.int64]) -> Floats:
    emptied = counts == at_risk
    return np.where(emptied, 1.0 / (at_risk + 1.0), 1.0 - counts / at_risk)


_PRIOR_STRENGTH: Final = 100.0
_PRIOR_CAMPAIGNS: Final = 2.0
_LARGEST: Final = 1e6


def curve_strength(curves: Floats, counts: NDArray[np.int64]) -> float:
    """The k for which (n_c F_c + k F) / (n_c + k) mixes a campaign's curve with that of all.

    Curves drawn from a Dirichlet process of strength k about F have Var F_c(t) = v F (1 - F) with
    v = 1 / (k + 1); counting n_c conversions adds (1 - v) F (1 - F) / n_c. With F the mean of the C
    curves by n_c and the integral of F (1 - F) dF = 1 / 6, the sum S of 6 n_c times the integral of
    (F_c - F)^2 dF has the mean

        (1 - v) (C - 1) + v (N - sum n_c^2 / N),  N = sum n_c,

    which is solved for v and averaged with a prior (k = 100) worth two more campaigns.

    Parameters
    ----------
    curves : (n_campaigns, t) distribution functions at common times, from (about) 0 to 1.
    counts : (n_campaigns,) conversions behind each, at least 1.

    Returns
    -------
    float
        k in (0, 1e6]; the prior's for fewer than two campaigns.

    References
    ----------
    DerSimonian and Laird (1986) for the moments; Ferguson (1973) for the process.
    """
    prior = 1.0 / (_PRIOR_STRENGTH + 1.0)
    others = max(len(counts) - 1, 0)
    found = _variance(curves, counts, others) if others else prior
    variance = (others * found + _PRIOR_CAMPAIGNS * prior) / (others + _PRIOR_CAMPAIGNS)
    return float(min(1.0 / variance - 1.0, _LARGEST))


def _variance(curves: Floats, counts: NDArray[np.int64], others: int) -> float:
    total = counts.sum()
    mean = counts @ curves / total
    steps = np.diff(mean)
    squares = (curves - mean) ** 2
    integrals = 0.5 * (squares[:, 1:] + squares[:, :-1]) @ steps
    spare = total - (counts**2).sum() / total - others
    if spare <= 0.0:
        return 1.0 / (_PRIOR_STRENGTH + 1.0)
    return float(np.clip((6.0 * counts @ integrals - others) / spare, 0.0, 1.0))


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
