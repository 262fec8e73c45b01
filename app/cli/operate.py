"""`sirocco overrides` and `sirocco retrain`: requests to a running service."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import options
from app.cli.console import messages, note, percent_bar, print_json, print_line
from app.errors import FAILED, CommandError

if TYPE_CHECKING:
    from app.cli.serving.client import ServiceClient

overrides = typer.Typer(no_args_is_help=True)

_PAGE = 1000
_Target = Annotated[str, typer.Argument(help="Target, such as click.", show_default=False)]
_Campaign = Annotated[str, typer.Argument(help="Campaign.", show_default=False)]
_Calibrator = Annotated[
    str, typer.Argument(help="pooled, sir, or another monotone calibrator.", show_default=False)
]
_OneTarget = Annotated[
    str | None, typer.Option("--target", help="Only this target.", show_default="every target")
]
_Retrain = Annotated[bool, typer.Option("--retrain", help="Refit the campaign at once.")]


def service_at(url: str, api_key: str | None) -> "ServiceClient":
    """A client of the running service."""
    from app.cli.serving.client import ServiceClient

    return ServiceClient(url, api_key)


@dataclass(frozen=True, slots=True)
class RunningService:
    """Which service is asked, and how its answer is shown."""

    url: options.RunningUrl = options.LOCAL_URL
    api_key: options.ApiKeyOption = None
    json: options.Json = False

    def show(self, ask: Callable[["ServiceClient"], Any], in_lines: Callable[[Any], None]) -> None:
        """Print what the service answers, as JSON or by `in_lines`."""
        with service_at(self.url, self.api_key) as client:
            found = ask(client)
        (print_json if self.json else in_lines)(found)


@overrides.callback()
def _about() -> None:
    """Give single campaigns a calibrator of their own, in a running service.

    It is used from the campaign's next refit on, in place of that of its target
    (SIROCCO_CALIBRATOR, SIROCCO_TARGET_CALIBRATORS).

    [bold]Examples[/bold]

      sirocco overrides list
      sirocco overrides set click shoes sir
      sirocco overrides delete click shoes --retrain
    """


@overrides.command("list")
@options.grouped
def _list(target: _OneTarget = None, *, service: RunningService) -> None:
    """List the campaigns that have a calibrator of their own."""
    service.show(lambda client: {"overrides": [*_overrides(client, target)]}, _show_overrides)


def _show_overrides(found: dict[str, Any]) -> None:
    for row in found["overrides"]:
        print_line(f"{row['target']}  {row['campaign']}  {row['calibrator']}")
    if not found["overrides"]:
        note("no campaign has a calibrator of its own")


@overrides.command("set")
@options.grouped
def _set(
    target: _Target,
    campaign: _Campaign,
    calibrator: _Calibrator,
    retrain: _Retrain = False,
    *,
    service: RunningService,
) -> None:
    """Give a campaign a calibrator of its own."""
    service.show(lambda c: c.override(target, campaign, calibrator, retrain=retrain), _show)


@overrides.command("delete")
@options.grouped
def _delete(
    target: _Target, campaign: _Campaign, retrain: _Retrain = False, *, service: RunningService
) -> None:
    """Leave a campaign to the calibrator of its target again."""
    service.show(lambda c: c.override(target, campaign, None, retrain=retrain), _show)


def _overrides(client: "ServiceClient", target: str | None) -> Iterator[dict[str, str]]:
    """Of one target, or of all that have any."""
    names = (
        [target]
        if target is not None
        else list(client.read("admin", "overrides", limit=1)["targets"])
    )
    for name in names:
        after: str | None = ""
        while after is not None:
            page = client.read("admin", "overrides", target=name, limit=_PAGE, after=after)
            yield from ({"target": name, **row} for row in page["overrides"])
            after = page["next"]


def _show(answer: dict[str, Any]) -> None:
    fitted_by = answer["calibrator"] or "nothing: the service has no such target any more"
    print_line(f"{answer['target']}  {answer['campaign']}  {fitted_by}")
    if "job" in answer:
        note(f"the refit is job {answer['job']['id']}")
    elif answer["next_refit_at"] is None:
        note("in force from the next refit on; by the events' clock that is a job")
    else:
        at = datetime.fromtimestamp(answer["next_refit_at"], UTC)
        note(f"in force from the next refit on, at {at:%H:%M:%S} UTC")


_PASSED = "passed"
_HELD_BACK = ("kept", "parent", "bounded")


_Version = Annotated[
    str | None,
    typer.Argument(help="The version to approve or reject.", show_default="the one that is held"),
]


@dataclass(frozen=True, slots=True)
class RetrainOptions:
    """What is asked of the service."""

    target: _OneTarget = None
    campaign: list[str] | None = options.option(
        None, "Only this campaign; may be repeated.", show_default="every campaign"
    )
    as_of: float | None = options.option(
        None,
        "Learn from the window that ends then: RFC 3339 or seconds since 1970.",
        parser=lambda text: options.moment(text, "--as-of"),
        metavar="TIME",
        show_default="now",
    )
    allow_past: bool = options.option(False, "Allow an --as-of before the window that ends now.")
    pccem: bool = options.option(False, "Train the post-click models of delayed targets instead.")
    approve: bool = options.option(False, "Bring maps that wait for approval into force.")
    reject: bool = options.option(False, "Drop maps that wait for approval.")
    cancel: str | None = options.option(
        None, "Cancel this job instead: its number.", metavar="JOB", show_default="none"
    )
    timeout: float = options.option(300.0, "Seconds to wait for it; 0 does not wait.", min=0)


@options.grouped
def retrain(version: _Version = None, *, given: RetrainOptions, service: RunningService) -> None:
    """Ask a running service for a refit now, and wait for its new version.

    The service also refits by itself, soon after every full hour, and trains the
    post-click models of delayed targets soon after every midnight (UTC). A refit
    unlike all before it is held until it is approved.

    [bold]Examples[/bold]

      sirocco retrain
      sirocco retrain --approve
      sirocco retrain --target click --as-of 2026-03-01T12:00:00Z
      sirocco retrain --pccem --target conversion
      sirocco retrain --cancel 000004
    """
    if given.pccem and given.campaign:
        raise CommandError("--pccem trains one model for all campaigns: leave out --campaign")
    if (job_id := given.cancel) is not None:
        asks = (version, given.approve, given.reject, given.pccem, given.campaign, given.target)
        if any(asks) or given.as_of is not None or given.allow_past:
            raise CommandError("--cancel ends one job: leave out what asks for another")
        service.show(lambda client: client.change("jobs", job_id, "cancel"), _show_cancelled)
        return
    decided = given.approve or given.reject
    if decided:
        others = {"--target": given.target, "--campaign": given.campaign, "--as-of": given.as_of}
        options.refuse(others, "does not go with --approve or --reject: they take all")
    if (given.approve and given.reject) or (version is not None and not decided):
        raise CommandError("give --approve or --reject, and a version only with one of them")
    asked = {
        "target": given.target,
        "campaigns": given.campaign or None,
        "as_of": given.as_of,
        "allow_past": given.allow_past or None,
    }
    request = {field: value for field, value in asked.items() if value is not None}
    with service_at(service.url, service.api_key) as client:
        if decided:
            decision = "approve" if given.approve else "reject"
            job = client.change("versions", version or _held(client), decision)
        else:
            what = ("pccem", "train") if given.pccem else ("retrain",)
            job = client.change(*what, request=request)
        if given.timeout:
            job = _finished(client, job, given.timeout, as_json=service.json)
    _show_job(job, as_json=service.json)


def _finished(
    client: "ServiceClient", job: dict[str, Any], timeout: float, *, as_json: bool
) -> dict[str, Any]:
    """The job once it is done; a bar on a terminal, and lines elsewhere, say how far it is."""
    on_terminal = messages().is_terminal and not as_json
    seen: set[str] = set()
    with percent_bar(f"job {job['id']}", shown=on_terminal) as reached:

        def show(phase: str, share: float) -> None:
            if not on_terminal and phase not in seen:
                note(phase if phase.startswith("waits") else f"the worker: {phase}")
            seen.add(phase)
            reached(share, phase)

        return client.finished(job, timeout, show)


def _held(client: "ServiceClient") -> str:
    held = client.read("admin", "versions").get("held")
    if held is None:
        raise CommandError("no version waits for approval", FAILED)
    return str(held["version"])


def _show_cancelled(job: dict[str, Any]) -> None:
    said = {"running": "ends at its next step, before it publishes", "cancelled": "is cancelled"}
    over = f"is {job['status']} already, and stays so"
    note(f"job {job['id']} {said.get(job['status'], over)}")


def _show_job(job: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(job)
    elif job["status"] != "done":
        note(f"job {job['id']} is {job['status']}")
    elif job["kind"] == "train":
        _show_models(job["result"]["targets"])
    elif job["kind"] == "reject":
        print_line(f"{job['result']['rejected']} is dropped")
    else:
        _show_version(job["result"], job["request"].get("target"))
    _refuse_held(job)


def _show_version(result: dict[str, Any], only: str | None) -> None:
    """What is told of targets that were not asked for is of refits before."""
    if result["version"] is not None:
        print_line(f"version {result['version']} is out")
        told = result["targets"].items()
        _show_fits({target: fitted for target, fitted in told if only in (None, target)})


def _refuse_held(job: dict[str, Any]) -> None:
    """CommandError where some of the maps wait for approval."""
    if held := (job["result"] or {}).get("held"):
        why = ", ".join(f"{target}: {reason}" for target, reason in held["reasons"].items())
        raise CommandError(
            f"held for approval ({why}): `sirocco retrain --approve {held['version']}` brings it"
            " into force",
            FAILED,
        )


def _show_fits(targets: dict[str, dict[str, Any]]) -> None:
    """What made the maps of each target, and what the guard held back of them."""
    for target, fitted in targets.items():
        if fitted.get("frozen"):
            note(f"{target}: frozen, so its maps stay")
            continue
        if "calibrator" in fitted:
            maps = f"{fitted['fitted']:,} map{'s' * (fitted['fitted'] != 1)}"
            note(f"{target}: {maps} by {fitted['calibrator']}")
        for calibrator, number in (fitted.get("overridden") or {}).items():
            note(f"{target}: campaigns with {calibrator} of their own: {number:,}")
        held = _held_back(fitted.get("guard") or {})
        if held:
            note(f"{target}: held back by the guard: {held}")


def _held_back(guarded: dict[str, Any]) -> str:
    parts = [f"{guarded[name]:,} {name}" for name in _HELD_BACK if guarded.get(name)]
    if guarded.get("target", _PASSED) != _PASSED:
        parts.append(f"and the target's own map {guarded['target']}")
    return ", ".join(parts)


def _show_models(targets: dict[str, dict[str, Any]]) -> None:
    """What is out, and why there is no new model where there is none."""
    for target, trained in targets.items():
        if trained["version"] is None:
            note(f"{target}: nothing to train on: {trained['refused']}")
            continue
        print_line(f"{target}: {trained['version']} is out, labels from {trained['source']}")
        if trained["refused"]:
            note(f"{target}: no new model: {trained['refused']}")
