"""Clicks are closed into one click log: that of a worker with another is left alone."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
import pytest
import redis

from app.cli.main import main
from app.click_log.folder import OtherClickLog
from app.click_log.log import ClickLog
from app.settings import Settings
from app.storage.batch import EventBatch
from app.storage.clicks import OpenClick, OpenClicks
from app.storage.versions import Versions
from app.worker import loop
from app.worker.atlas_cache import AtlasCache
from app.worker.delayed_targets import DelayedTargets, claim_click_log
from tests.worker.delayed.click_world import MIDNIGHT, TARGET, delayed_settings

HOURS = 3600.0


def delayed_of(settings: Settings, client: redis.Redis) -> DelayedTargets:
    """Those of a worker with these settings."""
    versions = Versions(client, settings.versions_kept)
    return DelayedTargets(settings, client, versions, AtlasCache(versions))


@pytest.fixture
def open_click(append) -> Callable[[str, float], None]:
    """Opens a click of that moment."""

    def opened(click_id: str, at: float) -> None:
        batch = EventBatch()
        batch.add_click(0, OpenClick(click_id, "big", at, {TARGET: 0.2}), opens=True)
        append(batch)

    return opened


@pytest.fixture
def open_clicks(redis_client, open_click) -> OpenClicks:
    """One of them, of midnight."""
    open_click("of midnight", MIDNIGHT)
    return OpenClicks(redis_client)


def test_a_worker_with_another_click_log_closes_nothing_until_it_is_adopted(
    redis_client, open_clicks, open_click, tmp_path
):
    of_one, of_other = (delayed_settings(data_dir=tmp_path / name) for name in ("one", "other"))
    one, other = (delayed_of(each, redis_client) for each in (of_one, of_other))
    # Once, when it was the only one, and no click was due.
    other.close(MIDNIGHT - 24 * HOURS)
    one.close(MIDNIGHT + 2 * HOURS)
    open_click("of another hour", MIDNIGHT + HOURS)

    for step in (
        lambda: other.close(MIDNIGHT + 3 * HOURS),
        lambda: other.prepare(MIDNIGHT + 3 * HOURS, MIDNIGHT + 3 * HOURS),
        lambda: other.finalise(MIDNIGHT),
    ):
        with pytest.raises(OtherClickLog, match="--adopt-click-log"):
            step()
    assert open_clicks.counts()["open"] == 1

    log = ClickLog.open(of_other.click_log)
    claim_click_log(of_other, open_clicks, log, instead=True)
    other.close(MIDNIGHT + 3 * HOURS)
    assert open_clicks.counts()["open"] == 0
    (hour,) = (Path(of_other.click_log) / "clicks").glob("date=*/hour=*")
    assert hour.parts[-2:] == ("date=2016-07-18", "hour=01")
    with pytest.raises(OtherClickLog):
        delayed_of(of_one, redis_client).close(MIDNIGHT + 2 * HOURS)


def test_a_log_that_was_moved_is_the_same(redis_client, open_clicks, tmp_path):
    """Its id is a file in it, which readers of Parquet pass over."""
    before, after = (delayed_settings(data_dir=tmp_path / name) for name in ("before", "after"))
    delayed_of(before, redis_client).close(MIDNIGHT + 2 * HOURS)
    Path(after.data_dir).mkdir()
    Path(before.click_log).rename(after.click_log)

    delayed_of(after, redis_client).close(MIDNIGHT + 3 * HOURS)

    assert (Path(after.click_log) / "_id").exists()
    assert pyarrow.parquet.read_table(Path(after.click_log)).num_rows == 1


def test_a_log_that_is_lost_while_a_worker_runs_is_not_begun_anew(
    redis_client, open_clicks, open_click, settings
):
    delayed = delayed_of(settings, redis_client)
    delayed.close(MIDNIGHT + 2 * HOURS)
    shutil.rmtree(settings.click_log)
    open_click("of another hour", MIDNIGHT + HOURS)

    with pytest.raises(OtherClickLog, match="id none"):
        delayed.close(MIDNIGHT + 3 * HOURS)
    assert open_clicks.counts()["open"] == 1


def test_what_is_no_id_is_another_log_until_it_is_adopted(redis_client, open_clicks, settings):
    """In Redis, or in a log whose id is empty."""
    redis_client.set("sirocco:{maps}:click_log", b"2:00000000:damaged")
    Path(settings.click_log).mkdir()
    (Path(settings.click_log) / "_id").write_bytes(b"")
    delayed = delayed_of(settings, redis_client)

    with pytest.raises(OtherClickLog, match="the checksum of '2:00000000:damaged' is wrong"):
        delayed.close(MIDNIGHT + 2 * HOURS)
    claim_click_log(settings, open_clicks, ClickLog.open(settings.click_log), instead=True)
    delayed_of(settings, redis_client).close(MIDNIGHT + 2 * HOURS)

    assert open_clicks.counts()["open"] == 0


def test_the_command_adopts_before_it_works(monkeypatch, redis_client, redis_url, tmp_path):
    settings = delayed_settings(data_dir=tmp_path)
    OpenClicks(redis_client).close_into("another")
    monkeypatch.setattr(loop.Worker, "run", lambda worker, stop: worker._delayed.close(MIDNIGHT))
    # Signals, and where large files go, are the process's, which is that of all tests here.
    monkeypatch.setattr(loop, "main_thread", lambda: None)

    with pytest.raises(OtherClickLog):
        loop.run_worker(settings, redis_url)
    loop.run_worker(settings, redis_url, adopt_click_log=True)

    given: dict[str, bool] = {}
    monkeypatch.setattr(loop, "run_worker", lambda *_, **how: given.update(how))
    monkeypatch.setattr("app.cli.serving.serve.log_to_stderr", lambda settings: None)
    monkeypatch.setattr(sys, "argv", ["sirocco", "worker", "--adopt-click-log"])
    monkeypatch.setenv("SIROCCO_REDIS_URL", redis_url)
    monkeypatch.setenv("SIROCCO_DATA_DIR", str(tmp_path))
    with pytest.raises(SystemExit, match="0"):
        main()
    assert given == {"adopt_click_log": True}
