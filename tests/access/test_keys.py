"""API keys in Redis: what is kept of one, who is let in, and how one ends."""

import json

import pytest

from app.access.key_store import MOST_KEYS, KeyConflict, KeyStore, UnknownKey, read_keys
from app.access.keys import BOOTSTRAP, ApiKey, KeyTable, RateLimit, Scope, digest_of, new_key
from app.storage import keys as names
from app.strict_json import ValidationError

NOW = 1_800_000_000.0
DAY = 86_400.0
ADMIN = frozenset({Scope.ADMIN})
READ = frozenset({Scope.READ})


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(redis_client, clock):
    return KeyStore(redis_client, clock)


def table(store):
    return KeyTable(read_keys(store.stored()), digest_of("b" * 32), True)


def test_a_token_is_256_random_bits_of_which_a_digest_is_kept(store, redis_client):
    key, token = store.make(READ, name="bidder")
    mark, key_id, secret = token.split("_", 2)

    assert (mark, key_id) == ("sir", key.id)
    assert len(secret) == 43
    kept = redis_client.hgetall(names.API_KEYS)[key.id.encode()]
    assert secret.encode() not in kept
    assert digest_of(secret) in kept.decode()
    assert store.make(READ)[1] != token


def test_the_token_alone_finds_the_key(store):
    key, token = store.make(READ)
    wrong = [token[:-1], token + "x", token.replace(key.id, "0" * 12), "", "sir_", "x", token[4:]]

    assert table(store).find(token, NOW) == key
    assert [table(store).find(one, NOW) for one in wrong] == [None] * len(wrong)


def test_what_shows_a_key_shows_no_digest(store):
    key, _ = store.make(READ, campaigns=("shop/",), rate_limit=5)

    assert key.digest not in json.dumps(key.described(NOW))
    assert key.described(NOW)["standing"] == "valid"


def test_the_bootstrap_key_makes_and_reads_and_is_stored_nowhere(store):
    found = table(store).find("b" * 32, NOW)

    assert (found.id, found.scopes) == (BOOTSTRAP, {Scope.ADMIN, Scope.READ})
    assert store.stored() == {}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"scopes": frozenset()}, "scopes: must be some of calibrate, ingest, read, admin"),
        ({"rate_limit": 0}, "rate_limit = 0: must be 1 to 1000000 requests a second"),
        ({"expires_at": NOW}, "expires_at = 1800000000.0: must be in the future"),
        ({"campaigns": ("a", "")}, "campaigns[1] = \"\": must have 1 to 256 characters"),
        ({"campaigns": ("a",) * 101}, "campaigns: has 101 items; must have at most 100"),
        ({"name": "n" * 101}, "must have at most 100 characters"),
        (
            {"scopes": ADMIN, "campaigns": ("a",)},
            "campaigns: must not be bound for the scope admin, which sees all",
        ),
    ],
)  # fmt: skip
def test_what_no_key_may_have(fields, error):
    with pytest.raises(ValidationError) as refused:
        new_key(NOW, **{"scopes": READ, **fields})

    assert str(refused.value).endswith(error)


def test_a_key_of_a_later_version_lets_nobody_in(store, redis_client, caplog):
    """A field that is not known here may say what the key must not do."""
    key, token = store.make(READ)
    content = json.loads(key.packed()) | {"networks": ["10.0.0.0/8"]}
    redis_client.hset(names.API_KEYS, key.id, json.dumps(content))
    redis_client.hset(names.API_KEYS, "junk", b"\xff")

    assert table(store).find(token, NOW) is None
    assert f"left out the API key {key.id}" in caplog.text


def test_rotation_leaves_two_valid_until_the_old_one_ends(store, clock):
    old, first = store.make(READ, name="bidder", campaigns=("a",), rate_limit=7)
    new, second = store.rotate(old.id, DAY)

    assert new.replaces == old.id
    assert (new.scopes, new.campaigns, new.rate_limit) == (old.scopes, ("a",), 7)
    clock.now += DAY - 1
    assert all(table(store).find(token, clock.now) for token in (first, second))
    clock.now += 1
    assert table(store).find(first, clock.now) is None
    assert table(store).find(second, clock.now) == new


def test_no_rotation_makes_a_third(store, clock):
    old, _ = store.make(READ)
    new, _ = store.rotate(old.id, DAY)

    for key in (old, new):
        with pytest.raises(KeyConflict, match="both valid, the most of one rotation"):
            store.rotate(key.id, DAY)
    clock.now += DAY
    with pytest.raises(KeyConflict, match="is expired; make a new one"):
        store.rotate(old.id, DAY)
    assert store.rotate(new.id, 0)[0].replaces == new.id


def test_rotation_gives_an_old_key_no_longer_life(store):
    old, _ = store.make(READ, expires_at=NOW + 10)
    store.rotate(old.id, DAY)

    assert store.get(old.id).expires_at == NOW + 10


def test_a_key_that_ends_is_rotated_into_one_that_ends(store, clock):
    old, _ = store.make(READ, expires_at=NOW + 90 * DAY)
    clock.now += 60 * DAY

    assert store.rotate(old.id, DAY)[0].expires_at == clock.now + 90 * DAY


@pytest.mark.parametrize("life", [None, 90 * DAY])
def test_a_second_rotation_gives_the_life_of_the_first(store, clock, life):
    """After the first token was lost: the key itself ends with its grace by then."""
    old, _ = store.make(READ, expires_at=life and NOW + life)
    lost, _ = store.rotate(old.id, DAY)
    store.revoke(lost.id)
    clock.now += DAY / 2

    assert store.rotate(old.id, DAY)[0].expires_at == (life and clock.now + life)


def test_what_ends_a_key(store, clock):
    revoked, token = store.make(READ)
    expired, other = store.make(READ)

    store.revoke(revoked.id)
    store.expire(expired.id, NOW + 5)

    assert table(store).find(token, NOW) is None
    assert table(store).find(other, NOW + 4.9) is not None
    assert table(store).find(other, NOW + 5) is None
    with pytest.raises(KeyConflict, match="is revoked already"):
        store.revoke(revoked.id)
    with pytest.raises(UnknownKey):
        store.revoke("none")


def test_the_first_end_of_a_scope_is_of_a_valid_key_that_none_replaces(store, clock):
    store.make(READ)
    store.revoke(store.make(READ, expires_at=NOW + DAY)[0].id)
    store.make(READ | ADMIN, expires_at=NOW + 9 * DAY)
    old, _ = store.make(READ, expires_at=NOW + 2 * DAY)
    assert table(store).seconds_left(NOW) == {"read": 2 * DAY, "admin": 9 * DAY}

    store.rotate(old.id, DAY)
    clock.now += 1

    assert table(store).seconds_left(NOW + 1)["read"] == 2 * DAY - 1
    assert table(store).seconds_left(NOW + 2 * DAY + 1)["read"] == 7 * DAY - 1


def test_the_first_key_can_make_the_second(store):
    with pytest.raises(KeyConflict, match="the first key must have the scope admin"):
        store.make(READ, first_needs_admin=True)
    store.make(ADMIN, first_needs_admin=True)

    assert store.make(READ, first_needs_admin=True)


def test_there_is_a_most_of_keys_and_ended_ones_are_forgotten(store, redis_client, clock):
    old = ApiKey(id="old", digest="0", scopes=READ, created_at=0.0, revoked_at=NOW)
    packed = old.packed()
    redis_client.hset(names.API_KEYS, mapping={f"{i}": packed for i in range(MOST_KEYS - 1)})
    redis_client.hset(names.API_KEYS, "old", packed)

    with pytest.raises(KeyConflict, match="there are 1000 keys"):
        store.make(READ)
    clock.now += 31 * DAY
    store.make(READ)

    assert redis_client.hexists(names.API_KEYS, "old") is False


def test_so_many_in_a_second_and_then_no_more():
    now = 0.0
    limit = RateLimit(10, lambda: now)

    assert [limit.take() for _ in range(11)] == [True] * 10 + [False]
    assert limit.headers() == [
        (b"ratelimit-policy", b'"key";q=10;w=1'),
        (b"ratelimit", b'"key";r=0;t=1'),
    ]
    now = 0.35
    assert [limit.take() for _ in range(4)] == [True] * 3 + [False]
    now = 100.0
    assert sum(limit.take() for _ in range(20)) == 10
