"""The methods of the settings: made once, and what each remembers of a target stays its own."""

import pytest

from app.settings import Settings
from app.worker.fitting import Methods
from calibrators import Atlas, Sufficiency
from calibrators.bins.table import History
from calibrators.methods.refit import Fitted

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
