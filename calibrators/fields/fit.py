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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from math import isfinite, log, sqrt
from typing import Any, Final, NamedTuple

import numpy as np

from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.fields.overlap import Overlap
from calibrators.fields.sums import OTHER, pair_ends
from calibrators.fields.window import FieldWindow, TermRows
from calibrators.samples import Floats, Integers, sum_at

SUPPORT: Final = 6.0
"""Nats of Poisson log likelihood by which effects must predict the hours better than none: some
more than the logarithm of how many are tried."""

HALF_LIVES: Final = (12.0, 48.0, 1e4)
PSEUDO_COUNTS: Final = tuple(4.0**power for power in range(6, -1, -1))
_BOUND: Final = log(8.0)
"""No effect exceeds this log ratio, up or down."""

_FIRST_SWEEPS: Final[tuple[bool, ...]] = (True, False, True, False)
_LATER_SWEEPS: Final[tuple[bool, ...]] = (True, False)
"""Whether pseudo-counts are chosen in a sweep; each leaves a fifth to a third of what the one
before left of the distance to where sweeps end."""

_WORSE: Final = 2
"""So many pseudo-counts in a row, each of larger effects than the last, that predict worse than the
best before them end the search: gains have one peak, but for chance."""

_OF_CAMPAIGN, _OF_CAMPAIGN_HOUR, _OF_HOUR = 4.0, 20.0, 50.0
"""Pseudo-counts, in positives, of the levels that the effects are told from."""

_NONE: Final = 1e-3
"""Log ratios below this are none."""

_AT_ONCE: Final = 1 << 14
"""Cells of which gains are worked out at once: what that takes stays in the processor's cache."""


class _Foreseen:
    """Of cells that have a past, (n,): what was predicted without effects, and the sums of what was
    before, of which a share is left from each hour to the next; observed positives, where there
    were any, and where that was."""

    def __init__(
        self, observed: Floats, expected: Floats, weights: Floats, starts: Integers
    ) -> None:
        """Of all cells of rows that start there, in the order of hours; weights by their ages."""
        seen = (observed > 0) | (expected > 0)
        # What has no past is predicted as without effects, and gains nothing.
        seen[starts] = False
        self.past_observed, self.past_expected = (
            _past(column * weights, starts)[seen] / weights[seen] for column in (observed, expected)
        )
        self.expected = expected[seen]
        self.some = np.flatnonzero(observed[seen])
        self.observed = observed[seen][self.some]

    def gain(self, pseudo_count: float) -> float:
        """Of predicting each hour from those before it, over no effects, in nats."""
        ratios = _ratios(self.past_observed, self.past_expected, pseudo_count)
        # Not by @: of 10,000 numbers or more BLAS starts threads, which cost more than the sum.
        gained = (self.observed * np.log(ratios[self.some])).sum()
        ratios -= 1.0
        ratios *= self.expected
        return float(gained - ratios.sum())


class _Choice(NamedTuple):
    gain: float = 0.0
    half_life: float = HALF_LIVES[-1]
    pseudo_count: float = np.inf

    @property
    def is_none(self) -> bool:
        return not isfinite(self.pseudo_count)


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """For what predicts each hour best: observed and expected positives of cells, (m,), row by row,
    their hours, ascending, and where rows start; ages by hour, (h,)."""

    observed: Floats
    expected: Floats
    hour: Integers
    starts: Integers
    ages: Floats

    def best(self, known: _Choice) -> _Choice:
        """None, unless another is better by `SUPPORT`; what was known to be better is looked for
        nearby only."""
        found = self._from_none(HALF_LIVES[-1]) if known.is_none else self._near(known)
        # What the whole past shows no trace of, a part of it is not asked for.
        if known.is_none and found.gain > 0:
            shorter = map(self._from_none, HALF_LIVES[:-1])
            found = max(*shorter, found, key=lambda choice: choice.gain)
        return found if found.gain >= SUPPORT else _Choice()

    def _from_none(self, half_life: float) -> _Choice:
        """From no effects to ever larger ones, as long as that helps."""
        foreseen = self._foreseen(half_life)
        best, worse = _Choice(0.0, half_life), 0
        for count in PSEUDO_COUNTS:
            gain = sum(part.gain(count) for part in foreseen)
            better = gain > best.gain
            best, worse = (_Choice(gain, half_life, count), 0) if better else (best, worse + 1)
            if worse == _WORSE:
                break
        return best

    def _near(self, known: _Choice) -> _Choice:
        """From there uphill."""
        foreseen, place = self._foreseen(known.half_life), PSEUDO_COUNTS.index(known.pseudo_count)
        gain = cache(lambda at: sum(part.gain(PSEUDO_COUNTS[at]) for part in foreseen))
        places, last = range(len(PSEUDO_COUNTS)), -1
        while place != last:
            last, place = place, max(places[max(place - 1, 0) : place + 2], key=gain)
        return _Choice(gain(place), known.half_life, PSEUDO_COUNTS[place])

    def _foreseen(self, half_life: float) -> list[_Foreseen]:
        weights = _weights(self.ages, half_life)[self.hour]
        ends = np.append(self.starts, len(weights))
        # No row is in two parts.
        cuts = self.starts.searchsorted(np.arange(_AT_ONCE, len(weights), _AT_ONCE))
        parts = []
        for first, behind in pairwise([0, *np.unique(cuts).tolist(), len(self.starts)]):
            start, part = ends[first], slice(ends[first], ends[behind])
            columns = (self.observed[part], self.expected[part], weights[part])
            parts.append(_Foreseen(*columns, self.starts[first:behind] - start))
        return parts


def _weights(ages: Floats, half_life: float) -> Floats:
    return np.asarray(np.exp2(-ages / half_life))


def _past(values: Floats, starts: Integers) -> Floats:
    """The sums of the values of a row before each, (n,), of rows that start there."""
    found = np.cumsum(values)
    found -= values
    found -= np.repeat(found[starts], np.diff(starts, append=len(values)))
    # What was before other rows is taken away but for its last bits.
    return np.maximum(found, 0.0, out=found)


def _ratios(observed: Floats, expected: Floats, pseudo_count: float) -> Floats:
    found = pseudo_count + observed
    found /= pseudo_count + expected
    return np.clip(found, np.exp(-_BOUND), np.exp(_BOUND), out=found)


class _Term:
    """Ratios of the values of a field, or of rows of a pair or of campaigns.

    rows : what the hours hold; codes, (r,), says to which of `size` ratios each row belongs.
    row, hour : of cells, the places of a table by ratio and hour that hold something, (m,), in
        order, which start anew at `starts`; cells, (n,), says to which each row and hour belongs.
    held : observed positives, (m,). ratios, choice, evidence : what was fitted; the last is
        the observed positives, weighted, (size,). share : what is served of the logarithms.
    """

    def __init__(self, rows: TermRows, codes: Integers, names: Sequence[str], hours: int) -> None:
        self.rows, self.codes, self.names, self.share = rows, codes, names, 1.0
        keys = rows.keys(codes, hours)
        there = np.zeros(len(names) * hours, np.bool_)
        there[keys] = True
        self.cells = (np.cumsum(there, dtype=np.int32) - 1)[keys]
        self.row, self.hour = np.divmod(np.flatnonzero(there), hours)
        self.starts = np.flatnonzero(np.diff(self.row, prepend=-1))
        self.held = sum_at(self.cells, rows.observed, len(self.row))
        self.ratios, self.evidence = np.ones(len(names)), np.zeros(len(names))
        self.choice = _Choice()

    def fit(self, expected: Floats, ages: Floats, counted: Floats, known: _Choice | None) -> None:
        """From what is predicted without this term, (n,) by row and hour; the choice stays unless
        one is `known` to begin at."""
        counted = counted[self.hour]
        predicted = sum_at(self.cells, expected, len(self.row)) * counted
        observed = self.held * counted
        some = np.flatnonzero(observed)
        most = np.exp(_BOUND) * predicted.take(some)
        observed.put(some, np.minimum(observed.take(some), most + 3 * np.sqrt(most) + 3))
        if known is not None:
            self.choice = _Search(observed, predicted, self.hour, self.starts, ages).best(known)
        if self.is_none:
            self.ratios = np.ones(len(self.names))
            return
        weights = _weights(ages, self.choice.half_life)[self.hour]
        y, e = (self._by_row(column * weights) for column in (observed, predicted))
        self.evidence = y
        found = _ratios(y, e, self.choice.pseudo_count)
        # Centred, so that the levels stay where they are; what has no evidence is none.
        centre = e.sum() / (e @ found) if e.sum() > 0 else 1.0
        self.ratios = np.where((y > 0) | (e > 0), found * centre, 1.0)

    def _by_row(self, values: Floats) -> Floats:
        found = np.zeros(len(self.names))
        if len(self.starts):
            found[self.row[self.starts]] = np.add.reduceat(values, self.starts)
        return found

    @property
    def is_none(self) -> bool:
        return self.choice.is_none

    def table(self, scatter: float, names: Sequence[str]) -> EffectTable:
        """Effects in log-odds of those of the names that are not none; a name without one is. With
        probabilities that are not small a ratio of rates is one of more in odds."""
        chosen = dict.fromkeys(names, 0.0)
        deviations: dict[str, float] = {}
        if not self.is_none:
            found = self.share * np.log(self.ratios) / scatter
            sds = 1 / np.sqrt(self.choice.pseudo_count + self.evidence) / scatter
            sds *= sqrt(self.share)
            places = self._kept(chosen, found)
            kept = [self.names[place] for place in places]
            chosen |= zip(kept, np.clip(found[places], -9.0, 9.0).tolist(), strict=True)
            deviations = dict(zip(kept, sds[places].tolist(), strict=True))
        return EffectTable.of(chosen, deviations)

    def _kept(self, names: Mapping[str, float], effects: Floats) -> list[int]:
        """The places of these names, and of what is not none, or known to be next to none."""
        material = (np.abs(effects) > _NONE) | (self.evidence >= self.choice.pseudo_count)
        rows = enumerate(zip(self.names, material.tolist(), strict=True))
        return [place for place, (name, matters) in rows if matters or name in names]

    def notes(self) -> dict[str, Any]:
        kept = 0 if self.is_none else int((np.abs(np.log(self.ratios)) > _NONE).sum())
        values = len(self.names) - (OTHER in self.names)
        agreeing = {} if self.share == 1.0 else {"share": self.share}
        sd = 1 / sqrt(self.choice.pseudo_count)
        return {"values": values, "sd": sd, "kept": kept, **agreeing}


def _of_each(rows: TermRows, hours: int) -> _Term:
    """A ratio for each row."""
    return _Term(rows, np.arange(len(rows.labels)), rows.labels, hours)


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


class EffectsFit:
    """Fits the effects that hours of a window support; each fit begins where the last one ended."""

    def __init__(self, window: FieldWindow, hours: range) -> None:
        self._campaigns = dict(window.campaigns)
        sums = [window.hours[hour] for hour in hours]
        fields = list(dict.fromkeys(name for hour in sums for name in hour.campaigns))
        pairs = list(dict.fromkeys(name for hour in sums for name in hour.pairs))
        self._values = {name: dict(window.values[name]) for name in fields}
        rows = {name: TermRows(window, name, sums) for name in (*fields, *pairs)}
        self._fields = {
            name: _Term(rows[name], rows[name].seconds, list(self._values[name]), len(hours))
            for name in fields
        }
        self._pairs = {name: _of_each(rows[name], len(hours)) for name in pairs}
        self._deviating: dict[str, _Choice] = {}
        self._scatters = np.array([hour.scatter for hour in sums])
        self._ages = self._counted = np.ones(len(hours))
        self._sweeps = _FIRST_SWEEPS
        shape = (len(self._campaigns), len(hours))
        self._means = {name: np.ones(shape) for name in fields}
        self._served = dict(self._means)
        self._product, self._jointly = np.ones(shape), np.ones(shape)
        self._levels = np.ones(shape)
        self._totals = np.zeros((2, *shape))
        # Where each row and hour of a field stands in a table by campaign and hour, and what the
        # field expects in it.
        self._keys = {name: each.keys(each.firsts, len(hours)) for name, each in rows.items()}
        self._expected: dict[str, Floats] = {}
        for name, term in self._fields.items():
            self._expected[name] = self._by_campaign(name, term.rows.expected)
            # A field of which rows were left out has less of a campaign; not the most of either,
            # for that one would be the luckiest of all fields.
            found = (self._expected[name], self._by_campaign(name, term.rows.observed))
            self._totals = np.where(found[0] > self._totals[0], found, self._totals)

    def _by_campaign(self, name: str, values: Floats) -> Floats:
        return sum_at(self._keys[name], values, self._product.size).reshape(self._product.shape)

    def fit(self, ages: Floats, counted: Floats) -> FittedEffects:
        """With the hours' ages at the middle, (h,), and what they count, (h,): 0 of an outage, and
        of the newest where the fit is not to know it."""
        self._ages, self._counted = ages, counted
        for name in self._deviating:
            self._average(name, self._fields[name].ratios)
        for choose in self._sweeps:
            self._level()
            for name, term in self._fields.items():
                self._sweep(name, term, choose)
            self._divide()
        self._sweeps = _LATER_SWEEPS
        deviations = self._deviations()
        self._deviating = {name: term.choice for name, term in deviations.items()}
        for name, term in self._pairs.items():
            term.fit(self._of_pair(name), self._ages, self._counted, _Choice())
        return self._found(deviations)

    def _sweep(self, name: str, term: _Term, choose: bool) -> None:
        before = term.is_none
        if before and not choose:
            return
        term.fit(self._without(name), self._ages, self._counted, _Choice() if choose else None)
        if not (before and term.is_none):
            self._average(name, term.ratios)

    def _divide(self) -> None:
        """Among fields that agree, what they have in common."""
        some = [name for name, term in self._fields.items() if not term.is_none]
        means = [self._means[name] for name in some]
        spreads = np.reshape(list(map(self._spread, some)), (len(some), len(self._campaigns)))
        found = Overlap.of(means, spreads, self._totals[0] * self._counted)
        shares = dict(zip(some, found.shares.tolist(), strict=True))
        for name, term in self._fields.items():
            before, term.share = term.share, shares.get(name, 1.0)
            if term.share != before:
                self._average(name, term.ratios)
        # Of few impressions, the mean of each field has most of what they have in common already.
        alone = 1 / self._probability - 1 / np.maximum(self._totals[0], self._probability)
        jointly = np.exp(found.jointly(spreads)[:, None] * alone)
        self._product *= jointly / self._jointly
        self._jointly = jointly

    @property
    def _probability(self) -> float:
        """Of a positive, in the mean of those predicted."""
        scatters = self._scatters[self._counted > 0]
        return max(1.0 - float(scatters.mean()), 1e-9) if len(scatters) else 1.0

    def _spread(self, name: str) -> Floats:
        """The relative variance of the ratios in each campaign, times `_probability`, (c,)."""
        rows, whole = self._fields[name].rows, self._expected[name]
        squares = rows.expected * self._fields[name].ratios[rows.seconds[rows.rows]] ** 2
        parts = (self._by_campaign(name, squares), whole * self._means[name], whole)
        square, mean, total = (np.maximum(part.sum(axis=1), 1e-30) for part in parts)
        return np.asarray(np.maximum(square * total / mean**2 - 1.0, 0.0) * self._probability)

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
        """Predicted by levels and what is served of all fields, less what this one shows, (n,)."""
        factors = self._levels * self._product / self._means[name]
        return np.asarray(self._fields[name].rows.expected * factors.take(self._keys[name]))

    def _average(self, name: str, ratios: Floats, own: Floats | None = None) -> None:
        """The mean of the values' ratios, (v,), times the rows' own, (r,), in each campaign and
        hour."""
        rows = self._fields[name].rows
        of_rows = ratios[rows.seconds] if own is None else ratios[rows.seconds] * own
        share = self._fields[name].share
        mean = self._mean(name, of_rows)
        served = mean if share == 1.0 else self._mean(name, of_rows**share)
        self._product *= served / self._served[name]
        self._means[name], self._served[name] = mean, served

    def _mean(self, name: str, of_rows: Floats) -> Floats:
        rows, whole = self._fields[name].rows, self._expected[name]
        moved = self._by_campaign(name, rows.expected * of_rows[rows.rows])
        return np.divide(moved, whole, out=np.ones_like(whole), where=whole > 0)

    def _deviations(self) -> dict[str, _Term]:
        """Of campaigns from the effects of a field's values."""
        found = {}
        for name, term in self._fields.items():
            rows = term.rows
            own = _of_each(rows, len(self._ages))
            own.share = term.share
            without = self._without(name) * term.ratios[rows.seconds[rows.rows]]
            # The rest of the campaigns deviate from nothing.
            rest = rows.firsts == self._campaigns.get("", -1)
            own.held[rest[own.row]] = 0.0
            # Ten times as many ratios as values: what was found is not looked for everywhere again.
            known = self._deviating.get(name, _Choice())
            own.fit(np.where(rest[rows.rows], 0.0, without), self._ages, self._counted, known)
            if not own.is_none:
                found[name] = own
                self._average(name, term.ratios, own.ratios)
        return found

    def _of_pair(self, name: str) -> Floats:
        """Predicted by the levels that its values have, and their effects, (n,)."""
        pair = self._pairs[name].rows
        found = pair.expected.copy()
        for end, codes in zip(pair_ends(name), (pair.firsts, pair.seconds), strict=True):
            served = self._fields[end].ratios ** self._fields[end].share
            factors = self._level_of_values(end) * served[:, None]
            found *= factors[codes[pair.rows], pair.hours]
        total = sum_at(pair.hours, found, len(self._ages))
        observed = sum_at(pair.hours, pair.observed, len(self._ages))
        hourly = (observed + _OF_HOUR) / (total + _OF_HOUR)
        return np.asarray(found * hourly[pair.hours])

    def _level_of_values(self, name: str) -> Floats:
        """The mean level of the campaigns that a value comes in, by hour, (v, h)."""
        term = self._fields[name]
        levels = term.rows.expected * self._levels.take(self._keys[name])
        found = np.ones((len(self._values[name]), len(self._ages)))
        own, whole = (
            sum_at(term.cells, each, len(term.row)) for each in (levels, term.rows.expected)
        )
        found[term.row, term.hour] = np.divide(own, whole, out=np.ones_like(own), where=whole > 0)
        return found

    def _found(self, deviations: Mapping[str, _Term]) -> FittedEffects:
        terms = {**self._fields, **self._pairs}
        notes = {name: term.notes() for name, term in terms.items()}
        notes |= {f"campaign*{name}": term.notes() for name, term in deviations.items()}
        fitted = [*terms.values(), *deviations.values()]
        effects = None if all(term.is_none for term in fitted) else self._effects(deviations)
        return FittedEffects(effects, self._campaigns, self._product.copy(), notes)

    def _effects(self, deviations: Mapping[str, _Term]) -> FieldEffects:
        scatter = float(self._scatters[self._counted > 0].mean())
        pairs = {name: term for name, term in self._pairs.items() if not term.is_none}
        named = {end for name in pairs for end in pair_ends(name)} | set(deviations)
        return FieldEffects(
            {
                name: term.table(scatter, term.names if name in named else (OTHER,))
                for name, term in self._fields.items()
            },
            {name: term.table(scatter, ()) for name, term in pairs.items()},
            {name: term.table(scatter, ()) for name, term in deviations.items()},
        )
