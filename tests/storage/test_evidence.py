"""PcocEvidence in Redis: the same back, sealed with its key, and set aside when it is damaged."""

import numpy as np
import pytest

from app.storage import keys
from app.storage.bins import EvidenceStore, pack_evidence, unpack_evidence
from calibrators.evidence import FORGOTTEN_HOURS, PcocEvidence


@pytest.fixture
def evidence():
    sums = np.array([3.0, 4.0])
    return PcocEvidence.empty(40).after(40, ("a", "größe"), sums, sums / 2)


def test_what_is_written_is_read(redis_client, evidence):
    store = EvidenceStore(redis_client)
    store.write("click", 7, evidence)

    found = store.read("click", 7)

    assert (found.until, found.campaigns) == (41, ("a", "größe"))
    assert np.array_equal(found.values, evidence.values)
    assert 0 < redis_client.ttl(keys.evidence("click", 7)) <= FORGOTTEN_HOURS * 3600
    assert [len(part.campaigns) for part in store.shards("click")] == [0] * 7 + [2] + [0] * 8
    assert store.read("click", None).campaigns == ()


def test_any_flipped_bit_and_any_other_place_is_refused(evidence):
    key = keys.evidence("click", 7)
    data = pack_evidence(evidence, key)

    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(ValueError, match="block"):
            unpack_evidence(bytes(flipped), key)
    with pytest.raises(ValueError, match="checksum"):
        unpack_evidence(data, keys.evidence("click", 8))


@pytest.mark.parametrize("damage", ["bytes", "type"])
def test_damage_is_set_aside_and_counted(redis_client, evidence, damage):
    key = keys.evidence("click", None)
    if damage == "bytes":
        redis_client.set(key, pack_evidence(evidence, key)[:-1])
    else:
        redis_client.lpush(key, "junk")

    assert EvidenceStore(redis_client).read("click", None).campaigns == ()

    assert redis_client.exists(keys.set_aside(key))
    assert not redis_client.exists(key)
    assert redis_client.hget(keys.DAMAGE, "evidence") == b"1"
