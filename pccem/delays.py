"""The delay distribution: which share of conversions has come by which age of their clicks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pccem.arrays import (
    Flags,
    Floats,
    Integers,
    Rows,
    as_vector,
    check_equal_lengths,
    check_finite,
    check_rows,
)
from pccem.calendar import Calendar
from pccem.pace import PACES, Cohorts, DelayCurve, changes_of_pace

SCHEMA_VERSION: Final = 1
_PIECE: Final = 65_536
_QUANTILES: Final = 128
_TIMES: Final = 64
_DECIMALS: Final = 6
_PRIOR_STRENGTH: Final = 100.0
_PRIOR_CAMPAIGNS: Final = 2.0
_LARGEST: Final = 1e6
# Paces that hold less of the belief than this are not worth a pass over the table.
_UNLIKELY: Final = 1e-3
_ROUNDING: Final = 1e-9
# Times that a conversion's weight halves in a window's age of its click.
_RECENCY: Final = 0.25
# Curve and paces in turns; measured: a third round changes nothing.
_ROUNDS: Final = 2
_STRATA: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class DelayDistribution:
    """F(t), the share of a target's conversions that come within t seconds of their click.

    A table of levels by knots: row 0 is the target's, the others those of campaigns that have a
    distribution of their own. Between knots F is linear. Immutable.

    window : attribution window in seconds; F is 1 from there on.
    campaigns : campaigns with a distribution of their own.
    knots : (k,) seconds, from 0 to the window, increasing.
    shares : (1 + campaigns, k) F at the knots.
    strength : conversions' worth by which a campaign leans on the target.
    conversions : conversions behind it, and of those `mature` of clicks whose window is over.
    calendar : hours of the week at which more come than at others; None where none is known.
    cohorts : what was expected of recent clicks, and has been seen; None where it is not known.
    """

    knots: Floats
    shares: Floats
    campaigns: tuple[str, ...]
    strength: float
    conversions: int
    mature: int
    calendar: Calendar | None = None
    cohorts: Cohorts | None = None
    _row_of: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.knots.flags.writeable = self.shares.flags.writeable = False
        rows = {campaign: row for row, campaign in enumerate(self.campaigns, 1)}
        object.__setattr__(self, "_row_of", rows)

    @property
    def window(self) -> float:
        """The attribution window in seconds."""
        return float(self.knots[-1])

    @classmethod
    def fit(
        cls,
        delay: ArrayLike,
        age: ArrayLike,
        rows: ArrayLike,
        campaigns: Sequence[str],
        *,
        window: float,
        min_conversions: int = 100,
        strength: float | None = None,
        as_of: float | None = None,
    ) -> Self | None:
        """The distribution behind the conversions seen so far of clicks of every age.

        The target's is the nonparametric maximum likelihood under right truncation
        (`delay_curve`), a conversion counting half for every four windows' age of its click. A
        campaign with at least `min_conversions` conversions of mature clicks gets its own, shrunk
        as the posterior mean of a Dirichlet process about the target's,

            (n_c F_c + k F) / (n_c + k), n_c its conversions of mature clicks,

        where k comes from how much the campaigns differ (`curve_strength`).

        delay : (n,) seconds to the conversion, nan where a click has not converted.
        age : (n,) seconds from the click to the moment of knowing.
        rows : (n,) integers, each click's index into `campaigns`.
        campaigns : names of the campaigns.
        window : attribution window in seconds.
        min_conversions : of mature clicks (age >= window), needed for the target and for a
            campaign's own level; at least 1.
        strength : k, above 0; None estimates it.
        as_of : the moment of knowing, epoch seconds; with it the calendar is learnt.

        Returns None with fewer than `min_conversions` conversions of mature clicks: how many are
        still to come cannot be known from young clicks alone.

        Raises ValueError when a delay is outside [0, window) or longer than the age, or a column
        breaks its rule.

        Source: Deng et al. (paper 004), Figure 3; Lagakos, Barraj and De Gruttola (1988),
        Biometrika 75; Ferguson (1973), Annals of Statistics 1, for the shrinkage.
        """
        seen = SeenDelays.check(delay, age, rows, len(campaigns), window)
        if min_conversions < 1:
            raise ValueError(f"min_conversions = {min_conversions}: must be at least 1")
        if strength is not None and not 0.0 < strength < np.inf:
            raise ValueError(f"strength = {strength}: must be finite and above 0")
        conversions, mature = len(seen.delay), int(np.count_nonzero(seen.mature))
        if mature < min_conversions:
            return None
        calendar = None if as_of is None else seen.calendar(as_of)
        if as_of is not None and calendar is None:
            # Beside a calendar, what that leaves unexplained would pass for changes of pace.
            seen = seen.at_usual_pace(as_of, min_conversions)
        knots, target = seen.curve()
        counts = np.bincount(seen.rows[seen.mature], minlength=len(campaigns))
        chosen = np.flatnonzero(counts >= min_conversions)
        own = _own_curves(seen, chosen, knots)
        k = curve_strength(own, counts[chosen]) if strength is None else strength
        weights = (counts[chosen] / (counts[chosen] + k))[:, None]
        shares = np.vstack((target, weights * own + (1.0 - weights) * target))
        names = tuple(campaigns[row] for row in chosen.tolist())
        # Rounded, so that its JSON is short; 1 stays 1 and the order stays.
        return cls(knots, shares.round(_DECIMALS), names, k, conversions, mature, calendar)

    def curve(self) -> DelayCurve:
        """The target's level."""
        return DelayCurve(self.knots, self.shares[0], self.calendar)

    def at_paces(self, weights: Floats) -> Self:
        """The distribution where each of `pccem.pace.PACES` has this weight, (p,)."""
        likely = np.flatnonzero(weights > _UNLIKELY)
        curves = [DelayCurve(self.knots, row, None).at_paces(PACES[likely]) for row in self.shares]
        shares: Floats = weights[likely] @ np.stack(curves)
        # Divided, so that the end is 1 to the last bit; sums may fall by one.
        risen = np.maximum.accumulate(shares / shares[:, -1:], axis=1)
        return replace(self, shares=np.minimum(risen, 1.0))

    def share(self, elapsed: ArrayLike, rows: ArrayLike, campaigns: Sequence[str]) -> Floats:
        """Share of conversions that have come by this age of their click, (n,) in [0, 1].

        elapsed : (n,) seconds since the click, finite; below 0 nothing has come.
        rows : (n,) integers, each click's index into `campaigns`.
        campaigns : names, in any order; one without a distribution of its own has the target's.

        Raises ValueError when a value breaks its rule or the columns differ in length.
        """
        ages = check_finite("elapsed", elapsed)
        places = check_rows("rows", rows, 0, len(campaigns))
        check_equal_lengths(elapsed=len(ages), rows=len(places))
        level_of = self.levels(campaigns)
        shares = np.empty(len(ages))
        # A piece at a time, so that what is written down on the way stays in the cache.
        for start in range(0, len(ages), _PIECE):
            piece = slice(start, start + _PIECE)
            shares[piece] = self._share_of_piece(ages[piece], level_of[places[piece]])
        return shares

    def levels(self, campaigns: Sequence[str]) -> Integers:
        """The row of `shares` that serves each campaign, (n_campaigns,)."""
        return np.array([self._row_of.get(name, 0) for name in campaigns], np.int64)

    def _share_of_piece(self, ages: Floats, levels: Integers) -> Floats:
        last = len(self.knots) - 1
        left = np.clip(np.searchsorted(self.knots, ages, side="right") - 1, 0, last - 1)
        start = self.knots[left]
        along = np.clip((ages - start) / (self.knots[left + 1] - start), 0.0, 1.0)
        flat, corner = self.shares.ravel(), levels * (last + 1) + left
        low, high = flat[corner], flat[corner + 1]
        # In this form F never falls by a rounding error, as on its flat parts; 1 is 1.
        between = np.where(along < 1.0, np.minimum(low + (high - low) * along, high), high)
        return np.where(ages < 0.0, 0.0, between)

    def quantile(self, q: float, campaign: str | None = None) -> float:
        """Seconds by which a share q of conversions has come, at the target's level or that which
        serves the campaign; ValueError unless q is in [0, 1]."""
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"q = {q}: must be in [0, 1]")
        shares = self.shares[0 if campaign is None else self._row_of.get(campaign, 0)]
        right = int(np.searchsorted(shares, q, side="left"))
        if right == 0:
            return float(self.knots[0])
        return float(np.interp(q, shares[right - 1 : right + 1], self.knots[right - 1 : right + 1]))

    def median(self) -> float:
        """Seconds by which half of the target's conversions have come."""
        return self.quantile(0.5)

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON; `from_dict` gives the same distribution back."""
        return {
            "schema_version": SCHEMA_VERSION,
            "knots": self.knots.tolist(),
            "shares": self.shares.tolist(),
            "campaigns": list(self.campaigns),
            "conversions": self.conversions,
            "mature": self.mature,
            "strength": self.strength,
            "calendar": None if self.calendar is None else self.calendar.to_list(),
            "cohorts": None if self.cohorts is None else self.cohorts.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The distribution that `to_dict` wrote; ValueError on anything else."""
        if (version := data.get("schema_version")) != SCHEMA_VERSION:
            raise ValueError(f"delays: schema_version {version}, this reads {SCHEMA_VERSION}")
        knots, shares, campaigns, strength = _levels(data)
        conversions, mature = data.get("conversions"), data.get("mature")
        if type(conversions) is not int or type(mature) is not int or not 0 < mature <= conversions:
            raise ValueError(
                f"delays: conversions = {conversions!r}, mature = {mature!r}: must be whole, "
                "0 < mature <= conversions"
            )
        return cls(
            knots, shares, campaigns, strength, conversions, mature, *_recent(data, knots[-1])
        )


def _recent(data: Mapping[str, Any], window: float) -> tuple[Calendar | None, Cohorts | None]:
    """The calendar and the cohorts, which trainings of earlier versions did not write."""
    packed = data.get("calendar")
    calendar = None if packed is None else Calendar.from_list(packed)
    packed = data.get("cohorts")
    if packed is None:
        return calendar, None
    if not isinstance(packed, dict):
        raise ValueError("delays: cohorts must be an object")
    if "within" not in packed:
        # Of an earlier version, which left out the conversions of the post-click window.
        return calendar, None
    cohorts = Cohorts.from_dict(packed)
    if cohorts.window != window:
        raise ValueError(f"delays: cohorts: window = {cohorts.window}: must be {window}")
    return calendar, cohorts


def _levels(data: Mapping[str, Any]) -> tuple[Floats, Floats, tuple[str, ...], float]:
    campaigns, strength = data.get("campaigns"), data.get("strength")
    if not isinstance(campaigns, list) or not all(isinstance(c, str) for c in campaigns):
        raise ValueError("delays: campaigns must be a list of names")
    if len(set(campaigns)) < len(campaigns):
        raise ValueError("delays: a campaign stands twice")
    if not isinstance(strength, float) or not 0.0 < strength < np.inf:
        raise ValueError(f"delays: strength = {strength!r}: must be finite and above 0")
    try:
        knots, shares = (np.array(data.get(name), np.float64) for name in ("knots", "shares"))
    except (TypeError, ValueError):
        raise ValueError("delays: knots and shares must be tables of numbers") from None
    _check_tables(knots, shares, len(campaigns))
    return knots, shares, tuple(campaigns), strength


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


@dataclass(frozen=True, slots=True, eq=False)
class SeenDelays:
    """The conversions among n clicks: delay and age in seconds, campaign, what each counts, recent
    clicks most, and whether the click's window is over; all of shape (m,)."""

    delay: Floats
    age: Floats
    rows: Rows
    window: float
    weights: Floats
    mature: Flags

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
        age = ages[seen]
        weights = np.exp2(-_RECENCY * age / window)
        found = cls(delays[seen], age, campaigns[seen], window, weights, age >= window)
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

    def calendar(self, as_of: float) -> Calendar | None:
        """Their calendar; None where no hour differs from another."""
        found = Calendar.fit(self.delay, self.age, self.weights, as_of, self.window)
        return None if found.flat else found

    def curve(self) -> tuple[Floats, Floats]:
        """Knots and the shares that come by them, (k,) each."""
        times, shares = delay_curve(self.delay, self.age, self.weights)
        knots = _knots(times, shares, self.window)
        return knots, _at(knots, times, shares)

    def at_usual_pace(self, as_of: float, least: int) -> "SeenDelays":
        """The same, as if all had come at the pace of mature clicks: a mix is the curve of none.
        Told by the largest campaigns with at least so many conversions of those."""
        counts = np.bincount(self.rows[self.mature])
        largest = np.argsort(-counts, kind="stable")[:_STRATA]
        chosen, found = [row for row in largest.tolist() if counts[row] >= least], self
        for _ in range(_ROUNDS):
            strata = [self._stratum(row, found, as_of) for row in chosen if row in found.rows]
            logs = changes_of_pace(strata, as_of - self.age)
            if logs is None:
                break
            usual = np.average(logs, weights=self.weights * self.mature)
            found = self._slowed(np.exp(logs - usual))
        return found

    def _stratum(self, row: int, usual: "SeenDelays", as_of: float) -> tuple[Cohorts, DelayCurve]:
        """The conversions of a campaign, and its curve at the usual pace."""
        own, expected = self._taken(self.rows == row), np.zeros(np.count_nonzero(self.rows == row))
        times = (as_of - own.age, own.age, own.delay)
        cohorts = Cohorts.of(expected, *times, window=self.window, post_click=0.0)
        return cohorts, DelayCurve(*usual._taken(usual.rows == row).curve(), None)

    def _slowed(self, factors: Floats) -> "SeenDelays":
        delay, age = factors * self.delay, factors * np.minimum(self.age, self.window)
        # At the usual pace nothing comes behind the window.
        return replace(self, delay=delay, age=age)._taken(delay < self.window)

    def _taken(self, chosen: Flags) -> "SeenDelays":
        names = ("delay", "age", "rows", "weights", "mature")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})


def delay_curve(delay: Floats, age: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """The most likely distribution of delays behind conversions seen so far.

    A conversion is seen only if its delay is at most its click's age: the delays are truncated on
    the right, and their plain shares would run far too early. With time reversed this is truncation
    on the left, whose nonparametric maximum likelihood is a product limit: with n_t the number of
    conversions of delay t and Y_t that of clicks with delay <= t <= age,

        F(t) = prod over s > t of (1 - n_s / Y_s).

    Conversions of every age count; where all clicks are old this is the plain share. Where all of
    Y_s converted at s, though shorter delays have been seen, the product would be 0 below for good;
    its factor is 1 / (Y_s + 1) there instead.

    delay : (n,) seconds, at least 0.
    age : (n,) seconds, at least the delay.
    weights : (n,) what each conversion counts, above 0; 1 unless given.

    Returns times and shares, (t,) each: the distinct delays, ascending, and F at each; the last is
    1: what comes later than any delay seen is not known, so clicks must be among them whose window
    is over.

    Source: Lynden-Bell (1971), MNRAS 155, 95-118; Woodroofe (1985), Annals of Statistics 13,
    163-177; Lagakos, Barraj and De Gruttola (1988), Biometrika 75, 515-523.

    Two of four conversions came within 1 s; that of a click which is only 1 s old tells nothing
    about how many come later.

    >>> delay_curve(np.array([1.0, 1.0, 3.0, 4.0]), np.full(4, 9.0))[1]
    array([0.5 , 0.75, 1.  ])
    >>> delay_curve(np.array([1.0, 1.0, 3.0, 4.0, 1.0]), np.array([9.0, 9.0, 9.0, 9.0, 1.0]))[1]
    array([0.5 , 0.75, 1.  ])
    """
    times, places = np.unique(delay, return_inverse=True)
    each = np.ones(len(delay)) if weights is None else weights / weights.mean()
    counts = np.bincount(places, each).astype(np.float64)
    order = np.argsort(age)
    gone = np.append(0.0, np.cumsum(each[order]))
    at_risk = np.cumsum(counts) - gone[np.searchsorted(age[order], times, side="left")]
    factors = _factors(counts, at_risk)
    # F(t) leaves out the factor of t itself.
    shares = np.append(np.cumprod(factors[:0:-1])[::-1], 1.0)
    return times, shares


def _factors(counts: Floats, at_risk: Floats) -> Floats:
    # Sums of weights agree but for rounding where nobody else was at risk.
    emptied = at_risk - counts <= _ROUNDING * (at_risk + 1.0)
    left = 1.0 - counts / np.where(emptied, counts, at_risk)
    return np.where(emptied, 1.0 / (counts + 1.0), left)


def curve_strength(curves: Floats, counts: NDArray[np.int64]) -> float:
    """The k for which (n_c F_c + k F) / (n_c + k) mixes a campaign's curve with that of all.

    Curves drawn from a Dirichlet process of strength k about F have Var F_c(t) = v F (1 - F) with
    v = 1 / (k + 1); counting n_c conversions adds (1 - v) F (1 - F) / n_c. With F the mean of the C
    curves by n_c and the integral of F (1 - F) dF = 1 / 6, the sum S of 6 n_c times the integral of
    (F_c - F)^2 dF has the mean

        (1 - v) (C - 1) + v (N - sum n_c^2 / N),  N = sum n_c,

    which is solved for v and averaged with a prior (k = 100) worth two more campaigns.

    curves : (n_campaigns, t) distribution functions at common times, from (about) 0 to 1.
    counts : (n_campaigns,) conversions behind each, at least 1.

    Returns k in (0, 1e6]; the prior's for fewer than two campaigns.

    Source: DerSimonian and Laird (1986) for the moments; Ferguson (1973) for the process.
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


def _own_curves(seen: SeenDelays, chosen: NDArray[np.int64], knots: Floats) -> Floats:
    order = np.argsort(seen.rows, kind="stable")
    starts = np.searchsorted(seen.rows[order], chosen, side="left")
    ends = np.searchsorted(seen.rows[order], chosen, side="right")
    curves = np.empty((len(chosen), len(knots)))
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        part = order[start:end]
        curve = delay_curve(seen.delay[part], seen.age[part], seen.weights[part])
        curves[place] = _at(knots, *curve)
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
