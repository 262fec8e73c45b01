"""`sirocco versions` and `sirocco rollback`: which maps serve, and the way back to older ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final

import typer

from app.cli import options
from app.cli.console import note, print_line, utc
from app.cli.operate import RunningService

_MOST_LISTED: Final = 20

versions = typer.Typer(no_args_is_help=True)

_Version = Annotated[
    str, typer.Argument(help="A version, as `sirocco versions list` has it.", show_default=False)
]


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Of which target something is changed, and whether it is."""

    target: str | None = options.option(None, "Only this target.", show_default="every target")
    campaign: list[str] | None = options.option(None, "Only this campaign of it; may be repeated.")
    dry_run: bool = options.option(False, "Only tell what would change.")


@versions.callback()
def _about() -> None:
    """List published versions, compare them, and keep refits from replacing maps.

    [bold]Examples[/bold]

      sirocco versions list
      sirocco versions diff 000041-1c8f3a20
      sirocco rollback 000041-1c8f3a20
      sirocco versions freeze --target click
      sirocco versions freeze --target click --campaign shoes
      sirocco versions unfreeze
    """


@versions.command("list")
@options.grouped
def _list(*, service: RunningService) -> None:
    """List the versions that are kept, newest first."""
    service.show(lambda client: client.read("admin", "versions"), _show_versions)


def _show_versions(found: dict[str, Any]) -> None:
    for entry in found["versions"]:
        mark = "serves" if entry["version"] == found["serving"] else ""
        # Maps on trial have a colon in their name.
        targets = ", ".join(sorted(name for name in entry["atlases"] if ":" not in name))
        as_of, published = utc(entry["as_of"]), utc(entry["published_at"])
        line = f"{entry['version']}  {published}  as of {as_of}  {targets}  {mark}"
        print_line(line.rstrip())
    if back := found["rolled_back"]:
        names = _names({"campaigns": None, **back})
        note(f"rolled back to {back['to']}: {_listed(names)}")
    if held := found["held"]:
        note(f"{held['version']} waits for approval")
    _note_frozen(list(found["frozen"]))


@versions.command("diff")
@options.grouped
def _diff(
    version: _Version,
    against: Annotated[
        str | None, typer.Option(help="Compare with this.", show_default="what is in force")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="Most campaigns of a target.")] = 20,
    *,
    service: RunningService,
) -> None:
    """Show what would move if this version served: campaigns whose odds change most."""
    wanted = {"limit": limit, **({"against": against} if against else {})}
    names = ("admin", "versions", version, "diff")
    service.show(lambda client: client.read(*names, **wanted), _show_moved)


def _show_moved(found: dict[str, Any]) -> None:
    for target, moved in found["targets"].items():
        print_line(f"{target}: {moved['moved']:,} of {moved['campaigns']:,} campaigns move")
        for row in [moved["everybody_else"], *moved["largest"]]:
            version = row.get("model_version")
            name = row.get("campaign") or "everybody else"
            change = f"score {row['score']:<8.4g} {row['before']:.6g} -> {row['after']:.6g}"
            print_line(
                f"  {name if version is None else f'{name}, {version}':<30}"
                f" {'as now' if row['before'] == row['after'] else change}"
            )


@versions.command("freeze")
@options.grouped
def _freeze(*, change: ChangeOptions, service: RunningService) -> None:
    """Let no refit replace the maps that serve, until you let go of them."""
    _changed("freeze", change, service)


@versions.command("unfreeze")
@options.grouped
def _unfreeze(*, change: ChangeOptions, service: RunningService) -> None:
    """Let refits replace the maps again, from the next one on."""
    _changed("unfreeze", change, service)


@options.grouped
def rollback(
    version: Annotated[
        str, typer.Argument(help="A version that is kept; last-good; identity for raw scores.")
    ],
    refit: Annotated[
        bool, typer.Option("--refit", help="Let the next refit replace the maps.")
    ] = False,
    *,
    change: ChangeOptions,
    service: RunningService,
) -> None:
    """Bring the maps of an older version into force again, everywhere within seconds.

    No refit replaces them until `sirocco versions unfreeze`. last-good is the
    newest version before with other maps; with identity, scores stay as they are.

    [bold]Examples[/bold]

      sirocco versions list
      sirocco rollback 000041-1c8f3a20 --dry-run
      sirocco rollback 000041-1c8f3a20
      sirocco rollback last-good --target click --campaign shoes
      sirocco rollback identity --target click --campaign shoes --campaign hats
    """
    request = {"version": version, "freeze": not refit, **_of(change)}
    service.show(
        lambda client: client.change("rollback", request=request),
        partial(_show_rollback, dry_run=change.dry_run),
    )


def _show_rollback(found: dict[str, Any], *, dry_run: bool) -> None:
    version, targets = found["rolled_back_to"], _listed(_names(found))
    if not found["changed"]:
        print_line(f"the maps of {version} serve already: {targets}")
    elif dry_run:
        print_line(f"the maps of {version} would serve: {targets}")
    else:
        print_line(f"{found['version']} serves, with the maps of {version}: {targets}")
    _note_campaigns(found, [] if dry_run else found["all_frozen"])


def _changed(what: str, change: ChangeOptions, service: RunningService) -> None:
    done = f"would {what}" if change.dry_run else f"{what}: done"

    def show(found: dict[str, Any]) -> None:
        is_so = f"nothing to {what}: it is so already"
        print_line(f"{done}: {_listed(found['changed'])}" if found["changed"] else is_so)
        _note_campaigns(found, [] if change.dry_run else found["frozen"])

    service.show(lambda client: client.change(what, request=_of(change)), show)


def _of(change: ChangeOptions) -> dict[str, Any]:
    target = {} if change.target is None else {"target": change.target}
    campaigns = {"campaigns": list(change.campaign)} if change.campaign else {}
    return {"dry_run": change.dry_run, **target, **campaigns}


def _names(found: Mapping[str, Any]) -> list[str]:
    """What a rollback was of: targets, or `target:campaign`."""
    targets: list[str] = found["targets"]
    campaigns = found["campaigns"]
    return targets if campaigns is None else [f"{targets[0]}:{name}" for name in campaigns]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _note_campaigns(found: Mapping[str, Any], frozen: Sequence[str]) -> None:
    if without := found["without_map"]:
        note(f"without a map of its own yet (is the name right?): {_listed(without)}")
    _note_frozen(frozen)


def _note_frozen(names: Sequence[str]) -> None:
    """Campaigns that are frozen one by one are let go of by their names alone."""
    for how, is_campaign in (("", False), (" --target TARGET --campaign NAME", True)):
        if frozen := [name for name in names if (":" in name) == is_campaign]:
            note(f"frozen, until `sirocco versions unfreeze{how}`: {_listed(frozen)}")
