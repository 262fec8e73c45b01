"""Effects of fields, and intervals: what they add to a look-up and an answer of a batch of 100, and
effects to a refit.

The look-up is that of 10,000 campaigns' maps with effects of 4 devices, 8 placements and 200
countries: `without` finds rows and probabilities, `strings` multiplies the odds by what the names
of values say, `codes` by values that are coded already. An answer is the service's own code from
the bytes of the request, in JSON, to those of the answer, without HTTP; `over plain` is its CPU by
that of an answer that has neither fields nor an interval. The refit is of 20 fields of 1,000 values
and 10,000 campaigns, each with five of them a field and about 100 impressions an hour, 48 hours:
`read, s` is the reading of all hours, `warm read, s` that of the newest, which is what a worker
does each hour, and `fits, s` the fits of the effects: with the guard there are two, without the
newest hour and with it. `grown MB` is what the hours that were read hold. Seconds are CPU time.

    python -m benchmarks.core.effects [--quick]

`--quick` leaves the refit out, which takes minutes.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import process_time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import orjson

from app.api.authorization import ANYBODY
from app.api.resources import Resources
from app.api.scoring.calibrate import PROMPT
from app.api.scoring.requests import RequestHead
from app.api.snapshot import Snapshot
from app.columns.campaigns import CampaignIds
from app.settings import load_settings
from benchmarks.core.traffic import campaign_names, random_atlas, random_scores
from benchmarks.figures import Cell, Table, shown
from benchmarks.http.bodies import TARGET
from benchmarks.machine import release_free_memory, resident_bytes
from benchmarks.timing import interleaved
from calibrators import Atlas
from calibrators.bins.table import BinsTable, History
from calibrators.fields.effects import EffectTable, FieldEffects
from calibrators.fields.fit import EffectsFit
from calibrators.fields.sums import SEPARATOR, FieldTables
from calibrators.fields.window import FieldWindow
from calibrators.maps.calibration_map import PLACES, Spreads
from calibrators.samples import Floats, Integers

VALUES = {"device": 4, "placement": 8, "country": 200}
CAMPAIGNS, BATCH, SEED = 10_000, 100, 17
RATE = 0.01


@dataclass(frozen=True, eq=False)
class Batch:
    """Scores of campaigns, the values of their fields, and maps with spreads, but without effects;
    the effects are beside."""

    atlas: Atlas
    effects: FieldEffects
    campaigns: list[str]
    scores: list[float]
    fields: dict[str, list[str]]

    @classmethod
    def drawn(cls) -> "Batch":
        """Always the same."""
        rng = np.random.default_rng(SEED)
        names = {name: [f"{name}-{i}" for i in range(size)] for name, size in VALUES.items()}
        tables = {
            name: EffectTable.of(
                {"": 0.0, **{value: rng.normal(0, 0.2) for value in values}},
                dict.fromkeys(("", *values), 0.1),
            )
            for name, values in names.items()
        }
        every = campaign_names(CAMPAIGNS)
        campaigns = [every[row] for row in rng.integers(0, CAMPAIGNS, BATCH).tolist()]
        scores = random_scores(BATCH, rng)
        chosen = {name: rng.integers(0, len(values), BATCH) for name, values in names.items()}
        strings = {name: [names[name][i] for i in codes.tolist()] for name, codes in chosen.items()}
        spreads = Spreads.of(-7.0, 0.0, rng.uniform(0.05, 0.5, (CAMPAIGNS + 1, PLACES)))
        atlas = random_atlas(CAMPAIGNS, SEED).with_spreads(spreads)
        return cls(atlas, FieldEffects(tables), campaigns, scores, strings)


def look_up(batch: Batch) -> Table:
    """Microseconds of a batch, by the form of its fields."""
    atlas, campaigns, effects = batch.atlas, batch.campaigns, batch.effects
    scores = np.array(batch.scores)
    codes = {name: effects.codes(name, values) for name, values in batch.fields.items()}

    def without() -> np.ndarray:
        return atlas.look_up(atlas.rows(campaigns), np.asarray(scores))

    ways = {
        "without": without,
        "strings": lambda: effects.applied(without(), campaigns, batch.fields),
        "codes": lambda: effects.applied(without(), campaigns, codes),
    }
    taken = interleaved(ways, 1.0)
    plain = taken["without"].median
    return {
        "look-up of 100, µs": {name: figure.times(1e6) for name, figure in taken.items()},
        "over without": {name: figure.median / plain for name, figure in taken.items()},
    }


def answers(batch: Batch) -> Table:
    """Microseconds of an answer, by what the request has besides campaigns and scores."""
    with_effects = batch.atlas.with_effects(batch.effects)
    interval, fields = {"interval": 0.9}, {"fields": batch.fields}
    asked: dict[str, tuple[Atlas, Mapping[str, Any]]] = {
        "plain": (batch.atlas, {}),
        "fields": (with_effects, fields),
        "interval": (batch.atlas, interval),
        "fields and interval": (with_effects, {**fields, **interval}),
    }
    ways = {name: _answer(batch, atlas, more) for name, (atlas, more) in asked.items()}
    taken = interleaved(ways, 1.0)
    plain = taken["plain"].median
    return {
        "answer to 100, µs": {name: figure.times(1e6) for name, figure in taken.items()},
        "over plain": {name: figure.median / plain for name, figure in taken.items()},
    }


def _answer(batch: Batch, atlas: Atlas, more: Mapping[str, Any]) -> Callable[[], object]:
    settings = load_settings().model_copy(update={"fields": tuple(VALUES)})
    ids = {TARGET: CampaignIds.of(atlas)}
    snapshot = Snapshot("000001", 0.0, 0.0, {TARGET: atlas}, ids=ids)
    resources = cast(Resources, SimpleNamespace(settings=settings, refresher=_Serving(snapshot)))
    given = {"target": TARGET, "campaigns": batch.campaigns, "scores": batch.scores}
    body, head = orjson.dumps({**given, **more}), RequestHead(False, False, None, False)
    return lambda: PROMPT.answer(head, body, ANYBODY, resources)


@dataclass(frozen=True)
class _Serving:
    current: Snapshot


@dataclass(frozen=True, eq=False)
class _Field:
    """A field of which each campaign has some values: the names of its rows, and their shares of
    the campaign's impressions and of its positives, (c, v) each."""

    names: list[str]
    impressions: Floats
    positives: Floats

    @classmethod
    def drawn(cls, rng: np.random.Generator, values: int, each: int) -> "_Field":
        """Values have effects with a deviation of .2."""
        chosen = rng.integers(values // each, size=(CAMPAIGNS, each)) * each + np.arange(each)
        names = [
            SEPARATOR.join((campaign, f"v{value}"))
            for campaign, row in zip(campaign_names(CAMPAIGNS), chosen.tolist(), strict=True)
            for value in row
        ]
        shares = rng.dirichlet(np.ones(each), CAMPAIGNS)
        moved = shares * np.exp(rng.normal(0, 0.2, values))[chosen]
        return cls(names, shares, moved / moved.sum(axis=1, keepdims=True))

    def hour(self, rng: np.random.Generator, counts: Floats, found: Integers) -> BinsTable:
        """Of so many impressions and positives of each campaign, (c,)."""
        impressions = (counts[:, None] * self.impressions).ravel()
        positives = rng.multinomial(found, self.positives).ravel()
        counted = (np.maximum(impressions, positives), positives.astype(np.float64))
        rates: Floats = np.full(len(self.names), RATE)
        return BinsTable.from_columns(self.names, np.arange(len(self.names)), rates, *counted)


def _hours(fields: int, values: int, each: int) -> Iterator[FieldTables]:
    """Of one hour after the other."""
    rng = np.random.default_rng(SEED)
    drawn = {f"f{number}": _Field.drawn(rng, values, each) for number in range(fields)}
    counts = rng.lognormal(np.log(100.0), 1.0, CAMPAIGNS)
    while True:
        found = rng.poisson(counts * RATE)
        hour = {name: field.hour(rng, counts, found) for name, field in drawn.items()}
        yield FieldTables({}, {}, hour)


def refit(fields: int = 20, values: int = 1000, each: int = 5, hours: int = 48) -> Table:
    """Seconds and memory of the reading of the hours and of the fits."""
    drawn, held = _hours(fields, values, each), dict[int, FieldTables]()
    window, taken, grown = FieldWindow(), [0.0], 0

    def tables(hour: int) -> FieldTables:
        # The newest two are held; small ones are read again later.
        return held[max(hour, max(held) - 1)]

    for hour in range(hours):
        held[hour] = next(drawn)
        held.pop(hour - 2, None)
        release_free_memory()
        resident, begun = resident_bytes(), process_time()
        window.read(History(hour + 1.0, [], tables), range(hour + 1))
        taken.append(process_time() - begun)
        release_free_memory()
        grown += resident_bytes() - resident
    begun = process_time()
    _fit_twice(window, hours)
    row: dict[str, Cell] = {
        "read, s": sum(taken),
        "warm read, s": taken[-1],
        "grown MB": grown / 1e6,
        "fits, s": process_time() - begun,
    }
    return {f"{fields} fields of {values:,} values": row}


def _fit_twice(window: FieldWindow, hours: int) -> None:
    """Without the newest hour, as the guard tries it, and with it."""
    ages, counted = np.arange(hours, 0.0, -1) - 0.5, np.ones(hours)
    fit = EffectsFit(window, range(hours))
    assert fit.fit(ages, np.where(ages > 1, counted, 0.0)).effects
    assert fit.fit(ages, counted).effects


if __name__ == "__main__":
    drawn = Batch.drawn()
    tables = [look_up(drawn), answers(drawn)]
    for table in tables if "--quick" in sys.argv else [*tables, refit()]:
        for title, cells in table.items():
            found = {title: {name: shown(cell) for name, cell in cells.items()}}
            sys.stdout.write(json.dumps(found) + "\n")
