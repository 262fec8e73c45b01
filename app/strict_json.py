"""JSON from untrusted clients: decoded strictly, and refused in words that name field, value and
rule.

What msgspec's fast decoder refuses is read again with the standard library, and the first broken
rule is found by the types of the fields; nothing depends on the wording of msgspec's messages.
"""

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Final, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import msgspec
import orjson
from msgspec import UNSET

T = TypeVar("T")

_SHOWN: Final = 64
_LONGEST_INTEGER: Final = 309
_INTEGERS: Final = range(-(2**63), 2**64)

Rules = Mapping[str, str]
"""What a field must be, in words, by its name; `name[]` for the items of an array or the values of
an object, `name{}` for these alone."""


class MalformedJson(ValueError):
    """The bytes are not JSON; nothing in them can be named."""


class ValidationError(ValueError):
    """One value breaks the rule of its field."""

    def __init__(self, field: str, rule: str, value: object = UNSET) -> None:
        self.field = field if len(field) <= _SHOWN else field[: _SHOWN - 3] + "..."
        self.rule = rule
        self.value = None if value is UNSET else show(value)
        super().__init__(f"{self.field}{f' = {self.value}' if self.value else ''}: {rule}")


@dataclass(frozen=True, slots=True)
class InvalidNumber:
    """Stands where the JSON had NaN, Infinity or a number too large, so that no type takes it."""

    literal: str


def show(value: object) -> str:
    """The value as JSON, cut to 64 characters: an error never echoes a whole input."""
    if isinstance(value, (list, dict)) and len(value) > _SHOWN:
        return f"{'an array' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, str):
        # No more of a long one is written than is shown.
        value = value[:_SHOWN]
    text = (
        value.literal if isinstance(value, InvalidNumber) else json.dumps(value, default=_literal)
    )
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


# Short texts need no encoding to be checked.
_MOST_BYTES_OF_A_CHARACTER: Final = 4


def fits(text: str, longest: int) -> bool:
    """Whether it has up to so many bytes in UTF-8."""
    return _MOST_BYTES_OF_A_CHARACTER * len(text) <= longest or len(text.encode()) <= longest


def all_fit(texts: Collection[str], longest: int) -> bool:
    """Whether all of them have 1 to `longest` bytes in UTF-8; true of none at all."""
    lengths = set(map(len, texts))
    if 0 in lengths:
        return False
    if _MOST_BYTES_OF_A_CHARACTER * max(lengths, default=0) <= longest:
        return True
    return all(fits(text, longest) for text in texts)


class TakesLong(Exception):
    """The slow reader would have to read more than was allowed."""


def decode(
    body: bytes, decoder: msgspec.json.Decoder[T], rules: Rules, most_slowly: float = math.inf
) -> T:
    """The decoded body; raises MalformedJson, or ValidationError for the first broken rule.

    What the fast reader refuses is read again slowly, to find the error; that reader decides. It
    takes ten times as long: raises TakesLong if it would have more than `most_slowly` bytes.
    """
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if len(body) > most_slowly:
            raise TakesLong from None
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
    """The plain object as `kind`, whose structs forbid unknown fields; ValidationError names the
    first broken rule, in the order of the input."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        raise _explained(raw, kind, rules, whole) from None


class _Part(NamedTuple):
    """A part of an object or array that is wrong: the step to it, the name of its rule (of items
    that of their array and `[]`), and what is wrong with it if not its kind."""

    step: str
    rule: str
    value: Any
    kind: Any = None
    words: str = ""


def _explained(value: Any, kind: Any, rules: Rules, whole: str) -> ValidationError:
    field, rule, words = "", "", ""
    while not words and (part := _first_wrong(value, kind)):
        of_values = f"{rule}{{}}" if f"{rule}{{}}" in rules and part.step[0] == "." else ""
        field, rule = field + part.step, part.rule or of_values or f"{rule}[]"
        value, kind, words = part.value, part.kind, part.words
    words = words or rules.get(rule) or _complaint(value, kind)
    return ValidationError(field.removeprefix(".") if field else whole, words, value)


def _first_wrong(value: Any, kind: Any) -> _Part | None:
    """The first part that is wrong; None if the value itself is, and not a part of it."""
    kinds = {get_origin(one) or one: one for one in _alternatives(kind)}
    structs = [one for one in kinds if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    if isinstance(value, dict) and structs:
        return _wrong_field(value, structs)
    if not isinstance(value, dict | list) or type(value) not in kinds:
        return None
    names = [f".{name}" for name in value] if isinstance(value, dict) else None
    items = list(value.values()) if isinstance(value, dict) else value
    kind = get_args(kinds[type(value)])[-1]
    index = _first_misfit(items, kind)
    if index is None:
        return None
    return _Part(names[index] if names else f"[{index}]", "", items[index], kind)


def _wrong_field(value: dict[str, Any], structs: Sequence[type[msgspec.Struct]]) -> _Part | None:
    tag_field = cast(str, structs[0].__struct_config__.tag_field)
    by_tag = {str(struct.__struct_config__.tag): struct for struct in structs}
    struct = by_tag.get(str(value.get(tag_field)))
    if struct is None:
        words = "" if tag_field in value else "is required"
        return _Part(f".{tag_field}", tag_field, value.get(tag_field, UNSET), None, words)
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for name, item in value.items():
        if name not in fields and name != tag_field:
            return _Part(f".{name}", name, UNSET, None, "unknown field")
        if name in fields and _complaint(item, fields[name].type):
            return _Part(f".{name}", name, item, fields[name].type)
    missing = (name for name, one in fields.items() if one.required and name not in value)
    return next((_Part(f".{name}", name, UNSET, None, "is required") for name in missing), None)


def _alternatives(kind: Any) -> list[Any]:
    """The members of a union, without what annotates them."""
    if get_origin(kind) is Annotated:
        return _alternatives(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [one for member in get_args(kind) for one in _alternatives(member)]
    return [kind]


def _first_misfit(items: Sequence[Any], kind: Any) -> int | None:
    """The index of the first item that is not of the kind, by halving: one by one takes long."""
    if not _complaint(items, list[kind]):
        return None
    start, end = 0, len(items)
    while end - start > 1:
        middle = (start + end) // 2
        if _complaint(items[start:middle], list[kind]):
            end = middle
        else:
            start = middle
    return start


_WORDS: Final = {"int": "number", "float": "number", "str": "string", "bool": "boolean"}
_TYPES: Final = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b")


def _complaint(value: Any, kind: Any) -> str:
    """What msgspec says against the value as it stands; empty if it is of the kind."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        return in_json_words(error)
    return ""


def in_json_words(error: Exception) -> str:
    """What msgspec says, with types as JSON names them."""
    text = str(error).replace("`", "").replace("InvalidNumber", "no finite number")
    text = text.replace("int | float", "float").replace("Expected int", "expected integer")
    text = text.replace("Expected", "expected")
    return _TYPES.sub(lambda name: _WORDS[name[0]], text)


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
