"""`sirocco overrides`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import typer

from app.cli import options
from app.cli.console import note, results
from app.cli.serving.client import ServiceClient

overrides = typer.Typer(no_args_is_help=True)

_URL = "http://127.0.0.1:8080"
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
def _list(
    url: options.RunningUrl = _URL, target: _OneTarget = None, json: options.Json = False
) -> None:
    """List the campaigns that have a calibrator of their own."""
    with ServiceClient(url) as client:
        found = list(_overrides(client, target))
    if json:
        results().out(orjson.dumps({"overrides": found}).decode(), highlight=False)
        return
    for row in found:
        _say(f"{row['target']}  {row['campaign']}  {row['calibrator']}")
    if not found:
        note("no campaign has a calibrator of its own")


@overrides.command("set")
def _set(
    target: _Target,
    campaign: _Campaign,
    calibrator: _Calibrator,
    retrain: _Retrain = False,
    url: options.RunningUrl = _URL,
    json: options.Json = False,
) -> None:
    """Give a campaign a calibrator of its own."""
    with ServiceClient(url) as client:
        answer = client.set_override(target, campaign, calibrator, retrain=retrain)
    _show(answer, as_json=json)


@overrides.command("delete")
def _delete(
    target: _Target,
    campaign: _Campaign,
    retrain: _Retrain = False,
    url: options.RunningUrl = _URL,
    json: options.Json = False,
) -> None:
    """Leave a campaign to the calibrator of its target again."""
    with ServiceClient(url) as client:
        answer = client.delete_override(target, campaign, retrain=retrain)
    _show(answer, as_json=json)


def _overrides(client: ServiceClient, target: str | None) -> Iterator[dict[str, str]]:
    """Of one target, or of all that have any."""
    names = [target] if target else list(client.overrides(limit=1)["targets"])
    for name in names:
        after: str | None = ""
        while after is not None:
            page = client.overrides(target=name, limit=_PAGE, after=after)
            yield from ({"target": name, **row} for row in page["overrides"])
            after = page["next"]


def _show(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        results().out(orjson.dumps(answer).decode(), highlight=False)
        return
    fitted_by = answer["calibrator"] or "nothing: the service has no such target any more"
    _say(f"{answer['target']}  {answer['campaign']}  {fitted_by}")
    if "job" in answer:
        note(f"the refit is job {answer['job']['id']}")
    elif answer["next_refit_at"] is None:
        note("in force from the next refit on; by the events' clock that is a job")
    else:
        at = datetime.fromtimestamp(answer["next_refit_at"], UTC)
        note(f"in force from the next refit on, at {at:%H:%M:%S} UTC")


def _say(text: str) -> None:
    results().print(text, soft_wrap=True, markup=False)
