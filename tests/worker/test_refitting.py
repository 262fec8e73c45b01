"""One refit on real Redis: judged before fitted, one version, the same maps as offline."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.errors import LeaseLost
from app.storage.lease import Lease
from app.storage.versions import Versions
from app.worker.fitting import Methods
from app.worker.refit import Refitter, Request
from calibrators import Atlas, Sufficiency, make_calibrator, refit
from evaluation.estimators import fit
from tests.worker.conftest import HOUR, table_of


def test_published_maps_are_those_of_the_offline_refit(
    refitter, refit_as_of, settings, append_log, outcomes
):
    """The service and the science are one code, to the last bit."""
    log = outcomes(hours=6)
    append_log(log)

    report = refit_as_of(6)

    window = table_of(log, range(HOUR + 2, HOUR + 6))
    sufficiency = Sufficiency(settings.min_samples, settings.min_positives)
    expected = refit(window, make_calibrator(settings.calibrator, settings.bin_size), sufficiency)
    published = refitter.versions.load(report["version"])
    assert published.atlases["click"] == expected.atlas.to_bytes()
    assert report["targets"]["click"]["fitted"] == len(expected.atlas) > 0


ONE_SHARD, SHARDS = ("c-15", "c-22", "c-43"), ("big", "medium", "thin")


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize(
    ("name", "campaigns", "tolerance"),
    # The pooled method adds up shard by shard, which moves last bits.
    [("sir", SHARDS, 0), ("pooled", ONE_SHARD, 0), ("pooled", SHARDS, 1e-9)],
)
def test_published_maps_are_those_that_a_notebook_fits(
    redis_client, settings, lease, append_log, outcomes, clock, name, campaigns, tolerance, guard
):
    log = replace(outcomes(hours=6), campaigns=campaigns)
    append_log(log)
    settings = settings.model_copy(update={"calibrator": name, "guard": guard})
    store = BinsStore(redis_client, settings.ttl_seconds)
    refitter = Refitter(settings, store, Versions(redis_client, 8))

    report = refitter.run(Request((HOUR + 6) * SECONDS), lease.token, clock)

    names, made = np.array(campaigns)[log.rows], Methods(settings).of(name)
    found = fit(log.scores, log.outcomes, names, log.times, method=made, guarded=guard)
    data = refitter.versions.load(report["version"]).atlases["click"]
    published, scores = Atlas.from_bytes(data), np.linspace(0, 1, 99)
    assert published.campaigns == found.atlas.campaigns != ()
    for campaign in campaigns:
        expected = [published.at(campaign, score) for score in scores]
        assert found.predict(scores, [campaign] * 99) == pytest.approx(expected, tolerance, 0)
    assert tolerance or found.to_bytes() == data


def test_hours_are_judged_by_the_version_in_force_before_them(
    refitter, refit_as_of, append_log, outcomes
):
    """Out of sample: the second refit judges its last hour with the first refit's maps."""
    log = outcomes(hours=5)
    append_log(log)
    first = refit_as_of(4)

    second = refit_as_of(5)

    in_force = Atlas.from_bytes(refitter.versions.load(first["version"]).atlases["click"])
    expected = in_force.calibrated(table_of(log, [HOUR + 4]))
    assert refitter.bins.window("click", HOUR + 4, HOUR + 5, calibrated=True) == expected
    hour = second["targets"]["click"]["hour"]
    assert hour["raw"]["pcoc"] == pytest.approx(0.5, abs=0.1)
    assert hour["calibrated"]["pcoc"] == pytest.approx(1.0, abs=0.2)


def test_hours_without_a_version_were_served_by_the_identity(refit_as_of, append_log, outcomes):
    append_log(outcomes(hours=3))

    report = refit_as_of(3)

    window = report["targets"]["click"]["window"]
    assert window["calibrated"]["n"] == window["raw"]["n"] == 2700
    assert window["calibrated"]["pcoc"] == pytest.approx(window["raw"]["pcoc"], rel=1e-6)


def test_late_clicks_reach_the_judged_hour(refitter, refit_as_of, append, append_log, outcomes):
    """An hour is judged once more an hour later, when its late clicks are in."""
    append_log(outcomes(hours=2))
    refit_as_of(1)
    before = refitter.bins.window("click", HOUR, HOUR + 1, calibrated=True).total().total_positives
    late = EventBatch()
    for number in range(7):
        late.add("click", HOUR, "big", 0.05, 1.0, 1.0, f"late-{number}")
    append(late)

    refit_as_of(2)

    after = refitter.bins.window("click", HOUR, HOUR + 1, calibrated=True).total().total_positives
    assert after == before + 7


def test_a_refit_of_one_campaign_leaves_all_others_as_they_are(
    refitter, refit_as_of, append_log, outcomes
):
    append_log(outcomes(hours=3, seed=1))
    first = refit_as_of(3)
    append_log(outcomes(hours=3, seed=2))

    second = refit_as_of(3, "click", ["big"])

    before, after = (
        Atlas.from_bytes(refitter.versions.load(report["version"]).atlases["click"])
        for report in (first, second)
    )
    assert after.map_of("big") != before.map_of("big")
    assert after.map_of("medium") == before.map_of("medium")
    assert after.target_map == before.target_map


def test_a_moment_inside_an_hour_fits_on_what_the_hour_has_so_far(
    refit_as_of, append_log, outcomes
):
    append_log(outcomes(hours=1))

    report = refit_as_of(0.5)

    assert report["targets"]["click"]["fitted"] >= 1
    assert report["targets"]["click"]["window"]["raw"]["n"] == 0


def test_without_the_lease_nothing_is_published(refitter, lease, append_log, outcomes, clock):
    """A worker that was taken over cannot overwrite its successor's maps."""
    append_log(outcomes(hours=2))
    token = lease.token
    lease.release()

    with pytest.raises(LeaseLost):
        refitter.run(Request((HOUR + 2) * SECONDS), token, clock)

    assert refitter.versions.current() is None


def test_without_events_the_identity_is_published(refitter, refit_as_of):
    report = refit_as_of(2)

    atlas = Atlas.from_bytes(refitter.versions.load(report["version"]).atlases["click"])
    assert (len(atlas), atlas.level("big")) == (0, "identity")


def test_a_refit_of_one_campaign_does_not_stand_for_the_hour(refit_as_of, append_log, outcomes):
    append_log(outcomes(hours=3))
    refit_as_of(2)

    report = refit_as_of(3, "click", ["big"])

    assert report["targets"]["click"]["fitted_as_of"] == (HOUR + 2) * SECONDS
    assert report["as_of"] == (HOUR + 3) * SECONDS


def test_a_damaged_version_in_force_is_replaced_by_a_whole_refit(
    refitter, refit_as_of, lease, append_log, outcomes, clock, redis_client, settings
):
    """What cannot be read cannot be carried over; the refit that was asked for still happens."""
    append_log(outcomes(hours=3))
    damaged = refit_as_of(2)["version"]
    redis_client.hset(f"sirocco:{{maps}}:version:{damaged}", "click:0", b"damaged")
    fresh = Refitter(settings, refitter.bins, refitter.versions)

    report = fresh.run(Request((HOUR + 3) * SECONDS, "click", ["big"]), lease.token, clock)

    assert report["targets"]["click"]["fitted"] >= 2
    assert fresh.versions.load(report["version"]).as_of == (HOUR + 3) * SECONDS


@pytest.mark.slow
def test_an_hour_whose_version_is_gone_keeps_its_judgement(
    redis_client, settings, lease, append_log, outcomes, clock
):
    """Judging it by the identity would report a service that was never served."""
    append_log(outcomes(hours=3))
    few = settings.model_copy(update={"versions_kept": 2})
    store = BinsStore(redis_client, settings.ttl_seconds)
    refitter = Refitter(few, store, Versions(redis_client, 2))
    for hour in (HOUR + 2, HOUR + 3):
        refitter.run(Request(hour * SECONDS), lease.token, clock)
    before = store.window("click", HOUR + 2, HOUR + 3, calibrated=True)

    for _ in range(3):
        refitter.run(Request((HOUR + 3) * SECONDS), lease.token, clock)

    assert store.window("click", HOUR + 2, HOUR + 3, calibrated=True) == before


LOADS = st.tuples(*[st.sampled_from((0, 0, 30, 1500))] * 3)
"""Impressions of three campaigns in an hour: none in half of them."""


def add_hour(batch, hour, loads, ratio):
    rng = np.random.default_rng(hour)
    for campaign, load in zip("abc", loads, strict=True):
        for score, luck in zip(rng.beta(2, 30, load), rng.random(load), strict=True):
            batch.add("click", hour, campaign, score, 1.0, float(luck < ratio * score))


@pytest.mark.slow
@given(
    loads=st.lists(LOADS, min_size=2, max_size=4),
    ratios=st.tuples(*[st.sampled_from((0.1, 1.0, 8.0))] * 4),
    calibrator=st.sampled_from(("sir", "isotonic", "pooled")),
    bin_size=st.sampled_from((5.0, 40.0, 2000.0)),
)
@example([(1500, 1500, 30), (1500, 0, 0), (0, 0, 30)], (1.0, 8.0, 8.0, 1.0), "pooled", 5.0)
@profile(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_refit_works_whatever_traffic_is_missing(
    redis_client, append, clock, settings, loads, ratios, calibrator, bin_size
):
    """Hours without traffic, campaigns without impressions, levels that jump so that the guard
    moves maps, and maps of two knots to hundreds."""
    redis_client.flushall()
    lease = Lease(redis_client, "worker", "test", 600)
    assert lease.acquire()
    chosen = {"calibrator": calibrator, "bin_size": bin_size, "guard": True}
    versions = Versions(redis_client, 8)
    store = BinsStore(redis_client, settings.ttl_seconds)
    refitter = Refitter(settings.model_copy(update=chosen), store, versions)

    for hour, (load, ratio) in enumerate(zip(loads, ratios, strict=False), HOUR):
        batch = EventBatch()
        add_hour(batch, hour, load, ratio)
        append(batch)
        report = refitter.run(Request((hour + 1) * SECONDS), lease.token, clock)

        atlas = Atlas.from_bytes(versions.load(report["version"]).atlases["click"])
        served = atlas("abcx" * 2, np.repeat([0.01, 0.9], 4))
        assert ((served >= 0) & (served <= 1)).all()
