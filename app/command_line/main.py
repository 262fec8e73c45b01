"""The command `sirocco`."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from app.command_line.errors import CommandError
from app.command_line.late_commands import LateGroup
from app.command_line.parent import end_with
from app.command_line.termination import terminated_like_ctrl_c

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

    from app.command_line.console import messages

    messages().print(Text.assemble(("sirocco: ", "bold red"), str(error)), soft_wrap=True)
