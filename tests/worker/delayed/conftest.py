"""What the tests of delayed targets share: one Redis, a click log of the test's own, a lease."""

from pathlib import Path
from shutil import copytree

import pytest

from app.click_log.log import ClickLog
from app.settings import Settings
from app.storage.lease import Lease
from app.storage.models import Models, Trained
from app.worker.model_cache import FILE, ModelCache
from app.worker.training import EarlierTrainings, Lesson, TrainingTask
from evaluation.backtest.click_history import ClickStream
from tests.worker.delayed.click_world import (
    AS_OF,
    DAY,
    MIDNIGHT,
    NOW,
    TARGET,
    WINDOW,
    LoggedStream,
    delayed_settings,
    drawn_stream,
)

KEY = b"a key of the tests, long enough."


@pytest.fixture
def settings(tmp_path) -> Settings:
    """Of a worker whose files are the test's own."""
    return delayed_settings(data_dir=tmp_path)


@pytest.fixture
def log(settings) -> ClickLog:
    """Where those settings keep the click log."""
    return ClickLog.open(settings.click_log)


@pytest.fixture(scope="session")
def written(tmp_path_factory, stream) -> Path:
    """A click log of the whole stream."""
    folder = tmp_path_factory.mktemp("written") / "click-log"
    log = LoggedStream(ClickLog.open(str(folder)), stream)
    log.write(MIDNIGHT, MIDNIGHT + 5 * DAY)
    log.log.compact(MIDNIGHT + 7 * DAY)
    return folder


@pytest.fixture
def logged(written, settings, log) -> ClickLog:
    """The log of the settings, with the whole stream in it."""
    copytree(written, settings.click_log)
    return log


@pytest.fixture(scope="session")
def stream() -> ClickStream:
    """Five days of clicks."""
    return drawn_stream(hours=5 * 24)


@pytest.fixture(scope="session")
def training(written) -> Trained:
    """What the whole stream teaches as of AS_OF, learnt once for all tests."""
    log, task = ClickLog.open(str(written)), TrainingTask(TARGET, WINDOW, AS_OF)
    return Lesson(delayed_settings(), lambda: KEY).trained(
        log, task, EarlierTrainings(), lambda: NOW
    )


@pytest.fixture
def in_force(training, settings, models, redis_client) -> str:
    """The version of a model of that training, signed with the key of the settings."""
    (settings.data_dir / FILE).write_bytes(KEY)
    publisher = Lease(redis_client, "publisher", "test", 600)
    assert publisher.acquire()
    return models.publish(publisher.token, training)


@pytest.fixture
def models(redis_client) -> Models:
    """Those in Redis."""
    return Models(redis_client)


@pytest.fixture
def shelf(models) -> ModelCache:
    """Loads models without the trial in another process, which has tests of its own."""
    return ModelCache(models, lambda: KEY, trial=lambda data: None)
