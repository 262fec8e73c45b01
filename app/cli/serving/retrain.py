"""`sirocco retrain`."""

from typing import Annotated, Any

import orjson
import typer

from app.cli import options
from app.cli.console import note, results
from app.cli.serving.client import ServiceClient
from app.errors import CommandError

_Target = Annotated[
    str | None, typer.Option("--target", help="Only this target.", show_default="every target")
]
_Campaigns = Annotated[
    list[str] | None,
    typer.Option(
        "--campaign", help="Only this campaign; may be repeated.", show_default="every campaign"
    ),
]
_AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help="Learn from the window that ends then: RFC 3339 or seconds since 1970.",
        show_default="now",
    ),
]
_Pccem = Annotated[
    bool, typer.Option("--pccem", help="Train the post-click models of delayed targets instead.")
]
_Timeout = Annotated[
    float, typer.Option("--timeout", min=0, help="Seconds to wait for it; 0 does not wait.")
]

_PASSED = "passed"
_HELD = ("kept", "parent", "bounded")


def retrain(
    url: options.RunningUrl = "http://127.0.0.1:8080",
    target: _Target = None,
    campaign: _Campaigns = None,
    as_of: _AsOf = None,
    pccem: _Pccem = False,
    timeout: _Timeout = 300.0,
    json: options.Json = False,
) -> None:
    """Ask a running service for a refit now, and wait for its new version.

    The service also refits by itself, soon after every full hour, and trains the
    post-click models of delayed targets soon after every midnight (UTC).

    [bold]Examples[/bold]

      sirocco retrain
      sirocco retrain --target click --as-of 2026-03-01T12:00:00Z
      sirocco retrain --pccem --target conversion
    """
    if pccem and campaign:
        raise CommandError("--pccem trains one model for all campaigns: leave out --campaign")
    asked = {"target": target, "campaigns": campaign or None, "as_of": _time(as_of)}
    request = {field: value for field, value in asked.items() if value is not None}
    with ServiceClient(url) as client:
        job = client.train(request) if pccem else client.retrain(request)
        if timeout:
            job = client.finished(job, timeout)
    _show(job, as_json=json)


def _time(text: str | None) -> float | str | None:
    """Seconds as a number; RFC 3339 is for the service to read."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _show(job: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        results().out(orjson.dumps(job).decode(), highlight=False)
    elif job["status"] != "done":
        note(f"job {job['id']} is {job['status']}")
    elif job["kind"] == "train":
        _show_models(job["result"]["targets"])
    else:
        results().print(f"version {job['result']['version']} is out")
        _show_fits(job["result"]["targets"])


def _show_fits(targets: dict[str, dict[str, Any]]) -> None:
    """What made the maps of each target, and what the guard held back of them."""
    for target, fitted in targets.items():
        if "calibrator" in fitted:
            note(f"{target}: {fitted['fitted']:,} maps by {fitted['calibrator']}")
        for calibrator, number in (fitted.get("overridden") or {}).items():
            note(f"{target}: campaigns with {calibrator} of their own: {number:,}")
        held = _held(fitted.get("guard") or {})
        if held:
            note(f"{target}: held back by the guard: {held}")


def _held(guarded: dict[str, Any]) -> str:
    told = [f"{guarded[name]:,} {name}" for name in _HELD if guarded.get(name)]
    if guarded.get("target", _PASSED) != _PASSED:
        told.append(f"and the target's own map {guarded['target']}")
    return ", ".join(told)


def _show_models(targets: dict[str, dict[str, Any]]) -> None:
    """Why there is no new model is told beside what is out all the same."""
    for target, trained in targets.items():
        if trained["version"] is None:
            note(f"{target}: nothing to train on: {trained['refused']}")
            continue
        results().print(f"{target}: {trained['version']} is out, labels from {trained['source']}")
        if trained["refused"]:
            note(f"{target}: no new model: {trained['refused']}")
