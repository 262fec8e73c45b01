"""The methods of the settings: made once, and what each remembers of a target stays its own."""

import numpy as np
import pytest

from app.settings import Settings
from app.worker.fitting import Fitting, Methods, RefitTask, refit_target
from calibrators import Atlas, BinsTable, Sufficiency
from calibrators.bins.table import History
from calibrators.methods.refit import Fitted
from calibrators.pooled import Pooled
from evaluation.backtest.backtest import Refits

NOTHING = History(1.0, [])


class Counting:
    """A method that remembers how often it was run."""

    name, hours = "pooled", 2

    def refit(self, history, *, memory=None, trial=False):
        return Fitted(Atlas.empty(), memory=(memory or 0) + 1, notes={"memory": memory})


@pytest.fixture
def methods():
    made = Methods(Settings(window_hours=6, history_hours=12, bin_size=7, min_samples=3))
    made._made["pooled"] = Counting()
    return made


def remembered(methods, target):
    return methods.refit("pooled", target, NOTHING, trial=False).notes["memory"]


def test_a_refit_starts_from_the_one_before_of_the_same_target(methods):
    assert [remembered(methods, "click") for _ in range(3)] == [None, 1, 2]


def test_no_target_starts_from_anothers(methods):
    remembered(methods, "click")

    assert remembered(methods, "conversion") is None


def test_what_was_forgotten_is_not_started_from(methods):
    remembered(methods, "click")
    methods.forget()

    assert remembered(methods, "click") is None


def test_the_numbers_are_those_of_the_settings():
    methods = Methods(Settings(window_hours=6, history_hours=12, bin_size=7, min_samples=3))
    sir = methods.of("sir")

    assert (sir.name, sir.hours, sir.calibrator.bin_size) == ("sir", 6, 7)
    assert sir.sufficiency == Sufficiency(min_samples=3, min_positives=10)
    assert methods.of("pooled").hours == 12
    assert methods.of("sir") is sir


def test_campaigns_are_grouped_as_the_settings_say():
    pooled = Methods(Settings(campaign_group="^([^/]+)/")).of("pooled")

    assert pooled.groups("advertiser/campaign") == "advertiser"
    assert Methods(Settings()).of("pooled").groups is None


def bots_history(hours):
    """Forty campaigns whose scores are true, but for four: theirs are too high, and in the newest
    hour bots click there."""
    names, scores = [f"c{row:02d}" for row in range(40)], np.geomspace(0.01, 0.2, 12)
    rows, tables = np.repeat(np.arange(40), 12), {}
    for hour in range(hours):
        odd = np.where(rows < 4, 3.0 if hour == 23 else 1 / 3, 1.0)
        clicks = np.random.default_rng(hour).binomial(200, np.tile(scores, 40) * odd)
        columns = np.tile(scores, 40), np.full(len(rows), 200.0), clicks.astype(float)
        tables[hour] = BinsTable.from_columns(names, rows, *columns)
    return History(float(hours), [tables])


def test_where_bots_click_worker_and_backtest_pass_the_same_candidates():
    """The guard does not test maps on clicks that they have not learnt from."""
    settings = Settings(calibrator="pooled", history_hours=24)
    fitting, refits = Fitting(settings, Methods(settings)), Refits(Pooled(24), guarded=True)
    outcome = None
    for hours in (23, 24):
        in_force = None if outcome is None else outcome.atlas
        task = RefitTask("click", in_force=in_force, compared=in_force)
        outcome = refit_target(fitting, task, bots_history(hours))
        atlas = refits.refit(bots_history(hours))

    assert outcome.candidate.set_aside == {"c00", "c01", "c02", "c03"}
    assert not outcome.guarded.decisions
    assert outcome.atlas.to_bytes() == atlas.to_bytes()


def test_an_hour_is_set_aside_of_campaigns_of_the_method_that_did_so():
    class Watchful(Counting):
        def refit(self, history, **_):
            return Fitted(Atlas.empty(), set_aside=frozenset("ab"))

    settings = Settings(calibrator="pooled")
    fitting = Fitting(settings, Methods(settings))
    fitting.methods._made["pooled"] = Watchful()

    assert fitting.whole("click", NOTHING, {"a": "sir"}).set_aside == {"b"}
    of_sir = Fitting(settings, fitting.methods, {"click": "sir"})
    assert of_sir.whole("click", NOTHING, {"a": "pooled"}).set_aside == {"a"}
