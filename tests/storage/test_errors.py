"""What storage raises."""

import pytest
from redis.exceptions import RedisError, ResponseError, TimeoutError

from app.storage import errors
from app.storage.errors import StorageError, StorageUnavailable
from app.storage.redis.client import reaching_the_store


@pytest.mark.parametrize("cause", [RedisError, ResponseError, TimeoutError, ConnectionResetError])
def test_whatever_a_call_to_redis_raises_means_that_the_store_failed(cause):
    failing = pytest.raises(StorageUnavailable, match="the store failed: gone")
    with failing as caught, reaching_the_store():
        raise cause("gone")

    assert isinstance(caught.value.__cause__, cause)


def test_an_error_of_our_own_passes_as_it_is():
    with pytest.raises(ValueError, match="ours"), reaching_the_store():
        raise ValueError("ours")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errors.IdempotencyConflict("k1"), "'k1' was used for a different request"),
        (errors.LeaseLost("refit"), "'refit' is not held"),
        (errors.UnknownVersion("000001-aa"), "'000001-aa' is not kept"),
        (errors.CorruptVersion("000001-aa", "why"), "'000001-aa' is damaged: why"),
        (errors.VersionChanged("version '000001-aa'"), "version '000001-aa' is not published: "),
        (errors.QueueFull(64), "64 jobs"),
    ],
)
def test_an_error_says_what_it_is_about(error, says):
    assert isinstance(error, StorageError)
    assert says in str(error)
