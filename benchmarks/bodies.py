"""The forms of the question "which probabilities?", and what the answers to them say."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from calibrators.samples import Floats

JSON, COLUMNS = "application/json", "application/vnd.sirocco.columns"
PATH = "/v1/calibrate"
TARGET = "click"
_HEADER = struct.Struct("<4sHBBIIIIQ")
_VERSION, _ASKED = 1, 1
_FLOAT32, _INTERNED = 1, 2


@dataclass(frozen=True)
class Ids:
    """The integers that stand for campaigns, and the dictionary that says so."""

    dictionary: int
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> "Ids":
        """As `GET /v1/atlas/{target}/ids` tells them."""
        numbers = {name: place + 1 for place, name in enumerate(answer["campaigns"])}
        return cls(int(answer["dictionary"], 16), numbers)


@dataclass(frozen=True)
class Question:
    """Scores (n,) of as many campaigns."""

    campaigns: Sequence[str]
    scores: Floats
    ids: Ids


@dataclass(frozen=True)
class Form:
    """A way to ask, and to read the answer."""

    content_type: str
    body: Callable[[Question], bytes]
    probabilities: Callable[[bytes], Floats]
    exact: bool = True
    """Whether scores and probabilities are doubles."""


def _columns(question: Question) -> bytes:
    campaigns, scores = list(question.campaigns), question.scores.tolist()
    return orjson.dumps({"target": TARGET, "campaigns": campaigns, "scores": scores})


def _one_campaign(question: Question) -> bytes:
    scores = question.scores.tolist()
    return orjson.dumps({"target": TARGET, "campaign": question.campaigns[0], "scores": scores})


def _rows(question: Question) -> bytes:
    pairs = zip(question.campaigns, question.scores.tolist(), strict=True)
    rows = [{"target": TARGET, "campaign": name, "score": score} for name, score in pairs]
    return orjson.dumps({"rows": rows})


def _binary_ids(question: Question) -> bytes:
    numbers = [question.ids.numbers[name] for name in question.campaigns]
    head = (_FLOAT32 | _INTERNED, len(numbers), 0, 0, len(TARGET), question.ids.dictionary)
    return _binary(head, TARGET.encode(), _u4(numbers), question.scores.astype("<f4").tobytes())


def _binary_names(question: Question) -> bytes:
    places = {name: place for place, name in enumerate(dict.fromkeys(question.campaigns))}
    names = [name.encode() for name in places]
    text = b"".join(names)
    head = (0, len(question.campaigns), len(names), len(text), len(TARGET), 0)
    numbers = _u4([places[name] for name in question.campaigns])
    scores = question.scores.astype("<f8").tobytes()
    return _binary(head, TARGET.encode(), _u4([len(name) for name in names]), text, numbers, scores)


def _binary(head: tuple[int, ...], *sections: bytes) -> bytes:
    flags, *counts = head
    padded = (section + bytes(-len(section) % 8) for section in sections)
    return _HEADER.pack(b"SCOL", _VERSION, _ASKED, flags, *counts) + b"".join(padded)


def _u4(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def _of_json(answer: bytes) -> Floats:
    return np.array(orjson.loads(answer)["probabilities"], float)


def _of_columns(answer: bytes) -> Floats:
    _, _, _, flags, count, *_ = _HEADER.unpack_from(answer)
    kind = "<f4" if flags & _FLOAT32 else "<f8"
    found: NDArray[Any] = np.frombuffer(answer, kind, count, _HEADER.size)
    return found.astype(float)


FORMS = {
    "columns": Form(JSON, _columns, _of_json),
    "one campaign": Form(JSON, _one_campaign, _of_json),
    "rows": Form(JSON, _rows, _of_json),
    "binary, ids": Form(COLUMNS, _binary_ids, _of_columns, exact=False),
    "binary, names": Form(COLUMNS, _binary_names, _of_columns),
}
