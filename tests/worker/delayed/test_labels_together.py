"""Workers that read and score the clicks of a delayed target together, through a real Redis and a
click log on disk: labels, maps and report are those of one worker, whatever keeps them from it."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np
import pytest

from app.click_log.rows import ClosedClick
from app.settings import Settings
from app.storage.bins import BinsStore
from app.storage.clicks import OpenClicks
from app.storage.keys import lease as lease_key
from app.storage.lease import PLACES, Lease, ShardShare
from app.storage.redis.client import open_redis
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache
from app.worker.delayed_targets import DelayedTargets, claim_click_log
from app.worker.fitting import Methods
from app.worker.refit import Refitter, Request
from app.worker.relabelling import ScoredClicks
from app.worker.together import StorePeers, Together, pieces
from tests.worker.delayed.click_world import AS_OF, DAY, NOW, TARGET, delayed_settings
from tests.worker.together.conftest import Workers

HOUR = 3600.0
SPAN = (AS_OF - 7 * HOUR, AS_OF - HOUR)


def with_fields(number: int) -> ClosedClick:
    """A click of an hour that has few of the others' columns, or columns of its own."""
    at, campaign = SPAN[0] + 100.0 * number, f"c{number % 7}"
    fields = {"device": "web" if number % 3 else "app"} if number > 50 else {}
    scores, bucket = {TARGET: 0.1 + 0.001 * number}, number % 5 if number > 150 else None
    return ClosedClick(f"field-{number}", campaign, at, scores, {}, {}, {}, fields, bucket)


class LabelWorkers(Workers):
    """Workers of delayed targets."""

    def worker(self, name: str, settings: Settings | None = None) -> Together:
        """One more, with a connection and a click log of its own."""
        settings = settings or self.settings
        client = self.stack.enter_context(open_redis(self.url, 20.0))
        versions = Versions(client, 8)
        delayed = DelayedTargets(settings, client, versions, AtlasCache(versions))
        # The trial in another process has tests of its own.
        delayed.cache._trial = lambda data: None
        share, own = ShardShare(client, "folds", name, 600.0), Lease(client, "worker", name, 600.0)
        bins = BinsStore(client, settings.ttl_seconds)
        parts = (settings, client, bins, Methods(settings), name, lambda: own.token, share)
        found = Together(*parts, lambda: None, delayed, clicks_worth_it=1, stop=self.stop)
        (own.acquire if name == "first" else share.take)()
        return found


@pytest.fixture
def settings(tmp_path) -> Settings:
    """Of leases that a dead worker loses soon."""
    return delayed_settings(data_dir=tmp_path, lease_seconds=1, history_hours=24)


@pytest.fixture
def workers(redis_url, settings) -> Iterator[LabelWorkers]:
    with ExitStack() as stack:
        yield LabelWorkers(redis_url, settings, stack)


@pytest.fixture
def first(workers, settings, redis_client, logged, in_force) -> Together:
    """Who leads, of a target with a model and a log into which clicks are closed."""
    logged.write_clicks(map(with_fields, range(200)))
    claim_click_log(settings, OpenClicks(redis_client), logged)
    return workers.worker("first", settings)


def refitted(leader: Together) -> tuple[bytes, dict[str, Any]]:
    """The target's maps and its report."""
    versions = Versions(leader.client, 8)
    refitter = Refitter(leader.settings, leader.bins, versions)
    refitter.delayed = leader.delayed
    report = refitter.run(Request(AS_OF), leader.lease(), lambda: NOW)
    return versions.load(report["version"]).atlases[TARGET], report["targets"][TARGET]


def same(one: ScoredClicks, other: ScoredClicks) -> bool:
    """All that labels need, to the last bit."""

    def told(scored: ScoredClicks) -> list[Any]:
        clicks, known, source = scored.clicks, scored.attribution, scored.source
        fields = {name: (column.names, column.codes) for name, column in clicks.fields.items()}
        numbers = (clicks.clicks.clicked_at, clicks.clicks.scores, clicks.probabilities)
        more = (known.converted, known.delay, known.age, known.mature, source.probabilities)
        rows = (clicks.clicks.rows, clicks.buckets)
        return [
            *numbers,
            *more,
            *rows,
            clicks.clicks.campaigns,
            fields,
            source.source,
            source.rules,
        ]

    np.testing.assert_equal(told(one), told(other))
    return True


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_maps_and_report_are_those_of_one_worker(workers, settings, first, caplog, count):
    expected = refitted(first)
    helpers = [workers.worker(str(number), settings) for number in range(1, count)]

    with caplog.at_level(logging.INFO), workers.helping(helpers):
        assert refitted(first) == expected

    assert expected[1]["source"] == "model"
    assert caplog.text.count(f"{TARGET} is refitted by {count} workers") >= 1
    assert not first.client.keys("sirocco:{maps}:joint_refit*")


def test_clicks_are_told_to_the_last_bit(workers, settings, first, monkeypatch):
    """With their fields and units, in messages of a few clicks."""
    monkeypatch.setattr("app.worker.together._AT_ONCE", 5_000)
    helpers = [workers.worker(name, settings) for name in ("second", "third")]
    model = first.delayed.cache.newest(TARGET, DAY, AS_OF).version
    read = first.delayed.reader(TARGET, AS_OF, model)

    with workers.helping(helpers):
        found = first.read(TARGET, AS_OF, model, SPAN)

    assert len(found.clicks) > 500
    assert set(found.clicks.fields) == {"device"}
    assert (found.clicks.buckets >= 0).sum() == 49
    assert same(found, read(SPAN))


def test_one_that_dies_is_done_without(workers, settings, first, monkeypatch, caplog):
    """While it has told a part of its clicks: its lease runs out, and the others begin anew."""
    monkeypatch.setattr("app.worker.together._AT_ONCE", 5_000)
    expected, gather, died = refitted(first), StorePeers.gather, Event()
    helpers = [workers.worker(name, settings) for name in ("second", "third")]

    def dying(self, parts, to_first=False):
        if self.place == 2 and self.step == 5 and not died.is_set():
            died.set()
            helpers[0].client.delete(*map(lease_key, PLACES[:2]))
            raise SystemError("killed")
        return gather(self, parts, to_first)

    monkeypatch.setattr(StorePeers, "gather", dying)
    with workers.helping(helpers):
        assert refitted(first) == expected
    assert died.is_set()
    assert "begins anew" in caplog.text


def test_a_worker_without_the_click_log_does_not_come(
    workers, settings, first, tmp_path, monkeypatch, caplog
):
    """Its folder is on another machine: it says so, and who leads goes on alone."""
    monkeypatch.setattr("app.worker.together._CALL_SECONDS", 0.5)
    expected = refitted(first)
    elsewhere = settings.model_copy(update={"click_log_url": str(tmp_path / "elsewhere")})

    with workers.helping([workers.worker("second", elsewhere)]):
        assert refitted(first) == expected
    assert f"{TARGET} is labelled without this worker: another click log" in caplog.text


def test_a_click_in_hours_of_two_workers_is_read_by_one(workers, settings, first, logged, caplog):
    logged.write_clicks([ClosedClick("field-199", "big", SPAN[0] + 1.0, {TARGET: 0.2}, {}, {}, {})])
    expected = refitted(first)

    with caplog.at_level(logging.INFO), workers.helping([workers.worker("second", settings)]):
        assert refitted(first) == expected
    assert f"{TARGET} is refitted by one worker: a click stands in several" in caplog.text


def test_a_feature_that_has_changed_its_kind_is_read_by_one(
    workers, settings, first, logged, caplog
):
    """Older clicks with numbers in the place of the device's name: the newest say what is right."""
    hours = enumerate(np.arange(SPAN[0], SPAN[1] - HOUR, HOUR).tolist())
    logged.write_clicks(
        ClosedClick(f"old-{n}", "big", at + 1.0, {TARGET: 0.2}, {"device": 1.0}, {}, {})
        for n, at in hours
    )
    expected = refitted(first)

    with caplog.at_level(logging.INFO), workers.helping([workers.worker("second", settings)]):
        assert refitted(first) == expected
    assert "the model cannot score the clicks of all hours" in caplog.text


@pytest.mark.parametrize("count", [2, 3, 7])
def test_pieces_are_whole_hours_with_about_as_many_clicks(count):
    """The first, who labels besides, reads fewer."""
    span = (900.0, 24 * HOUR + 900.0)
    hours = {hour: 100 + 50 * (hour % 5) for hour in range(25)}

    bounds = pieces(span, hours, count)

    assert (bounds[0], bounds[-1], len(bounds)) == (*span, count + 1)
    assert set(bounds[1:-1] % HOUR) <= {0.0, 900.0}
    clicks = [sum(n for h, n in hours.items() if a <= h * HOUR < b) for a, b in pairwise(bounds)]
    assert max(clicks[1:]) - min(clicks[1:]) < 2 * max(hours.values())
    assert clicks[0] < min(clicks[1:])
