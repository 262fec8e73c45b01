import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccem import seal, unseal

KEY = b"a key of 20 bytes..."


@given(st.binary(max_size=200))
def test_what_was_sealed_is_unsealed(data):
    assert unseal(seal(data, KEY), KEY) == data


def test_the_seal_is_hmac_sha256():
    block = KEY.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in block) + b"model").digest()
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in block) + inner).digest()

    assert seal(b"model", KEY) == b"SSEA" + outer + b"model"


def test_any_flip_or_cut_breaks_the_seal():
    sealed = seal(b"the bytes of a model", KEY)
    flipped = [
        sealed[:place] + bytes([sealed[place] ^ 1 << bit]) + sealed[place + 1 :]
        for place in range(len(sealed))
        for bit in range(8)
    ]
    for damaged in (*flipped, *(sealed[:end] for end in range(len(sealed))), sealed + b"\0"):
        with pytest.raises(ValueError, match="sealed bytes"):
            unseal(damaged, KEY)


def test_another_key_does_not_open_it():
    with pytest.raises(ValueError, match="changed, or another key"):
        unseal(seal(b"model", KEY), KEY + b"!")


def test_a_short_key_is_refused():
    with pytest.raises(ValueError, match="key of 3 bytes: must have at least 16"):
        seal(b"model", b"abc")
