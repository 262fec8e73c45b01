"""Synthetic traffic with fields (device, placement, advertiser) whose true effects are known.

A `FieldPlatform` adds fields to the impressions of any platform: the scores know nothing of them,
the true probabilities do. FIELD_REGIMES says what the fields are and what they do.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np
from scipy.special import expit, logit

from calibrators.samples import Floats, Integers
from evaluation.backtest.event_table import EventTable
from evaluation.simulation.ad_platform import PlatformHour
from evaluation.simulation.parts import Field, outcomes_of, standardised, value_codes, value_shares

FIRST_SCORED: Final = 36
SCORED_HOURS: Final = 12
"""The hours [36, 48) are scored: campaigns of "advertisers" are born in them."""

_LAST_BIRTH = 10


class FieldlessPlatform(Protocol):
    """A platform whose impressions have a campaign, a score and a known truth."""

    @property
    def names(self) -> tuple[str, ...]:
        """The campaigns' names, those with the most traffic first."""

    def hour(self, hour: int, /) -> PlatformHour:
        """The impressions of one hour."""


@dataclass(frozen=True, slots=True)
class FieldRegime:
    """What fields there are, and what they do besides.

    pairs : standard deviation of the effect of each pair of values, beyond the values' own.
    mix : standard deviation by which the log-shares of values move anew in every hour.
    born : share of the campaigns that begin in the scored hours.
    """

    description: str
    fields: tuple[Field, ...]
    pairs: float = 0.0
    mix: float = 0.0
    born: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class FieldHour:
    """Impressions of an hour: their fields' codes, (n,) each, and true probabilities, (n,)."""

    number: int
    events: EventTable
    truth: Floats
    fields: Mapping[str, Integers]

    @property
    def campaigns(self) -> Integers:
        """Code of the campaign of each impression, (n,)."""
        return self.events.rows.astype(np.int64)

    def blind(self) -> "FieldHour":
        """The same without what nobody knows beforehand: outcomes are 0, the truth is NaN."""
        events = replace(self.events, outcomes=np.zeros(len(self.events)))
        return replace(self, events=events, truth=np.full(len(events), np.nan))


@dataclass(frozen=True)
class FieldPlatform:
    """The impressions of a platform with fields.

    In log-odds the truth has more than the platform's: the effect of each field's value and, with
    `pairs`, of each pair of values. Effects have exactly the regime's standard deviations and mean
    0 under the common mix, so that fields move no level. Campaigns mix values in their own ways,
    which makes a campaign's level and a field's effect hard to tell apart. Every hour is drawn from
    (seed, hour) alone.

    >>> from evaluation.simulation.ad_platform import Platform
    >>> world = FieldPlatform(Platform(campaigns=3), FIELD_REGIMES["independent"], seed=1)
    >>> hour = world.hour(5)
    >>> list(hour.fields), len(hour.fields["device"]) == len(hour.truth), world.values["device"][0]
    (['device', 'placement', 'country'], True, 'device-1')
    """

    base: FieldlessPlatform
    regime: FieldRegime
    seed: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The campaigns' names."""
        return self.base.names

    @property
    def values(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the values of each field."""
        return {field.name: field.value_names for field in self.regime.fields}

    def hour(self, hour: int) -> FieldHour:
        """The impressions of one hour, hour 0 being the first; ordered by time."""
        drawn = self.base.hour(hour)
        there = np.flatnonzero(hour >= self.births[drawn.events.rows])
        events = drawn.events.select(there)
        rng = np.random.default_rng((self.seed, 11, hour))
        fields = dict(self._codes(events.rows.astype(np.int64), rng))
        truth = expit(logit(drawn.truth[there]) + self.effects_of(fields))
        events = replace(events, outcomes=outcomes_of(truth, rng))
        return FieldHour(hour, events, truth, fields)

    def effects_of(self, fields: Mapping[str, Integers]) -> Floats:
        """What impressions with these codes, (n,) each, have more in log-odds, (n,)."""
        effects = [table[fields[name]] for name, table in self.effects.items()]
        pairs = [table[fields[one], fields[two]] for (one, two), table in self.pairs.items()]
        return np.asarray(np.sum([*effects, *pairs], axis=0))

    @cached_property
    def births(self) -> Integers:
        """The hour before which each campaign has no impression, (c,); 0 for most."""
        rng = np.random.default_rng((self.seed, 12))
        born = rng.random(len(self.names)) < self.regime.born
        hours = rng.integers(FIRST_SCORED, FIRST_SCORED + _LAST_BIRTH, len(self.names))
        return np.where(born, hours, 0)

    @cached_property
    def effects(self) -> dict[str, Floats]:
        """True effect of each value, (v,), by field."""
        rng = np.random.default_rng((self.seed, 13))
        return {
            field.name: field.effects(share, rng)
            for field, share in zip(self.regime.fields, self._shares, strict=True)
        }

    @cached_property
    def pairs(self) -> dict[tuple[str, str], Floats]:
        """True effect of each pair of values, (v, w), by pair of fields; empty without `pairs`."""
        rng = np.random.default_rng((self.seed, 14))
        held = zip(self.regime.fields, self._shares, strict=True)
        return {
            (one.name, two.name): self.regime.pairs
            * standardised(rng.normal(size=(one.values, two.values)), rows, columns)
            for (one, rows), (two, columns) in combinations(held, 2)
            if self.regime.pairs
        }

    def _codes(self, rows: Integers, rng: np.random.Generator) -> Iterator[tuple[str, Integers]]:
        for field, mix in zip(self.regime.fields, self._mixes, strict=True):
            moved = rng.normal(0.0, self.regime.mix, field.values) if self.regime.mix else 0.0
            yield field.name, value_codes(mix + moved, rows, rng)

    @cached_property
    def _shares(self) -> list[Floats]:
        """Share of each value, (v,), in all the traffic, by field."""
        return [value_shares(mix) for mix in self._mixes]

    @cached_property
    def _mixes(self) -> list[Floats]:
        """Log-shares of the values in each campaign's traffic, (c, v), by field."""
        rng = np.random.default_rng((self.seed, 15))
        return [field.mix(len(self.names), rng) for field in self.regime.fields]


_DEVICE, _PLACEMENT = Field("device", 4, 0.2), Field("placement", 8, 0.2)
_COUNTRY = Field("country", 20, 0.2)

FIELD_REGIMES: Final[Mapping[str, FieldRegime]] = MappingProxyType(
    {
        "independent": FieldRegime(
            "3 fields of 4, 8 and 20 values, effects of .2 each", (_DEVICE, _PLACEMENT, _COUNTRY)
        ),
        "interacting": FieldRegime(
            "2 fields, effects of .2 each and .1 of each pair of values",
            (_DEVICE, _PLACEMENT),
            pairs=0.1,
        ),
        "mix": FieldRegime(
            "4 fields, effects of .2 each; the shares of values change every hour",
            (_DEVICE, _PLACEMENT, _COUNTRY, Field("browser", 6, 0.2)),
            mix=0.6,
        ),
        "dominating": FieldRegime(
            "4 fields: placement with effects of .6, three that do next to nothing (.02)",
            (
                replace(_PLACEMENT, effect=0.6),
                replace(_DEVICE, effect=0.02),
                replace(_COUNTRY, effect=0.02),
                Field("browser", 6, 0.02),
            ),
        ),
        "sparse": FieldRegime(
            "3 fields of 800, 300 and 8 values, most of them rare; effects of .2 each",
            (Field("site", 800, 0.2, skew=1.0), Field("city", 300, 0.2, skew=1.0), _PLACEMENT),
        ),
        "none": FieldRegime(
            "3 fields that do nothing",
            tuple(replace(field, effect=0.0) for field in (_DEVICE, _PLACEMENT, _COUNTRY)),
        ),
        "advertisers": FieldRegime(
            "40 advertisers that differ by .4, effects of device .2; a third of the campaigns are"
            " born in the scored hours",
            (Field("advertiser", 40, 0.4, skew=0.5, by_campaign=True), _DEVICE),
            born=1 / 3,
        ),
    }
)
"""What fields there are and do, by name."""
