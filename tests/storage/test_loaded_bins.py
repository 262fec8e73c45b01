"""Bins that somebody else has summed: added once, beside folds, whoever dies in between."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.storage import keys
from app.storage.bins import BinsStore
from app.storage.errors import BinsConflict, TooManyLoads
from app.storage.keys import TargetHour
from app.storage.statistics.breakdowns import DeclaredFields
from app.storage.statistics.loaded_bins import MOST_LOADS, HourLoad, LoadedBins, LoadName
from calibrators import BinsTable
from calibrators.bins.codecs import LIMIT
from calibrators.fields.bin_rows import BinRows, encoded
from calibrators.fields.sums import FieldTables
from tests.storage.conftest import HOUR, TTL_SECONDS

DECLARED = DeclaredFields(("device",), (), frozenset({"click"}))
NAME = LoadName("warehouse", "part-1")


def load(seed: int = 0, rows: int = 200, hour: int = HOUR) -> HourLoad:
    rng = np.random.default_rng(seed)
    campaigns = [f"campaign-{number}" for number in rng.integers(0, 50, rows)]
    table = BinsTable.from_columns(
        campaigns, np.arange(rows), rng.random(rows), np.ones(rows), rng.integers(0, 2, rows) * 1.0
    )
    found = BinRows.of_table(table)
    devices = encoded([("ios", "web")[n % 2] for n in range(len(found))])
    return HourLoad("click", hour, replace(found, fields={"device": devices}))


@pytest.fixture
def loaded(redis_client) -> LoadedBins:
    return LoadedBins(redis_client, TTL_SECONDS)


def test_a_repeat_adds_nothing(loaded, store):
    assert loaded.add(NAME, load())
    assert not loaded.add(NAME, load())
    assert store.hour("click", HOUR) == load().rows.table()
    assert store.hours("click") == [HOUR]


def test_other_bins_of_the_name_are_refused(loaded, store):
    loaded.add(NAME, load())
    with pytest.raises(BinsConflict, match=r"'part-1': other bins of target 'click', hour 500000"):
        loaded.add(NAME, load(1))
    assert store.hour("click", HOUR) == load().rows.table()
    assert loaded.add(LoadName("warehouse", "part-2"), load(1))
    both = BinsTable.merge((load().rows.table(), load(1).rows.table()))
    assert store.hour("click", HOUR) == both


def test_an_hour_that_lost_its_claim_refuses_other_bins(loaded, store, redis_client):
    """Folds renew the life of bins, not that of the claim."""
    loaded.add(NAME, load())
    redis_client.delete(keys.loads(HOUR, "click"))
    with pytest.raises(BinsConflict):
        loaded.add(NAME, load(1))
    assert not loaded.add(NAME, load())
    assert store.hour("click", HOUR) == load().rows.table()


def test_bins_leave_room_for_events_and_for_other_hours(redis_client):
    """Who folds and who fits would end by a sum of 9.2e9."""
    loaded = LoadedBins(redis_client, 10 * 3600)
    rows = load(rows=1).rows
    huge = lambda most: HourLoad("click", HOUR, replace(rows, sums=rows.sums * 0 + most))  # noqa: E731
    most = int(LIMIT) // 20
    assert loaded.add(NAME, huge(most))
    with pytest.raises(OverflowError, match="at most 460,000,000, where 10 hours are kept"):
        loaded.add(LoadName("warehouse", "part-2"), huge(1))
    with pytest.raises(OverflowError):
        loaded.add(LoadName("warehouse", "part-3"), huge(most + 1))
    assert len(redis_client.hkeys(keys.loads(HOUR, "click"))) == 2


def test_events_and_bins_add_up(loaded, store, append, impressions):
    append(impressions(100))
    loaded.add(NAME, load())
    store.fold()
    append(impressions(100))
    store.fold()
    assert not loaded.add(NAME, load())
    events = BinsTable.from_columns(
        [f"campaign-{n}" for n in range(50)], np.arange(200) % 50, np.arange(200) % 100 / 100,
        np.ones(200), np.zeros(200),
    )  # fmt: skip
    assert store.hour("click", HOUR) == BinsTable.merge((events, load().rows.table()))


class Dies(Exception):
    """What stands for kill -9: nothing after it happens."""


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(st.integers(0, 40), max_size=4))
def test_who_dies_at_any_command_leaves_a_part_that_the_repeat_completes(calls, redis_client):
    redis_client.flushall()
    for most in calls:
        mortal = redis.Redis(connection_pool=redis_client.connection_pool)
        mortal.execute_command = _dies_after(most, mortal.execute_command)
        try:
            LoadedBins(mortal, TTL_SECONDS).add(NAME, load())
        except Dies:
            continue
    LoadedBins(redis_client, TTL_SECONDS).add(NAME, load())
    assert BinsStore(redis_client, TTL_SECONDS).hour("click", HOUR) == load().rows.table()


def _dies_after(commands: int, execute: Callable[..., object]) -> Callable[..., object]:
    left = iter(range(commands))

    def mortal(*given: object, **options: object) -> object:
        if next(left, None) is None:
            raise Dies
        return execute(*given, **options)

    return mortal


def test_a_fold_in_between_makes_it_begin_again(loaded, store, append, impressions, redis_client):
    """Both are there, whoever commits first."""
    append(impressions(50))
    script, folded = loaded._commit_fold, []

    def interrupted(**given: object) -> object:
        if not folded:
            folded.append(store.fold())
        return script(**given)

    loaded._commit_fold = interrupted
    loaded.add(NAME, load())
    assert folded == [50]
    assert store.hour("click", HOUR).total().total_count == 250


def test_sums_by_field_come_with_the_bins(redis_client):
    store = BinsStore(redis_client, TTL_SECONDS, fields=DECLARED)
    LoadedBins(redis_client, TTL_SECONDS, DECLARED).add(NAME, load())
    expected = load().rows.by_field(["device"], [])
    assert FieldTables.merge([store.field_tables("click", HOUR)]).fields == expected.fields
    assert store.damage.counts() == {}


def test_sums_by_field_are_by_what_maps_in_force_give(redis_client):
    store = BinsStore(redis_client, TTL_SECONDS, fields=DECLARED)
    given_ = load()
    predicted = np.full(len(given_.rows), 0.25)
    LoadedBins(redis_client, TTL_SECONDS, DECLARED).add(NAME, replace(given_, predicted=predicted))
    total = store.field_tables("click", HOUR).fields["device"].total()
    assert total.total_score == pytest.approx(0.25 * total.total_count)


def test_damaged_bins_are_set_aside_and_loaded_again(loaded, store, redis_client):
    loaded.add(NAME, load())
    places = [TargetHour(shard, "click", HOUR) for shard in range(keys.SHARDS)]
    hurt = next(place for place in places if redis_client.exists(place.bins))
    redis_client.hset(hurt.bins, "table", b"SBTB damaged")
    redis_client.hdel(hurt.bins, NAME.field)
    assert loaded.add(NAME, load())
    assert store.hour("click", HOUR) == load().rows.table()
    assert store.damage.counts()["bins"] == 1


def test_an_hour_takes_so_many_partitions(loaded, redis_client):
    names = {f"loaded:{n:016x}": "x" for n in range(MOST_LOADS)}
    redis_client.hset(keys.loads(HOUR, "click"), mapping=names)
    with pytest.raises(TooManyLoads, match="1000 partitions"):
        loaded.add(NAME, load())


def test_bins_and_claim_expire(loaded, redis_client):
    loaded.add(NAME, load())
    lives = [redis_client.ttl(name) for name in redis_client.keys("*bins:*")]
    assert all(0 < life <= TTL_SECONDS for life in lives)
    assert 0 < redis_client.ttl(keys.loads(HOUR, "click")) <= TTL_SECONDS
