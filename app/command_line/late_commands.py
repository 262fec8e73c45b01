"""The commands by name, each imported when it is asked for: a process that serves should not wait
for what only an evaluation needs."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from typer import Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

_PANELS: Final = {
    "demo": "Look",
    "replay": "Look",
    "backtest": "Measure",
    "evaluate": "Measure",
    "compare": "Measure",
    "auction": "Measure",
    "simulate": "Measure",
    "behaviours": "Measure",
    "reproduce": "Measure",
    "readout": "Measure",
    "up": "Run",
    "serve": "Run",
    "worker": "Run",
    "retrain": "Operate",
    "overrides": "Operate",
}


class LateCommands(Mapping[str, TyperCommand | TyperGroup]):
    """Each command is the function, or the group, of its own name in the module of that name."""

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        panel = _PANELS[name]
        found = getattr(import_module(f"app.command_line.{name}"), name)
        if isinstance(found, Typer):
            return get_group_from_info(
                TyperInfo(found, name=name, rich_help_panel=panel),
                pretty_exceptions_short=True,
                rich_markup_mode="rich",
                suggest_commands=True,
            )
        command: TyperCommand = get_command_from_info(  # type: ignore[assignment]
            CommandInfo(callback=found, rich_help_panel=panel),
            pretty_exceptions_short=True,
            rich_markup_mode="rich",
        )
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_PANELS)

    def __len__(self) -> int:
        return len(_PANELS)


class LateGroup(TyperGroup):
    """A group of those commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = LateCommands()  # type: ignore[assignment]
