"""The command `sirocco`."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.text import Text

from app.command_line.auction import auction
from app.command_line.backtest import backtest
from app.command_line.behaviours import behaviours
from app.command_line.compare import compare
from app.command_line.console import messages
from app.command_line.demo import demo
from app.command_line.errors import CommandError
from app.command_line.evaluate import evaluate
from app.command_line.parent import end_with
from app.command_line.readout import readout
from app.command_line.replay import replay
from app.command_line.reproduce import reproduce
from app.command_line.retrain import retrain
from app.command_line.serve import serve
from app.command_line.simulate import simulate
from app.command_line.termination import terminated_like_ctrl_c
from app.command_line.up import up
from app.command_line.worker import worker

INTERRUPTED = 130

application = typer.Typer(
    name="sirocco",
    help="Online calibration for ad platforms: predicted click probabilities in,"
    " probabilities that come true out.",
    epilog="Start with: sirocco demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command, _panel in (
    (demo, "Look"),
    (replay, "Look"),
    (backtest, "Measure"),
    (evaluate, "Measure"),
    (compare, "Measure"),
    (auction, "Measure"),
    (simulate, "Measure"),
    (behaviours, "Measure"),
    (reproduce, "Measure"),
    (readout, "Measure"),
    (up, "Run"),
    (serve, "Run"),
    (worker, "Run"),
    (retrain, "Operate"),
):
    application.command(rich_help_panel=_panel)(_command)


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
        messages().print(Text.assemble(("sirocco: ", "bold red"), str(error)), soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
