"""JSON from strangers: decoded strictly, and refused in words that name field, value and rule."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import msgspec
import orjson

T = TypeVar("T")

_SHOWN: Final = 64
_LONGEST_INTEGER: Final = 309
_INTEGERS: Final = range(-(2**63), 2**64)
# The last place in a message is msgspec's own: what stands before may quote the sender's words.
_PLACE: Final = re.compile(r"(?P<complaint>.*) - at `\$(?P<path>[^`]*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+|\.\.\.)\]")
_OF_OBJECT: Final = re.compile(r"Object (?P<what>[a-z]+ [a-z]+) field `(?P<name>.*)`", re.DOTALL)
_OBJECT_RULES: Final = {"contains unknown": "unknown field", "missing required": "is required"}


@dataclass(frozen=True, slots=True)
class Rule:
    """What a field must be, in words; `kind` is the type behind the words of an object's values."""

    text: str
    kind: Any = Any


Rules = Mapping[str, Rule]
"""By field name; `name[]` is the rule of the items of an array or the values of an object."""


class MalformedJson(ValueError):
    """The bytes are not JSON; nothing in them can be named."""


class ValidationError(ValueError):
    """One value breaks the rule of its field."""

    def __init__(self, field: str, rule: str, value: object = msgspec.UNSET) -> None:
        self.field = field if len(field) <= _SHOWN else field[: _SHOWN - 3] + "..."
        self.rule = rule
        self.value = None if value is msgspec.UNSET else show(value)
        super().__init__(f"{self.field}{f' = {self.value}' if self.value else ''}: {rule}")


@dataclass(frozen=True, slots=True)
class InvalidNumber:
    """Stands where the JSON had NaN, Infinity or a number too large, so that no type takes it."""

    literal: str


def show(value: object) -> str:
    """The value as JSON, cut to 64 characters: an error never echoes a whole input."""
    if isinstance(value, (list, dict)) and len(value) > _SHOWN:
        return f"{'an array' if isinstance(value, list) else 'an object'} of {len(value)}"
    text = (
        value.literal if isinstance(value, InvalidNumber) else json.dumps(value, default=_literal)
    )
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def decode(body: bytes, decoder: msgspec.json.Decoder[T], rules: Rules) -> T:
    """The decoded body; raises MalformedJson, or ValidationError for the first broken rule.

    What the fast reader refuses is read again slowly, for the words; that reader has the last one.
    """
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return cast(T, convert(loads(body), decoder.type, rules))


def loads(text: bytes) -> Any:
    """Any JSON as plain objects, InvalidNumber for what is none; raises MalformedJson."""
    try:
        raw = json.loads(
            text.decode(), parse_constant=InvalidNumber, parse_float=_float, parse_int=_integer
        )
        orjson.dumps(raw, default=_literal)
    except RecursionError:
        raise MalformedJson("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise MalformedJson(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise MalformedJson(f"not JSON: {error.msg} at character {error.pos}") from None
    except TypeError:
        raise MalformedJson("the JSON is nested too deeply or has half a surrogate") from None
    return raw


def convert(raw: Any, kind: Any, rules: Rules, whole: str = "body") -> Any:
    """The plain object as `kind`; ValidationError names the first broken rule."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), raw, rules, whole) from None


def _explained(message: str, raw: Any, rules: Rules, whole: str) -> ValidationError:
    complaint, path = _taken_apart(message, raw)
    place = _Place(raw, rules)
    for step in _STEP.finditer(path):
        place.follow(step["name"], step["index"])
    if about := _OF_OBJECT.fullmatch(complaint):
        return ValidationError(place.join(about["name"]), _OBJECT_RULES[about["what"]])
    rule = rules.get(place.rule_name)
    words = rule.text if rule else complaint.replace("`", "").replace("Expected", "expected")
    return ValidationError(place.field or whole, words, place.value)


def _taken_apart(message: str, raw: Any) -> tuple[str, str]:
    """Complaint and path; the path is empty when the complaint is about the whole."""
    about = _OF_OBJECT.fullmatch(message)
    of_the_whole = about is not None and isinstance(raw, dict) and about["name"] in raw
    found = None if of_the_whole else _PLACE.fullmatch(message)
    return (found["complaint"], found["path"]) if found else (message, "")


class _Place:
    """A walk down a plain object along msgspec's error path."""

    def __init__(self, value: Any, rules: Rules) -> None:
        self.value = value
        self.field = ""
        self.rule_name = ""
        self._rules = rules

    def join(self, name: str) -> str:
        return f"{self.field}.{name}" if self.field else name

    def follow(self, name: str | None, index: str | None) -> None:
        if name is not None:
            self._enter(self.join(name), name, name)
        elif index != "...":
            self._enter(f"{self.field}[{index}]", int(index or 0), f"{self.rule_name}[]")
        else:
            rule_name = f"{self.rule_name}[]"
            key = _offender(self.value, self._rules.get(rule_name))
            self._enter(self.join(key), key, rule_name)

    def _enter(self, field: str, key: str | int, rule_name: str) -> None:
        self.value = self.value[key]
        self.field, self.rule_name = field, rule_name


def _offender(values: dict[str, Any], rule: Rule | None) -> str:
    """The key of the value that is not of the kind: msgspec only says that there is one."""
    kind = rule.kind if rule else Any
    wrong = (key for key, value in values.items() if not _fits(value, kind))
    return next(wrong, next(iter(values)))


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _float(literal: str) -> float | InvalidNumber:
    value = float(literal)
    return value if math.isfinite(value) else InvalidNumber(literal)


def _integer(literal: str) -> int | float | InvalidNumber:
    if len(literal) >= _LONGEST_INTEGER:
        return InvalidNumber(literal)
    value = int(literal)
    return value if value in _INTEGERS else float(value)


def _literal(value: object) -> str:
    return value.literal if isinstance(value, InvalidNumber) else repr(value)
