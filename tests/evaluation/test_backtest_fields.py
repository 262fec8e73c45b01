"""Backtests of logs with fields serve with the effects that the service would have."""

from dataclasses import replace

import numpy as np
import pytest

from calibrators import SmoothedIsotonic
from calibrators.bins.table import History
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.maps.atlas import Atlas
from calibrators.maps.groups import FieldGroups
from calibrators.pooled import Pooled
from evaluation.backtest.backtest import backtest, bins_by_hour
from evaluation.backtest.event_table import EventTable
from evaluation.simulation.ad_platform import Platform
from evaluation.simulation.parts import Field
from research.leaderboard.fields.platform import FieldPlatform, FieldRegime

HOURS = 9
PLATFORM = FieldPlatform(
    Platform(campaigns=6, impressions_per_hour=3_000, ctr=0.1, seed=3),
    FieldRegime("two fields", (Field("device", 3, 0.5), Field("seller", 4, by_campaign=True))),
    seed=1,
)


@pytest.fixture(scope="module")
def log():
    """The log with its fields, and the true probabilities."""
    hours = [PLATFORM.hour(hour) for hour in range(HOURS)]
    events = EventTable.concatenate([hour.events for hour in hours])
    fields = {
        name: FieldColumn(values, np.concatenate([hour.fields[name] for hour in hours]))
        for name, values in PLATFORM.values.items()
    }
    return replace(events, fields=fields), np.concatenate([hour.truth for hour in hours])


def missed(found, truth):
    """Mean square distance of what was served from the truth, in log-odds."""
    p, q = found.probabilities["pooled"], truth[found.rows]
    return np.mean(np.log(p / (1 - p) * (1 - q) / q) ** 2)


@pytest.mark.slow
def test_effects_of_fields_are_served(log):
    events, truth = log
    methods = {"pooled": Pooled()}
    with_fields = backtest(events, methods, window_hours=6)
    without = backtest(replace(events, fields=None), methods, window_hours=6)
    assert missed(with_fields, truth) < 0.5 * missed(without, truth)
    guarded = backtest(events, methods, window_hours=6, guarded=True)
    assert missed(guarded, truth) < 0.5 * missed(without, truth)


@pytest.mark.slow
def test_they_are_those_of_refits_one_by_one(log):
    """What an hour's maps predict without effects is what later refits read of it."""
    events, _ = log
    found = backtest(events, {"pooled": Pooled()}, window_hours=HOURS - 1, pairs=["device*seller"])
    tables, bins, atlas, memory = {}, bins_by_hour(events), Atlas.empty(), None
    first = min(bins)
    for hour in range(first, first + HOURS):
        if hour > first:
            before = {each: bins[each] for each in bins if each < hour}
            history = History(hour, [before], lambda each: tables.get(each, FieldTables.empty()))
            fitted = Pooled().refit(history, memory=memory)
            atlas, memory = fitted.atlas, fitted.memory
        rows = events.select(events.hours == hour)
        served = atlas.look_up(atlas.rows(events.campaigns)[rows.rows], rows.scores)
        tables[hour] = FieldTables.from_events(
            FieldColumn(events.campaigns, rows.rows.astype(np.int64)),
            rows.fields,
            ["device*seller"],
            (served, rows.counts, rows.positives),
        )
    names = [events.campaigns[row] for row in rows.rows]
    values = {name: [names[c] for c in codes] for name, (names, codes) in rows.fields.items()}
    expected = atlas.effects.applied(served, names, values)
    assert (expected != served).any()
    np.testing.assert_array_equal(found.probabilities["pooled"], expected)


@pytest.mark.slow
def test_a_new_campaign_gets_the_map_of_the_group_that_its_field_names(log):
    events, _ = log
    kept = (events.rows != 2) | (events.hours == events.hours.max())
    methods = {"pooled": Pooled(groups=FieldGroups("seller")), "target": Pooled()}
    found = backtest(events.select(kept), methods, window_hours=HOURS - 1)
    new = events.select(kept).rows[found.rows] == 2
    assert (found.probabilities["pooled"][new] != found.probabilities["target"][new]).all()


def test_methods_without_effects_serve_as_without_fields(log):
    events, _ = log
    cards = [
        backtest(each, {"sir": SmoothedIsotonic()}, window_hours=HOURS - 2).scorecards["sir"]
        for each in (events, replace(events, fields=None))
    ]
    assert cards[0] == cards[1]
