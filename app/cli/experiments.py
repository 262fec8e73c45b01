"""`sirocco experiment`: maps on trial in a running service."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from app.cli import options
from app.cli.console import note, print_line
from app.cli.operate import RunningService
from app.errors import CommandError

experiment = typer.Typer(no_args_is_help=True)

_Target = Annotated[str, typer.Argument(help="Target, such as click.", show_default=False)]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would change.")]
_SHOWN = ("log_loss", "pcoc", "gc_3", "gc_3_floor")


@dataclass(frozen=True, slots=True)
class ChallengerOptions:
    """What is on trial: a method or the maps of a version, and who gets it."""

    method: str | None = options.option(
        None, "Fit this method beside the one that serves.", show_default="none"
    )
    version: str | None = options.option(None, "Try the maps of this version.", show_default="none")
    share: float = options.option(0.0, "Of the units that get it.", min=0.0, max=1.0)
    raw: float = options.option(0.0, "Of the units that get raw scores.", min=0.0, max=1.0)
    salt: str | None = options.option(None, "Deals the units out.", show_default="a new one")
    canary: bool = options.option(True, "Abort it where it does harm.", "--canary/--no-canary")


@experiment.callback()
def _about() -> None:
    """Try a method, or the maps of an older version, beside those that serve.

    Without a share it is a shadow: evaluated hour by hour, and nobody gets it.

    [bold]Examples[/bold]

      sirocco experiment start click --method sir
      sirocco experiment show
      sirocco experiment start click --method sir --share 0.05 --raw 0.01
      sirocco experiment start click --raw 0.01
      sirocco experiment analyse click
      sirocco experiment promote click --dry-run
      sirocco experiment stop click
    """


@experiment.command("start")
@options.grouped
def _start(
    target: _Target,
    dry_run: _DryRun = False,
    *,
    challenger: ChallengerOptions,
    service: RunningService,
) -> None:
    """Start an experiment on a target, or change the one that runs there."""
    given = {"method": challenger.method, "version": challenger.version}
    named = {name: value for name, value in given.items() if value is not None}
    is_holdout = challenger.raw > 0.0 == challenger.share
    if len(named) != 1 and (named or not is_holdout):
        raise CommandError("give --method or --version, and not both; or --raw alone")
    shares = {"challenger": challenger.share, "raw": challenger.raw}
    request = {
        "challenger": named,
        "shares": {arm: share for arm, share in shares.items() if share},
        "canary": challenger.canary,
        **({} if challenger.salt is None else {"salt": challenger.salt}),
    }
    _change("start", target, request, dry_run, service)


@experiment.command("stop")
@options.grouped
def _stop(target: _Target, dry_run: _DryRun = False, *, service: RunningService) -> None:
    """End the experiment of a target: everybody gets the maps that serve."""
    _change("stop", target, {}, dry_run, service)


@experiment.command("promote")
@options.grouped
def _promote(target: _Target, dry_run: _DryRun = False, *, service: RunningService) -> None:
    """Have everybody get the maps on trial, and end the experiment.

    A method is the target's from then on; maps of a version stay until
    `sirocco versions unfreeze`.
    """
    _change("promote", target, {}, dry_run, service)


@experiment.command("analyse")
@options.grouped
def _analyse(
    target: _Target,
    days: Annotated[int, typer.Option(min=1, max=60, help="The newest days it reads.")] = 60,
    *,
    service: RunningService,
) -> None:
    """Say what each arm has earned so far, and whether that is more than luck."""
    from app.cli.measure.ab_test import show_experiment

    service.show(
        lambda client: client.read("experiments", target, "analysis", days=days), show_experiment
    )


@experiment.command("show")
@options.grouped
def _show(*, service: RunningService) -> None:
    """Show the experiments, and how their maps do beside those that serve."""
    service.show(lambda client: client.read("experiments"), _show_all)


def _show_all(found: dict[str, Any]) -> None:
    for target, one in found["experiments"].items():
        print_line(f"{target}: {_named(one)}")
        for maps, spans in one["shadow"].items():
            print_line(f"  {maps:<11} {_numbers(spans['window'] or {})}")
    if not found["experiments"]:
        note("no experiment runs")


def _change(
    what: str, target: str, request: dict[str, Any], dry_run: bool, service: RunningService
) -> None:
    content = {"target": target, "dry_run": dry_run, **request}
    ending = () if what == "start" else (what,)

    def show(found: dict[str, Any]) -> None:
        state = _named(found["experiment"]) if found["experiment"] else _ENDED[what]
        done = f"{'would be: ' if dry_run else ''}{state}"
        print_line(f"{target}: {done if found['changed'] else f'nothing to {what}'}")
        if found["experiment"] is None and not found["changed"]:
            note(f"no experiment runs on {target}: `sirocco experiment start` begins one")

    service.show(lambda client: client.change("experiments", *ending, request=content), show)


_ENDED = {
    "stop": "no experiment, everybody gets the maps that serve",
    "promote": "no experiment, everybody gets the maps that were on trial",
}


def _named(one: dict[str, Any]) -> str:
    """What is on trial, who gets it, and how the experiment stands."""
    challenger = " ".join(" ".join(pair) for pair in one["challenger"].items()) or "a holdout"
    shares = [f"{share:.2%} {arm}" for arm, share in one["shares"].items() if share]
    state = f"aborted ({one['reason']})" if one["reason"] else one["state"]
    if one.get("failed"):
        state = f"{state}, last fit failed: {one['failed']}"
    elif one.get("ready") is False:
        state = f"{state}, no maps before the next refit"
    return f"{challenger}, {', '.join(shares) or 'a shadow'}, {state}"


def _numbers(row: dict[str, Any]) -> str:
    known = [(name, row.get(name)) for name in _SHOWN]
    return "  ".join(f"{name} {'-' if value is None else f'{value:.5g}'}" for name, value in known)
