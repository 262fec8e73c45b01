"""The body of a calibrate request in JSON, and what an error says of each of its fields."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, Struct, UnsetType

from app.api.scoring.products import PRODUCT_RULES, Value
from app.events.schema import Score

Level = Annotated[float, Meta(gt=0.0, lt=1.0)]
"""A probability of the true probability."""


class Row(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """One score of one campaign."""

    target: str
    campaign: str
    score: Score | UnsetType = UNSET
    scores: Annotated[dict[str, Score], Meta(description="Of a product.")] | UnsetType = UNSET
    value: Value | UnsetType = UNSET
    unit: str | UnsetType = UNSET
    fields: dict[str, str] | UnsetType = UNSET


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
    interval: Annotated[Level, Meta(description="Adds `lower` and `upper`.")] | UnsetType = UNSET
    quantile: Annotated[Level, Meta(description="Adds `quantiles`.")] | UnsetType = UNSET
    rows: Annotated[list[Row], Meta(description="Instead of columns.")] | UnsetType = UNSET


RULES: Final = {
    "target": "must be a string",
    "campaigns": "must be an array of strings",
    "campaigns[]": "must be a string",
    "campaign": "must be a string",
    "scores": "must be an array of numbers in [0, 1]",
    "scores[]": "must be a number in [0, 1]",
    **PRODUCT_RULES,
    "score": "must be a number in [0, 1]",
    "units": "must be an array of strings",
    "units[]": "must be a string",
    "unit": "must be a string",
    "fields": "must be an object of declared fields",
    "fields{}": "must be a string, in columns an array of such",
    "fields{}[]": "must be a string",
    "interval": "must be a number above 0 and below 1",
    "quantile": "must be a number above 0 and below 1",
    "rows": "must be an array of objects with target, campaign and score",
    "rows[]": "must be an object with target, campaign and score",
}
