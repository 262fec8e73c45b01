"""Bytes of a model and their seal: damage, and what is impossible, is refused in words."""

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccem import PostClickModel, seal, unseal
from tests.pccem.sample_clicks import sample_features, sample_outcomes

FEATURES = sample_features(3_000)
BYTES = PostClickModel.fit(FEATURES, sample_outcomes(FEATURES), rounds=10, num_threads=1).to_bytes()
HEADER_AT = 8


def test_any_flip_or_cut_is_found_before_anything_is_read():
    rng = np.random.default_rng(0)
    places = [*rng.integers(0, len(BYTES), 2_000).tolist(), *range(12), *range(-40, 0)]
    for place in places:
        flipped = bytearray(BYTES)
        flipped[place] ^= 1 << int(rng.integers(8))
        for damaged in (bytes(flipped), BYTES[:place], BYTES + b"\0"):
            with pytest.raises(ValueError, match="model"):
                PostClickModel.from_bytes(damaged)


def forged(change: Callable[[dict[str, Any]], object], text: bytes | None = None) -> bytes:
    """The bytes with a changed header, or text, and a digest that fits them."""
    header = header_of(BYTES)
    change(header)
    return with_header(json.dumps(header).encode(), text or text_of(BYTES))


def header_of(data: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(data[HEADER_AT : -32 - len(text_of(data))])
    return parsed


def text_of(data: bytes) -> bytes:
    _, length = struct.unpack_from("<4sI", data)
    return data[HEADER_AT + length : -32]


def with_header(header: bytes, text: bytes) -> bytes:
    content = struct.pack("<4sI", b"SPCM", len(header)) + header + text
    return content + hashlib.sha256(content).digest()


def test_an_unchanged_forgery_loads():
    assert PostClickModel.from_bytes(forged(lambda header: None)).to_bytes() == BYTES


def test_a_model_that_scores_its_probes_otherwise_is_found():
    def off(header: dict[str, Any]) -> None:
        header["probes"][3]["score"] += 1e-6

    with pytest.raises(ValueError, match=r"probe 3: the model scores 0\.\d+, where it was written"):
        PostClickModel.from_bytes(forged(off)).check_probes()


def put(*path: Any) -> Callable[[dict[str, Any]], object]:
    """A change of the header: the last item of the path is put where the others lead."""
    *way, key, value = path

    def change(header: Any) -> None:
        for step in way:
            header = header[step]
        header[key] = value

    return change


IMPOSSIBLE = {
    "a later schema": (put("schema_version", 2), "schema_version 2, this reads 1"),
    "no schema": (lambda header: header.clear(), "schema_version None, this reads 1"),
    "an offset in words": (put("offset", "0"), "offset = 0: must be a finite number"),
    "an endless offset": (put("offset", 1e999), "offset = inf: must be a finite number"),
    "an offset of 400 digits": (put("offset", 10**400), "must be a finite number"),
    "true for an offset": (put("offset", True), "offset = True: must be a finite number"),
    "rounds in words": (put("rounds", "10"), "rounds = 10: must be int"),
    "true rounds": (put("rounds", True), "rounds = True: must be int"),
    "other rounds": (put("rounds", 11), "rounds = 11, the trees have 10"),
    "no features": (put("features", []), "must be there, distinct and sorted"),
    "features in words": (put("features", "x"), "features = x: must be list"),
    "a feature in words": (put("features", 0, "x"), "a feature must be an object"),
    "a nameless feature": (put("features", 0, "name", 3), "name = 3: must be str"),
    "a feature twice": (put("features", 0, "name", "behaviour.pages"), "distinct and sorted"),
    "a feature fewer": (lambda header: header["features"].pop(), "a probe has 4 of 3 values"),
    "a kind of its own": (put("features", 0, "kind", "text"), "kind of feature behaviour.cart"),
    "categories in words": (put("features", 3, "categories", "x"), "categories = x: must be list"),
    "numbered categories": (put("features", 3, "categories", [1]), "must have at most 255 names"),
    "unsorted categories": (put("features", 3, "categories", ["b", "a"]), "distinct and sorted"),
    "no probes": (put("probes", []), "probes must be 1 to 16 objects"),
    "a probe in words": (put("probes", ["x"]), "probes must be 1 to 16 objects"),
    "a probe too long": (put("probes", 0, "values", [1] * 5), "a probe has 5 of 4 values"),
    "a probe of words": (put("probes", 0, "values", ["x"] * 4), "behaviour.cart = x: must be"),
    "a category of no name": (put("probes", 0, "values", [1, 1, 1, 7]), "has no category 7"),
    "half a category": (put("probes", 0, "values", [1, 1, 1, 0.5]), "has no category 0.5"),
    "a score beyond 1": (put("probes", 0, "score", 1.5), r"score of probes\[0\] = 1.5"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_header_is_refused_in_words(name):
    change, message = IMPOSSIBLE[name]

    with pytest.raises(ValueError, match=message):
        PostClickModel.from_bytes(forged(change))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "model header: not JSON"),
        (b"\xff", "model header: not JSON"),
        (b"[" * 200_000, "model header: not JSON"),
        (b"[]", "model header: must be an object"),
    ],
)
def test_a_header_that_is_no_object_is_refused(header, message):
    with pytest.raises(ValueError, match=message):
        PostClickModel.from_bytes(with_header(header, b""))


def test_a_length_beyond_the_end_is_refused():
    content = struct.pack("<4sI", b"SPCM", 2**32 - 1) + b"{}"

    with pytest.raises(ValueError, match="schema_version None"):
        PostClickModel.from_bytes(content + hashlib.sha256(content).digest())


def test_nothing_that_digest_or_seal_refuses_reaches_lightgbm(monkeypatch):
    monkeypatch.setattr("pccem.model.loaded", lambda text: pytest.fail("loaded"))
    swapped = BYTES.replace(b"left_child=1", b"left_child=0")

    with pytest.raises(ValueError, match="the digest does not fit"):
        PostClickModel.from_bytes(swapped)
    with pytest.raises(ValueError, match="the seal does not fit"):
        PostClickModel.from_bytes(unseal(seal(BYTES, b"k" * 16), b"another key of ours"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "LightGBM refuses it"),
        (b"tree\nversion=v4\n", "LightGBM refuses it"),
        ("tree\xe9".encode(), "must be ASCII"),
    ],
)
def test_a_text_that_is_no_model_is_a_value_error(text, message):
    header = json.dumps(header_of(BYTES)).encode()

    with pytest.raises(ValueError, match=f"model text: {message}"):
        PostClickModel.from_bytes(with_header(header, text))


def test_trees_of_other_features_are_refused():
    other = sample_features(3_000).without(["behaviour.cart"])
    model = PostClickModel.fit(other, sample_outcomes(FEATURES), rounds=10, num_threads=1)

    with pytest.raises(ValueError, match="features = 4, the trees have 3"):
        PostClickModel.from_bytes(forged(lambda header: None, text_of(model.to_bytes())))


def test_what_lightgbm_itself_refuses_is_a_value_error(monkeypatch):
    def refuse(model_str: str) -> None:
        raise lightgbm.basic.LightGBMError("no such thing")

    monkeypatch.setattr("lightgbm.Booster", refuse)

    with pytest.raises(ValueError, match="LightGBM refuses it: no such thing"):
        PostClickModel.from_bytes(BYTES)


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
