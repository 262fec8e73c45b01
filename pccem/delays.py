"""The delay distribution: which share of conversions has come by which age of their clicks."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pccem.arrays import Floats, check_equal_lengths, check_finite, check_rows
from pccem.delay_levels import DelayLevels, SeenDelays

Integers = NDArray[np.int64]

SCHEMA_VERSION: Final = 1
_PIECE: Final = 65_536


class DelayDistribution:
    """F(t), the share of a target's conversions that come within t seconds of their click.

    A table of levels by knots: row 0 is the target's, the others those of campaigns that have a
    distribution of their own. Between knots F is linear. Immutable.

    Attributes
    ----------
    window : attribution window in seconds; F is 1 from there on.
    campaigns : campaigns with a distribution of their own.
    knots : (k,) seconds, from 0 to the window, increasing.
    shares : (1 + campaigns, k) F at the knots.
    conversions : conversions behind it, and of those `mature` of clicks whose window is over.
    strength : conversions' worth by which a campaign leans on the target.
    """

    __slots__ = (
        "_row_of",
        "campaigns",
        "conversions",
        "knots",
        "mature",
        "shares",
        "strength",
        "window",
    )

    window: Final[float]
    campaigns: Final[tuple[str, ...]]
    knots: Final[Floats]
    shares: Final[Floats]
    conversions: Final[int]
    mature: Final[int]
    strength: Final[float]

    def __init__(self, levels: DelayLevels, *, conversions: int, mature: int) -> None:
        """From checked levels; see `fit` and `from_dict`."""
        self.knots, self.shares = levels.knots, levels.shares
        self.campaigns, self.strength = levels.campaigns, levels.strength
        self.window = float(levels.knots[-1])
        self.conversions, self.mature = conversions, mature
        self.knots.flags.writeable = self.shares.flags.writeable = False
        self._row_of = {campaign: row for row, campaign in enumerate(self.campaigns, 1)}

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
    ) -> Self | None:
        """The distribution behind the conversions seen so far of clicks of every age.

        The target's is the nonparametric maximum likelihood under right truncation
        (`pccem.delay_levels`). A campaign with at least `min_conversions` conversions of mature
        clicks gets its own, shrunk as the posterior mean of a Dirichlet process about the target's,

            (n_c F_c + k F) / (n_c + k), n_c its conversions of mature clicks,

        where k comes from how much the campaigns differ (`pccem.delay_levels`).

        Parameters
        ----------
        delay : (n,) seconds to the conversion, nan where a click has not converted.
        age : (n,) seconds from the click to the moment of knowing.
        rows : (n,) integers, each click's index into `campaigns`.
        campaigns : names of the campaigns.
        window : attribution window in seconds.
        min_conversions : of mature clicks (age >= window), needed for the target and for a
            campaign's own level; at least 1.
        strength : k, above 0; None estimates it.

        Returns
        -------
        DelayDistribution or None
            None with fewer than `min_conversions` conversions of mature clicks: how many
            conversions are still to come cannot be known from young clicks alone.

        Raises
        ------
        ValueError
            When a delay is outside [0, window) or longer than the age, or a column breaks its rule.

        References
        ----------
        Deng et al. (paper 004), Figure 3; Lagakos, Barraj and De Gruttola (1988), Biometrika 75;
        Ferguson (1973), Annals of Statistics 1, for the shrinkage.
        """
        seen = SeenDelays.check(delay, age, rows, len(campaigns), window)
        if min_conversions < 1:
            raise ValueError(f"min_conversions = {min_conversions}: must be at least 1")
        if strength is not None and not 0.0 < strength < np.inf:
            raise ValueError(f"strength = {strength}: must be finite and above 0")
        if (mature := int(np.count_nonzero(seen.mature))) < min_conversions:
            return None
        levels = DelayLevels.fit(seen, campaigns, min_conversions, strength)
        return cls(levels, conversions=len(seen.delay), mature=mature)

    def share(self, elapsed: ArrayLike, rows: ArrayLike, campaigns: Sequence[str]) -> Floats:
        """Share of conversions that have come by this age of their click, (n,) in [0, 1].

        Parameters
        ----------
        elapsed : (n,) seconds since the click, finite; below 0 nothing has come.
        rows : (n,) integers, each click's index into `campaigns`.
        campaigns : names, in any order; one without a distribution of its own has the target's.

        Raises
        ------
        ValueError
            When a value breaks its rule or the columns differ in length.
        """
        ages = check_finite("elapsed", elapsed)
        places = check_rows("rows", rows, 0, len(campaigns))
        check_equal_lengths(elapsed=len(ages), rows=len(places))
        level_of = np.array([self._row_of.get(name, 0) for name in campaigns], np.int64)
        shares = np.empty(len(ages))
        # A piece at a time, so that what is written down on the way stays in the cache.
        for start in range(0, len(ages), _PIECE):
            piece = slice(start, start + _PIECE)
            shares[piece] = self._share_of_piece(ages[piece], level_of[places[piece]])
        return shares

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
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The distribution that `to_dict` wrote; ValueError on anything else."""
        if (version := data.get("schema_version")) != SCHEMA_VERSION:
            raise ValueError(f"delays: schema_version {version}, this reads {SCHEMA_VERSION}")
        levels = DelayLevels.from_dict(data)
        conversions, mature = data.get("conversions"), data.get("mature")
        if type(conversions) is not int or type(mature) is not int or not 0 < mature <= conversions:
            raise ValueError(
                f"delays: conversions = {conversions!r}, mature = {mature!r}: must be whole, "
                "0 < mature <= conversions"
            )
        return cls(levels, conversions=conversions, mature=mature)
