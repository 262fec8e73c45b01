"""Products of targets evaluated as one: impressions as the API admits them, clicks as closing logs
them, and a refit by the worker on real Redis.
"""

from collections import deque

import numpy as np
import pytest

from app.click_log.log import ClickLog
from app.click_log.rows import ClosedClick
from app.events.admission import Admission
from app.events.products import ProductTrials
from app.events.reading import Parsed
from app.events.rejections import OpenTimes
from app.events.schema import Impression, TargetOutcome
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_hour_in_which_trials_began_is_left_out(settings, redis_client, lease, append):
    """Clicks of impressions from before would count against the product."""
    platform = Platform(settings, append, correlated=False)

    products = evaluated(settings, redis_client, lease, platform, hours=3)

    assert products["pay"]["window"]["trials"] == 2 * PER_HOUR
    assert products["pay"]["off"] is False


def test_outcomes_of_a_product_have_both_sides(settings, redis_client, lease, append):
    """Of targets that are neither clicks nor delayed: half of the trials are alike in both."""
    rng, atlases = np.random.default_rng(6), dict.fromkeys(("click", "view"), Atlas.empty())
    for hour in range(7):
        admission = Admission(settings, ALWAYS, ProductTrials.of(settings, atlases))
        at = AS_OF - (hour + 0.5) * HOUR
        outcomes = (rng.random(PER_HOUR) < 0.1).astype(float).tolist()
        scores = {"click": 0.2, "view": 0.4}
        events = [TargetOutcome("a", "apart", at, one, scores=scores) for one in outcomes]
        deque(admission.admit_all(Parsed(list(range(PER_HOUR)), events)), 0)
        assert (len(admission.batch), len(admission.rejections)) == (PER_HOUR, 0)
        append(admission.batch)
    products = World(settings, redis_client, lease).refit(AS_OF)["products"]

    apart, window = products["apart"], products["apart"]["window"]
    assert (apart["evaluated_by"], apart["evaluated_until"]) == ("outcomes", AS_OF)
    assert (apart["hour"]["trials"], window["trials"]) == (PER_HOUR, 6 * PER_HOUR)
    assert window["predicted"] == pytest.approx(6 * PER_HOUR * 0.08)
    assert (window["clicks"], apart["off"]) == (None, True)
    assert window["pcoc"] == pytest.approx(0.8, abs=0.05)
    assert window["pcoc_floor"] == pytest.approx(0.8 * np.sqrt(0.92 / 960), rel=0.01)
    none = {"evaluated_until": None, "hour": None, "window": None, "off": None}
    assert products["pay"] == {"factors": ["click", TARGET], "evaluated_by": TARGET, **none}


def play_both(settings, append, hour, correlated, rng, per_hour=4000):
    """Impressions whose clicks convert for two targets: each in 4 of 10 clicks, both in 2 where the
    targets are correlated, else in 1.6."""
    log, scores = ClickLog.open(settings.click_log), {TARGET: 0.4, "order": 0.4}
    trials = ProductTrials.of(settings, dict.fromkeys(("click", *scores), Atlas.empty()))
    admission = Admission(settings, ALWAYS, trials)
    times = (MIDNIGHT + (hour + rng.random(per_hour)) * HOUR).tolist()
    events = [Impression("a", at, {"click": CLICK, **scores}, f"{at}") for at in times]
    deque(admission.admit_all(Parsed(list(range(per_hour)), events)), 0)
    append(admission.batch)
    clicked = [at for at in times if rng.random() < CLICK]
    log.write_clicks([ClosedClick(f"{at}", "a", at, scores, {}, {}, scores) for at in clicked])
    chances = rng.choice((0.2, 0.6), len(clicked)) if correlated else np.full(len(clicked), 0.4)
    log.write_conversions(
        StoredConversion(f"{at}", target, at + 60)
        for target in scores
        for at, chance in zip(clicked, chances, strict=True)
        if rng.random() < chance
    )


@pytest.mark.slow
@pytest.mark.parametrize("correlated", [False, True])
def test_several_delayed_targets_are_evaluated_once_nothing_can_change(
    tmp_path, redis_client, lease, append, correlated
):
    """By then the bins of impressions are no longer read: the report has kept their sums."""
    products = f"all=click*{TARGET}*order,both={TARGET}*order"
    changes = {"delayed_targets": f"{TARGET},order", "attribution_hours": {TARGET: 3, "order": 9}}
    settings = delayed_settings(data_dir=tmp_path, products=products, **changes)
    world, rng = World(settings, redis_client, lease), np.random.default_rng(7)
    for hour in range(8):
        play_both(settings, append, hour, correlated, rng)
    young = [world.refit(MIDNIGHT + hour * HOUR)["products"] for hour in (7, 8)][-1]
    redis_client.delete(*redis_client.keys("sirocco:*:bins:*"))

    found = world.refit(MIDNIGHT + 16 * HOUR)["products"]

    assert (young["all"]["window"], young["both"]["off"]) == (None, None)
    for name, trials, predicted in (("all", 4000, 0.032), ("both", 800, 0.16)):
        report, window = found[name], found[name]["window"]
        assert report["evaluated_by"] == "order"
        assert report["evaluated_until"] == MIDNIGHT + 7 * HOUR
        assert window["trials"] == pytest.approx(6 * trials, rel=0.05)
        assert window["predicted"] == pytest.approx(window["trials"] * predicted)
        assert window["clicks"] == pytest.approx(6 * 800, rel=0.05)
        assert window["pcoc"] == pytest.approx(0.8 if correlated else 1.0, abs=0.09)
        assert report["off"] is correlated
