"""A post-click model as bytes: a JSON header and LightGBM's text behind one digest.

Layout: magic "SPCM"; length of the header u4, little-endian; the header, UTF-8 JSON; the text of
the trees, ASCII; SHA-256 of all that. The header says schema_version, features (name, kind,
categories in the order of their codes), offset (log-odds), rounds, and probes: rows of values
(null where missing, a category by its code) with the score that the model gave each.

A seal, by a key, keeps models that are not ours out of the store.
"""

import hashlib
import hmac
import json
import math
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pccem.arrays import Floats, check_unit_interval
from pccem.features import CATEGORICAL, MOST_CATEGORIES, NUMERIC, ModelColumn, ModelColumns

SCHEMA_VERSION: Final = 1
MOST_PROBES: Final = 16
_MAGIC: Final = b"SPCM"
_START: Final = struct.Struct("<4sI")
_DIGEST: Final = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True, eq=False)
class ModelParts:
    """What a model's bytes say.

    columns : what the model was trained on.
    offset : log-odds added to the trees' sum.
    probes : (k, columns) rows of `ModelColumns.matrix`, k <= 16.
    probe_scores : (k,) their scores.
    text : the trees.
    rounds : number of trees.
    """

    columns: ModelColumns
    offset: float
    probes: Floats
    probe_scores: Floats
    text: str
    rounds: int


def pack_model(parts: ModelParts) -> bytes:
    """The bytes; equal models have equal bytes."""
    header = json.dumps(_header(parts), allow_nan=False, separators=(",", ":")).encode()
    content = _START.pack(_MAGIC, len(header)) + header + parts.text.encode("ascii")
    return content + hashlib.sha256(content).digest()


def unpack_model(data: bytes) -> ModelParts:
    """What `pack_model` wrote; nothing of it has reached LightGBM yet.

    Raises ValueError where the bytes were changed or cut, have another schema_version, or say
    something impossible.
    """
    content = _undamaged(data)
    length = _START.unpack_from(content)[1]
    header = _parsed(content[_START.size : _START.size + length])
    columns = _columns(_entry(header, "features", list))
    offset, rounds = _number(header, "offset"), _entry(header, "rounds", int)
    probes, probe_scores = _probes(_entry(header, "probes", list), columns)
    text = content[_START.size + length :]
    if not text.isascii():
        raise ValueError("model text: must be ASCII")
    return ModelParts(columns, offset, probes, probe_scores, text.decode("ascii"), rounds)


def _header(parts: ModelParts) -> dict[str, Any]:
    probes = [
        {"values": [None if math.isnan(value) else value for value in row], "score": score}
        for row, score in zip(parts.probes.tolist(), parts.probe_scores.tolist(), strict=True)
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "features": [_described(column) for column in parts.columns.columns],
        "offset": parts.offset,
        "rounds": parts.rounds,
        "probes": probes,
    }


def _described(column: ModelColumn) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column.name, "kind": column.kind}
    return described if column.categories is None else {
        **described, "categories": list(column.categories)
    }  # fmt: skip


def _undamaged(data: bytes) -> bytes:
    if len(data) < _START.size + _DIGEST or data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("these are not the bytes of a post-click model")
    content, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        raise ValueError("model bytes: the digest does not fit them; they were changed or cut")
    return content


def _parsed(header: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"model header: not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise ValueError("model header: must be an object")
    if (version := parsed.get("schema_version")) != SCHEMA_VERSION:
        raise ValueError(f"model: schema_version {version}, this reads {SCHEMA_VERSION}")
    return parsed


def _entry(header: Mapping[str, Any], name: str, kind: type) -> Any:
    value = header.get(name)
    # A JSON true is no number, though Python's bool is an int.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"model header: {name} = {str(value)[:40]}: must be {kind.__name__}")
    return value


def _number(header: Mapping[str, Any], name: str) -> float:
    value: Any = header.get(name)
    # Python's comparison is exact, so an integer of any length is safe in it; NaN fails it.
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"model header: {name} = {str(value)[:40]}: must be a finite number")
    return float(value)


def _columns(listed: list[Any]) -> ModelColumns:
    columns = tuple(_column(entry) for entry in listed)
    names = [column.name for column in columns]
    if not names or names != sorted(set(names)):
        raise ValueError("model header: features must be there, distinct and sorted by name")
    return ModelColumns(columns)


def _column(entry: Any) -> ModelColumn:
    if not isinstance(entry, dict):
        raise ValueError("model header: a feature must be an object")
    name, kind = _entry(entry, "name", str), entry.get("kind")
    if kind == NUMERIC:
        return ModelColumn(name, None)
    if kind != CATEGORICAL:
        raise ValueError(f"model header: kind of feature {name}: numeric or categorical")
    return ModelColumn(name, _categories(name, _entry(entry, "categories", list)))


def _categories(name: str, listed: list[Any]) -> tuple[str, ...]:
    if len(listed) > MOST_CATEGORIES or not all(isinstance(each, str) for each in listed):
        raise ValueError(f"model header: {name} must have at most {MOST_CATEGORIES} names")
    if listed != sorted(set(listed)):
        raise ValueError(f"model header: categories of {name} must be distinct and sorted")
    return tuple(listed)


def _probes(listed: list[Any], columns: ModelColumns) -> tuple[Floats, Floats]:
    if not 0 < len(listed) <= MOST_PROBES or not all(isinstance(each, dict) for each in listed):
        raise ValueError(f"model header: probes must be 1 to {MOST_PROBES} objects")
    rows = [_probe_row(_entry(each, "values", list), columns) for each in listed]
    scores = [_number(each, "score") for each in listed]
    return np.array(rows), check_unit_interval("score of probes", scores)


def _probe_row(values: list[Any], columns: ModelColumns) -> list[float]:
    if len(values) != len(columns):
        raise ValueError(f"model header: a probe has {len(values)} of {len(columns)} values")
    return [_probe_value(*pair) for pair in zip(values, columns.columns, strict=True)]


def _probe_value(value: Any, column: ModelColumn) -> float:
    if value is None:
        return math.nan
    number = _number({column.name: value}, column.name)
    if column.categories is not None and number not in range(len(column.categories)):
        raise ValueError(f"model header: {column.name} of a probe has no category {number}")
    return number


_SEAL_MAGIC: Final = b"SSEA"
_SHORTEST_KEY: Final = 16


def seal(data: bytes, key: bytes) -> bytes:
    """The bytes behind their seal: magic "SSEA", then the HMAC-SHA256 of the bytes by the key.

    Raises ValueError where the key has fewer than 16 bytes.

    >>> unseal(seal(b"model", b"sixteen bytes ok"), b"sixteen bytes ok")
    b'model'

    Source: Krawczyk, Bellare & Canetti, HMAC, RFC 2104.
    """
    return _SEAL_MAGIC + _seal_of(data, key) + data


def unseal(data: bytes, key: bytes) -> bytes:
    """The bytes that `seal` sealed with the same key.

    Raises ValueError where there is no seal, the bytes were changed or cut, or the key is another
    one.
    """
    start = len(_SEAL_MAGIC) + _DIGEST
    if len(data) < start or data[: len(_SEAL_MAGIC)] != _SEAL_MAGIC:
        raise ValueError("sealed bytes: there is no seal")
    content = data[start:]
    if not hmac.compare_digest(data[len(_SEAL_MAGIC) : start], _seal_of(content, key)):
        raise ValueError("sealed bytes: the seal does not fit them; changed, or another key")
    return content


def _seal_of(data: bytes, key: bytes) -> bytes:
    if len(key) < _SHORTEST_KEY:
        raise ValueError(f"key of {len(key)} bytes: must have at least {_SHORTEST_KEY}")
    return hmac.digest(key, data, "sha256")
