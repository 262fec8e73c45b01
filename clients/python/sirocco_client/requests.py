"""Scores to calibrate, checked before they travel, as JSON or as binary columns; requests and
responses apart from how they travel.

Columns are `application/vnd.sirocco.columns`, version 1, little-endian: a header of 32 bytes, then
sections, each padded with zeros to a multiple of 8.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sirocco_client.arms import ARMS, RAW, Units, check_units, unit_numbers
from sirocco_client.errors import BadAnswer, BadInput, length_of
from sirocco_client.fields import Fields, Texts, check_fields, cut, cut_fields, pack_fields
from sirocco_client.intervals import NO_INTERVALS, WantedIntervals

Floats = NDArray[np.float64]
Campaigns = Texts

Scores = ArrayLike | Mapping[str, ArrayLike]
"""Of a product of targets by factor."""

SCORE_RULE: Final = "must be a number in [0, 1]"
_MOST_VALUE: Final = 1_000_000.0
_VALUE_RULE: Final = f"must be a number from 0 to {_MOST_VALUE:.0f}"
_LONGEST_RETRY_AFTER: Final = 300.0
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class CalibrateInput:
    """n scores of one target; a campaign for each, or one for all, and so with units and the values
    of fields, if any. Of a product of targets `factors` are the scores of each factor, `scores`
    their products, and `values` what a success is worth."""

    target: str
    campaigns: Campaigns
    scores: Floats
    units: Units | None = None
    fields: Fields | None = None
    wanted: WantedIntervals = NO_INTERVALS
    factors: Mapping[str, Floats] | None = None
    values: Floats | None = None

    @classmethod
    def of(
        cls,
        target: str,
        campaigns: Campaigns,
        scores: Scores,
        units: Units | None = None,
        fields: Fields | None = None,
        wanted: WantedIntervals = NO_INTERVALS,
        values: ArrayLike | None = None,
    ) -> Self:
        """Checked; raises BadInput."""
        factors = None
        if isinstance(scores, Mapping):
            factors = _checked_factors(scores)
            column = np.prod([*factors.values()], axis=0)
        else:
            column = checked_scores(scores)
        if not len(column):
            raise BadInput("scores", "has 0 items; must have at least 1")
        if not isinstance(campaigns, str):
            check_campaigns(campaigns, len(column))
        if units is not None:
            check_units(units, len(column))
        if fields is not None:
            check_fields(fields, len(column))
        worth = None if values is None else _checked_values(values, len(column), factors)
        return cls(target, campaigns, column, units, fields or None, wanted, factors, worth)

    def __len__(self) -> int:
        return len(self.scores)

    def parts(self, most: int) -> Iterator["CalibrateInput"]:
        """The same in parts of at most so many scores, in order."""
        if len(self) <= most:
            yield self
            return
        for start in range(0, len(self), most):
            part = slice(start, start + most)
            campaigns = cut(self.campaigns, part)
            units = None if self.units is None else cut(self.units, part)
            fields = None if self.fields is None else cut_fields(self.fields, part)
            scores = self.scores[part]
            factors = self.factors and {name: one[part] for name, one in self.factors.items()}
            values = None if self.values is None else self.values[part]
            given = (units, fields, self.wanted, factors, values)
            yield CalibrateInput(self.target, campaigns, scores, *given)

    def as_json(self) -> bytes:
        """The body of `POST /v1/calibrate` in JSON; floats keep every bit. Raises BadInput on names
        without UTF-8."""
        content = {
            "target": self.target,
            **columns("campaign", self.campaigns),
            "scores": self.scores.tolist()
            if self.factors is None
            else {name: one.tolist() for name, one in self.factors.items()},
            **({} if self.values is None else {"values": self.values.tolist()}),
            **({} if self.units is None else columns("unit", self.units)),
            **({} if self.fields is None else {"fields": _listed(self.fields)}),
            **self.wanted.as_json(),
        }
        return encoded("campaigns", _encode(content))


_SEPARATOR: Final = "\x1e"
_MOST_VERSION_BYTES: Final = 64
_VERSION_RULE: Final = f"must have 1 to {_MOST_VERSION_BYTES} bytes of UTF-8, all printable"


def check_version(version: str) -> str:
    """The name of a version of the model; raises BadInput on what cannot be one."""
    sound = isinstance(version, str) and version.isprintable()
    if not (sound and 0 < len(encoded("model_version", version)) <= _MOST_VERSION_BYTES):
        raise BadInput("model_version", _VERSION_RULE, version)
    return version


def of_version(campaigns: Campaigns, version: str | None) -> Campaigns:
    """The names that campaigns have where a version of the model made the scores."""
    if version is None:
        return campaigns
    ending = _SEPARATOR + check_version(version)
    if isinstance(campaigns, str):
        return campaigns + ending
    check_campaigns(campaigns, length_of("campaigns", campaigns))
    return [name + ending for name in campaigns]


def without_version(name: str) -> tuple[str, str]:
    """The campaign of such a name, and what new campaigns of its version are called, which is empty
    for none."""
    campaign, separator, version = name.partition(_SEPARATOR)
    return campaign, separator + version


def columns(name: str, given: Campaigns) -> dict[str, object]:
    """One for all by its name, one each by the plural."""
    return {name: given} if isinstance(given, str) else {f"{name}s": list(given)}


def _listed(fields: Fields) -> dict[str, object]:
    return {name: one if isinstance(one, str) else list(one) for name, one in fields.items()}


def checked_scores(
    scores: ArrayLike, field: str = "scores", most: float = 1.0, rule: str = SCORE_RULE
) -> Floats:
    """The scores as float64, shape (n,); raises BadInput that names the first bad one."""
    given = np.asarray(scores)
    if given.ndim != 1:
        raise BadInput(field, f"must have one dimension, not {given.ndim}")
    if given.dtype.kind not in "fiu" and given.size:
        raise BadInput(field, f"must be numbers, not {given.dtype}")
    column = given.astype(np.float64, copy=False)
    # NaN makes both comparisons false.
    if column.size and not (column.min() >= 0.0 and column.max() <= most):
        place = int(np.argmin((column >= 0.0) & (column <= most)))
        raise BadInput(f"{field}[{place}]", rule, float(column[place]))
    return column


def _checked_factors(scores: Mapping[str, ArrayLike]) -> dict[str, Floats]:
    """The columns of the factors of a product, all equally long."""
    if len(scores) < 2:
        raise BadInput("scores", "must have the scores of two factors at least")
    factors = {name: checked_scores(one, f"scores.{name}") for name, one in scores.items()}
    first, *others = factors
    for name in others:
        if len(factors[name]) != len(factors[first]):
            found = f"has {len(factors[name])} items beside {len(factors[first])} of scores.{first}"
            raise BadInput(f"scores.{name}", found)
    return factors


def _checked_values(values: ArrayLike, scores: int, factors: object) -> Floats:
    if factors is None:
        raise BadInput("values", "is for products only: give the scores by factor")
    worth = checked_scores(values, "values", _MOST_VALUE, _VALUE_RULE)
    if len(worth) != scores:
        raise BadInput("values", f"has {len(worth)} items beside {scores} scores")
    return worth


def encoded(field: str, text: str) -> bytes:
    """UTF-8; raises BadInput on halves of surrogate pairs, which have none."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInput(field, "must be text that UTF-8 can hold") from None


def check_campaigns(campaigns: Campaigns, scores: int) -> None:
    """BadInput unless there is a string for each of so many scores."""
    if length_of("campaigns", campaigns) != scores:
        raise BadInput("campaigns", f"has {len(campaigns)} items beside {scores} scores")
    if set(map(type, campaigns)) == {str}:
        return
    for place, campaign in enumerate(campaigns):
        if not isinstance(campaign, str):
            raise BadInput(f"campaigns[{place}]", "must be a string", campaign)


# Magic, version, kind, flags, rows, names, bytes of names, bytes of target, dictionary.
_HEADER: Final = struct.Struct("<4sHBBIIIIQ")
_MAGIC: Final = b"SCOL"
_VERSION: Final = 1
_SCORES, _PROBABILITIES = 1, 2
_FLOAT32, _ONE_CAMPAIGN, _LEVELS, _UNITS, _FIELDS, _QUANTILES = 1, 4, 16, 32, 64, 128
_NAMES_OF_LEVELS: Final = ("identity", "target", "campaign", "group", RAW)


def pack_input(given: CalibrateInput, levels: bool) -> bytes:
    """The scores with the names of its campaigns; raises BadInput on names without UTF-8."""
    if isinstance(given.campaigns, str):
        names, places = [given.campaigns], np.zeros(1, "<u4")
    else:
        number: dict[str, int] = {}
        codes = [number.setdefault(name, len(number)) for name in given.campaigns]
        names, places = list(number), np.array(codes, "<u4")
    texts = [encoded("campaigns", name) for name in names]
    lengths = np.fromiter(map(len, texts), "<u4", len(texts))
    target = encoded("target", given.target)
    flags = _LEVELS * levels + _ONE_CAMPAIGN * isinstance(given.campaigns, str)
    flags += _UNITS * (given.units is not None) + _FIELDS * (given.fields is not None)
    section = given.wanted.section()
    flags += _QUANTILES * bool(section)
    text = b"".join(texts)
    sizes = (len(given), len(texts), len(text), len(target))
    header = _HEADER.pack(_MAGIC, _VERSION, _SCORES, flags, *sizes, 0)
    sections = map(_section, (target, lengths.tobytes(), text, places.tobytes()))
    scores = given.scores.astype("<f8", copy=False).tobytes()
    fields = () if given.fields is None else pack_fields(given.fields, len(given))
    behind = (_unit_column(given), *map(_section, fields), section)
    return b"".join((header, *sections, scores, *behind))


def _unit_column(given: CalibrateInput) -> bytes:
    if given.units is None:
        return b""
    if isinstance(given.units, str):
        return unit_numbers([given.units]).tobytes() * len(given)
    return unit_numbers(given.units).tobytes()


Words = tuple[str, ...] | None
"""One for each score, if they are there."""


def unpack_response(
    body: bytes, rows: int, quantiles: int = 0
) -> tuple[Floats, Words, Words, list[Floats]]:
    """Probabilities, levels and arms if there are some, and so many columns of quantiles; raises
    BadAnswer."""
    if len(body) < _HEADER.size:
        raise BadAnswer(f"columns: {len(body)} bytes are no header")
    magic, version, kind, flags, found, *_ = _HEADER.unpack_from(body)
    if (magic, version, kind, found) != (_MAGIC, _VERSION, _PROBABILITIES, rows):
        raise BadAnswer(f"columns: these are not the probabilities of {rows} scores")
    with_levels, with_arms = bool(flags & _LEVELS), bool(flags & _UNITS)
    size = _HEADER.size + 8 * rows * (1 + quantiles) + (with_levels + with_arms) * _padded(rows)
    if len(body) != size or flags & _FLOAT32:
        raise BadAnswer(f"columns: flags {flags} and {len(body)} bytes, not {size}")
    # A copy is aligned, and outlives the body.
    probabilities = np.frombuffer(body, "<f8", rows, _HEADER.size).astype(np.float64)
    behind = _HEADER.size + 8 * rows
    levels = _words(_NAMES_OF_LEVELS, body[behind:][:rows]) if with_levels else None
    behind += with_levels * _padded(rows)
    arms = _words(ARMS, body[behind:][:rows]) if with_arms else None
    behind += with_arms * _padded(rows)
    found = np.frombuffer(body, "<f8", rows * quantiles, behind).astype(np.float64)
    return probabilities, levels, arms, list(found.reshape(quantiles, rows))


def _words(words: Sequence[str], codes: bytes) -> tuple[str, ...]:
    if max(codes, default=0) >= len(words):
        raise BadAnswer(f"columns: level or arm {max(codes)} is unknown")
    return tuple(words[code] for code in codes)


def _section(content: bytes) -> bytes:
    return content + bytes(-len(content) % 8)


def _padded(size: int) -> int:
    return size + -size % 8


JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
COLUMNS: Final = "application/vnd.sirocco.columns"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, without the address of the service."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One response, whole; header names are looked up in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        """What the body is, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait that the service asks for, if it does; no proxy holds events for ever."""
        given = self.headers.get("retry-after", "")
        return min(float(given), _LONGEST_RETRY_AFTER) if given.isdecimal() else None
