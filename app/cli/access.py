"""`sirocco keys` and `sirocco audit`: who may do what in a running service, and who did."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import options
from app.cli.console import note, print_json, print_line, utc
from app.cli.operate import RunningService, service_at
from app.errors import FAILED, CommandError

if TYPE_CHECKING:
    from app.access.audit import AuditEntry
    from app.cli.serving.client import ServiceClient

keys = typer.Typer(no_args_is_help=True)

_MOST_ENTRIES = 1000
_MOMENTS = ("as_of", "since")
"""Of the changes that the log tells, what is in epoch seconds, besides names that end in _at."""
_KeyId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the key, as `list` has it.", show_default=False)
]
_Scopes = Annotated[
    list[str],
    options.flag(
        "--scope", "calibrate, ingest, read or admin, which includes read; may be repeated."
    ),
]
_Name = Annotated[str, options.flag("--name", "Whom it is for.")]
_ONLY = "It sees only campaigns that begin so; may be repeated."
_Prefixes = Annotated[
    list[str] | None, options.flag("--campaigns", _ONLY, "all campaigns", metavar="PREFIX")
]
_RATE = "Requests a second, of each API process."
_RateLimit = Annotated[int | None, options.flag("--rate-limit", _RATE, "no limit", min=1)]


def _duration(name: str, about: str, shown: str) -> Any:
    return options.flag(
        name, about, shown, parser=lambda text: 3600 * options.hours(text, name), metavar="DURATION"
    )


_ENDS = "It ends after that, such as 12h or 90d."
_ExpiresIn = Annotated[int | None, _duration("--expires-in", _ENDS, "never")]
_GRACE = "How long the old key stays valid beside the new one."
_Grace = Annotated[int | None, _duration("--grace", _GRACE, "24h")]
_At = Annotated[
    str, typer.Option("--at", metavar="TIME", help="When it ends: RFC 3339 or seconds since 1970.")
]
_Verify = Annotated[
    bool, typer.Option("--verify", help="Look whether every entry is as it was written.")
]
_LINES = (
    "With --verify: look at the lines of this audit log too, and that the service has the same; may"
    " be repeated, as each host has lines of its own."
)
_Files = Annotated[list[Path] | None, options.flag("--file", _LINES)]
_Entries = Annotated[
    int, typer.Option("--limit", min=1, max=1000, help="Most entries, from the newest on.")
]


@keys.callback()
def _about() -> None:
    """Make, list, rotate, expire and revoke the API keys of a running service.

    As soon as there is a key, every request but /healthz and /readyz needs one,
    as `Authorization: Bearer KEY`; the first must have the scope admin. A key is
    shown once, on stdout: the service keeps only a digest. These commands
    themselves call with SIROCCO_API_KEY, or with the key in the file that
    SIROCCO_API_KEY_FILE names.

    [bold]Examples[/bold]

      sirocco keys create --scope admin --scope read --name ops > admin.key
      export SIROCCO_API_KEY_FILE=admin.key
      sirocco keys create --scope calibrate --name bidder --expires-in 90d
      sirocco keys create --scope ingest --name tracker --rate-limit 200
      sirocco keys create --scope read --name shop --campaigns shop/
      sirocco keys list
      sirocco keys rotate 1f0c9a5e77b2 --grace 24h
      sirocco keys revoke 1f0c9a5e77b2
    """


@keys.command("create")
@options.grouped
def _create(
    scope: _Scopes,
    name: _Name = "",
    campaigns: _Prefixes = None,
    rate_limit: _RateLimit = None,
    expires_in: _ExpiresIn = None,
    *,
    service: RunningService,
) -> None:
    """Make a key, and print it: it is shown this once."""
    request: dict[str, Any] = {"scopes": scope, "name": name, "campaigns": campaigns or []}
    if rate_limit is not None:
        request["rate_limit"] = rate_limit
    if expires_in is not None:
        request["expires_at"] = time.time() + expires_in
    service.show(lambda client: client.change("keys", request=request), _show_token)


@keys.command("list")
@options.grouped
def _list(*, service: RunningService) -> None:
    """List all keys: what they may do, and until when."""
    service.show(lambda client: client.read("admin", "keys"), _show_keys)


def _show_keys(found: dict[str, Any]) -> None:
    for key in found["keys"]:
        _show(key)
    if not found["keys"]:
        note("there are no keys: without SIROCCO_BOOTSTRAP_ADMIN_KEY everybody here may do all")


@keys.command("rotate")
@options.grouped
def _rotate(key: _KeyId, grace: _Grace = None, *, service: RunningService) -> None:
    """Make a key in the place of this one, and print it; the old one ends a while later."""
    request = {} if grace is None else {"grace_seconds": grace}
    service.show(lambda client: client.change("keys", key, "rotate", request=request), _show_token)


@keys.command("expire")
@options.grouped
def _expire(key: _KeyId, at: _At, *, service: RunningService) -> None:
    """Have a key end at a moment."""
    request = {"at": options.moment(at, "--at")}
    service.show(lambda client: client.change("keys", key, "expire", request=request), _show)


@keys.command("revoke")
@options.grouped
def _revoke(key: _KeyId, *, service: RunningService) -> None:
    """Have a key end now: within five seconds nobody takes it any more."""
    service.show(lambda client: client.change("keys", key, "revoke"), _show)


def audit(
    verify: _Verify = False,
    file: _Files = None,
    limit: _Entries = 100,
    url: options.RunningUrl = options.LOCAL_URL,
    api_key: options.ApiKeyOption = None,
    json: options.Json = False,
) -> None:
    """Show who changed what in a running service, and verify it.

    Every change by an admin is an entry, chained to the one before by SHA-256.
    With --verify, exit code 1 says that an entry was altered or is missing.

    [bold]Examples[/bold]

      sirocco audit
      sirocco audit --verify
      sirocco audit --verify --file audit-host1.jsonl --file audit-host2.jsonl
      sirocco audit --limit 1000 --json
    """
    if file and not verify:
        raise CommandError("--file is for --verify")
    with service_at(url, api_key) as client:
        if verify:
            stored = list(_all(client)) if file else []
            found = client.read("admin", "audit", "verify")
            if file and found["wrong"] is None:
                found["wrong"] = _wrong_in(file, stored, client)
            _show_verified(found, as_json=json)
            return
        entries = _newest(client, limit)
    if json:
        print_json({"entries": entries})
        return
    for entry in reversed(entries):
        before, after = _short(entry["before"]), _short(entry["after"])
        print_line(
            f"{entry['seq']:>6}  {utc(entry['at'])}  {entry['who']:<12}  {entry['what']}"
            f"  {entry['target']}  {before} -> {after}  ({entry['request_id']})"
        )


def _newest(client: "ServiceClient", limit: int) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = client.read("admin", "audit", limit=limit)["entries"]
    return entries


def _all(client: "ServiceClient") -> Iterator["AuditEntry"]:
    """All entries that the service keeps, newest first."""
    from msgspec import convert

    from app.access.audit import AuditEntry

    query: dict[str, Any] = {"limit": _MOST_ENTRIES}
    while query.get("before", True):
        page = client.read("admin", "audit", **query)
        yield from convert(page["entries"], list[AuditEntry])
        query["before"] = page["next"]


def _lines_of(files: list[Path]) -> Iterator["AuditEntry"]:
    from app.access.audit import read_entry

    for file in files:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            try:
                yield read_entry(line)
            except ValueError as error:
                raise ValueError(f"{file}, line {number}: cannot be read: {error}") from None


def _wrong_in(files: list[Path], stored: list["AuditEntry"], client: "ServiceClient") -> str | None:
    """What is wrong with the lines of the files together, or differs in the service."""
    from app.access.audit import refused, verified

    try:
        entries = sorted(_lines_of(files), key=lambda entry: entry.seq)
    except OSError as error:
        raise CommandError(f"--file {error.filename}: {error.strerror}") from None
    except ValueError as error:
        return str(error)
    if not entries:
        return "the files have no entries" if stored else None
    # Asked for again: while the files were read the service may have gone on.
    newest = max((entry["seq"] for entry in _newest(client, 1)), default=0)
    if entries[-1].seq > newest:
        return f"entry {newest + 1}: is missing in the service, the files go to {entries[-1].seq}"
    first, kept = entries[0].seq, {entry.seq: entry.hash for entry in entries}
    lacking = [entry for entry in refused(stored) if entry.seq > first and entry.seq not in kept]
    kept |= {entry.seq: entry.hash for entry in lacking}
    for entry in reversed(stored):
        if entry.seq >= first and kept.get(entry.seq) != entry.hash:
            return f"entry {entry.seq}: the files and the service differ"
    return verified(sorted([*entries, *lacking], key=lambda entry: entry.seq)).wrong


def _show_verified(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    elif found["wrong"] is None:
        print_line(f"all {found['entries']:,} entries are as they were written")
    if found["wrong"] is not None:
        raise CommandError(f"the audit log was tampered with: {found['wrong']}", FAILED)


def _show_token(made: dict[str, Any]) -> None:
    print_line(made["token"])
    note(f"{_line(made['key'])}\nkeep the key safe: it is shown this once")


def _show(key: dict[str, Any]) -> None:
    print_line(_line(key))


def _line(key: dict[str, Any]) -> str:
    parts = [key["id"], key["standing"], ",".join(key["scopes"]), key["name"] or "-"]
    if key["campaigns"]:
        parts.append(f"only {' '.join(key['campaigns'])}")
    if key["rate_limit"] is not None:
        parts.append(f"{key['rate_limit']:,}/s")
    if key["expires_at"] is not None:
        verb = "has ended at" if key["standing"] == "expired" else "ends"
        parts.append(f"{verb} {utc(key['expires_at'])}")
    if key["replaces"] is not None:
        parts.append(f"replaces {key['replaces']}")
    return "  ".join(parts)


def _short(value: Any, name: str = "") -> str:
    """A value of the log in a line; nothing is a dash, and a moment as of other lines."""
    if isinstance(value, list):
        return ("," if name else ", ").join(map(_short, value)) or "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f"{one}={_short(item, one)}" for one, item in value.items()) or "-"
    if isinstance(value, int | float) and (name in _MOMENTS or name.endswith("_at")):
        return utc(value)
    return "-" if value is None else str(value)
