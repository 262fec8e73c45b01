"""Predicted and observed positives by field: the part `fields` of an immediate target's report.

The sums of an hour by value have what the maps gave when the hour was folded; here they get the
effects that served the hour. A value gets those of its own field, and two values also those of
their pair; of the other fields all get the mean effect, as if values of one came independently of
those of another. Where a field has a share of its effect, because others agree with it, its values
get the whole, which is what impressions with them were served.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.bins import BinsStore
from app.storage.keys import begun_hours
from app.worker.atlas_cache import AtlasCache
from app.worker.experiments import finite
from calibrators.bins.table import BinsTable, History
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.fields.sums import OTHER, PAIR, merged, pair_ends, row_ends
from calibrators.fields.window import FieldWindow
from calibrators.maps.groups import FieldGroups, GroupOf
from calibrators.samples import Floats, sum_at
from evaluation.fields.field_errors import FieldSums
from evaluation.fields.multicalibration import SegmentSums, spreads_of
from evaluation.metrics.predictions import ratio

HOURS: Final = 3
"""As many versions are held in memory; more would be read again with every refit."""
_LATE: Final = 1
"""Closed hours that are left out: their late clicks are not in yet."""
TOP: Final = 100
"""Values of a field, or of a pair, that a report lists."""
_LEAST_SHARE: Final = 0.1
"""What is left of a smaller share does not tell the whole."""
_FEWEST: Final = 10
"""Samples of a value that counts as a segment."""

Row = Mapping[str, Any]


def owning_groups(bins: BinsStore, settings: Settings, target: str, as_of: float) -> GroupOf | None:
    """The group of campaigns, where a field says it: by the hours up to a moment in epoch seconds
    that a refit learns from. None where no field does."""
    if settings.group_field is None:
        return None
    window, behind = FieldWindow(), begun_hours(as_of)
    history = History(as_of / SECONDS_PER_HOUR, (), partial(bins.field_tables, target))
    hours = max(settings.window_hours, settings.history_hours)
    window.read(history, range(behind - hours, behind))
    return FieldGroups(settings.group_field, window.owners(settings.group_field))


@dataclass(frozen=True, slots=True)
class FieldsReport:
    """Reads the sums by field; `history` are the manifests of the versions kept, newest first."""

    bins: BinsStore
    cache: AtlasCache
    history: Sequence[Mapping[str, Any]]
    window_hours: int

    def of(self, target: str, closed: int) -> dict[str, Any]:
        """`fields` of a target's report, of the newest hours below `closed` whose late clicks are
        in; nothing where no event came.

            hours  how many hours it is of, at most
            rce    by field: Field-RCE, `value`, and what chance alone makes of it, `floor`
            mce    the worst segment: its error in `sigmas` and `relative` to its positives, how
                   often `chance` alone makes any of so many `segments` so bad, its `expected` and
                   `positives`, and the `fields` that name it
            top    by field and by pair: how many `values` there were, and of those with the most
                   evidence, which are expected positives, `values`, `expected` and `positives`
        """
        last = closed - _LATE
        hours = range(last - min(HOURS, self.window_hours), last)
        tables = merged([*self._terms(target, hours)])
        if not any(map(len, tables.values())):
            return {}
        sums = {name: _sums(table) for name, table in tables.items()}
        return {
            "fields": {
                "hours": len(hours),
                "rce": {name: _errors(one) for name, one in sums.items() if PAIR not in name},
                "mce": _worst(tables),
                "top": {name: _top(one) for name, one in sums.items()},
            }
        }

    def _terms(self, target: str, hours: range) -> Iterator[dict[str, BinsTable]]:
        """By field and by pair the bins of what served, an hour after the other."""
        for hour in hours:
            served = self.cache.serving(hour, self.history)
            if served is None:
                continue
            atlas = served.atlases.get(target)
            effects = None if atlas is None else atlas.effects
            found = self.bins.field_tables(target, hour)
            notes = served.targets.get(target, {}).get("method", {}).get("fields", {})
            shares = {name: note["share"] for name, note in notes.items() if "share" in note}
            yield _served_tables({**found.fields, **found.pairs}, effects, shares)


def _served_tables(
    tables: Mapping[str, BinsTable], effects: FieldEffects | None, shares: Mapping[str, float]
) -> dict[str, BinsTable]:
    """The same events by the probabilities that served them."""
    if effects is None:
        return dict(tables)
    ratios = {name: _ratios(name, table.campaigns, effects) for name, table in tables.items()}
    means = {name: _mean(tables[name], ratios[name]) for name in tables if PAIR not in name}
    for name in means.keys() & shares.keys():
        whole = ratios[name] ** (1.0 / max(shares[name], _LEAST_SHARE))
        mean = _mean(tables[name], whole)
        means[name], ratios[name] = mean ** shares[name], whole * mean ** (shares[name] - 1.0)
    return {
        name: _served(table, ratios[name] * _of_others(name, means))
        for name, table in tables.items()
    }


def _mean(table: BinsTable, ratios: Floats) -> float:
    """Of the ratios of a field's values, by their predicted positives."""
    scores, _, weights, rows = table.samples()
    expected = scores * weights
    return float(np.average(ratios[rows], weights=expected)) if expected.any() else 1.0


def _of_others(name: str, means: Mapping[str, float]) -> float:
    own = pair_ends(name) if PAIR in name else (name,)
    return prod(mean for field, mean in means.items() if field not in own)


def _served(table: BinsTable, ratios: Floats) -> BinsTable:
    scores, outcomes, weights, rows = table.samples()
    raised = scores * ratios[rows]
    served = raised / (1.0 - scores + raised)
    return BinsTable.from_columns(table.campaigns, rows, served, weights, outcomes * weights)


def _ratios(name: str, rows: Sequence[str], effects: FieldEffects) -> Floats:
    """What the odds of each row are multiplied by, (rows,)."""
    fields, pairs, _ = effects.tables
    if PAIR not in name:
        return _of_values(fields.get(name), rows)
    ends = zip(*map(row_ends, rows), strict=True) if rows else ((), ())
    found = np.ones(len(rows))
    for field, values in zip(pair_ends(name), ends, strict=True):
        found *= _of_values(fields.get(field), values)
    return found * _looked_up(pairs[name], rows, 1.0) if name in pairs else found


def _of_values(table: EffectTable | None, values: Sequence[str]) -> Floats:
    if table is None:
        return np.ones(len(values))
    return _looked_up(table, values, float(table.odds_ratios[table.names.index(OTHER)]))


def _looked_up(table: EffectTable, rows: Sequence[str], without: float) -> Floats:
    ratio_of = table.by_name
    return np.array([ratio_of.get(row, without) for row in rows], np.float64)


def _sums(table: BinsTable) -> FieldSums:
    """By value: predicted and observed positives, their variance, and events."""
    p, outcomes, weights, rows = table.samples()
    columns = (p * weights, outcomes * weights, p * (1.0 - p) * weights, weights)
    k = len(table.campaigns)
    summed = (sum_at(rows, column, k) for column in columns)
    return FieldSums.check(table.campaigns, *summed)


def _errors(sums: FieldSums) -> Row:
    floor, value = sums.rce_floor(), sums.rce
    return {"value": finite(value), "floor": finite(floor)}


def _top(sums: FieldSums) -> Row:
    order = np.argsort(-sums.expected, kind="stable")[:TOP].tolist()
    rows = [
        {
            "value": sums.names[i],
            "expected": float(sums.expected[i]),
            "positives": float(sums.positives[i]),
        }
        for i in order
    ]
    return {"values": len(sums.names), "rows": rows}


def _worst(tables: Mapping[str, BinsTable]) -> Row | None:
    """The segment with the largest error over all fields and pairs."""
    segments, least, worst = 0, 1.0, None
    for name, table in tables.items():
        sums = _segments(table)
        kept = np.flatnonzero((sums.samples >= _FEWEST) & (sums.variance > 0))
        if not len(kept):
            continue
        segments += len(kept)
        sigmas, chances = sums.sigmas[kept], sums.chances[kept]
        least = min(least, float(chances.min()))
        place = int(kept[np.argmax(sigmas)])
        if worst is None or float(sigmas.max()) > worst["sigmas"]:
            worst = _segment(name, table.campaigns[place], sums, place)
    return worst and {**worst, "segments": segments, "chance": min(1.0, segments * least)}


def _segment(name: str, row: str, sums: SegmentSums, place: int) -> dict[str, Any]:
    named = {name: row}
    if PAIR in name:
        named = dict(zip(pair_ends(name), row_ends(row), strict=True))
    return {
        "sigmas": float(sums.sigmas[place]),
        "relative": finite(ratio(sums.spreads[place], sums.positives[place])),
        "expected": float(sums.expected[place]),
        "positives": float(sums.positives[place]),
        "fields": named,
    }


def _segments(table: BinsTable) -> SegmentSums:
    """By row, whose cells come by ascending probability."""
    p, outcomes, weights, rows = table.samples()
    k = len(table.campaigns)
    columns = (weights, p * weights, outcomes * weights, p * (1.0 - p) * weights)
    samples, expected, positives, variance = (sum_at(rows, column, k) for column in columns)
    spreads = spreads_of((outcomes - p) * weights, rows, k)
    return SegmentSums(samples, samples, expected, positives, variance, spreads)
