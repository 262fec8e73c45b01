"""Models in force: the newest that is whole, of the window, and has not seen beyond the moment."""

import logging

import numpy as np
import pytest

from app.storage import keys as names
from app.storage.models import Trained
from app.worker.model_cache import ModelCache
from app.worker.model_trial import TrialFailed
from pccem import DelayDistribution, Features, PostClickModel, seal
from tests.worker.delayed.click_world import TARGET
from tests.worker.delayed.conftest import KEY

WINDOW = 60.0


@pytest.fixture(scope="module")
def model():
    pages = np.tile([1.0, 9.0], 200)
    features = Features({"behaviour.pages": pages}, 400)
    return PostClickModel.fit(features, pages > 5, num_threads=1)


@pytest.fixture(scope="module")
def delays():
    times = np.linspace(0, 59, 200)
    rows = np.zeros(200, np.int32)
    return DelayDistribution.fit(times, np.full(200, 60.0), rows, ("a",), window=WINDOW)


@pytest.fixture
def publish(models, lease, model, delays):
    def put(as_of, key=KEY, window=WINDOW):
        sealed = seal(model.with_offset(as_of / 100).to_bytes(), key)
        packed = delays.to_dict()
        trained = Trained(TARGET, window, as_of, as_of, "model", {}, packed, {}, sealed)
        return models.publish(lease.token, trained)

    return put


def newest(shelf, as_of=100.0):
    found = shelf.newest(TARGET, WINDOW, as_of)
    return None if found is None else (found.trained.as_of, found.model is not None)


def test_before_the_first_there_is_none(shelf):
    assert newest(shelf) is None
    assert shelf.last_as_of(TARGET, WINDOW) is None


def test_the_newest_counts_that_has_not_seen_beyond_the_moment(shelf, publish):
    for as_of in (10.0, 30.0, 20.0):
        publish(as_of)

    assert [newest(shelf, at) for at in (9, 10, 29, 30, 31)] == [
        None,
        (10.0, True),
        (20.0, True),
        (30.0, True),
        (30.0, True),
    ]
    assert shelf.last_as_of(TARGET, WINDOW) == 30.0
    assert shelf.last_as_of(TARGET, WINDOW, 29.0) == 20.0


def test_of_two_as_of_one_moment_the_later_counts(shelf, publish):
    publish(10.0)
    later = publish(10.0)

    assert shelf.newest(TARGET, WINDOW, 10.0).version == later


def test_those_of_another_window_do_not_count(shelf, publish):
    publish(10.0)
    publish(20.0, window=WINDOW + 1)

    assert newest(shelf) == (10.0, True)
    assert shelf.last_as_of(TARGET, WINDOW) == 10.0


def test_a_version_is_tried_once(models, publish, model):
    tried = []
    shelf = ModelCache(models, lambda: KEY, trial=tried.append)
    publish(10.0)

    first = shelf.newest(TARGET, WINDOW, 100.0)
    again = shelf.newest(TARGET, WINDOW, 100.0)

    assert again is first
    assert tried == [first.model.to_bytes()]


def test_the_trial_comes_before_the_loading(models, publish):
    """And a model that fails it is never loaded here."""

    def fail(data):
        raise TrialFailed("it crashed")

    publish(10.0)
    shelf = ModelCache(models, lambda: KEY, trial=fail)

    found = shelf.newest(TARGET, WINDOW, 100.0)

    assert (found.model, found.refused, shelf.refused) == (None, "it crashed", 1)


def damage_manifest(client, key):
    client.hset(key, "manifest", b"damaged")


def damage_contents(client, key):
    client.hset(key, "contents", b"{}")


def flip_a_byte(client, key):
    data = bytearray(client.hget(key, "model:0"))
    data[len(data) // 3] ^= 1
    client.hset(key, "model:0", bytes(data))


def cut_short(client, key):
    client.hset(key, "model:0", client.hget(key, "model:0")[:-7])


@pytest.mark.parametrize("damage", [damage_contents, flip_a_byte, cut_short])
def test_a_damaged_model_leaves_the_one_before(
    damage, models, publish, redis_client, caplog, shelf
):
    publish(10.0)
    version = publish(20.0)
    damage(redis_client, names.model(TARGET, version))

    with caplog.at_level(logging.ERROR):
        found = [newest(shelf) for _ in range(3)]

    assert found == [(10.0, True)] * 3
    assert shelf.refused == 1
    assert f"model {version} of {TARGET} is refused" in caplog.text


def test_a_damaged_manifest_leaves_the_one_before(publish, redis_client, shelf):
    publish(10.0)
    damage_manifest(redis_client, names.model(TARGET, publish(20.0)))

    assert newest(shelf) == (10.0, True)


def test_a_model_signed_with_another_key_leaves_the_one_before(publish, shelf):
    publish(10.0)
    publish(20.0, key=b"another key, which is long too..")

    assert newest(shelf) == (10.0, True)
    assert shelf.refused == 1


def test_with_no_model_left_its_delays_are(publish, shelf):
    publish(10.0, key=b"another key, which is long too..")
    publish(20.0, key=b"another key, which is long too..")

    found = shelf.newest(TARGET, WINDOW, 100.0)

    assert (found.trained.as_of, found.model) == (20.0, None)
    assert found.delays.window == WINDOW
    assert "seal" in found.refused


def test_only_the_last_few_are_held(models, shelf, lease, delays, monkeypatch):
    monkeypatch.setattr("app.storage.models.KEPT", 20)
    for as_of in range(12):
        packed = delays.to_dict()
        models.publish(lease.token, Trained(TARGET, WINDOW, as_of, 0.0, "delays", {}, packed))

    for as_of in range(12):
        assert newest(shelf, as_of) == (as_of, False)

    assert len(shelf._held) == 8
