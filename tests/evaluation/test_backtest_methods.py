"""Backtests of methods: they learn from the hours before, and remember."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from calibrators import Atlas, SmoothedIsotonic, Sufficiency
from calibrators.maps.calibration_map import CalibrationMap
from calibrators.methods.refit import Fitted, PerCampaign
from calibrators.pooled import Pooled
from evaluation import ClickPlatform, Platform, backtest, delayed_backtest
from evaluation.backtest.click_history import labelled_history
from pccem import TrainingRules

LOG = Platform(campaigns=3, impressions_per_hour=600, ctr=0.1, seed=2).hours(0, 30).events
SOME = Sufficiency(min_samples=50, min_positives=5)
DAY = 86_400.0


@dataclass
class Watched:
    """Serves one ratio to everyone, and notes what it is shown."""

    hours: int = 48
    name: str = "watched"
    shown: list = field(default_factory=list)

    def refit(self, history, *, memory=None, trial=False):
        hours = {hour: table for block in history.blocks for hour, table in block.items()}
        self.shown.append((history.as_of, hours, memory))
        served = Atlas.build({}, CalibrationMap.proportional(0.5))
        return Fitted(served, memory=(memory or 0) + 1)


def test_a_method_is_shown_all_hours_before_and_what_it_remembered():
    watched = Watched()
    first = int(LOG.hours.min())
    found = backtest(LOG, {"watched": watched}, window_hours=24)

    assert [as_of - first for as_of, _, _ in watched.shown] == list(range(24, 30))
    assert [memory for _, _, memory in watched.shown] == [None, 1, 2, 3, 4, 5]
    for as_of, hours, _ in watched.shown:
        assert sorted(hours) == list(range(first, int(as_of)))
    assert np.allclose(found.probabilities["watched"], 0.5 * found.probabilities["raw"])


@dataclass
class Breaking(Watched):
    """Leaves the scores as they are; from an hour on a tenth of them."""

    breaks: float = 0.0

    def refit(self, history, *, memory=None, trial=False):
        self.shown.append(history.as_of)
        factor = 0.1 if history.as_of >= self.breaks else 1.0
        served = Atlas.build({}, CalibrationMap.proportional(factor))
        return Fitted(served, trial=served if trial else None)


def test_the_guard_keeps_what_serves_as_in_the_service():
    """Refits begin with the second hour: each is compared with what the one before left."""
    first = int(LOG.hours.min())
    methods = [Breaking(breaks=first + 28) for _ in range(2)]
    plain, guarded = (
        backtest(LOG, {"breaking": method}, window_hours=24, guarded=kept).probabilities
        for method, kept in zip(methods, (False, True), strict=True)
    )

    assert [method.shown[0] - first for method in methods] == [24, 1]
    assert not np.allclose(plain["breaking"], plain["raw"])
    assert np.allclose(guarded["breaking"], guarded["raw"])


def test_a_calibrator_and_the_method_made_of_it_serve_the_same():
    sir = SmoothedIsotonic(bin_size=200)
    both = {"sir": sir, "method": PerCampaign(sir, SOME, hours=12)}
    found = backtest(LOG, both, window_hours=12, sufficiency=SOME)

    assert found.probabilities["sir"].tolist() == found.probabilities["method"].tolist()


def test_the_pooled_method_plays_on_a_log():
    cards = backtest(LOG, {"pooled": Pooled()}, window_hours=24).scorecards

    assert cards["pooled"]["log_loss"] < cards["raw"]["log_loss"]


def test_a_method_does_not_learn_from_raw_samples():
    with pytest.raises(ValueError, match="'pooled' learns from bins, not from raw samples"):
        backtest(LOG, {"pooled": Pooled()}, window_hours=24, raw_samples=True)


@pytest.fixture(scope="module")
def stream_and_options():
    platform = ClickPlatform(campaigns=2, clicks_per_hour=60, cvr=0.2, seed=1)
    options = {
        "evaluated_from": platform.start + 9 * DAY,
        "evaluated_until": platform.start + 9 * DAY + 3 * 3600.0,
        "training": TrainingRules(num_threads=1),
    }
    return platform.hours(0, 10 * 24).stream, options


def test_delayed_rows_show_a_method_their_labelled_clicks(stream_and_options):
    """Each row remembers for itself, and ends with its newest click: ltc's are a week old."""
    stream, options = stream_and_options
    watched = Watched()
    found = delayed_backtest(stream, watched, pccem={}, **options)

    first = int(options["evaluated_from"] // 3600)
    rows = [watched.shown[place : place + 3] for place in range(0, 9, 3)]
    for step, shown in enumerate(rows):
        assert [as_of for as_of, _, _ in shown] == [
            first + step - 1,
            first + step - 7 * 24,
            first + step - 1,
        ]
        assert {memory for _, _, memory in shown} == {step or None}
    assert sum(table.totals()[1].sum() for table in rows[0][2][1].values()) == pytest.approx(
        found.expected["oracle"][0]
    )


def test_delayed_rows_are_the_same_by_a_calibrator_and_its_method(stream_and_options):
    stream, options = stream_and_options
    sir = SmoothedIsotonic(bin_size=200)
    plain = delayed_backtest(stream, sir, sufficiency=SOME, **options)
    method = delayed_backtest(stream, PerCampaign(sir, SOME), **options)

    for row, probabilities in plain.probabilities.items():
        assert method.probabilities[row].tolist() == probabilities.tolist()


@pytest.mark.slow
def test_the_pooled_method_plays_on_delayed_clicks(stream_and_options):
    stream, options = stream_and_options
    one_hour = options | {"evaluated_until": options["evaluated_from"] + 3600.0}
    cards = delayed_backtest(stream, Pooled(), **one_hour).scorecards

    assert cards["oracle"]["log_loss"] < cards["none"]["log_loss"]


def test_no_clicks_are_an_empty_history(stream_and_options):
    stream, _ = stream_and_options
    none = stream.clicks.select(slice(0, 0))

    assert next(labelled_history(none, np.empty(0)).windows(-5, 5)).campaigns == ()
