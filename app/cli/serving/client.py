"""Calls to a running sirocco, as an ad server, a tracker and an operator make them."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote, urlencode

import httpx
import orjson

from app.errors import FAILED, CommandError
from app.settings import BadConfiguration, is_local, secret_in_file

_TIMEOUT = httpx.Timeout(30.0, connect=2.0)
_PATIENCE_SECONDS = 30.0
"""For so long what an overloaded service refuses is sent again."""
_POLL_SECONDS = 0.01
_LONGEST_POLL = 0.05
_KEY_VARIABLE = "SIROCCO_API_KEY"
_JSON = {"content-type": "application/json"}
_LINES = {"content-type": "application/x-ndjson"}


class ServiceClient:
    """`with ServiceClient(url)`: every failure is a `CommandError` that names the address."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        """Calls with the API key, or with that of the environment, if there is one."""
        self.url = _checked(url)
        key = api_key or _key_of_environment()
        # A proxy of the environment must not swallow what stays on this machine.
        self._http = httpx.Client(
            base_url=self.url,
            headers={"authorization": f"Bearer {_sendable(key)}"} if key else {},
            timeout=_TIMEOUT,
            trust_env=not is_local(httpx.URL(self.url).host),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def calibrate(
        self,
        target: str,
        campaigns: Sequence[str],
        scores: Sequence[float],
        beside: Sequence[Mapping[str, Any]] = (),
    ) -> list[float]:
        """Probabilities of scores in [0, 1], in their order; with what else there is of each."""
        body: dict[str, Any] = {"target": target, "campaigns": campaigns, "scores": scores}
        if beside:
            of = zip(campaigns, scores, beside, strict=True)
            body = {"rows": [{"target": target, "campaign": c, "score": s, **o} for c, s, o in of]}
        probabilities: list[float] = self._call("POST", "/v1/calibrate", body)["probabilities"]
        return probabilities

    def post_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Store events; one that is rejected is an error that quotes the first reason."""
        answer = self._call("POST", "/v1/events", events)
        rejected = answer["rejected"]
        if rejected:
            raise CommandError(
                f"{self.url} rejected {answer['rejected_total']:,} of {len(events):,} events,"
                f" the first because: {rejected[0]['error']}",
                FAILED,
            )

    def load_bins(self, source: str, partition: str, rows: bytes) -> dict[str, Any]:
        """Add rows of bins, one of JSON a line; how many hours were new, and how many not. They
        count once, so they are sent again where the store did not answer."""
        path = _path("admin", "bins", source=source, partition=partition)
        return self._answered("POST", path, rows, _LINES, harmless=True)

    def read(self, *names: str, **query: Any) -> dict[str, Any]:
        """What the service tells at the path of these names, below `/v1`."""
        return self._call("GET", _path(*names, **query))

    def change(self, *names: str, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask for the change at the path of these names, below `/v1/admin`."""
        return self._call("POST", _path("admin", *names), request)

    def override(
        self, target: str, campaign: str, calibrator: str | None, *, retrain: bool
    ) -> dict[str, Any]:
        """Give a campaign a calibrator of its own, or with None leave it to that of its target;
        tells from when."""
        query = {"retrain": "true"} if retrain else {}
        path = _path("admin", "overrides", target, campaign, **query)
        if calibrator is None:
            return self._call("DELETE", path)
        return self._call("PUT", path, {"calibrator": calibrator})

    def finished(
        self,
        job: Mapping[str, Any],
        seconds: float,
        on_progress: Callable[[str, float], None] = lambda *_: None,
    ) -> dict[str, Any]:
        """The job once it is done; waits `seconds` at most, and tells what it is at, and the share
        that is done, when it gets further."""
        further: tuple[Any, Any] = (None, None)
        for _ in _polls(seconds):
            current = self._call("GET", f"/v1/admin/jobs/{job['id']}")
            known, further = further, (current.get("progress"), current.get("fraction"))
            if further[0] is not None and further != known:
                on_progress(further[0], further[1] or 0.0)
            if current["status"] == "done":
                return current
            if current["status"] in ("failed", "cancelled"):
                reason = f"failed: {current['error']}" if current["error"] else "was cancelled"
                raise CommandError(f"{_name(job)} {reason}", FAILED)
        raise CommandError(
            f"{_name(job)} (job {job['id']}) is still {current['status']} after {seconds:g} s: "
            + (further[0] or "is a worker running?"),
            FAILED,
        )

    def await_version(self, version: str, seconds: float) -> None:
        """Return as soon as the service answers with maps of `version` or later."""
        for _ in _polls(seconds):
            serving = self._call("GET", "/readyz")["version"]
            if _sequence(serving) >= _sequence(version):
                return
        raise CommandError(
            f"{self.url} still serves version {serving} {seconds:g} s after {version} came out",
            FAILED,
        )

    def is_ready(self) -> bool:
        """True when it answers that it can calibrate."""
        try:
            return self._http.get("/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def _call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        content = None if body is None else orjson.dumps(body)
        return self._answered(method, path, content, _JSON, harmless=method == "GET")

    def _answered(
        self,
        method: str,
        path: str,
        content: bytes | None,
        kind: Mapping[str, str],
        *,
        harmless: bool = False,
    ) -> dict[str, Any]:
        end = time.monotonic() + _PATIENCE_SECONDS
        while _may_come_again(answer := self._sent(method, path, content, kind), harmless):
            if time.monotonic() > end:
                break
            time.sleep(_pause(answer.headers.get("retry-after")))
        return _json(answer)

    def _sent(
        self, method: str, path: str, content: bytes | None, kind: Mapping[str, str]
    ) -> httpx.Response:
        try:
            return self._http.request(method, path, content=content, headers=kind)
        except httpx.TransportError as error:
            raise CommandError(
                f"{self.url} does not answer ({error}): is it running?", FAILED
            ) from error


def _may_come_again(answer: httpx.Response, harmless: bool) -> bool:
    """Whether it was refused before anything was done, or where a repeat does no harm because the
    store did not answer, or the process ended first."""
    reasons = ("overloaded", "store-unavailable", "draining") if harmless else ("overloaded",)
    unavailable = answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    found = answer.content
    return unavailable and any(f"urn:sirocco:problem:{each}".encode() in found for each in reasons)


def _pause(retry_after: str | None) -> float:
    """Seconds to wait; a proxy may have written anything.

    >>> [_pause(each) for each in (None, "2", "Fri, 01 Jan 2027 00:00:00 GMT", "-1", "nan", "1e9")]
    [1.0, 2.0, 1.0, 0.05, 0.05, 30.0]
    """
    try:
        return min(max(_LONGEST_POLL, float(retry_after or 1.0)), _PATIENCE_SECONDS)
    except ValueError:
        return 1.0


def _key_of_environment() -> str | None:
    try:
        return secret_in_file(_KEY_VARIABLE) or os.environ.get(_KEY_VARIABLE)
    except BadConfiguration as error:
        raise CommandError(str(error)) from None


def _sendable(key: str) -> str:
    """The key, if a header can hold it; an error must not show it."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise CommandError("the API key must be of printable ASCII characters, without spaces")
    return key


def _path(*names: str, **query: Any) -> str:
    # One called .. would be the folder above.
    path = "/".join(("/v1", *(quote(name, safe="").replace(".", "%2E") for name in names)))
    return f"{path}?{urlencode(query)}" if query else path


def _name(job: Mapping[str, Any]) -> str:
    names = {"train": "the training", "approve": "the approval", "reject": "the rejection"}
    return names.get(job.get("kind", ""), "the refit")


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        body = None
    if not isinstance(body, dict):
        raise CommandError(
            f"{answer.url} answered {answer.status_code}, and no JSON: is it sirocco?", FAILED
        )
    if answer.is_error:
        sentence = body.get("detail") or body.get("title") or answer.reason_phrase
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            sentence = f"it asks for a valid API key: set {_KEY_VARIABLE}"
        elif sentence == "Not Found" and "/v1/admin/" in answer.url.path:
            sentence = "no admin routes are here: give --url their own port (SIROCCO_ADMIN_PORT)"
        raise CommandError(f"{answer.url} answered {answer.status_code}: {sentence}", FAILED)
    return body


def _sequence(version: str) -> int:
    """The running number that a version's name begins with; -1 before the first version."""
    number = version.partition("-")[0]
    return int(number) if number.isdecimal() else -1


def _polls(seconds: float) -> Iterator[None]:
    pause, end = _POLL_SECONDS, time.monotonic() + seconds
    yield
    while time.monotonic() < end:
        time.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_POLL)
        yield


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        shown = url.rpartition("@")[2]
        raise CommandError(f"--url {shown!r}: give an address such as http://127.0.0.1:8080")
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise CommandError(f"--url: {error}") from error
    if parsed.userinfo or not parsed.host:
        raise CommandError("--url: must name a host, and no password: the key has an option")
    return str(parsed).rstrip("/")
