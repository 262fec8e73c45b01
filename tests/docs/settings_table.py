"""The rows of the table in docs/configuration.md, made from the fields of `Settings`."""

from typing import Any, Final, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from app.settings import Settings, variable_of

_SIGNS: Final = {Gt: ("gt", ">"), Ge: ("ge", "≥"), Lt: ("lt", "<"), Le: ("le", "≤")}


def rows() -> list[str]:
    """One Markdown row per setting: variable, default, allowed values, meaning."""
    return [
        f"| `{variable_of(name)}` | {_default(field.default)} | {_allowed(field)} "
        f"| {field.description} |"
        for name, field in Settings.model_fields.items()
    ]


def _default(value: Any) -> str:
    if value is None or value == {}:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{str(value).removesuffix('.0')}`"


def _allowed(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(field.annotation))
    return ", ".join(_bound(limit) for limit in field.metadata if type(limit) in _SIGNS)


def _bound(limit: Any) -> str:
    attribute, sign = _SIGNS[type(limit)]
    return f"{sign} {getattr(limit, attribute)}"
