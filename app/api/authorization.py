"""Who a request is from and whether it may: the scope that each route needs, in one table, and what
stands in front of all routes.

Where no key is known, only this machine reaches the service, and everything is allowed but what a
browser on it does for a foreign site. From the first key on every route but health and the files of
the page asks for one.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from time import perf_counter
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from fastapi import Depends, Request
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access.audit import AuditLog
from app.access.key_watch import KeyWatch
from app.access.keys import LOOPBACK, ApiKey, KeyTable, RateLimit
from app.access.keys import Scope as KeyScope
from app.api.metrics.counters import gauge
from app.api.problems import Problem, not_found
from app.log_lines import set_log_fields
from app.settings import Settings, is_local
from app.strict_json import show
from app.tracing import REQUEST_ID_HEADER, log_fields_of, parent_of, request_id_of

Headers = Iterable[tuple[bytes, bytes]]
Result = TypeVar("Result")

ADMIN_PATH: Final = "/v1/admin"
_SCOPES: Final[dict[str, KeyScope | None]] = {
    "/healthz": None,
    "/readyz": None,
    "/v1/calibrate": KeyScope.CALIBRATE,
    "/v1/events": KeyScope.INGEST,
    "/v1/maps": KeyScope.READ,
    "/v1/campaigns": KeyScope.READ,
    "/v1/atlas": KeyScope.READ,
    "/v1/experiments": KeyScope.READ,
    "/v1/fields": KeyScope.READ,
    "/v1/products": KeyScope.READ,
    "/metrics": KeyScope.READ,
    "/docs": KeyScope.READ,
    "/openapi.json": KeyScope.READ,
    "/v1/status": KeyScope.READ,
    "/v1/reliability": KeyScope.READ,
    f"{ADMIN_PATH}/versions": KeyScope.READ,
    f"{ADMIN_PATH}/jobs": KeyScope.READ,
    # The page: files without data.
    "/": None,
    "/page": None,
}
"""By the beginning of a path, at a slash; whatever is not here needs the scope admin, and so does
every change below the admin path."""
# They tell of the campaigns of all.
WHOLE: Final = (
    *("/v1/atlas", "/v1/products", "/v1/experiments", "/v1/fields"),
    *("/metrics", f"{ADMIN_PATH}/versions", f"{ADMIN_PATH}/jobs"),
)
_READS: Final = {"GET", "HEAD"}


def scope_of(path: str, method: str = "GET") -> KeyScope | None:
    """The scope that a request for the path needs; None for health and the files of the page."""
    if path.startswith(ADMIN_PATH) and method not in _READS:
        return KeyScope.ADMIN
    for start, scope in _SCOPES.items():
        if path == start or path.startswith(f"{start}/"):
            return scope
    return KeyScope.ADMIN


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is; `campaigns` are prefixes of those it sees, all without any."""

    id: str
    scopes: frozenset[KeyScope]
    campaigns: tuple[str, ...] = ()
    limit: RateLimit | None = None

    def sees(self, campaign: str) -> bool:
        """Whether the campaign is one of the caller's."""
        return not self.campaigns or campaign.startswith(self.campaigns)

    def check_sees(self, field: str, campaign: str) -> None:
        """A 404 problem, whether or not there is such a campaign, unless it is the caller's."""
        if not self.sees(campaign):
            raise not_found(f"{field}: unknown campaign")

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The header fields that tell how much of the limit is left; none without one."""
        return [] if self.limit is None else self.limit.headers()


ANYBODY: Final = Caller(LOOPBACK, frozenset(KeyScope))
"""On this machine, while there are no keys."""

_REALM: Final = {"WWW-Authenticate": 'Bearer realm="sirocco"'}
_REMEMBERED_SECONDS: Final = 1.0
_MOST_REMEMBERED: Final = 1024
_BEARER: Final = b"bearer "


class _Remembered(NamedTuple):
    until: float
    table: KeyTable
    caller: Caller


class Authorization:
    """Finds the caller of a request; for one thread, the event loop's.

    The bytes of a header that was valid are remembered for a second, or until the keys change.
    """

    def __init__(self, watch: KeyWatch) -> None:
        self._watch = watch
        self._remembered: dict[bytes, _Remembered] = {}
        self._limits: dict[str, RateLimit] = {}

    def admitted(self, headers: Headers, scope: KeyScope, now: float) -> Caller:
        """The caller, who has the scope; `now` is of the clock `perf_counter`.

        Raises Problem: 401 without a valid key, 403 without the scope, 429 beyond the key's limit.
        """
        table = self._watch.table
        if not table.required:
            return ANYBODY
        given = b""
        for name, value in headers:
            if name == b"authorization":
                given = value
                break
        found = self._remembered.get(given)
        if found is None or found.table is not table or found.until < now:
            found = self._found(given, table, now)
        caller = found.caller
        if scope not in caller.scopes:
            raise _missing(scope, caller)
        if caller.limit is not None and not caller.limit.take():
            raise _too_many(caller.limit)
        return caller

    def _found(self, given: bytes, table: KeyTable, now: float) -> _Remembered:
        at = time.time()
        token = given[len(_BEARER) :].strip().decode("latin-1")
        key = table.find(token, at)
        if key is None or given[: len(_BEARER)].lower() != _BEARER:
            detail = "give a valid API key, as `Authorization: Bearer sir_...`"
            raise Problem(HTTPStatus.UNAUTHORIZED, "no-valid-key", detail, _REALM)
        lasts = _REMEMBERED_SECONDS
        if key.expires_at is not None:
            lasts = min(lasts, key.expires_at - at)
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        # Who may change everything may look at it.
        scopes = key.scopes | {KeyScope.READ} if KeyScope.ADMIN in key.scopes else key.scopes
        caller = Caller(key.id, scopes, key.campaigns, self._limit(key, table))
        found = self._remembered[given] = _Remembered(now + lasts, table, caller)
        return found

    def _limit(self, key: ApiKey, table: KeyTable) -> RateLimit | None:
        if key.rate_limit is None:
            return None
        limit = self._limits.get(key.id)
        if limit is None:
            self._limits = {one: kept for one, kept in self._limits.items() if one in table.keys}
            limit = self._limits[key.id] = RateLimit(key.rate_limit)
        return limit


class KeyCollector(Collector):
    """When API keys end, as the thread that watches them has last seen them."""

    def __init__(self, watch: KeyWatch) -> None:
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        """Of each scope that a valid key with an end has."""
        left = self._watch.table.seconds_left(time.time()).items()
        text = "Until the first valid key of the scope ends that no other replaces."
        samples = (([scope.value], seconds) for scope, seconds in left)
        yield gauge("sirocco_key_seconds_left", text, ["scope"], samples)


def _missing(scope: KeyScope, caller: Caller) -> Problem:
    detail = f"the key has not the scope {scope.value}, which this needs"
    told = _texts(caller.headers())
    return Problem(HTTPStatus.FORBIDDEN, "missing-scope", detail, told, scope=scope.value)


def _too_many(limit: RateLimit) -> Problem:
    detail = f"rate_limit = {limit.quota}: the key may make no more requests in this second"
    headers = {"Retry-After": "1", **_texts(limit.headers())}
    return Problem(HTTPStatus.TOO_MANY_REQUESTS, "rate-limited", detail, headers)


def _texts(headers: Headers) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in headers}


CALLER: Final = "sirocco.caller"
_REQUEST_ID: Final = "sirocco.request_id"
_log = logging.getLogger(__name__)


def caller_of(scope: MutableMapping[str, Any]) -> Caller:
    """Who was admitted with this request."""
    found: Caller = scope.get(CALLER, ANYBODY)
    return found


class Authorized:
    """Wraps the framework: lets in who may, and answers with the id of the request.

    With an `admin_port`, the admin routes are found there and nowhere else.
    """

    def __init__(self, app: ASGIApp, authorization: Authorization, settings: Settings) -> None:
        self._app = app
        self._authorization = authorization
        self._admin_port = settings.admin_port
        self._hosts = {settings.host.lower(), *settings.allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        for_record = scope["path"].startswith(ADMIN_PATH)
        request_id = scope[_REQUEST_ID] = request_id_of(scope, always=for_record)
        set_log_fields(**log_fields_of(scope) | ({"request_id": request_id} if request_id else {}))
        extra = [(REQUEST_ID_HEADER, request_id.encode())] if request_id else []

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        answer = self._app
        try:
            self._admit(scope)
        except Problem as problem:
            answer = problem.response()
        extra += caller_of(scope).headers()
        await answer(scope, receive, send_with_headers)

    def _admit(self, scope: Scope) -> None:
        path = scope["path"]
        port = (scope.get("server") or ("", None))[1]
        if self._admin_port and path.startswith(ADMIN_PATH) and port != self._admin_port:
            raise not_found("Not Found")
        needed = scope_of(path, scope["method"])
        if needed is None:
            return
        caller = self._authorization.admitted(scope["headers"], needed, perf_counter())
        scope[CALLER] = caller
        if caller is ANYBODY:
            _check_not_foreign(scope, self._hosts)
        if caller.campaigns and path.startswith(WHOLE):
            raise not_found("the key sees some campaigns only, and this is of all")


def _check_not_foreign(scope: Scope, hosts: Collection[str]) -> None:
    """Raises Problem where a foreign site may be behind the request: a browser on this machine
    sends whatever a page asks it to. Who has keys is safe, as no browser sends them by itself."""
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin-1").lower()
    name = host.rpartition(":")[0] if host[-1:].isdecimal() and ":" in host else host
    if name and name not in hosts and not is_local(name):
        raise _foreign(f"host = {show(host)}: is neither this machine nor in SIROCCO_ALLOWED_HOSTS")
    origin = headers.get(b"origin", host.encode()).decode("latin-1").lower()
    changes = scope["method"] not in _READS and scope["path"].startswith(ADMIN_PATH)
    if changes and origin.rpartition("://")[2] != host:
        raise _foreign(f"origin = {show(origin)}: only pages of this service may ask for changes")


def _foreign(detail: str) -> Problem:
    return Problem(HTTPStatus.FORBIDDEN, "foreign-request", detail)


class Requester(NamedTuple):
    """Who asks for a change, the ids of the request, and where changes are recorded."""

    caller: Caller
    request_id: str
    trace_id: str
    audit: AuditLog

    async def changes(self, what: str, change: Callable[[], Result], **about: Any) -> Result:
        """Make the change in a thread, once it is recorded with `target`, `before` and `after`."""
        about |= {"trace_id": self.trace_id}

        def work() -> Result:
            with self.audit.change(self.caller.id, self.request_id, what, **about):
                _log.info("%s of %s by %s", what, about.get("target"), self.caller.id)
                return change()

        return await run_in_threadpool(work)


async def _requester(request: Request) -> Requester:
    parent = parent_of(request.scope)
    trace_id = parent.trace_id if parent else ""
    audit = request.app.state.resources.audit
    return Requester(caller_of(request.scope), request.scope[_REQUEST_ID], trace_id, audit)


By = Annotated[Requester, Depends(_requester)]


def with_access(document: dict[str, Any]) -> dict[str, Any]:
    """The same document, which says that each route but health needs a key, with which scope."""
    components = document.setdefault("components", {})
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            needed = scope_of(path, method.upper())
            if needed is not None:
                operation["security"] = [{"key": [needed.value]}]
    return document
