"""The history of a delayed target: labels by hour of the click, over more than a window."""

import numpy as np
import pytest

from app.storage.bins import BinsStore
from app.storage.versions import Versions
from app.worker.delayed_targets import DelayedTargets
from app.worker.refit import Refitter, Request
from app.worker.relabelling import KnownClicks, LabelHistory, spans
from calibrators import Atlas, BinsTable
from calibrators.pooled import Pooled
from tests.worker.delayed.click_world import AS_OF, MIDNIGHT, NOW, TARGET, WINDOW, delayed_settings

HOUR = 3600.0


@pytest.fixture
def world(redis_client, tmp_path, logged, in_force):
    """Makes a refitter of these settings, whose delayed target has a model."""

    def make(**changes):
        settings = delayed_settings(data_dir=tmp_path, **changes)
        versions = Versions(redis_client, 8)
        refitter = Refitter(settings, BinsStore(redis_client, 3600), versions)
        refitter.delayed = DelayedTargets(settings, redis_client, versions, refitter.cache)
        refitter.delayed.cache._trial = lambda data: None
        return refitter

    return make


def found(refitter, log, hours):
    shelved = refitter.delayed.cache.newest(TARGET, WINDOW, AS_OF)
    return LabelHistory(log, shelved, TARGET, AS_OF, refitter.settings).of(hours)


def total(history, first, behind):
    return BinsTable.merge(history.windows(first, behind)).total()


def test_spans_are_windows_backwards_until_there_are_enough_hours():
    settings = delayed_settings()

    found = [
        ((AS_OF - first) / HOUR, (AS_OF - behind) / HOUR)
        for first, behind in spans(settings, AS_OF, 14)
    ]

    assert found == [(7, 1), (13, 7), (15, 13)]


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [60, 45])
def test_each_click_is_in_its_hour_before_the_newest_closed_click(world, logged, stream, minutes):
    """Counted back from the end of the post-click window, so that no hour is cut."""
    refitter = world(post_click_minutes=minutes)

    recent, history = found(refitter, logged, hours=14)

    behind = AS_OF - minutes * 60
    (block,) = history.blocks
    assert set(block) == set(range(history.newest - 13, history.newest + 1))
    for back in range(14):
        chosen = stream.between(behind - (back + 1) * HOUR, behind - back * HOUR)
        counted = block[history.newest - back].total().total_count
        assert counted == chosen.stop - chosen.start
    window = BinsTable.merge(history.windows(history.newest - 5, history.newest + 1))
    assert window == recent.raw


@pytest.mark.slow
def test_older_clicks_count_what_they_are_known_to_have_become(world, logged, stream):
    """Those whose attribution window is over are labelled with what came of them."""
    refitter = world()

    _, history = found(refitter, logged, hours=48)

    known = stream.select(stream.between(AS_OF - 49 * HOUR, AS_OF - 25 * HOUR))
    labels = total(history, history.newest - 47, history.newest - 23).total_positives
    assert labels == pytest.approx(known.outcomes(WINDOW).sum(), abs=1e-6)


def test_a_history_that_is_shorter_than_the_window_is_the_window(world, logged):
    recent, history = found(world(), logged, hours=2)

    assert total(history, 0, history.newest + 1) == recent.raw.total()


@pytest.mark.slow
def test_hours_without_clicks_are_left_out(world, logged, stream):
    refitter = world()

    _, history = found(refitter, logged, hours=5 * 24)

    (block,) = history.blocks
    first = int((AS_OF - HOUR - MIDNIGHT) / HOUR)
    assert len(block) == first


@pytest.mark.slow
def test_the_pooled_maps_of_a_delayed_target_are_those_of_its_label_history(
    world, logged, lease, stream
):
    refitter = world(calibrator="pooled", history_hours=24)

    report = refitter.run(Request(AS_OF), lease.token, lambda: NOW)

    atlas = Atlas.from_bytes(refitter.versions.load(report["version"]).atlases[TARGET])
    _, history = found(refitter, logged, hours=24)
    expected = Pooled(24).refit(history).atlas
    scores = np.linspace(0.05, 0.9, 10)
    for name in ("big", "small"):
        assert atlas.map_of(name)(scores) == pytest.approx(expected.map_of(name)(scores), rel=1e-4)
    target = report["targets"][TARGET]
    assert (target["calibrator"], target["source"]) == ("pooled", "model")
    assert {entry["calibrator"] for entry in target["top"]} == {"pooled"}


@pytest.mark.slow
def test_the_guard_looks_at_delayed_targets_too(world, lease):
    """By what the newest hour's clicks are expected to become."""
    refitter = world(guard=True)
    refitter.run(Request(AS_OF), lease.token, lambda: NOW)

    report = refitter.run(Request(AS_OF + HOUR), lease.token, lambda: NOW)["targets"][TARGET]

    told = report["guard"]
    assert told["passed"] + told["kept"] + told["parent"] + told["bounded"] == 2
    assert {entry["decision"] for entry in report["top"]} <= {*told, "passed"}


def test_refits_between_hours_leave_delayed_targets_alone(world, lease):
    """Their labels change slowly, and reading the click log is what costs."""
    refitter = world()
    first = refitter.run(Request(AS_OF), lease.token, lambda: NOW)

    between = Request(AS_OF + 900, between_hours=True)
    second = refitter.run(between, lease.token, lambda: NOW)

    assert second["targets"][TARGET] == first["targets"][TARGET]
    assert second["targets"]["click"]["fitted_as_of"] == AS_OF + 900
    packed = [refitter.versions.load(report["version"]).atlases for report in (first, second)]
    assert packed[0][TARGET] == packed[1][TARGET]


def test_labels_of_the_newest_window_do_not_depend_on_the_history(world, logged):
    refitter = world()
    shelved = refitter.delayed.cache.newest(TARGET, WINDOW, AS_OF)

    recent, _ = found(refitter, logged, hours=24)

    alone = KnownClicks(logged, shelved, TARGET, AS_OF, refitter.settings).relabelled()
    assert (recent.labels == alone.labels).all()
