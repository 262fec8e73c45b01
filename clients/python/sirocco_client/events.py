"""The five events, each as one line of JSON, and batches of them under one idempotency key."""

import gzip
import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, SupportsFloat, TypedDict, Unpack
from uuid import uuid4

from sirocco_client.arms import ARMS, check_unit
from sirocco_client.errors import BadInput, checked_number
from sirocco_client.fields import check_values
from sirocco_client.requests import NDJSON, SCORE_RULE, HttpRequest, check_version, encoded

Time = datetime | SupportsFloat

_AMOUNT_RULE: Final = "must be a finite number of at least 0"
_LARGEST_PRICE: Final = 1_000_000.0
_FIRST_SECOND: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
_END_SECOND: Final = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


class EventTerms(TypedDict, total=False):
    """For whom and for how much: the unit and the arm that its answer said; what a positive is paid
    for (`bid`: a click's is that of its impression), what the event itself was paid for, and what
    it was worth; each amount at most 1,000,000. `fields` are its values of the declared fields, and
    `model_version` names the version of the model that made the score, a click's those of its
    impression."""

    unit: str | None
    arm: str | None
    bid: SupportsFloat | None
    cost: SupportsFloat | None
    value: SupportsFloat | None
    fields: Mapping[str, str] | None
    model_version: str | None


class EventMethods(ABC):
    """A method per type of event; each returns whether the event was taken.

    Times are epoch seconds or aware datetimes; without one, the event occurred now. Send the score
    that the model predicted, not the calibrated probability. Raises BadInput on what the service
    would refuse for its form alone, and as `put` says.
    """

    @abstractmethod
    def put(self, line: bytes) -> bool:
        """Take one event, in its JSON."""

    def impression(
        self,
        campaign: str,
        scores: Mapping[str, SupportsFloat],
        *,
        occurred_at: Time | None = None,
        id: str | None = None,
        **terms: Unpack[EventTerms],
    ) -> bool:
        """An ad was shown; with an `id`, a repeat is counted once."""
        return self._put(
            type="impression",
            campaign=_text("campaign", campaign),
            occurred_at=_moment("occurred_at", occurred_at),
            scores=_scores(scores),
            id=None if id is None else _text("id", id),
            **_terms(terms),
        )

    def click(
        self,
        click_id: str,
        campaign: str,
        scores: Mapping[str, SupportsFloat],
        *,
        impression_at: Time,
        occurred_at: Time | None = None,
        features: Mapping[str, SupportsFloat | str] | None = None,
        **terms: Unpack[EventTerms],
    ) -> bool:
        """An impression was clicked; `scores` are those of the impression."""
        return self._put(
            type="click",
            click_id=_text("click_id", click_id),
            campaign=_text("campaign", campaign),
            occurred_at=_moment("occurred_at", occurred_at),
            impression_at=_moment("impression_at", impression_at),
            scores=_scores(scores),
            features=None if features is None else _features(features),
            **_terms(terms),
        )

    def behaviour(
        self, click_id: str, name: str, value: SupportsFloat, *, occurred_at: Time | None = None
    ) -> bool:
        """What somebody did after a click; values of one name add up."""
        return self._put(
            type="behaviour",
            click_id=_text("click_id", click_id),
            occurred_at=_moment("occurred_at", occurred_at),
            name=_text("name", name),
            value=_amount("value", value),
        )

    def conversion(
        self,
        click_id: str,
        *,
        target: str | None = None,
        occurred_at: Time | None = None,
        value: SupportsFloat | None = None,
    ) -> bool:
        """A click converted; without a target, the first delayed one is meant."""
        return self._put(
            type="conversion",
            click_id=_text("click_id", click_id),
            occurred_at=_moment("occurred_at", occurred_at),
            target=None if target is None else _text("target", target),
            value=_amount("value", value),
        )

    def outcome(
        self,
        campaign: str,
        target: str,
        score: SupportsFloat | Mapping[str, SupportsFloat],
        outcome: SupportsFloat,
        *,
        occurred_at: Time | None = None,
        **terms: Unpack[EventTerms],
    ) -> bool:
        """A score and what came of it: 0, 1 or an expectation in between; of a product of targets
        the score of each factor, and no terms."""
        return self._put(
            type="outcome",
            campaign=_text("campaign", campaign),
            target=_text("target", target),
            occurred_at=_moment("occurred_at", occurred_at),
            score=None if isinstance(score, Mapping) else _probability("score", score),
            scores=_scores(score) if isinstance(score, Mapping) else None,
            outcome=_probability("outcome", outcome),
            **_terms(terms),
        )

    def _put(self, **fields: Any) -> bool:
        event = {name: value for name, value in fields.items() if value is not None}
        return self.put(encoded(str(event["type"]), _encode(event)))


def _text(field: str, value: str) -> str:
    if not isinstance(value, str) or not value:
        raise BadInput(field, "must be a string that is not empty", value)
    return value


def _probability(field: str, value: SupportsFloat) -> float:
    number = checked_number(field, value, SCORE_RULE)
    if not 0.0 <= number <= 1.0:
        raise BadInput(field, SCORE_RULE, value)
    return number


def _amount(field: str, value: SupportsFloat | None) -> float | None:
    if value is None:
        return None
    number = checked_number(field, value, _AMOUNT_RULE)
    if not 0.0 <= number < math.inf:
        raise BadInput(field, _AMOUNT_RULE, value)
    return number


def _scores(scores: Mapping[str, SupportsFloat]) -> dict[str, float]:
    return {name: _probability(f"scores.{name}", score) for name, score in scores.items()}


def _features(features: Mapping[str, SupportsFloat | str]) -> dict[str, float | str]:
    rule = "must be a finite number or a string"
    found: dict[str, float | str] = {}
    for name, value in features.items():
        found[name] = (
            value if isinstance(value, str) else checked_number(f"features.{name}", value, rule)
        )
        if value != value or value in (math.inf, -math.inf):
            raise BadInput(f"features.{name}", rule, value)
    return found


def _terms(terms: EventTerms) -> dict[str, Any]:
    if unknown := terms.keys() - EventTerms.__annotations__.keys():
        raise TypeError(f"{min(unknown)!r} is nothing that an event has")
    unit, arm = terms.get("unit"), terms.get("arm")
    if unit is not None:
        check_unit("unit", unit)
    if arm is not None and arm not in ARMS:
        raise BadInput("arm", f"must be one of {', '.join(ARMS)}", arm)
    prices = {name: _price(name, terms.get(name)) for name in ("bid", "cost", "value")}
    fields = terms.get("fields")
    said = None if fields is None else check_values(fields)
    version = terms.get("model_version")
    named = None if version is None else check_version(version)
    return {"unit": unit, "arm": arm, **prices, "fields": said or None, "model_version": named}


def _price(field: str, value: Any) -> float | None:
    amount = _amount(field, value)
    if amount is not None and amount > _LARGEST_PRICE:
        raise BadInput(field, f"must be at most {_LARGEST_PRICE:,.0f}", value)
    return amount


def _moment(field: str, at: Time | None) -> float:
    if at is None:
        return time.time()
    if isinstance(at, datetime) and at.tzinfo is not None:
        at = at.timestamp()
    moment = checked_number(field, at, "must be epoch seconds or an aware datetime")
    if not _FIRST_SECOND <= moment < _END_SECOND:
        raise BadInput(field, "must be epoch seconds in the years 2000 to 2099", at)
    return moment


Event = dict[str, Any]

_PATH = "/v1/events"


@dataclass(frozen=True, slots=True)
class Batch:
    """At least one event, one line of JSON each.

    The key is kept over every retry, also by `resend`: however often the batch arrives, it counts
    once.
    """

    lines: Sequence[bytes]
    key: str = field(default_factory=lambda: uuid4().hex)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def size(self) -> int:
        """Bytes of its events."""
        return sum(map(len, self.lines))

    @property
    def events(self) -> list[Event]:
        """The events as objects."""
        return [json.loads(line) for line in self.lines]

    def halves(self) -> Iterator["Batch"]:
        """Two smaller batches under keys of their own: only for a batch that was not stored."""
        middle = len(self) // 2
        yield Batch(self.lines[:middle])
        yield Batch(self.lines[middle:])

    def request(self, packed: bool) -> HttpRequest:
        """The request that sends it; the same bytes every time."""
        body = b"\n".join(self.lines)
        headers = {"Content-Type": NDJSON, "Idempotency-Key": self.key}
        if packed:
            headers["Content-Encoding"] = "gzip"
            # Level 1 is half the time of the default for a tenth more bytes.
            body = gzip.compress(body, 1, mtime=0)
        return HttpRequest("POST", _PATH, body, headers)
