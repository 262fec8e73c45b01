"""Post-click models in Redis: whole or not at all, the last few of each target kept."""

import logging

import pytest

from app.storage import keys as names
from app.storage.errors import CorruptVersion, LeaseLost, StorageUnavailable, UnknownVersion
from app.storage.models import Models, Trained
from app.storage.versions import STAGED_SECONDS
from tests.storage.interrupted_redis import Died, InterruptedRedis, die

TRAINED = Trained(
    "conversion",
    window=604_800.0,
    as_of=86_400.0,
    trained_at=86_520.5,
    source="model",
    report={"clicks": 5, "auc": None},
    delays={"schema_version": 1, "knots": [0.0, 1.5]},
    features={"behaviour.page_views": "numeric", "campaign": "categorical"},
    model=bytes(range(256)) * 3,
)
FIELDS = ("manifest", "contents", "model:0", "model:7")


@pytest.fixture
def models(redis_client) -> Models:
    """Three are kept, in chunks small enough for a model to have several."""
    return Models(redis_client, chunk_bytes=100)


def test_a_model_is_loaded_as_it_was_published(models, token):
    version = models.publish(token, TRAINED)

    assert models.load("conversion", version) == TRAINED


def test_delays_alone_are_kept_without_a_model(models, token):
    delays = Trained("install", 60.0, 0.0, 1.0, "delays", delays={"knots": []})

    version = models.publish(token, delays)

    assert models.load("install", version) == delays


def test_the_last_three_of_each_target_are_kept(models, token, redis_client):
    versions = [models.publish(token, Trained("a", 60.0, day, day, "delays")) for day in range(5)]
    other = models.publish(token, Trained("ab", 60.0, 7.0, 7.0, "delays"))

    assert [row["version"] for row in models.history("a")] == versions[:1:-1]
    assert [row["as_of"] for row in models.history("a")] == [4, 3, 2]
    assert [row["version"] for row in models.history("ab")] == [other]
    assert len(redis_client.keys("sirocco:{maps}:model:a:*")) == 3
    with pytest.raises(UnknownVersion):
        models.load("a", versions[0])


def test_a_target_without_a_model_has_no_history(models):
    assert models.history("conversion") == []


def test_without_the_lease_nothing_is_published(models, token, redis_client):
    redis_client.delete(names.lease(token.name))

    with pytest.raises(LeaseLost):
        models.publish(token, TRAINED)

    assert models.history("conversion") == []
    staged = redis_client.keys("sirocco:{maps}:model:*")
    assert all(0 < redis_client.ttl(key) <= STAGED_SECONDS for key in staged)


def test_a_model_that_expired_before_its_last_step_is_not_published(
    models, token, redis_client, redis_url
):
    def expire() -> None:
        redis_client.delete(*redis_client.keys("sirocco:{maps}:model:*"))

    slow = Models(InterruptedRedis(redis_url, "publish_model", before=expire))
    with pytest.raises(StorageUnavailable, match="expired before it was published"):
        slow.publish(token, TRAINED)

    assert models.history("conversion") == []


def test_a_publisher_that_dies_leaves_nothing_behind(models, token, redis_client, redis_url):
    dying = Models(InterruptedRedis(redis_url, "publish_model", before=die))
    with pytest.raises(Died):
        dying.publish(token, TRAINED)

    (orphan,) = redis_client.keys("sirocco:{maps}:model:*")
    assert 0 < redis_client.ttl(orphan) <= STAGED_SECONDS
    assert models.history("conversion") == []


@pytest.mark.parametrize("field", FIELDS)
def test_a_changed_byte_anywhere_is_noticed(field, models, token, redis_client):
    version = models.publish(token, TRAINED)
    key = names.model("conversion", version)
    data = redis_client.hget(key, field)
    assert isinstance(data, bytes)
    for place in range(0, len(data), 5):
        damaged = bytearray(data)
        damaged[place] ^= 0x01
        redis_client.hset(key, field, bytes(damaged))
        with pytest.raises(CorruptVersion, match=f"'{version}' is damaged: the sha256 of its"):
            models.load("conversion", version)


@pytest.mark.parametrize("field", FIELDS[1:])
def test_what_is_missing_is_noticed(field, models, token, redis_client):
    version = models.publish(token, TRAINED)
    redis_client.hdel(names.model("conversion", version), field)

    with pytest.raises(CorruptVersion):
        models.load("conversion", version)


def test_a_damaged_manifest_is_left_out_of_the_history(models, token, redis_client, caplog):
    good = models.publish(token, TRAINED)
    bad = models.publish(token, TRAINED)
    gone = models.publish(token, TRAINED)
    redis_client.hset(names.model("conversion", bad), "manifest", b"damaged")
    redis_client.delete(names.model("conversion", gone))

    with caplog.at_level(logging.ERROR):
        assert [row["version"] for row in models.history("conversion")] == [good]

    assert bad in caplog.text
    assert gone in caplog.text


def test_attempts_of_one_training_are_counted(models, redis_client):
    counts = [models.attempt("conversion", 86_400.0) for _ in range(3)]

    assert counts == [1, 2, 3]
    assert models.attempt("conversion", 172_800.0) == 1
    assert models.attempt("install", 86_400.0) == 1
    assert redis_client.ttl(names.training("conversion", 86_400.0)) > 0
    models.forget_attempts("conversion", 86_400.0)
    assert models.attempt("conversion", 86_400.0) == 1
