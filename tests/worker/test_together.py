"""Workers that refit together through a real Redis: the maps are those of one worker alone, and
whatever keeps them from it only costs time."""

import logging
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from multiprocessing import get_context
from threading import Event
from typing import Any

import numpy as np
import pytest

from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.bins import BinsStore
from app.storage.experiments import CHALLENGER_OF
from app.storage.jobs import Jobs
from app.storage.keys import JOINT_REFIT, SHARDS, TargetHour, joint_refit, lease, seal, shards_of
from app.storage.lease import PLACES, Call, JointRefits, Lease, Member, ShardShare, packed, unpacked
from app.storage.redis.client import open_redis
from app.storage.versions import Versions
from app.worker import loop
from app.worker.fitting import Methods, ReadBlocks, StoredHistory
from app.worker.monitoring import RawWindow, TargetReport
from app.worker.progress import JobCancelled
from app.worker.together import _BESIDES, _REPORT, StorePeers, Together, shards_of_worker
from calibrators import Atlas, BinsTable, CalibrationMap, History
from calibrators.bins.model_versions import named
from calibrators.fields.sums import FieldColumn, FieldTables
from calibrators.methods.refit import Fitted
from calibrators.peers import NotDivided
from calibrators.pooled import method, state_space

NEWEST, HOURS, TARGET = 400_000, 4, "click"
CAMPAIGNS, JOINED = 500, 400


@pytest.fixture(autouse=True)
def many_are_hundreds(monkeypatch):
    """Refits are divided from fewer campaigns on: what follows does not depend on how many."""
    monkeypatch.setattr("calibrators.pooled.method._JOINED", JOINED)


def hour_table(hour: int, campaigns: int = CAMPAIGNS, shift: float = 0.0) -> BinsTable:
    """Some impressions of each campaign; a campaign clicks as often as its number says."""
    rng = np.random.default_rng(hour)
    rows = np.repeat(np.arange(campaigns), 3)
    log_odds = rng.normal(-2.0 + shift, 0.8, len(rows))
    rates = log_odds - shift + 0.8 * np.sin(rows)
    names = [f"a{number:05d}" for number in range(campaigns)]
    clicks = (rng.random(len(rows)) < 1 / (1 + np.exp(-rates))).astype(np.float64)
    scores = 1 / (1 + np.exp(-log_odds))
    return BinsTable.from_columns(names, rows, scores, np.ones(len(rows)), clicks)


def put(client: Any, hour: int, table: BinsTable) -> None:
    """As folds leave it."""
    owners = shards_of(table.campaigns)
    for shard in range(SHARDS):
        place = TargetHour(shard, TARGET, hour)
        here = table.chosen(owners == shard)
        client.hset(place.bins, "table", here.to_bytes(place.checksum))


@pytest.fixture
def settings() -> Settings:
    return Settings(
        calibrator="pooled",
        clock="event",
        window_hours=HOURS,
        history_hours=HOURS,
        lease_seconds=1,
        fold_seconds=0.2,
    )


@pytest.fixture
def stored(redis_client) -> Any:
    """Six hours of a target."""
    for hour in range(NEWEST - HOURS + 1, NEWEST + 1):
        put(redis_client, hour, hour_table(hour))
    return redis_client


@dataclass
class Workers:
    """One that holds the lease, and some that wait for it, in threads."""

    url: str
    settings: Settings
    stack: ExitStack
    stop: Event = field(default_factory=Event)

    def worker(self, name: str, settings: Settings | None = None) -> Together:
        """One more, with a connection of its own."""
        settings = settings or self.settings
        client = self.stack.enter_context(open_redis(self.url, 20.0))
        share = ShardShare(client, "folds", name, 60.0)
        own = Lease(client, "worker", name, 60.0)
        found = Together(
            settings,
            client,
            BinsStore(client, 3600),
            Methods(settings),
            name,
            lambda: own.token,
            share,
            lambda: None,
            worth_it=1,
            stop=self.stop,
        )
        (own.acquire if name == "first" else share.take)()
        return found

    @contextmanager
    def helping(self, helpers: Sequence[Together]) -> Iterator[None]:
        """They wait to be called, and help."""

        def wait(helper: Together) -> None:
            while not self.stop.is_set():
                helper.help() or self.stop.wait(0.01)

        with ThreadPoolExecutor(len(helpers)) as pool:
            waiting = [pool.submit(wait, helper) for helper in helpers]
            try:
                yield
            finally:
                self.stop.set()
                for each in waiting:
                    each.result()


@pytest.fixture
def workers(redis_url, settings) -> Iterator[Workers]:
    with ExitStack() as stack:
        yield Workers(redis_url, settings, stack)


def history_of(worker: Together, window: RawWindow | None = None) -> StoredHistory:
    bins = worker.bins.history(TARGET, NEWEST - HOURS + 1, NEWEST + 1)
    return StoredHistory(NEWEST + 1.0, ReadBlocks(bins, window or RawWindow.none()))


def refit(worker: Together, calibrator: str = "pooled") -> Fitted:
    return worker.methods.refit(calibrator, TARGET, history_of(worker), True)


def told(fitted: Fitted) -> tuple[Any, ...]:
    return fitted.atlas.to_bytes(), fitted.trial.to_bytes(), fitted.notes, fitted.set_aside


def alone(workers: Workers, calibrator: str = "pooled") -> tuple[Any, ...]:
    """What one worker makes of it, whom nobody helps."""
    one = workers.worker("alone")
    one.share.leave()
    one.methods.together = None
    return told(refit(one, calibrator))


KNOWN: dict[str, tuple[Any, ...]] = {}


def alone_on_stored(workers: Workers, calibrator: str = "pooled") -> tuple[Any, ...]:
    """The same of what is `stored`, which is the same for each test: found once."""
    if calibrator not in KNOWN:
        KNOWN[calibrator] = alone(workers, calibrator)
    return KNOWN[calibrator]


@pytest.mark.parametrize("calibrator", [pytest.param("pooled", marks=pytest.mark.slow), "sir"])
def test_three_workers_make_the_maps_of_one(stored, workers, caplog, calibrator):
    """Again and again, from what the first remembers; and nothing of it is left in the store."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    expected = alone_on_stored(workers, calibrator)

    with caplog.at_level(logging.INFO), workers.helping(helpers):
        assert told(refit(first, calibrator)) == expected
        assert told(refit(first, calibrator))[0] is not None

    assert caplog.text.count("helped with the refit of click") == 4
    assert not stored.keys("sirocco:{maps}:joint_refit*")
    assert not stored.exists(*(lease(place) for place in PLACES))


def by_field(hour: int) -> FieldTables:
    """Campaigns on two devices, one of which is clicked half as often again."""
    rows, devices = np.repeat(np.arange(CAMPAIGNS), 4), np.tile([0, 0, 1, 1], CAMPAIGNS)
    scores = np.full(len(rows), 0.1)
    clicks = np.random.default_rng(hour).binomial(4, scores * (1 + 0.5 * devices)) * 1.0
    campaigns = FieldColumn(hour_table(hour).campaigns, rows)
    columns = {"device": FieldColumn(("tv", "web"), devices)}
    return FieldTables.from_events(
        campaigns, columns, (), (scores, np.full(len(rows), 4.0), clicks)
    )


@pytest.mark.slow
def test_effects_of_fields_are_those_that_one_worker_finds(stored, workers, caplog):
    """Only who leads reads the sums by field."""
    workers.settings = workers.settings.model_copy(update={"fields": ("device",)})
    first, helper = workers.worker("first"), workers.worker("second")
    history = replace(history_of(first), fields=by_field)
    expected = first.methods.of("pooled").refit(history, trial=True)

    with caplog.at_level(logging.INFO), workers.helping([helper]):
        found = first.methods.refit("pooled", TARGET, history, True)

    assert told(found) == told(expected)
    assert found.notes["fields"]["device"]["kept"] == 2
    assert "helped with the refit of click" in caplog.text


def test_maps_on_trial_are_fitted_to_the_campaigns_of_all(stored, workers):
    """By a name that no events have."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    expected = alone_on_stored(workers, "sir")

    with workers.helping(helpers):
        found = first.methods.refit("sir", CHALLENGER_OF(TARGET), history_of(first), True)

    assert told(found) == expected


def test_who_is_called_to_a_refit_that_is_cancelled_goes(stored, workers):
    first, helper = workers.worker("first"), workers.worker("second")

    def cancelled(share: float) -> None:
        if share > 0.1:
            raise JobCancelled("000001")

    bins = first.bins.history(TARGET, NEWEST - HOURS + 1, NEWEST + 1, cancelled)
    history = StoredHistory(NEWEST + 1.0, ReadBlocks(bins, RawWindow.none()))
    with ThreadPoolExecutor(1) as pool:
        helping = pool.submit(lambda: any(iter(helper.help, None)))
        with pytest.raises(JobCancelled):
            first.methods.refit("pooled", TARGET, history, True)
        assert helping.result(timeout=60)


@pytest.mark.parametrize("calibrator", [pytest.param("pooled", marks=pytest.mark.slow), "sir"])
def test_the_report_is_that_of_one_worker(stored, workers, calibrator):
    """Each evaluates its own shards; who leads only adds up."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    halved = Atlas.build({}, CalibrationMap.proportional(0.5))
    hours, report = range(NEWEST - 2, NEWEST + 1), TargetReport(first.settings, first.bins)
    for hour in hours:
        raw = first.bins.shards_of_hour(TARGET, hour)
        first.bins.write_calibrated(TARGET, hour, map(halved.calibrated, raw))
    alone, together = RawWindow(hours, 20), RawWindow(hours, 20)
    expected = report.of(TARGET, alone)

    with workers.helping(helpers):
        first.refit(TARGET, calibrator, history_of(first, together), None, True)
    assert (together.complete, alone.complete) == (True, False)
    found = report.of(TARGET, together)

    assert (found["top"], found["judged_until"]) == (expected["top"], expected["judged_until"])
    for span, kind in product(("hour", "window"), ("raw", "calibrated")):
        for name, value in expected[span][kind].items():
            # Floors are means over draws, of each worker's campaigns anew.
            near = value and pytest.approx(value, rel=0.2 if "floor" in name else 1e-12)
            assert found[span][kind][name] == near, name


def test_what_a_helper_sets_aside_is_reported(stored, workers):
    """The last shards are never those of who leads."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    stored.hset(TargetHour(SHARDS - 1, TARGET, NEWEST).bins, "table", b"damaged")

    with workers.helping(helpers):
        first.refit(TARGET, "sir", history_of(first), None, True)

    (found,) = first.bins.damage.emptied()
    assert (found["shard"], found["hour"], found["target"]) == (SHARDS - 1, NEWEST, TARGET)


def test_one_that_is_done_before_the_others_has_not_gone(stored, workers, monkeypatch, caplog):
    """It gives back its place while the slowest still has something to tell."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    window, scores = RawWindow(range(NEWEST - 2, NEWEST + 1), 20), TargetReport.scores

    def slow_at_the_last(self, target, window, shards):
        if shards.stop == SHARDS:
            time.sleep(1.0)
        return scores(self, target, window, shards)

    monkeypatch.setattr(TargetReport, "scores", slow_at_the_last)
    with workers.helping(helpers):
        first.refit(TARGET, "sir", history_of(first, window), None, True)

    assert window.complete
    assert "begins anew" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 11])
def test_one_that_dies_at_any_step_is_done_without(stored, workers, monkeypatch, step):
    """Its lease runs out, the others notice, and begin anew."""
    first, *helpers = (workers.worker(name) for name in ("first", "second", "third"))
    expected, gather, died = alone_on_stored(workers), StorePeers.gather, Event()

    def dying(self, parts, to_first=False):
        if self.place == 2 and self.step == step and not died.is_set():
            died.set()
            helpers[0].client.delete(lease(PLACES[0]), lease(PLACES[1]))
            raise SystemError("killed")
        return gather(self, parts, to_first)

    monkeypatch.setattr(StorePeers, "gather", dying)
    with workers.helping(helpers):
        assert told(refit(first)) == expected
    assert died.is_set()


def test_nobody_is_called_where_there_is_nobody(stored, workers):
    first = workers.worker("first")

    assert first.refit(TARGET, "pooled", history_of(first), None, True) is None
    assert not stored.exists(JOINT_REFIT)


def test_few_campaigns_are_left_to_one(redis_client, workers):
    put(redis_client, NEWEST, hour_table(NEWEST, 40))
    first, helper = workers.worker("first"), workers.worker("second")
    first.worth_it = 41

    assert first.refit(TARGET, "pooled", history_of(first), None, True) is None
    assert not helper.help()


def test_the_place_of_a_dead_one_is_not_waited_for(stored, workers, caplog):
    """It holds its lease for some time still."""
    first, helper = workers.worker("first"), workers.worker("second")
    expected = alone_on_stored(workers, "sir")
    Lease(stored, PLACES[0], "dead", 600.0).acquire()

    with caplog.at_level(logging.INFO), workers.helping([helper]):
        assert told(refit(first, "sir")) == expected
    assert "click is refitted by 2 workers" in caplog.text
    assert "begins anew" not in caplog.text


@pytest.mark.parametrize("count", range(1, SHARDS + 1))
def test_every_shard_has_one_worker(count):
    """In the order of the workers; the first has no more than any other."""
    parts = [shards_of_worker(place, count) for place in range(count)]

    assert [shard for part in parts for shard in part] == list(range(SHARDS))
    assert len(parts[0]) <= min(map(len, parts[1:]), default=SHARDS)


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_all_are_done_at_about_the_same_time(count):
    """The first has less to fit for what it does besides; reports even what whole shards leave."""
    fitted = [shards_of_worker(place, count) for place in range(count)]
    reported = [shards_of_worker(place, count, report=True) for place in range(count)]
    work = [len(fit) + _REPORT * len(of) for fit, of in zip(fitted, reported, strict=True)]
    work[0] += _BESIDES

    assert [shard for part in reported for shard in part] == list(range(SHARDS))
    assert max(work) * count / sum(work) < 1.03


@pytest.mark.slow
def test_the_busiest_campaigns_are_filtered_once_by_all_together(stored, workers, monkeypatch):
    first, helper = workers.worker("first"), workers.worker("second")
    filtered, gains = [], state_space._gains

    def counting(series, *others):
        filtered.append(len(series.variances))
        return gains(series, *others)

    monkeypatch.setattr(state_space, "_gains", counting)
    alone(workers)
    by_one = sorted(campaigns for campaigns in filtered if campaigns > 1)
    filtered.clear()
    with workers.helping([helper]):
        refit(first)

    assert sum(by_one) >= CAMPAIGNS
    assert sorted(campaigns for campaigns in filtered if campaigns > 1) == by_one


def test_only_what_is_stored_is_divided(workers):
    first, _ = workers.worker("first"), workers.worker("second")

    assert first.refit(TARGET, "pooled", History(1.0, []), None, True) is None


def version_of_a_model(client: Any) -> None:
    table = hour_table(NEWEST)
    names = [named(name, "v2") if n % 2 else name for n, name in enumerate(table.campaigns)]
    put(client, NEWEST, table.renamed(names))


def another_model(client: Any) -> None:
    put(client, NEWEST, hour_table(NEWEST, shift=1.5))


def only_a_few(client: Any) -> None:
    for hour in range(NEWEST - HOURS + 1, NEWEST + 1):
        put(client, hour, hour_table(hour, 300))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            version_of_a_model, "versions of the model score side by side", marks=pytest.mark.slow
        ),
        pytest.param(another_model, "another model may score", marks=pytest.mark.slow),
        (only_a_few, "300 campaigns are too few"),
    ],
)
def test_what_cannot_be_divided_is_fitted_by_one(stored, workers, caplog, change, reason):
    """All find it out together, or from one of them."""
    change(stored)
    first, helper = workers.worker("first"), workers.worker("second")
    expected = alone(workers)

    with caplog.at_level(logging.INFO), workers.helping([helper]):
        assert told(refit(first)) == expected

    assert f"{TARGET} is refitted by one worker: {reason}" in caplog.text
    assert "helped with" not in caplog.text


def test_workers_with_other_settings_do_not_come(stored, workers, caplog):
    first = workers.worker("first")
    other = workers.worker("second", workers.settings.model_copy(update={"history_hours": 7}))

    with workers.helping([other]):
        assert first.refit(TARGET, "pooled", history_of(first), None, True) is None
    assert "a refit of workers with other settings is left to them" in caplog.text


CALL = Call("id", TARGET, "pooled", 1.0, 0, 1, False, (0, 1), "likeness")


@pytest.mark.parametrize(
    "text", [b"junk", b"\xff", seal("{}", JOINT_REFIT).encode(), seal("[1]", "elsewhere").encode()]
)
def test_a_call_that_nobody_can_read_is_none(redis_client, text):
    redis_client.set(JOINT_REFIT, text)
    assert JointRefits(redis_client).called() is None


def test_a_call_is_read_as_it_was_made(redis_client):
    refits, members = JointRefits(redis_client), [Member("worker", "1:first")]
    refits.call(CALL._replace(members=members))

    assert refits.called() == CALL._replace(members=members)


def test_who_has_lost_its_lease_is_gone(redis_client):
    own = Lease(redis_client, PLACES[0], "second", 60.0)
    own.acquire()
    member = Member(PLACES[0], own.token.value)
    refits = JointRefits(redis_client)

    assert refits.came() == [member]
    assert refits.gone([member]) == []
    assert refits.gone([member._replace(token="0:other")]) == [member._replace(token="0:other")]
    own.release()
    assert refits.gone([member]) == [member]


PARTS = [
    (np.arange(6.0).reshape(2, 3), np.array([True, False])),
    (),
    (np.empty((0, 4)), np.array([7], np.int64), np.frombuffer(b"name", np.uint8)),
]


def test_parts_are_read_as_they_were_told():
    found = unpacked(packed(PARTS))

    assert [[(a.dtype, a.tolist()) for a in part] for part in found] == [
        [(a.dtype, a.tolist()) for a in part] for part in PARTS
    ]


def test_every_damaged_byte_of_parts_is_noticed():
    data = packed(PARTS)
    for at in range(len(data)):
        with pytest.raises(NotDivided, match="damaged"):
            unpacked(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
    for cut in range(len(data)):
        with pytest.raises(NotDivided, match="damaged"):
            unpacked(data[:cut])


def test_places_that_nobody_can_read_leave_it_to_one(redis_client):
    redis_client.hset(joint_refit("refit", 3), mapping={"0": b"", "1": b""})
    assert JointRefits(redis_client).reporters("refit", 3) == {0, 1}

    redis_client.hset(joint_refit("refit", 3), "q", b"")
    with pytest.raises(NotDivided, match="damaged"):
        JointRefits(redis_client).reporters("refit", 3)


@pytest.mark.slow
def test_damaged_messages_leave_it_to_one(stored, workers, monkeypatch, caplog):
    first, helper = workers.worker("first"), workers.worker("second")
    expected, report = alone_on_stored(workers), JointRefits.report

    def damaging(self, refit, step, place, parts):
        if place and step == 5:
            stored.hset(joint_refit(refit, step), str(place), b"junk")
        else:
            report(self, refit, step, place, parts)

    monkeypatch.setattr(JointRefits, "report", damaging)
    with caplog.at_level(logging.INFO), workers.helping([helper]):
        assert told(refit(first)) == expected
    assert "is refitted by one worker: what a worker has told is damaged" in caplog.text


@pytest.mark.slow
def test_whatever_a_helper_breaks_on_ends_neither(stored, workers, monkeypatch, caplog):
    """It is tried three times, and then done by one."""
    first, helper = workers.worker("first"), workers.worker("second")
    expected, gather = alone_on_stored(workers), StorePeers.gather

    def breaking(self, parts, to_first=False):
        if self.place and self.step == 2:
            raise ZeroDivisionError("of the helper")
        return gather(self, parts, to_first)

    monkeypatch.setattr(StorePeers, "gather", breaking)
    with workers.helping([helper]):
        assert told(refit(first)) == expected
    assert caplog.text.count("begins anew: of the helper") == 3
    assert "helping with click failed" in caplog.text


LATEST = NEWEST * SECONDS_PER_HOUR + SECONDS_PER_HOUR


def run_in_process(settings: Settings, url: str) -> None:
    """A worker to which hundreds of campaigns are many."""
    method._JOINED = JOINED
    loop.Together = partial(Together, worth_it=JOINED)
    loop.run_worker(settings, url)


@contextmanager
def processes(settings: Settings, url: str, count: int) -> Iterator[None]:
    """Real workers."""
    context = get_context("spawn")
    running = [context.Process(target=run_in_process, args=(settings, url)) for _ in range(count)]
    for each in running:
        each.start()
    try:
        yield
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.join()


def await_that(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.002)


def steps_taken(client: Any, refit: str) -> int:
    """The newest step of a refit of which anybody has told something."""
    keys = client.keys(f"sirocco:{{maps}}:joint_refit:{refit}:*")
    return max((int(key.rpartition(b":")[2]) for key in keys), default=-1)


def digest_after_a_kill(client: Any, workers: int, seed: int) -> bytes:
    """Of the maps that these publish, one of whom, the first or a helper, is killed at a moment
    that the seed draws."""
    rng, refits, jobs = random.Random(seed), JointRefits(client), Jobs(client)
    share = ShardShare(client, "folds", "test", 1.0)
    await_that(lambda: share.others() >= workers - 1 and bool(client.exists(lease("worker"))))
    job = jobs.submit("retrain", {"as_of": float(LATEST)}, time.time())
    await_that(lambda: (call := refits.called()) is not None and bool(call.members))
    call, step = refits.called(), rng.randrange(200)
    await_that(lambda: steps_taken(client, call.id) >= step)
    holder = rng.choice(call.members).token.rpartition("-")[2]
    os.kill(int(holder), signal.SIGKILL)
    assert jobs.get(job.id).status == "running"
    await_that(lambda: jobs.get(job.id).status in ("done", "failed"))
    assert jobs.get(job.id).error is None
    versions = Versions(client, 3)
    return versions.load(versions.current()).atlases[TARGET]


@pytest.mark.slow
def test_maps_are_the_same_whoever_is_killed(stored, redis_url, settings, workers):
    """Real workers, SIGKILL at a step that is drawn, of one of four and then of one of the rest."""
    expected = alone_on_stored(workers)[0]

    with processes(settings, redis_url, 4):
        for count, seed in ((4, 1), (3, 2)):
            assert digest_after_a_kill(stored, count, seed) == expected
