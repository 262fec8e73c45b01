"""Types of settings that read text of their own: lists of names, values by target, expressions."""

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from calibrators.methods import METHODS

_MINUTES_OF_AN_HOUR = 60


def _names(value: object) -> object:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


def _some_target(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError("at least one immediate target is needed")
    return value


def _by_target(value: object) -> object:
    if isinstance(value, str):
        parts = (part.partition("=") for part in value.split(",") if part.strip())
        return {name.strip(): said.strip() for name, _, said in parts}
    return value


def _known_method(value: str) -> str:
    if value not in METHODS:
        raise ValueError(f"must be a monotone calibrator: {', '.join(sorted(METHODS))}")
    return value


def _group_expression(value: str) -> str:
    try:
        groups = re.compile(value).groups
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from None
    if not groups:
        raise ValueError("must have a group in parentheses, whose text is the group's name")
    return value


def _divisor(value: int) -> int:
    if _MINUTES_OF_AN_HOUR % value:
        raise ValueError("must be a divisor of 60")
    return value


TargetName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Names = Annotated[tuple[TargetName, ...], NoDecode, BeforeValidator(_names)]
SomeNames = Annotated[Names, AfterValidator(_some_target)]
AttributionHours = Annotated[int, Field(ge=1, le=2160)]
HoursByTarget = Annotated[dict[str, AttributionHours], NoDecode, BeforeValidator(_by_target)]
MethodName = Annotated[str, AfterValidator(_known_method)]
MethodsByTarget = Annotated[dict[str, MethodName], NoDecode, BeforeValidator(_by_target)]
GroupExpression = Annotated[str, Field(max_length=256), AfterValidator(_group_expression)]
MinutesOfAnHour = Annotated[int, AfterValidator(_divisor)]


def groups_of(expression: str | None) -> Callable[[str], str | None] | None:
    """What names the group of a campaign: the first group of the expression where it is found.

    >>> groups_of("^([^/]+)/")("advertiser/campaign")
    'advertiser'
    """
    if expression is None:
        return None
    search = re.compile(expression).search

    def group(campaign: str) -> str | None:
        found = search(campaign)
        return None if found is None else found[1]

    return group
