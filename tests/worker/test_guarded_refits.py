"""The guard in a refit: what it holds back, what it is told, and where that can be read."""

import numpy as np
import pytest

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.bins import BinsStore
from app.storage.jobs import Jobs
from app.storage.versions import Versions
from app.worker.refit import Refitter, Request
from calibrators import Atlas
from evaluation import EventTable
from tests.worker.conftest import HOUR

BROKEN = HOUR + 4
"""In this hour every impression of the big campaign counts as clicked."""

COUNTS = ("passed", "kept", "parent", "bounded")


@pytest.fixture
def broken_hour(outcomes, append_log):
    """Six hours of events, one of them with a broken tracker."""
    log = outcomes(hours=6)
    wrong = (log.hours == BROKEN) & (log.rows == 0)
    found = np.where(wrong, 1.0, log.outcomes)
    append_log(EventTable(log.times, log.campaigns, log.rows, log.scores, found, None))


@pytest.fixture
def refitter(redis_client, settings):
    def make(guard=True):
        changed = settings.model_copy(update={"guard": guard})
        return Refitter(changed, BinsStore(redis_client, 3600), Versions(redis_client, 8))

    return make


def atlas_of(refitter, report):
    return Atlas.from_bytes(refitter.versions.load(report["version"]).atlases["click"])


@pytest.fixture
def refits(broken_hour, lease, clock):
    """Refits as of these hours; the report and atlas of each."""

    def run(refitter, *hours, **request):
        orders = [Request(hour * SECONDS, **request) for hour in hours]
        found = [refitter.run(order, lease.token, clock) for order in orders]
        return [(report["targets"]["click"], atlas_of(refitter, report)) for report in found]

    return run


def test_a_map_that_the_newest_hour_speaks_against_is_kept_back(refits, refitter):
    """It was learnt from a broken tracker, which the newest hour, whole again, gives away."""
    (_, good), (report, after) = refits(refitter(), BROKEN, BROKEN + 2)

    assert report["guard"]["kept"] >= 1
    assert after.map_of("big") == good.map_of("big")
    decided = {entry["campaign"]: entry["decision"] for entry in report["top"]}
    assert decided["big"] == "kept"
    assert report["guard"].keys() == {*COUNTS, "target"}
    assert sum(report["guard"][name] for name in COUNTS) == 3, "each campaign counts once"


def test_without_the_guard_nothing_is_held_back(refits, refitter):
    (_, good), (report, after) = refits(refitter(False), BROKEN, BROKEN + 2)

    assert report["guard"] is None
    assert after.at("big", 0.05) > 2 * good.at("big", 0.05)
    assert {entry["decision"] for entry in report["top"]} == {"passed"}


def test_the_first_maps_of_all_pass(refits, refitter):
    ((report, _),) = refits(refitter(), BROKEN + 2)

    assert report["guard"] == {
        "passed": 3,
        "kept": 0,
        "parent": 0,
        "bounded": 0,
        "target": "passed",
    }


def test_what_is_compared_served_when_the_newest_hour_began(refits, refitter):
    """A refit inside the hour has seen a part of what the guard judges on."""
    made = refitter()
    refits(made, BROKEN, BROKEN + 0.5, BROKEN + 0.75)

    for as_of in (BROKEN + 0.9, BROKEN + 1):
        in_force = made._in_force()
        compared = made._present(Request(as_of * SECONDS), in_force).compared
        assert (in_force.as_of, compared.as_of) == ((BROKEN + 0.75) * SECONDS, BROKEN * SECONDS)


def test_a_map_that_the_hour_itself_brought_stays_where_there_was_none_before(refits, refitter):
    """Nothing served when the hour began; the first refit inside it is what is kept."""
    made = refitter()
    ((_, good),) = refits(made, BROKEN + 0.5)

    order = made._present(Request((BROKEN + 1) * SECONDS), made._in_force()).order(
        Request((BROKEN + 1) * SECONDS), "click"
    )

    assert order.compared.to_bytes() == good.to_bytes()


def test_the_guard_holds_back_a_campaign_that_was_named_and_looks_at_no_other(refits, refitter):
    made = refitter()
    ((_, good),) = refits(made, BROKEN)

    named = {"target": "click", "campaigns": ["big"]}
    ((report, after),) = refits(made, BROKEN + 2, **named)

    assert [report["guard"][name] for name in COUNTS] == [0, 1, 0, 0]
    assert after.to_bytes() == good.to_bytes()
    decided = {entry["campaign"]: entry["decision"] for entry in report["top"]}
    assert decided == {"big": "kept", "medium": "passed", "thin": "passed"}


def test_a_named_refit_leaves_what_was_decided_of_the_others(refits, refitter):
    made = refitter()
    refits(made, BROKEN, BROKEN + 2)

    named = {"target": "click", "campaigns": ["medium"]}
    ((report, _),) = refits(made, BROKEN + 2, **named)

    decided = {entry["campaign"]: entry["decision"] for entry in report["top"]}
    assert decided["big"] == "kept"


def test_a_jobs_result_tells_what_was_held_back(broken_hour, new_worker, redis_client, clock):
    worker = new_worker(guard=True, clock="event")
    jobs = Jobs(redis_client)
    ids = [
        jobs.submit("refit", {"as_of": hour * SECONDS}, clock()).id for hour in (BROKEN, BROKEN + 2)
    ]

    while worker.step():
        pass

    target = jobs.get(ids[1]).result["targets"]["click"]
    assert worker._heartbeat.read()["guard"]["kept"] == target["guard"]["kept"]
    assert target["guard"]["kept"] >= 1
    assert (target["calibrator"], target["overridden"]) == ("sir", {})
