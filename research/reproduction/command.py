"""`sirocco reproduce`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from shlex import join
from typing import Annotated

import typer

from app.cli import options
from app.cli.console import note
from app.errors import FAILED, CommandError
from research.reproduction import Experiment
from research.reproduction.page import Origin, check_page, machine, write_page
from research.reproduction.tables import (
    Finished,
    Size,
    print_json,
    run_each,
    show_experiments,
    show_run,
)

_Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME", help="Experiments to run; without one they are listed.", show_default=False
    ),
]
_All = Annotated[bool, typer.Option("--all", help="Run every experiment.")]
_Quick = Annotated[
    bool, typer.Option("--quick", help="Small runs: wider bands, and what needs more is left out.")
]
_Seed = Annotated[int, typer.Option("--seed", min=0, help="Another seed is other data.")]
_Write = Annotated[
    Path | None,
    typer.Option(
        "--write", metavar="PATH", help="Write a Markdown page there.", show_default=False
    ),
]


def reproduce(
    names: _Names = None,
    everything: _All = False,
    quick: _Quick = False,
    seed: _Seed = 0,
    json: options.Json = False,
    write: _Write = None,
) -> None:
    """Run the papers' tables again, beside the printed numbers.

    Prints each quantity as the paper has it and as we get it, with the tolerance,
    and where the printed digit cannot be right. Exit code 1 when one differs.

    [bold]Examples[/bold]

      sirocco reproduce
      sirocco reproduce csauc linear --quick
      sirocco reproduce --all --write docs/reproduction.md
    """
    chosen = _chosen(names or [], everything)
    if not chosen:
        _list(json, write)
        return
    if write is not None:
        check_page(write)
    size = Size(quick, seed)
    runs = _run(chosen, size, as_json=json)
    if write is not None:
        command = _command(names or [], everything, size, write)
        write_page(write, runs, Origin(command, datetime.now(UTC), machine(), size))
        note(f"{write}: written")
    if any(run.reproduction.differs for run in runs):
        raise typer.Exit(FAILED)


def _experiments() -> Mapping[str, Experiment]:
    # They load all of the product, which help and wrong options need not wait for.
    from research.reproduction.registry import EXPERIMENTS

    return EXPERIMENTS


def _run(chosen: Sequence[Experiment], size: Size, *, as_json: bool) -> list[Finished]:
    runs = []
    for finished in run_each(chosen, size, shown=not as_json):
        runs.append(finished)
        if not as_json:
            show_run(finished)
    if as_json:
        print_json(runs, size)
    return runs


def _chosen(names: Sequence[str], everything: bool) -> list[Experiment]:
    if names and everything:
        raise CommandError("give names of experiments or --all, not both")
    experiments = _experiments()
    if everything:
        return list(experiments.values())
    for name in names:
        if name not in experiments:
            raise CommandError(f"{name}: there is no such experiment; {_hint(name, experiments)}")
    return [experiments[name] for name in dict.fromkeys(names)]


def _hint(name: str, experiments: Iterable[str]) -> str:
    close = get_close_matches(name, experiments, n=1)
    return f"is it {close[0]}?" if close else f"there are {', '.join(experiments)}"


def _list(as_json: bool, write: Path | None) -> None:
    for option, given in (("--json", as_json), ("--write", write is not None)):
        if given:
            raise CommandError(f"{option}: give names of experiments or --all")
    show_experiments(_experiments().values())
    note("Run some with sirocco reproduce NAME, all with sirocco reproduce --all.")


def _command(names: Sequence[str], everything: bool, size: Size, write: Path) -> str:
    """The command that writes the page again."""
    arguments = ["sirocco", "reproduce", *names, *(["--all"] if everything else [])]
    arguments += ["--quick"] if size.quick else []
    arguments += ["--seed", str(size.seed)] if size.seed else []
    return join([*arguments, "--write", str(write)])
