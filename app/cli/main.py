"""The command `sirocco`.

A child process ends when the process that started it is gone, however that one ended.
SIGTERM ends a command as Ctrl-C does: every `with` block is left, every child is stopped.
The commands by name, each imported when it is asked for: a process that serves should not wait
for what only an evaluation needs.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any, Final

import typer
from typer import Typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

from app.cli.checkout import in_checkout, research
from app.errors import CommandError

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Ask Linux for SIGTERM at the end of process `parent`; elsewhere only its own stop ends us.

    The second look covers a parent that was gone before the request was made.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)


@contextmanager
def terminated_like_ctrl_c() -> Iterator[None]:
    """Inside, SIGTERM raises KeyboardInterrupt in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


_COMMANDS: Final = {
    "demo": ("Look", "app.cli.serving.demo"),
    "replay": ("Look", "app.cli.serving.replay"),
    "backtest": ("Measure", "app.cli.backtest.backtest"),
    "evaluate": ("Measure", "app.cli.evaluate.evaluate"),
    "compare": ("Measure", "app.cli.compare.compare"),
    "auction": ("Measure", "app.cli.auction.auction"),
    "simulate": ("Measure", "app.cli.backtest.simulate"),
    "behaviours": ("Measure", "app.cli.evaluate.behaviours"),
    "reproduce": ("Measure", "research.reproduction.command"),
    "readout": ("Measure", "app.cli.ab_test.readout"),
    "up": ("Run", "app.cli.serving.up"),
    "serve": ("Run", "app.cli.serving.serve"),
    "worker": ("Run", "app.cli.serving.worker"),
    "retrain": ("Operate", "app.cli.serving.retrain"),
    "overrides": ("Operate", "app.cli.serving.overrides"),
}
"""Where each command is: its panel in the help, and the module with the function of its name."""


class LateCommands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        panel, module = _COMMANDS[name]
        inside = module.partition(".")[2]
        loaded = research(inside) if module.startswith("research.") else import_module(module)
        found = getattr(loaded, name)
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
        present = in_checkout()
        return (
            name
            for name, (_, module) in _COMMANDS.items()
            if present or not module.startswith("research.")
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


class LateGroup(TyperGroup):
    """A group of those commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = LateCommands()  # type: ignore[assignment]


INTERRUPTED = 130

application = typer.Typer(
    name="sirocco",
    cls=LateGroup,
    help="Online calibration for ad platforms: predicted click probabilities in,"
    " probabilities that come true out.",
    epilog="Start with: sirocco demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sirocco {version('sirocco')}")
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
]


@application.callback()
def _before_any_command(
    _version: _Version = False,
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    if parent is not None:
        end_with(parent)


def main() -> None:
    """Run the command; what goes wrong is one sentence on stderr and an exit code."""
    try:
        with terminated_like_ctrl_c():
            application()
    except CommandError as error:
        _say(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _say(error: CommandError) -> None:
    # Imported for what goes wrong only: a process that serves prints nothing.
    from rich.text import Text

    from app.cli.console import messages

    messages().print(Text.assemble(("sirocco: ", "bold red"), str(error)), soft_wrap=True)
