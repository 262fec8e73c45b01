"""A canary is watched hour by hour, and stopped when its maps are wrong or nothing tells."""

from dataclasses import replace

import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.batch import EventBatch
from app.storage.bins import BinsStore
from app.storage.blocks import NO_TERMS
from app.storage.experiments import split_of, with_experiment
from app.storage.versions import Versions
from app.worker.refit import Refitter, Request
from calibrators import Atlas, CalibrationMap
from calibrators.arms import ARMS
from tests.worker.conftest import HOUR

HOURS, FIRST = 6, 2
SHARES = {"challenger": 0.5, "raw": 0.0}


@pytest.fixture
def versions(redis_client):
    return Versions(redis_client, 12)


@pytest.fixture
def refitter(redis_client, settings, versions):
    """Makes refitters, each like a worker that has just begun."""
    known = settings.model_copy(update={"versions_kept": 12, "window_hours": HOURS})
    return lambda: Refitter(known, BinsStore(redis_client, 24 * SECONDS), versions)


@pytest.fixture
def refit(refitter, lease, clock):
    return lambda hour: refitter().run(Request((HOUR + hour) * SECONDS), lease.token, clock)


@pytest.fixture
def arms(append, outcomes):
    """Stores hours in which these arms take turns; scores are half of what comes true."""

    def append_all(*names):
        log, batch = outcomes(hours=HOURS, per_hour=800), EventBatch()
        columns = zip(log.hours, log.rows, log.scores, log.outcomes, strict=True)
        for place, (hour, row, score, outcome) in enumerate(columns):
            terms = NO_TERMS._replace(arm=ARMS.index(names[place % len(names)]))
            event = log.campaigns[row], float(score), 1.0, float(outcome)
            batch.add("click", int(hour), *event, terms=terms)
        append(batch)

    return append_all


@pytest.fixture
def start(refit, versions):
    """Puts a canary into force whose maps multiply scores by a factor; the right one is 2."""

    def begin(factor, **changes):
        refit(FIRST)
        present = versions.load(versions.current())
        experiment = {
            "challenger": {"version": "000001-ab"},
            "salt": "a",
            "shares": SHARES,
            "canary": True,
            "since": float((HOUR + FIRST) * SECONDS),
            "state": "running",
            "reason": None,
            "watch": {},
        }
        atlas = Atlas.build({}, CalibrationMap.proportional(factor)).to_bytes()
        found = with_experiment(present, "click", experiment | changes, atlas)
        assert versions.put_in_force(found)

    return begin


def test_wrong_maps_are_stopped(arms, start, refit):
    arms("champion", "challenger")
    start(4.0)

    first = refit(FIRST + 1)["experiments"]["click"]
    stopped = refit(HOURS)["experiments"]["click"]

    # No hour is complete yet.
    assert (first["state"], first["watch"]["hours"]) == ("running", 0)
    assert (stopped["state"], stopped["reason"]) == ("aborted", "log-loss")
    assert stopped["watch"]["evidence"] > stopped["watch"]["bound"]
    assert stopped["watch"]["predicted"] / stopped["watch"]["positives"] > 1.25
    assert split_of(stopped) is None


@pytest.mark.parametrize("changes", [{}, {"canary": False}])
def test_right_maps_go_on_and_no_hour_is_lost_or_counted_twice(
    arms, start, refit, versions, changes
):
    """Each refit is that of a worker that has just begun; the last hour has two of them."""
    arms("champion", "challenger")
    start(2.0, **changes)
    for hour in (FIRST + 2, HOURS):
        by_hour = refit(hour)["experiments"]["click"]

    again = refit(HOURS)["experiments"]["click"]

    assert by_hour == again
    assert by_hour["state"] == "running"
    hours = HOURS - FIRST - 1
    if changes:
        assert by_hour["watch"] == {}
    else:
        assert by_hour["watch"]["hours"] == hours
        assert by_hour["watch"]["positives"] == pytest.approx(hours * 400 * 0.125, rel=0.2)


def test_wrong_maps_are_stopped_between_refits(arms, start, refitter, versions):
    arms("champion", "challenger")
    start(4.0)
    worker = refitter()
    worker.bins.fold()
    before = versions.current()

    assert worker.canary.watch((HOUR + FIRST + 1) * SECONDS + 600.0) is None
    stopped = worker.canary.watch((HOUR + HOURS) * SECONDS + 600.0)

    assert stopped == versions.current() != before
    published = versions.load(stopped)
    experiment = published.report["experiments"]["click"]
    assert experiment["state"] == "aborted"
    assert 0.0 <= (HOUR + HOURS) * SECONDS + 600.0 - experiment["aborted_at"] <= SECONDS
    assert published.atlases == versions.load(before).atlases
    assert worker.canary.watch((HOUR + HOURS) * SECONDS + 700.0) is None


@pytest.fixture
def shown(append, refitter, versions):
    """A worker amid the first hour, of whose clicks this share has come; of the champion's arm,
    whose maps multiply scores by a factor, there are six times as many."""

    def begin(late, champion=2.0, events=2000):
        worker, batch = refitter(), EventBatch()
        for arm, number in (("champion", 6 * events), ("challenger", events)):
            terms = NO_TERMS._replace(arm=ARMS.index(arm))
            for place in range(number):
                outcome = 1.0 if place < int(number * 0.1 * late) else 0.0
                batch.add("click", HOUR + FIRST, "shoes", 0.05, 1.0, outcome, terms=terms)
        append(batch)
        worker.bins.fold()
        present = versions.load(versions.current())
        atlas = Atlas.build({}, CalibrationMap.proportional(champion)).to_bytes()
        maps = replace(present, atlases={**present.atlases, "click": atlas}, digests={})
        assert versions.put_in_force(maps)
        return worker

    return begin


@pytest.mark.parametrize(("factor", "late"), [(4.0, 1.0), (2.0, 1.0), (2.0, 0.4), (4.0, 0.4)])
def test_wrong_maps_are_stopped_within_the_hour(start, shown, versions, factor, late):
    """Clicks that have not come yet are no fault of the challenger's: none have in either arm."""
    start(factor)
    worker = shown(late)
    before = versions.current()

    stopped = worker.canary.watch((HOUR + FIRST) * SECONDS + 1800.0)

    assert (stopped is not None) is (factor == 4.0)
    experiment = versions.load(versions.current()).report["experiments"]["click"]
    assert experiment["state"] == ("aborted" if stopped else "running")
    assert (versions.current() == before) is (stopped is None)


@pytest.mark.parametrize(("champion", "late"), [(2.5, 1.0), (2.5, 0.5), (1.6, 0.6)])
def test_maps_that_put_the_champion_right_go_on_within_the_hour(start, shown, champion, late):
    """What the champion is off by is neither a click that is late nor one that came early."""
    start(2.0)
    worker = shown(late, champion, 8000)

    assert worker.canary.watch((HOUR + FIRST) * SECONDS + 1800.0) is None


def test_what_another_challenger_did_in_the_hour_is_not_held_against_the_next(
    start, shown, versions
):
    """The refits are half an hour apart: the maps of the hour's beginning are of the one before."""
    start(4.0)
    worker = shown(1.0)
    began, before = (HOUR + FIRST) * SECONDS, versions.load(versions.current())
    running = before.report["experiments"]["click"] | {"since": began + 2000.0}
    right = Atlas.build({}, CalibrationMap.proportional(2.0)).to_bytes()
    following = with_experiment(before, "click", running, right)
    assert versions.put_in_force(replace(following, as_of=began + 1800.0))

    assert [worker.canary.watch(began + at) for at in (2400.0, 2410.0)] == [None, None]


def test_an_arm_that_nothing_tells_of_is_stopped(arms, start, refit):
    arms("champion")
    start(2.0)

    experiment = refit(HOURS)["experiments"]["click"]

    assert (experiment["state"], experiment["reason"]) == ("aborted", "missing-metric")
    assert experiment["watch"]["missed"] >= 100
    assert experiment["watch"]["hours"] == 0
