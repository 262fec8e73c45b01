"""Effects of fields from sums alone: each value's ratio of observed to predicted positives, as far
as it would have predicted hour after hour better than none.

A value v of a field has the ratio m(v) = (k + sum of w Y) / (k + sum of w E), the posterior mean of
a Poisson rate with a Gamma(k, k) prior whose past is discounted, as the levels of `pooled` have it.
The pseudo-count k, which is 1 / the variance of the effects, and the half-life of the weights w are
those that predict each hour best from those before it; no effects at all (k infinite) is one of
them, and stays unless another is better by `SUPPORT`.

E is what the maps in force predicted, times the level of the campaign in that hour, which its own
sums tell, times what the other fields do to that campaign in that hour: the mean of their ratios
under its mix of values. So what a campaign's map has learnt from its own mix is taken out, and the
fields are fitted jointly by backfitting (Breiman and Friedman, JASA 80, 1985).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, log, sqrt
from typing import Any, Final

import numpy as np

from calibrators.fields.effect_table import EffectTable
from calibrators.fields.effects import FieldEffects
from calibrators.fields.sums import OTHER, pair_ends
from calibrators.fields.window import FieldWindow, TermRows
from calibrators.samples import Floats, Integers, sum_at

SUPPORT: Final = 6.0
"""Nats of Poisson log likelihood by which effects must predict the hours better than none: some
more than the logarithm of how many are tried."""

HALF_LIVES: Final = (12.0, 48.0, 1e4)
PSEUDO_COUNTS: Final = (np.inf, *(4.0**power for power in range(6, -1, -1)))
_BOUND: Final = log(8.0)
"""No effect exceeds this log ratio, up or down."""

_SWEEPS: Final = 5
_CHOOSING: Final = (1, 3)
"""Sweeps in which pseudo-counts are chosen."""

_OF_CAMPAIGN, _OF_CAMPAIGN_HOUR, _OF_HOUR = 4.0, 20.0, 50.0
"""Pseudo-counts, in positives, of the levels that the effects are told from."""

_NONE: Final = 1e-3
"""Log ratios below this are none."""


_AT_ONCE: Final = 512
"""Rows of which gains are worked out at once: what that takes stays in the processor's cache."""


@dataclass(slots=True, eq=False)
class _Term:
    """Ratios of the values of a field, or of rows of a pair or of campaigns.

    rows : what the hours hold; codes, (r,), says to which of `size` ratios each row belongs, and
        keys, (n,), to which place of a table by ratio and hour.
    observed : (size, h). ratios, pseudo_count, half_life, evidence : what was fitted; the last is
        the observed positives, weighted, (size,).
    """

    rows: TermRows
    codes: Integers
    keys: Integers
    names: Sequence[str]
    observed: Floats
    ratios: Floats
    evidence: Floats
    pseudo_count: float = np.inf
    half_life: float = HALF_LIVES[-1]

    @classmethod
    def of(cls, rows: TermRows, codes: Integers, names: Sequence[str], counted: Floats) -> "_Term":
        keys = rows.keys(codes, len(counted))
        observed = _by_hour(keys, rows.observed, len(names), len(counted)) * counted
        return cls(rows, codes, keys, names, observed, np.ones(len(names)), np.zeros(len(names)))

    def fit(self, expected: Floats, ages: Floats, counted: Floats, choose: bool) -> None:
        """From what is predicted without this term, (n,) by row and hour."""
        predicted = _by_hour(self.keys, expected, len(self.names), len(ages)) * counted
        some = np.nonzero(self.observed)
        most, observed = np.exp(_BOUND) * predicted[some], self.observed.copy()
        observed[some] = np.minimum(observed[some], most + 3 * np.sqrt(most) + 3)
        if choose:
            self.half_life, self.pseudo_count = _chosen(observed, predicted, ages)
        weights = np.exp2(-ages / self.half_life)
        y, e = observed @ weights, predicted @ weights
        self.evidence = y
        found = _ratios(y, e, self.pseudo_count)
        # Centred, so that the levels stay where they are; none stays exactly none.
        centred = not self.is_none and e.sum() > 0
        self.ratios = found * (e.sum() / (e @ found)) if centred else np.ones_like(found)

    @property
    def is_none(self) -> bool:
        return not isfinite(self.pseudo_count)

    def table(self, scatter: float, names: Sequence[str]) -> EffectTable:
        """Effects in log-odds of those of the names that are not none; a name without one is. With
        probabilities that are not small a ratio of rates is one of more in odds."""
        chosen = dict.fromkeys(names, 0.0)
        deviations: dict[str, float] = {}
        if not self.is_none:
            found = np.log(self.ratios) / scatter
            sds = 1 / np.sqrt(self.pseudo_count + self.evidence) / scatter
            for place in self._kept(chosen, found):
                chosen[self.names[place]] = min(max(float(found[place]), -9.0), 9.0)
                deviations[self.names[place]] = float(sds[place])
        return EffectTable.of(chosen, deviations)

    def _kept(self, names: Mapping[str, float], effects: Floats) -> Iterable[int]:
        """The places of these names, and of what is not none, or known to be next to none."""
        material = (np.abs(effects) > _NONE) | (self.evidence >= self.pseudo_count)
        if not names:
            return np.flatnonzero(material).tolist()
        return [k for k, name in enumerate(self.names) if material[k] or name in names]

    def notes(self) -> dict[str, Any]:
        kept = 0 if self.is_none else int((np.abs(np.log(self.ratios)) > _NONE).sum())
        values = len(self.names) - (OTHER in self.names)
        return {"values": values, "sd": 1 / sqrt(self.pseudo_count), "kept": kept}


def _chosen(observed: Floats, expected: Floats, ages: Floats) -> tuple[float, float]:
    gains = np.zeros((len(HALF_LIVES), len(PSEUDO_COUNTS)))
    gains[-1] = _gains(observed, expected, ages, HALF_LIVES[-1])
    # What the whole past shows no trace of, a part of it is not asked for.
    for row in range(len(HALF_LIVES) - 1) if gains[-1].argmax() else ():
        gains[row] = _gains(observed, expected, ages, HALF_LIVES[row])
    row, column = divmod(int(gains.argmax()), len(PSEUDO_COUNTS))
    if gains[row, column] < SUPPORT:
        return HALF_LIVES[-1], np.inf
    return HALF_LIVES[row], PSEUDO_COUNTS[column]


def _gains(observed: Floats, expected: Floats, ages: Floats, half_life: float) -> Floats:
    """Of each pseudo-count, (k,), predicting every hour from those before it, over no effects."""
    left = np.exp2(np.diff(ages, prepend=ages[:1]) / half_life)
    found = np.zeros(len(PSEUDO_COUNTS))
    for first in range(0, len(observed), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        found += _gains_of_rows(observed[part], expected[part], left)
    return found


def _gains_of_rows(observed: Floats, expected: Floats, left: Floats) -> Floats:
    past_y, past_e = (_past(column, left) for column in (observed, expected))
    # What has no past is predicted as without effects, and gains nothing.
    seen = ((observed > 0) | (expected > 0)) & ((past_y > 0) | (past_e > 0))
    y, e, past_y, past_e = (column[seen] for column in (observed, expected, past_y, past_e))
    some = np.flatnonzero(y)
    every = (_ratios(past_y, past_e, count) for count in PSEUDO_COUNTS)
    # Not by @: of 10,000 numbers or more BLAS starts threads, which cost more than the sum.
    return np.array([(y[some] * np.log(r[some])).sum() - (e * (r - 1)).sum() for r in every])


def _past(values: Floats, left: Floats) -> Floats:
    """The sums of what was before each hour, (n, h), of which the share `left`, (h,), was left
    from the hour before to each."""
    found, sums = np.empty(values.shape), np.zeros(len(values))
    for hour, column in enumerate(np.ascontiguousarray(values.T)):
        sums *= left[hour]
        found[:, hour] = sums
        sums += column
    return found


def _ratios(observed: Floats, expected: Floats, pseudo_count: float) -> Floats:
    if not np.isfinite(pseudo_count):
        return np.ones_like(observed)
    found = (pseudo_count + observed) / (pseudo_count + expected)
    return np.clip(found, np.exp(-_BOUND), np.exp(_BOUND))


def _by_hour(keys: Integers, values: Floats, size: int, hours: int) -> Floats:
    """Sums of values, (n,), by their places in a table (size, hours)."""
    return sum_at(keys, values, size * hours).reshape(size, hours)


def _of_each(rows: TermRows, counted: Floats) -> _Term:
    """A ratio for each row."""
    return _Term.of(rows, np.arange(len(rows.labels)), rows.labels, counted)


@dataclass(frozen=True, slots=True, eq=False)
class FittedEffects:
    """effects : None where all are none.
    campaigns, means : the mean ratio of all effects in each campaign and hour, (c, h): what a
        campaign's level is to be freed of.
    notes : numbers for the report, by field and pair.
    """

    effects: FieldEffects | None
    campaigns: Mapping[str, int]
    means: Floats
    notes: Mapping[str, Any] = field(default_factory=dict)

    def means_of(self, campaigns: Sequence[str], hours: int) -> Floats:
        """Of these campaigns in the first hours, (c, hours); 1 where nothing is known."""
        every = np.vstack((self.means, np.ones((1, self.means.shape[1]))))
        rows = [self.campaigns.get(name, -1) for name in campaigns]
        found: Floats = every[rows, :hours]
        late = hours - found.shape[1]
        return np.pad(found, ((0, 0), (0, late)), constant_values=1.0) if late else found


def fit_effects(window: FieldWindow, hours: range, ages: Floats, counted: Floats) -> FittedEffects:
    """The effects that the hours support; their ages at the middle, (h,), and what they count,
    (h,): 0 of an outage."""
    return _Fit(window, hours, ages, counted).run()


class _Fit:
    def __init__(self, window: FieldWindow, hours: range, ages: Floats, counted: Floats) -> None:
        self._ages, self._counted = ages, counted
        self._campaigns: dict[str, int] = {}
        sums = [window.hours[hour] for hour in hours]
        fields = list(dict.fromkeys(name for hour in sums for name in hour.campaigns))
        pairs = list(dict.fromkeys(name for hour in sums for name in hour.pairs))
        self._values: dict[str, dict[str, int]] = {name: {OTHER: 0} for name in fields}
        rows: dict[str, TermRows] = {}
        for name in (*fields, *pairs):
            held = [hour.campaigns.get(name) or hour.pairs.get(name) for hour in sums]
            ends = [self._values[end] for end in pair_ends(name)] if name in pairs else None
            firsts, seconds = ends or (self._campaigns, self._values[name])
            rows[name] = TermRows.of(window.numbers.get(name, {}), held, firsts, seconds)
        self._fields = {
            name: _Term.of(rows[name], rows[name].seconds, list(self._values[name]), counted)
            for name in fields
        }
        self._pairs = {name: _of_each(rows[name], counted) for name in pairs}
        self._scatter = float(np.mean([hour.scatter for hour in sums])) if sums else 1.0
        shape = (len(self._campaigns), len(ages))
        self._means = {name: np.ones(shape) for name in fields}
        self._product = np.ones(shape)
        self._levels = np.ones(shape)
        self._totals = np.zeros((2, *shape))
        # Where each row and hour of a field stands in a table by campaign and hour, and what the
        # field expects in it.
        self._keys = {name: each.keys(each.firsts, len(ages)) for name, each in rows.items()}
        self._expected: dict[str, Floats] = {}
        for name, term in self._fields.items():
            self._expected[name] = self._by_campaign(name, term.rows.expected)
            found = (self._expected[name], self._by_campaign(name, term.rows.observed))
            # A field of which rows were left out has less of a campaign.
            self._totals = np.maximum(self._totals, found)

    def _by_campaign(self, name: str, values: Floats) -> Floats:
        return _by_hour(self._keys[name], values, len(self._campaigns), len(self._ages))

    def run(self) -> FittedEffects:
        for sweep in range(_SWEEPS):
            self._level()
            for name, term in self._fields.items():
                term.fit(self._without(name), self._ages, self._counted, sweep in _CHOOSING)
                self._average(name, term.ratios[term.codes])
        deviations = self._deviations()
        for name, term in self._pairs.items():
            term.fit(self._of_pair(name), self._ages, self._counted, True)
        return self._found(deviations)

    def _level(self) -> None:
        """Levels of campaigns and hours, under the effects so far."""
        expected, observed = self._totals[0] * self._product, self._totals[1]
        counted = self._counted
        own = (observed @ counted + _OF_CAMPAIGN) / (expected @ counted + _OF_CAMPAIGN)
        expected = expected * own[:, None]
        hourly = (observed.sum(axis=0) + _OF_HOUR) / (expected.sum(axis=0) + _OF_HOUR)
        expected = expected * hourly
        moved = (observed + _OF_CAMPAIGN_HOUR) / (expected + _OF_CAMPAIGN_HOUR)
        self._levels = own[:, None] * hourly * moved

    def _without(self, name: str) -> Floats:
        """Predicted by levels and all fields but this one, (n,)."""
        factors = self._levels * self._product / self._means[name]
        found: Floats = self._fields[name].rows.expected * factors.take(self._keys[name])
        return found

    def _average(self, name: str, ratios: Floats) -> None:
        """The mean of the rows' ratios, (r,), in each campaign and hour."""
        rows = self._fields[name].rows
        moved, whole = (
            self._by_campaign(name, rows.expected * ratios[rows.rows]),
            self._expected[name],
        )
        mean = np.divide(moved, whole, out=np.ones_like(whole), where=whole > 0)
        self._product *= mean / self._means[name]
        self._means[name] = mean

    def _deviations(self) -> dict[str, _Term]:
        """Of campaigns from the effects of a field's values."""
        found = {}
        for name, term in self._fields.items():
            rows = term.rows
            own = _of_each(rows, self._counted)
            without = self._without(name) * term.ratios[rows.seconds[rows.rows]]
            # The rest of the campaigns deviate from nothing.
            rest = rows.firsts == self._campaigns.get("", -1)
            own.observed[rest] = 0.0
            own.fit(np.where(rest[rows.rows], 0.0, without), self._ages, self._counted, True)
            if not own.is_none:
                found[name] = own
                self._average(name, term.ratios[rows.seconds] * own.ratios)
        return found

    def _of_pair(self, name: str) -> Floats:
        """Predicted by the levels that its values have, and their effects, (n,)."""
        pair = self._pairs[name].rows
        found = pair.expected.copy()
        for end, codes in zip(pair_ends(name), (pair.firsts, pair.seconds), strict=True):
            factors = self._level_of_values(end) * self._fields[end].ratios[:, None]
            found *= factors[codes[pair.rows], pair.hours]
        total = sum_at(pair.hours, found, len(self._ages))
        observed = sum_at(pair.hours, pair.observed, len(self._ages))
        hourly = (observed + _OF_HOUR) / (total + _OF_HOUR)
        return np.asarray(found * hourly[pair.hours])

    def _level_of_values(self, name: str) -> Floats:
        """The mean level of the campaigns that a value comes in, by hour, (v, h)."""
        term = self._fields[name]
        levels = term.rows.expected * self._levels.take(self._keys[name])
        shape = (len(self._values[name]), len(self._ages))
        own, whole = (_by_hour(term.keys, each, *shape) for each in (levels, term.rows.expected))
        return np.divide(own, whole, out=np.ones_like(whole), where=whole > 0)

    def _found(self, deviations: Mapping[str, _Term]) -> FittedEffects:
        terms = {**self._fields, **self._pairs}
        notes = {name: term.notes() for name, term in terms.items()}
        notes |= {f"campaign*{name}": term.notes() for name, term in deviations.items()}
        fitted = [*terms.values(), *deviations.values()]
        effects = None if all(term.is_none for term in fitted) else self._effects(deviations)
        return FittedEffects(effects, self._campaigns, self._product, notes)

    def _effects(self, deviations: Mapping[str, _Term]) -> FieldEffects:
        pairs = {name: term for name, term in self._pairs.items() if not term.is_none}
        named = {end for name in pairs for end in pair_ends(name)} | set(deviations)
        return FieldEffects(
            {
                name: term.table(self._scatter, term.names if name in named else (OTHER,))
                for name, term in self._fields.items()
            },
            {name: term.table(self._scatter, ()) for name, term in pairs.items()},
            {name: term.table(self._scatter, ()) for name, term in deviations.items()},
        )
