"""A model that is pushed while the service runs: seen in the running hour, and refitted at once."""

import pytest
import redis

from app.settings import SECONDS_PER_HOUR as SECONDS
from app.storage.bins import BinsStore
from app.storage.overrides import FrozenTargets
from app.storage.statistics.loaded_bins import HourLoad, LoadedBins, LoadName
from app.storage.versions import Versions
from app.worker.refit import Refitter, Request
from calibrators import BinsTable
from calibrators.fields.bin_rows import BinRows
from tests.calibrators.pooled.test_pushes import PUSH, hours
from tests.worker.conftest import HOUR

BEGUN = HOUR + PUSH


def load(client: redis.Redis, tables: dict[int, BinsTable], first: int, behind: int) -> None:
    """Bins of the hours of first <= hour < behind, from HOUR on."""
    store = LoadedBins(client, 3600)
    for hour in range(first, behind):
        rows = BinRows.of_table(tables[hour])
        store.add(LoadName("test", "p"), HourLoad("click", HOUR + hour, rows))


@pytest.fixture
def refitter(redis_client, settings) -> Refitter:
    settings = settings.model_copy(update={"calibrator": "pooled"})
    return Refitter(settings, BinsStore(redis_client, 3600), Versions(redis_client, 8))


@pytest.mark.slow
@pytest.mark.parametrize(("moved", "due"), [(0.8, ["click"]), (0.0, [])])
def test_a_running_hour_is_refitted_when_another_model_scores_it(
    redis_client, refitter, lease, clock, moved, due
):
    tables, now = hours(moved=moved), BEGUN * SECONDS + 600.0
    load(redis_client, tables, 0, PUSH)
    assert list(refitter.due_to_push(now)) == []
    refitter.run(Request(BEGUN * SECONDS), lease.token, clock)
    load(redis_client, tables, PUSH, PUSH + 1)
    refitter.frozen = FrozenTargets(redis_client)
    refitter.frozen.freeze(["click"], 1.0)
    assert list(refitter.due_to_push(now)) == []
    refitter.frozen.release(["click"])

    assert list(refitter.due_to_push(now)) == due
    reports = [
        refitter.run(Request(now + late, "click", between_hours=True), lease.token, clock)
        for late in (0.0, 60.0)
    ]
    pushes = [found["targets"]["click"]["method"].get("pushes", []) for found in reports]
    assert pushes == [[BEGUN] * len(due)] * 2
    # Once, however often it is found.
    assert refitter.pushes["click"] == len(due)
    assert list(refitter.due_to_push(now)) == []
