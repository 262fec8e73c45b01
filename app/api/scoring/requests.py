"""A calibrate request: its body in JSON, what an error says of each of its fields, and its head."""

from math import inf
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import force_setattr
from starlette.types import Scope

from app.api.hot_path import JSON, asks_to_explain, check_head, media_type
from app.api.resources import Resources
from app.columns.layout import MEDIA_TYPE as COLUMNS
from app.events.schema import Score
from app.settings import Settings
from app.storage.blocks import LARGEST_WEIGHT
from app.strict_json import decode
from calibrators.fields.columns import LONGEST_VALUE
from calibrators.names import JsonTexts, compiled

Level = Annotated[float, Meta(gt=0.0, lt=1.0)]
"""A probability of the true probability."""
Value = Annotated[
    float, Meta(ge=0, le=LARGEST_WEIGHT, description="Of a product: what a success is worth.")
]


class Row(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """One score of one campaign."""

    target: str
    campaign: str
    score: Score | UnsetType = UNSET
    scores: Annotated[dict[str, Score], Meta(description="Of a product.")] | UnsetType = UNSET
    value: Value | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    fields: dict[str, str] | UnsetType = UNSET
    model_version: str | UnsetType = UNSET


class CalibrateRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Columns (`target`, `scores` and `campaigns` or one `campaign`), or `rows`; of a product the
    scores of each factor."""

    target: Annotated[str, Meta(description="The target of all scores.")] | UnsetType = UNSET
    campaigns: Annotated[list[str], Meta(description="One per score.")] | UnsetType = UNSET
    campaign: Annotated[str, Meta(description="The one of all scores.")] | UnsetType = UNSET
    scores: (
        Annotated[list[Score], Meta(description="What the model said.")]
        | Annotated[dict[str, list[Score]], Meta(description="The same by factor of a product.")]
        | UnsetType
    ) = UNSET
    values: Annotated[list[Value], Meta(description="Of a product, one each.")] | UnsetType = UNSET
    units: Annotated[list[str], Meta(description="One per score.")] | UnsetType = UNSET
    unit: Annotated[str, Meta(description="The one of all scores.")] | UnsetType = UNSET
    fields: (
        Annotated[
            dict[str, str | list[str]],
            Meta(description="By declared field the value of each score, or the one of all."),
        ]
        | UnsetType
    ) = UNSET
    model_version: Annotated[str, Meta(description="Of all scores.")] | UnsetType = UNSET
    interval: Annotated[Level, Meta(description="Adds `lower` and `upper`.")] | UnsetType = UNSET
    quantile: Annotated[Level, Meta(description="Adds `quantiles`.")] | UnsetType = UNSET
    rows: Annotated[list[Row], Meta(description="Instead of columns.")] | UnsetType = UNSET

    @property
    def names_versions(self) -> bool:
        """Whether it says of any score which version of the model made it."""
        rows = () if self.rows is UNSET else self.rows
        return any(one.model_version is not UNSET for one in (self, *rows))


class UnreadTexts(CalibrateRequest, forbid_unknown_fields=True, frozen=True):
    """The same, but its columns of texts are left in JSON."""

    campaigns: Raw | UnsetType = UNSET  # type: ignore[assignment]
    fields: dict[str, Raw] | UnsetType = UNSET  # type: ignore[assignment]


_VALUE_RULE: Final = f"must be a number from 0 to {LARGEST_WEIGHT:.0f}"
RULES: Final = {
    "target": "must be a string",
    "campaigns": "must be an array of strings",
    "campaigns[]": "must be a string",
    "campaign": "must be a string",
    "scores": "must be an array of numbers in [0, 1]",
    "scores[]": "must be a number in [0, 1]",
    "scores{}": "must be a number in [0, 1], in columns an array of such",
    "scores{}[]": "must be a number in [0, 1]",
    "values": "must be an array of numbers",
    "values[]": _VALUE_RULE,
    "value": _VALUE_RULE,
    "score": "must be a number in [0, 1]",
    "units": "must be an array of strings",
    "units[]": "must be a string",
    "unit": "must be a string",
    "fields": "must be an object of declared fields",
    "fields{}": "must be a string, in columns an array of such",
    "fields{}[]": "must be a string",
    "model_version": "must be a string",
    "interval": "must be a number above 0 and below 1",
    "quantile": "must be a number above 0 and below 1",
    "rows": "must be an array of objects with target, campaign and score",
    "rows[]": "must be an object with target, campaign and score",
}

DECODER: Final = msgspec.json.Decoder(CalibrateRequest)
_UNREAD: Final = msgspec.json.Decoder(UnreadTexts)
_COLUMN: Final = msgspec.json.Decoder(str | list[str])
_CAMPAIGNS: Final = msgspec.json.Decoder(list[str])
_LONG: Final = 1024 if compiled else inf
"""Bytes from which on columns of texts are worth leaving in JSON."""


def read_request(body: bytes, settings: Settings, most_slowly: float) -> CalibrateRequest:
    """The request; the columns of texts of a long one are left in JSON where they may."""
    if len(body) < _LONG:
        return decode(body, DECODER, RULES, most_slowly)
    try:
        request = _UNREAD.decode(body)
        if request.campaigns is not UNSET:
            left = JsonTexts.of(request.campaigns, settings.max_campaign_bytes)
            names = _CAMPAIGNS.decode(request.campaigns) if left is None else left
            force_setattr(request, "campaigns", names)
        fields: dict[str, Any] = {} if request.fields is UNSET else request.fields
        # With pairs it is faster to remember the products of texts.
        longest = 0 if settings.field_pairs else LONGEST_VALUE
        for name, raw in fields.items():
            texts = JsonTexts.of(raw, longest)
            fields[name] = _COLUMN.decode(raw) if texts is None else texts
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(body, DECODER, RULES, most_slowly)
    return request


TYPES: Final = (JSON, COLUMNS)


class RequestHead(NamedTuple):
    """What the head of a request says."""

    explain: bool
    in_columns: bool
    accept: bytes | None
    is_packed: bool


def read_head(scope: Scope, resources: Resources) -> RequestHead:
    """Raises ValidationError, and Problem as `check_head`."""
    explain, headers = asks_to_explain(scope["query_string"]), dict(scope["headers"])
    is_packed = check_head(headers, resources.settings.max_body_bytes, TYPES)
    in_columns = media_type(headers.get(b"content-type", b"")) == COLUMNS
    return RequestHead(explain, in_columns, headers.get(b"accept"), is_packed)


def read_prompt(scope: Scope, resources: Resources) -> RequestHead | None:
    """The same; None of a body that is to be unpacked, which takes time."""
    head = read_head(scope, resources)
    return None if head.is_packed else head
