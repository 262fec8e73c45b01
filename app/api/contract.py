"""The OpenAPI document: what the framework knows of paths and parameters, and from here what each
route answers, with every type of problem that it can send.
"""

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from app.access.audit import AuditEntry
from app.access.keys import Scope
from app.api.authorization import WHOLE, scope_of
from app.api.bins import BinsLoaded
from app.api.cockpit.analysis import ExperimentAnswer
from app.api.cockpit.experiments import ExperimentChanged, ExperimentList
from app.api.cockpit.fields import FieldList
from app.api.cockpit.page import ServiceStatus
from app.api.cockpit.reliability import Reliability
from app.api.cockpit.versions import Frozen, Number, RolledBack, VersionDifference, VersionList
from app.api.problems import MEDIA_TYPE, NAMESPACE
from app.columns.layout import MEDIA_TYPE as COLUMNS
from app.events.rejections import MOST_SHOWN
from app.events.schema import Arm, Score

_JSON: Final = "application/json"
_REFERENCE: Final = "#/components/schemas/{name}"

Amount = Annotated[float, Meta(ge=0)]
Effect = Annotated[float, Meta(description="Of a field, in log-odds.")]
Level = Literal["campaign", "group", "target", "identity"]
Numbers = dict[str, Any]
_Served = Literal["campaign", "group", "target", "identity", "raw"]


class Calibration(Struct):
    """In the order of the scores; with `?explain=true` `levels`, and where maps have effects of
    fields `effects` in log-odds by term; `arms` where units were given; of a product by factor.
    Columns that JSON answers have `quantiles` by level."""

    probabilities: list[Score]
    version: str
    levels: list[_Served | dict[str, _Served]] | UnsetType = UNSET
    arms: list[Arm | dict[str, Arm]] | UnsetType = UNSET
    expected_values: list[Amount | None] | UnsetType = UNSET
    effects: list[dict[str, Effect | dict[str, Effect]]] | UnsetType = UNSET
    model_versions: list[str | None] | UnsetType = UNSET
    lower: list[Score] | UnsetType = UNSET
    upper: list[Score] | UnsetType = UNSET
    quantiles: list[Score | list[Score]] | UnsetType = UNSET


class Rejected(Struct):
    """An event that is not stored, by its place in the request."""

    index: Number
    error: str


class Stored(Struct):
    """What became of the events; the first of the rejected are named, all are counted."""

    accepted: Number
    duplicates: Number
    rejected: Annotated[list[Rejected], Meta(max_length=MOST_SHOWN)]
    rejected_total: Number
    rejected_by_reason: dict[str, Number]


class CampaignPcoc(Struct):
    """How far a campaign is off, and whether beyond chance."""

    predicted: Amount
    positives: Amount
    value: Amount | None
    lower: Amount
    upper: Amount | None
    evidence: float
    direction: Literal["over", "under"]
    off: bool


class ListedCampaign(Struct):
    """A campaign with a map of its own, or, by evidence, any; a report if it is among the
    largest."""

    campaign: str
    calibrator: str | None
    report: Numbers | None
    pcoc: CampaignPcoc | UnsetType = UNSET


class CampaignPage(Struct):
    """How the maps of a target were made, and a page of its campaigns."""

    target: str
    version: str
    calibrator: str | None
    overridden: dict[str, Number] | None
    guard: Numbers | None
    method: Numbers | None
    held: dict[str, str]
    total: Number
    campaigns: list[ListedCampaign]
    next: str | None
    bound: float | UnsetType | None = UNSET


class Served(Struct):
    """What serves a campaign for one target."""

    level: Level
    knots: Number
    calibrator: str | None
    frozen: bool | None
    report: Numbers | None


class Campaign(Struct):
    """What serves a campaign, by target."""

    campaign: str
    version: str
    targets: dict[str, Served]


class Map(Struct):
    """Knots and values, linear in between."""

    target: str
    campaign: str
    version: str
    as_of: float | None
    level: Level
    calibrator: str | None
    schema_version: int
    knots: list[Score]
    values: list[Score]


class ProductList(Struct):
    """Products of targets by name."""

    version: str
    products: dict[str, Numbers]


class InternedIds(Struct):
    """Id i + 1 stands for campaigns[i]."""

    target: str
    version: str
    dictionary: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    campaigns: list[str]


class QueuedJob(Struct):
    """A job; times are epoch seconds."""

    id: str
    kind: str
    request: dict[str, Any]
    status: Literal["queued", "running", "done", "failed", "cancelled"]
    created_at: float
    started_at: float | None
    finished_at: float | None
    result: dict[str, Any] | None
    error: str | None
    progress: str | None
    fraction: float | None
    cancel_requested_at: float | None


class JobList(Struct):
    """The last jobs, newest first."""

    jobs: list[QueuedJob]


class ListedOverride(Struct):
    """A campaign with a calibrator of its own."""

    campaign: str
    calibrator: str


class OverridePage(Struct):
    """A page of them, of one target; `targets` counts those of all."""

    target: str
    total: Number
    targets: dict[str, Number]
    overrides: list[ListedOverride]
    next: str | None


class NextRefit(Struct):
    """What the campaign's next refit will use, and when that is."""

    target: str
    campaign: str
    calibrator: str | None
    next_refit_at: float | None
    job: QueuedJob | UnsetType = UNSET


class ListedKey(Struct):
    """An API key without its secret; times are epoch seconds."""

    id: str
    name: str
    scopes: list[Scope]
    campaigns: list[str]
    rate_limit: int | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    replaces: str | None
    standing: Literal["valid", "expired", "revoked"]


class KeyList(Struct):
    """All API keys, oldest first."""

    keys: list[ListedKey]


class NewKey(Struct):
    """A key and its token, which nobody keeps."""

    key: ListedKey
    token: str


class AuditPage(Struct):
    """Changes by admins, newest first."""

    entries: list[AuditEntry]
    next: int | None


class AuditChecked(Struct):
    """How many entries are as they were written, and the first that is not."""

    entries: Number
    wrong: str | None


class Alive(Struct):
    """The process answers."""

    status: Literal["alive"]


class Readiness(Struct):
    """Whether the process should get traffic, and what is amiss."""

    status: Literal["ready", "degraded", "starting", "not-ready", "draining"]
    version: str
    reason: str | UnsetType = UNSET
    reasons: list[str] | UnsetType = UNSET


Problems = dict[int, tuple[str, ...]]
"""Types of problems by their status."""

_ALWAYS: Final[Problems] = {
    400: ("malformed-request",),
    408: ("request-timeout",),
    431: ("head-too-large",),
    500: ("internal-error",),
    503: ("too-many-connections", "draining"),
}
_SHED: Final[Problems] = {503: ("overloaded",)}
_BODY: Final[Problems] = {
    400: ("malformed-json", "bad-gzip", "body-cut-short"),
    413: ("body-too-large",),
    415: ("unsupported-media-type", "unsupported-encoding"),
}
_IN_COLUMNS: Final[Problems] = {409: ("unknown-dictionary",), 415: ("unsupported-columns-version",)}
_BROKEN: Final[Problems] = {422: ("broken-rule",)}
_STORE: Final[Problems] = {503: ("store-unavailable",)}
_JOB: Final[Problems] = {429: ("queue-full",)}
_UNKNOWN: Final[Problems] = {404: ("not-found",)}
_EVENTS: Final[Problems] = {
    409: ("idempotency-conflict",),
    413: ("too-many-events",),
    422: ("broken-events",),
}
_KEY: Final[Problems] = {
    401: ("no-valid-key",),
    403: ("missing-scope", "foreign-request"),
    429: ("rate-limited",),
}
_CHANGE: Final[Problems] = {503: ("audit-unwritable",)}
_CONFLICT: Final[Problems] = {409: ("key-conflict",)}
_DAMAGED: Final[Problems] = {409: ("damaged-version",)}
_OVERTAKEN: Final[Problems] = {409: ("no-version", "version-changed")}
_OF_VERSIONS: Final = (_UNKNOWN, _DAMAGED, _OVERTAKEN)
_UNREADY: Final[Problems] = {409: ("challenger-not-ready",)}
_CROWDED: Final[Problems] = {409: ("too-many-overrides",)}
_FROZEN: Final[Problems] = {409: ("too-many-frozen",)}
_LOADED: Final[Problems] = {409: ("bins-conflict", "too-many-loads")}
_NOT_GOOD: Final[Problems] = {409: ("no-last-good",)}

_BYTES: Final = {"type": "string", "format": "binary"}
_TEXT: Final = {
    media_type: {"schema": {"type": "string"}}
    for media_type in ("text/plain", "application/openmetrics-text")
}
_ATLAS: Final = {"application/vnd.sirocco.atlas": {"schema": _BYTES}}

ANSWERS: Final[dict[tuple[str, str], tuple[int, Any, tuple[Problems, ...]]]] = {
    ("post", "/v1/calibrate"): (200, Calibration, (_UNKNOWN, _IN_COLUMNS)),
    ("post", "/v1/events"): (200, Stored, (_UNKNOWN, _IN_COLUMNS, _EVENTS, _STORE)),
    ("get", "/v1/campaigns"): (200, CampaignPage, (_UNKNOWN, _STORE)),
    ("get", "/v1/campaigns/{campaign}"): (200, Campaign, ()),
    ("get", "/v1/maps/{target}/{campaign}"): (200, Map, ()),
    ("get", "/v1/atlas/{target}"): (200, _ATLAS, ()),
    ("get", "/v1/atlas/{target}/ids"): (200, InternedIds, ()),
    ("get", "/v1/products"): (200, ProductList, ()),
    ("get", "/v1/fields"): (200, FieldList, ()),
    ("post", "/v1/admin/retrain"): (202, QueuedJob, (_JOB,)),
    ("post", "/v1/admin/pccem/train"): (202, QueuedJob, (_JOB,)),
    ("post", "/v1/admin/bins"): (200, BinsLoaded, (_UNKNOWN, _LOADED)),
    ("get", "/v1/admin/jobs"): (200, JobList, ()),
    ("get", "/v1/admin/jobs/{job_id}"): (200, QueuedJob, ()),
    ("post", "/v1/admin/jobs/{job_id}/cancel"): (200, QueuedJob, ()),
    ("get", "/v1/admin/versions"): (200, VersionList, ()),
    ("get", "/v1/admin/versions/{version}/diff"): (200, VersionDifference, (_DAMAGED,)),
    ("post", "/v1/admin/rollback"): (200, RolledBack, (*_OF_VERSIONS, _FROZEN, _NOT_GOOD)),
    ("post", "/v1/admin/freeze"): (200, Frozen, (_UNKNOWN, _FROZEN)),
    ("post", "/v1/admin/unfreeze"): (200, Frozen, (_UNKNOWN,)),
    ("post", "/v1/admin/versions/{version}/approve"): (202, QueuedJob, (_JOB,)),
    ("post", "/v1/admin/versions/{version}/reject"): (202, QueuedJob, (_JOB,)),
    ("get", "/v1/experiments"): (200, ExperimentList, ()),
    ("get", "/v1/experiments/{target}/analysis"): (200, ExperimentAnswer, (_STORE,)),
    ("post", "/v1/admin/experiments"): (200, ExperimentChanged, _OF_VERSIONS),
    ("post", "/v1/admin/experiments/stop"): (200, ExperimentChanged, _OF_VERSIONS),
    ("post", "/v1/admin/experiments/promote"): (200, ExperimentChanged, (*_OF_VERSIONS, _UNREADY)),
    ("get", "/v1/admin/overrides"): (200, OverridePage, (_UNKNOWN,)),
    ("put", "/v1/admin/overrides/{target}/{campaign}"): (200, NextRefit, (_CROWDED, _JOB)),
    ("delete", "/v1/admin/overrides/{target}/{campaign}"): (200, NextRefit, (_JOB,)),
    ("get", "/v1/admin/keys"): (200, KeyList, ()),
    ("post", "/v1/admin/keys"): (201, NewKey, (_CONFLICT,)),
    ("post", "/v1/admin/keys/{key_id}/rotate"): (201, NewKey, (_CONFLICT,)),
    ("post", "/v1/admin/keys/{key_id}/expire"): (200, ListedKey, (_CONFLICT,)),
    ("post", "/v1/admin/keys/{key_id}/revoke"): (200, ListedKey, (_CONFLICT,)),
    ("get", "/v1/admin/audit"): (200, AuditPage, ()),
    ("get", "/v1/admin/audit/verify"): (200, AuditChecked, ()),
    ("get", "/v1/status"): (200, ServiceStatus, (_UNKNOWN,)),
    ("get", "/v1/reliability/{target}/{campaign}"): (200, Reliability, (_STORE,)),
    ("get", "/healthz"): (200, Alive, ()),
    ("get", "/readyz"): (200, Readiness, ()),
    ("get", "/metrics"): (200, _TEXT, ()),
}
"""Of each route the status of success, a type or the content by media type, and its problems, but
for those of all that are for admins or of all campaigns, have a body or a name in their path, or
are shed."""


def with_answers(document: dict[str, Any]) -> dict[str, Any]:
    """The same document, which says what each route answers, too."""
    kinds = {kind for _, kind, _ in ANSWERS.values() if not isinstance(kind, dict)}
    ordered = sorted(kinds, key=lambda kind: str(kind.__name__))
    schemas, components = msgspec.json.schema_components(ordered, ref_template=_REFERENCE)
    document["components"] = {"schemas": {**components, "Problem": PROBLEM}}
    by_kind = dict(zip(ordered, schemas, strict=True))
    for method, path, operation in declared(document):
        if (method, path) in ANSWERS:
            _declare(method, path, operation, by_kind)
    return document


def _declare(method: str, path: str, operation: dict[str, Any], schemas: dict[Any, Any]) -> None:
    status, kind, problems = ANSWERS[method, path]
    content = kind if isinstance(kind, dict) else {_JSON: {"schema": schemas[kind]}}
    content |= {COLUMNS: {}} if kind is Calibration else {}
    former = operation["responses"].get(str(status), {})
    answers = {str(status): {"description": former.get("description", ""), "content": content}}
    if "304" in operation["responses"]:
        answers["304"] = operation["responses"]["304"]
    is_admin = path.startswith("/v1/admin/")
    of_route = (
        (True, _ALWAYS),
        (scope_of(path) is not None, _KEY),
        (path.startswith("/v1/"), _BROKEN),
        ("{" in path or path.startswith(WHOLE), _UNKNOWN),
        ("requestBody" in operation, _BODY),
        *((True, own) for own in problems),
        (is_admin, _STORE),
        (is_admin and method != "get", _CHANGE),
        (path.startswith("/v1/"), _SHED),
    )
    for code, slugs in sorted(_merged(each for applies, each in of_route if applies).items()):
        answers[str(code)] = _problem(code, slugs)
    if kind is Readiness:
        answers["503"]["content"] |= content
    operation["responses"] = answers


def _merged(tables: Iterable[Problems]) -> Problems:
    found: Problems = {}
    for table in tables:
        for code, slugs in table.items():
            found[code] = (*found.get(code, ()), *slugs)
    return found


PROBLEM: Final = {
    "title": "Problem",
    "description": "An error (RFC 9457); `type` is stable, further members say what is wrong.",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail")},
        **{name: {"type": "string"} for name in ("field", "rule", "scope", "dictionary")},
        **{name: {"type": "integer"} for name in ("status", "limit", "rejected_total")},
        "value": {"type": ["string", "null"]},
        "versions": {"type": "array", "items": {"type": "integer"}},
        "rejected": {"type": "array", "items": {"$ref": _REFERENCE.format(name="Rejected")}},
        "rejected_by_reason": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}


def _problem(code: int, slugs: tuple[str, ...]) -> dict[str, Any]:
    types = {"enum": [NAMESPACE + slug for slug in slugs]}
    own = {"properties": {"type": types, "status": {"const": code}}}
    schema = {"allOf": [{"$ref": _REFERENCE.format(name="Problem")}, own]}
    text = f"{HTTPStatus(code).phrase}: {', '.join(slugs)}"
    return {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}}


def declared(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and operation of everything in the document."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield method, path, operation
