"""Settings given as options: checked here, handed to children as environment variables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.command_line.errors import CommandError
from app.settings import BadConfiguration, Settings, load_settings, variable_of


def settings_with(options: Mapping[str, Any]) -> Settings:
    """Settings of the environment under the options that were given (the others are None)."""
    try:
        return load_settings(**_given(options))
    except BadConfiguration as error:
        raise CommandError(str(error)) from None


def environment_of(options: Mapping[str, Any]) -> dict[str, str]:
    """The options that were given, as the variables a child reads them from."""
    return {variable_of(field): _text(value) for field, value in _given(options).items()}


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in options.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, dict):
        return ",".join(f"{name}={number}" for name, number in value.items())
    return str(value.resolve() if isinstance(value, Path) else value)
