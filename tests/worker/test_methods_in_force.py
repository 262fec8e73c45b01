"""Which method fits which campaign: the target's, or one of the campaign's own."""

import numpy as np
import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.bins import BinsStore
from app.storage.keys import OVERRIDES
from app.storage.overrides import Overrides
from app.storage.versions import Versions
from app.worker.refit import Refitter, Request
from calibrators import Atlas, make_calibrator
from calibrators.bins.table import History
from calibrators.pooled import Pooled
from tests.worker.conftest import HOUR, table_of

END = HOUR + 6
HISTORY = 5
SCORES = np.linspace(0.01, 0.3, 30)


@pytest.fixture
def overrides(redis_client):
    return Overrides(redis_client)


@pytest.fixture
def log(outcomes, append_log):
    made = outcomes(hours=END - HOUR)
    append_log(made)
    return made


@pytest.fixture
def published(redis_client, settings, lease, clock, overrides, log):
    """Refits with the settings changed; gives the report and the atlas of clicks."""

    def run(as_of=END, campaigns=None, **changes):
        changed = settings.model_copy(update={"history_hours": HISTORY, **changes})
        store, versions = BinsStore(redis_client, 3600), Versions(redis_client, 8)
        refitter = Refitter(changed, store, versions, overrides)
        target = None if campaigns is None else "click"
        report = refitter.run(Request(as_of * SECONDS, target, campaigns), lease.token, clock)
        atlas = Atlas.from_bytes(versions.load(report["version"]).atlases["click"])
        return report["targets"]["click"], atlas

    return run


def offline(log, hours=HISTORY):
    block = {hour: table_of(log, [hour]) for hour in range(END - hours, END)}
    return Pooled(hours).refit(History(float(END), [block])).atlas


def test_the_pooled_maps_are_those_of_the_method_on_the_hours_of_its_history(published, log):
    report, atlas = published(calibrator="pooled")

    expected = offline(log)
    assert atlas.campaigns == expected.campaigns == ("big", "medium", "thin")
    for name in atlas.campaigns:
        found = atlas.map_of(name)(SCORES)
        assert found == pytest.approx(expected.map_of(name)(SCORES), rel=1e-4)
    assert (report["calibrator"], report["fitted"], report["skipped"]) == ("pooled", 3, {})
    assert report["method"].keys() >= {"priors", "frozen", "jumps"}


def test_a_target_has_the_calibrator_that_is_set_for_it(published):
    report, atlas = published(calibrator="pooled", target_calibrators={"click": "sir"})
    _, of_all = published(calibrator="sir")

    assert report["calibrator"] == "sir"
    assert atlas.to_bytes() == of_all.to_bytes()


def test_a_campaign_of_its_own_calibrator_is_fitted_by_it_and_no_other_is(
    published, overrides, log, settings
):
    """On the window of the calibrator, leaning on the target's map that is published with it."""
    before, pooled = published(calibrator="pooled")
    overrides.put("click", "medium", "sir")

    report, atlas = published(calibrator="pooled")

    window = table_of(log, range(END - 4, END))
    sir = make_calibrator("sir", settings.bin_size)
    expected = sir.fit_bins(window.bins("medium"), atlas.target_map)
    assert atlas.map_of("medium") == expected
    assert atlas.map_of("big") == pooled.map_of("big")
    assert (before["overridden"], report["overridden"]) == ({}, {"sir": 1})
    decided = {entry["campaign"]: entry["calibrator"] for entry in report["top"]}
    assert decided == {"big": "pooled", "medium": "sir", "thin": "pooled"}


def test_a_campaign_may_be_pooled_where_its_target_is_not(published, overrides, log):
    _, alone = published()
    overrides.put("click", "thin", "pooled")

    report, atlas = published()

    expected = offline(log).map_of("thin")(SCORES)
    assert atlas.map_of("thin")(SCORES) == pytest.approx(expected, rel=1e-4)
    assert atlas.map_of("big") == alone.map_of("big")
    assert atlas.target_map == alone.target_map
    assert (report["calibrator"], report["overridden"]) == ("sir", {"pooled": 1})


def test_a_campaign_that_has_too_little_for_its_own_calibrator_is_served_by_the_target(
    published, overrides
):
    overrides.put("click", "thin", "sir")

    report, atlas = published(calibrator="pooled", min_samples=10_000)

    assert atlas.level("thin") == "target"
    assert report["skipped"] == {"few_samples": 1}


def test_a_campaign_without_events_has_no_map_whatever_its_calibrator(published, overrides):
    overrides.put("click", "nowhere", "pooled")

    report, atlas = published()

    assert atlas.level("nowhere") == "target"
    assert report["overridden"] == {"pooled": 1}


def test_a_calibrator_that_there_is_not_any_more_counts_for_nothing(
    published, redis_client, overrides
):
    redis_client.hset(OVERRIDES, "click:big", "splines")

    report, atlas = published()

    assert report["overridden"] == {}
    assert atlas.level("big") == "campaign"


def test_an_override_of_another_target_counts_for_nothing(published, overrides):
    overrides.put("view", "big", "beta")

    assert published()[0]["overridden"] == {}


@pytest.mark.slow
def test_named_campaigns_are_refitted_together_with_all_and_alone_replaced(published):
    """The pooled method learns from all campaigns; those that were not named stay in force."""
    _, first = published(as_of=END - 2, calibrator="pooled")
    _, whole = published(as_of=END, calibrator="pooled")
    _, first = published(as_of=END - 2, calibrator="pooled")

    report, atlas = published(campaigns=["medium", "nowhere"], calibrator="pooled")

    assert atlas.map_of("medium")(SCORES) == pytest.approx(whole.map_of("medium")(SCORES), rel=1e-4)
    assert atlas.map_of("big") == first.map_of("big")
    assert atlas.target_map == first.target_map
    assert report["skipped"] == {"few_samples": 1}
    assert report["fitted_as_of"] == (END - 2) * SECONDS


def test_a_named_campaign_keeps_its_own_calibrator(published, overrides, log, settings):
    _, first = published(calibrator="pooled")
    overrides.put("click", "medium", "sir")

    _, atlas = published(campaigns=["medium"], calibrator="pooled")

    window = table_of(log, range(END - 4, END))
    expected = make_calibrator("sir", settings.bin_size).fit_bins(
        window.bins("medium"), first.target_map
    )
    assert atlas.map_of("medium") == expected


def test_the_guard_judges_each_campaign_by_its_own_calibrators_trial(published, overrides):
    """Of all campaigns, whichever calibrator made their maps."""
    published(as_of=END - 1, guard=True)
    overrides.put("click", "thin", "pooled")
    overrides.put("click", "medium", "beta")

    report, atlas = published(guard=True)

    held = report["guard"]
    assert held["passed"] + held["kept"] + held["parent"] + held["bounded"] == 3
    assert atlas.campaigns == ("big", "medium", "thin")
    assert report["overridden"] == {"beta": 1, "pooled": 1}
