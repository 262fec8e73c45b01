"""Products of targets evaluated as one: impressions as the API admits them, clicks as closing logs
them, and a refit by the worker on real Redis.
"""

from collections import deque

import numpy as np
import pytest

from app.click_log import ClickLog, ClosedClick
from app.events.admission import Admission, OpenTimes
from app.events.products import ProductTrials
from app.events.reading import Parsed
from app.events.schema import Impression
from app.storage.blocks import StoredConversion
from calibrators import Atlas
from tests.worker.delayed.click_world import DAY, MIDNIGHT, TARGET, delayed_settings
from tests.worker.delayed.test_refits import World

AS_OF = MIDNIGHT + 4 * DAY
HOUR = 3600.0
ALWAYS = OpenTimes(0, AS_OF)
CLICK, CONVERSION = 0.2, np.array([0.2, 0.6])
PER_HOUR = 2000


@pytest.fixture
def settings(tmp_path):
    """Labels come from scores and delays."""
    products = "pay=click*conversion,apart=click*view"
    changes = {"targets": "click,view", "products": products, "min_training_clicks": 10**6}
    return delayed_settings(data_dir=tmp_path, **changes)


class Platform:
    """Impressions half of which are of users who convert more. Both scores are calibrated, of all
    impressions and of all clicks; `correlated`, these users click more, too, of which the click
    score knows nothing."""

    def __init__(self, settings, append, correlated):
        self._settings = settings
        self._append = append
        self._log = ClickLog.open(settings.click_log)
        self._click = np.array([0.1, 0.3]) if correlated else np.array([0.2, 0.2])
        self._rng = np.random.default_rng(5)

    def play(self, hour, per_hour, *, sends_impressions):
        """The hour that begins so many hours after MIDNIGHT."""
        keen = (self._rng.random(per_hour) < 0.5).astype(int)
        times = MIDNIGHT + (hour + self._rng.random(per_hour)) * HOUR
        if sends_impressions:
            self._send(times, CONVERSION[keen])
        clicked = np.flatnonzero(self._rng.random(per_hour) < self._click[keen])
        converts = self._rng.random(per_hour) < CONVERSION[keen]
        clicks, conversions = [], []
        for place in clicked.tolist():
            name, score = f"{hour}-{place}", {TARGET: float(CONVERSION[keen[place]])}
            clicks.append(ClosedClick(name, "a", float(times[place]), score, {}, {}, score))
            if converts[place]:
                conversions.append(StoredConversion(name, TARGET, float(times[place]) + 60))
        self._log.write_clicks(clicks)
        self._log.write_conversions(conversions)

    def _send(self, times, scores):
        trials = ProductTrials.of(self._settings, dict.fromkeys(("click", TARGET), Atlas.empty()))
        admission = Admission(self._settings, ALWAYS, trials)
        events = [
            Impression("a", float(time), {"click": CLICK, TARGET: float(score)}, f"{time}")
            for time, score in zip(times, scores, strict=True)
        ]
        deque(admission.admit_all(Parsed(list(range(len(events))), events)), 0)
        self._append(admission.batch)


def evaluated(settings, redis_client, lease, platform, hours):
    """The report of products, `hours` of impressions after they were declared."""
    for hour in range(22, 95):
        recent = hour >= 87
        sends = hour >= 95 - hours
        platform.play(hour, PER_HOUR if recent else 200, sends_impressions=sends)
    world = World(settings, redis_client, lease)
    world.train(AS_OF)
    version = world.refit(AS_OF)["version"]
    return world.versions.load(version).report["products"]


@pytest.mark.parametrize("correlated", [False, True])
def test_factors_that_are_calibrated_need_not_have_a_calibrated_product(
    settings, redis_client, lease, append, correlated
):
    platform = Platform(settings, append, correlated)

    products = evaluated(settings, redis_client, lease, platform, hours=8)

    pay, window = products["pay"], products["pay"]["window"]
    assert (pay["factors"], pay["evaluated_by"]) == (["click", TARGET], TARGET)
    assert pay["evaluated_until"] == AS_OF - HOUR
    assert (pay["hour"]["trials"], window["trials"]) == (PER_HOUR, 6 * PER_HOUR)
    assert window["predicted"] == pytest.approx(6 * PER_HOUR * 0.08, rel=0.02)
    # The mean distance from 1 of PCOC by chance: of some 960 positives .8 / 31 and a little less.
    assert window["pcoc_floor"] == pytest.approx(0.025, rel=0.1)
    assert window["pcoc"] == pytest.approx(0.8 if correlated else 1.0, abs=0.07)
    assert pay["off"] is correlated


def test_an_hour_in_which_trials_began_is_left_out(settings, redis_client, lease, append):
    """Clicks of impressions from before would count against the product."""
    platform = Platform(settings, append, correlated=False)

    products = evaluated(settings, redis_client, lease, platform, hours=3)

    assert products["pay"]["window"]["trials"] == 2 * PER_HOUR
    assert products["pay"]["off"] is False


def test_outcomes_that_come_apart_are_not_evaluated(settings, redis_client, lease):
    world = World(settings, redis_client, lease)

    products = world.refit(AS_OF)["products"]

    none = {"evaluated_until": None, "hour": None, "window": None, "off": None}
    assert products["apart"] == {"factors": ["click", "view"], "evaluated_by": None, **none}
    assert products["pay"] == {"factors": ["click", TARGET], "evaluated_by": TARGET, **none}
