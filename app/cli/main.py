"""The command `sirocco`: which subcommands it has, and how it ends.

A subcommand's module holds its options and is imported when it is called, or listed in the help;
what its work needs is imported when the work begins: neither a help text nor a process that serves
waits for what only an evaluation needs.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

from app.cli.checkout import in_checkout, research
from app.cli.signals import Terminated, end_with, terminated_like_ctrl_c
from app.errors import FAILED, CommandError

_SIGNALLED = 128


COMMANDS: Final = {
    "demo": ("Look", "app.cli.run"),
    "replay": ("Look", "app.cli.simulations"),
    "backtest": ("Measure", "app.cli.simulations"),
    "evaluate": ("Measure", "app.cli.measure_logs"),
    "compare": ("Measure", "app.cli.measure_logs"),
    "auction": ("Measure", "app.cli.simulations"),
    "simulate": ("Measure", "app.cli.simulations"),
    "behaviours": ("Measure", "app.cli.measure_logs"),
    "reproduce": ("Measure", "research.reproduction.command"),
    "readout": ("Measure", "app.cli.measure_logs"),
    "up": ("Run", "app.cli.run"),
    "serve": ("Run", "app.cli.run"),
    "worker": ("Run", "app.cli.run"),
    "size": ("Run", "app.cli.run"),
    "backup": ("Operate", "app.cli.backup"),
    "restore": ("Operate", "app.cli.backup"),
    "drill": ("Operate", "app.cli.backup"),
    "lake": ("Lake", "app.cli.lake"),
    "bins": ("Lake", "app.cli.bins"),
    "retrain": ("Operate", "app.cli.operate"),
    "versions": ("Operate", "app.cli.versions"),
    "rollback": ("Operate", "app.cli.versions"),
    "experiment": ("Operate", "app.cli.experiments"),
    "overrides": ("Operate", "app.cli.operate"),
    "keys": ("Operate", "app.cli.access"),
    "audit": ("Operate", "app.cli.access"),
}
"""By name the panel in the help, and the module with the function of that name."""


class LazyCommands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        panel, module = COMMANDS[name]
        inside = module.partition(".")[2]
        loaded = research(inside) if module.startswith("research.") else import_module(module)
        found = getattr(loaded, name)
        if isinstance(found, typer.Typer):
            return get_group_from_info(
                TyperInfo(found, name=name, rich_help_panel=panel),
                pretty_exceptions_short=True,
                rich_markup_mode="rich",
                suggest_commands=True,
            )
        command: TyperCommand = get_command_from_info(  # type: ignore[assignment]
            CommandInfo(name=name, callback=found, rich_help_panel=panel),
            pretty_exceptions_short=True,
            rich_markup_mode="rich",
        )
        return command

    def __iter__(self) -> Iterator[str]:
        present = in_checkout()
        return (
            name
            for name, (_, module) in COMMANDS.items()
            if present or not module.startswith("research.")
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


class LazyGroup(TyperGroup):
    """A group of those commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = LazyCommands()  # type: ignore[assignment]


application = typer.Typer(
    name="sirocco",
    cls=LazyGroup,
    help="A calibration service for ad platforms: it maps a model's click or conversion scores to"
    " calibrated probabilities.",
    epilog="Start with: sirocco demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    from importlib.metadata import version

    if wanted:
        typer.echo(f"sirocco {version('sirocco')}")
        raise typer.Exit


_Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
]


@application.callback()
def _before_any_command(
    _version: _Version = False, parent: Annotated[int | None, typer.Option(hidden=True)] = None
) -> None:
    if parent is not None:
        end_with(parent)


def main() -> None:
    """Run the command; what goes wrong is one sentence on stderr and an exit code."""
    # Threads that wait awake burn cores, see docs/tuning.md. Read when the libraries load.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        # A terminal that only knows ASCII gets question marks, not a traceback.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        _run()
    except CommandError as error:
        _print_error(error)
        sys.exit(error.exit_code)
    except MemoryError as error:
        _print_error(CommandError(f"this machine has too little memory: {error}"))
        sys.exit(FAILED)
    except OSError as error:
        # Such as a disk that is full.
        where = f"{error.filename}: " if error.filename else ""
        _print_error(CommandError(f"{where}{error.strerror or error}"))
        sys.exit(FAILED)
    except KeyboardInterrupt as error:
        sys.exit(_SIGNALLED + getattr(error, "number", signal.SIGINT))


def _run() -> None:
    """A signal that ends the command is told by the exit code, as a shell would."""
    try:
        with terminated_like_ctrl_c():
            application()
    except SystemExit as end:
        # Typer takes every signal for Ctrl-C.
        signalled = getattr(end.__context__, "__cause__", None)
        if isinstance(signalled, Terminated):
            sys.exit(_SIGNALLED + signalled.number)
        raise


def _print_error(error: CommandError) -> None:
    # Imported for what goes wrong only: a process that serves prints nothing.
    from app.cli.console import note

    note(str(error), of="sirocco: ")
