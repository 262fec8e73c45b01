"""What `POST /v1/calibrate` is asked: columns, one campaign with many scores, or rows."""

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from app.events.campaign_names import are_campaigns, check_campaign
from app.events.schema import Score
from app.settings import Settings
from app.strict_json import BrokenRule, Rule, decode


class Row(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """One score of one campaign."""

    target: str
    campaign: str
    score: Score


class CalibrateRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Columns (`target`, `scores` and `campaigns` or one `campaign`), or `rows`."""

    target: Annotated[str, Meta(description="The target of all scores.")] | UnsetType = UNSET
    campaigns: Annotated[list[str], Meta(description="One per score.")] | UnsetType = UNSET
    campaign: Annotated[str, Meta(description="The one of all scores.")] | UnsetType = UNSET
    scores: Annotated[list[Score], Meta(description="What the model said.")] | UnsetType = UNSET
    rows: Annotated[list[Row], Meta(description="Instead of columns.")] | UnsetType = UNSET


RULES: Final = {
    "target": Rule("must be a string"),
    "campaigns": Rule("must be an array of strings"),
    "campaigns[]": Rule("must be a string"),
    "campaign": Rule("must be a string"),
    "scores": Rule("must be an array of numbers in [0, 1]"),
    "scores[]": Rule("must be a number in [0, 1]"),
    "score": Rule("must be a number in [0, 1]"),
    "rows": Rule("must be an array of objects with target, campaign and score"),
    "rows[]": Rule("must be an object with target, campaign and score"),
}
_DECODER: Final = msgspec.json.Decoder(CalibrateRequest)


class Question(NamedTuple):
    """Scores of one target; `campaigns` has a name for each, or one for all of them."""

    target: str
    campaigns: Sequence[str]
    scores: Sequence[float]
    places: Sequence[int] = ()
    """Where each answer belongs in the request, if that has rows of several targets."""


def read_questions(body: bytes, settings: Settings) -> list[Question]:
    """One question per target of the request; MalformedJson or BrokenRule for a bad one."""
    request = decode(body, _DECODER, RULES)
    if request.rows is not UNSET:
        return _questions_of_rows(request, request.rows, settings)
    if request.target is UNSET:
        raise BrokenRule("target", "is required")
    if request.scores is UNSET:
        raise BrokenRule("scores", "is required, unless there are rows")
    campaigns = _campaigns_of(request, len(request.scores))
    _check_target("target", request.target, settings)
    _check_length("scores", len(request.scores), settings)
    _check_campaigns(request, campaigns, settings)
    return [Question(request.target, campaigns, request.scores)]


def _campaigns_of(request: CalibrateRequest, scores: int) -> list[str]:
    if request.campaign is not UNSET and request.campaigns is not UNSET:
        raise BrokenRule("campaign", "stands beside campaigns; give one of the two")
    if request.campaign is not UNSET:
        return [request.campaign]
    if request.campaigns is UNSET:
        raise BrokenRule("campaigns", "is required: one per score, or one campaign for all")
    if len(request.campaigns) != scores:
        found = f"has {len(request.campaigns)} items beside {scores} scores"
        raise BrokenRule("campaigns", f"{found}; the columns must be equally long")
    return request.campaigns


def _questions_of_rows(
    request: CalibrateRequest, rows: list[Row], settings: Settings
) -> list[Question]:
    for column in ("target", "campaign", "campaigns", "scores"):
        if getattr(request, column) is not UNSET:
            raise BrokenRule(column, "stands beside rows; each row has its own")
    _check_length("rows", len(rows), settings)
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row.target, []).append(place)
        _check_campaign(f"rows[{place}].campaign", row.campaign, settings)
    return [_question_of_rows(target, found, rows, settings) for target, found in places.items()]


def _question_of_rows(
    target: str, places: list[int], rows: list[Row], settings: Settings
) -> Question:
    _check_target(f"rows[{places[0]}].target", target, settings)
    chosen = [rows[place] for place in places]
    return Question(target, [row.campaign for row in chosen], [row.score for row in chosen], places)


def _check_length(field: str, length: int, settings: Settings) -> None:
    if not 1 <= length <= settings.max_scores:
        raise BrokenRule(field, f"has {length} items; must have 1 to {settings.max_scores}")


def _check_target(field: str, target: str, settings: Settings) -> None:
    if target not in settings.known_targets:
        known = ", ".join(settings.known_targets)
        raise BrokenRule(field, f"unknown target; known are {known}", target)


def _check_campaigns(
    request: CalibrateRequest, campaigns: Sequence[str], settings: Settings
) -> None:
    if are_campaigns(campaigns, settings.max_campaign_bytes):
        return
    for place, campaign in enumerate(campaigns):
        field = "campaign" if request.campaigns is UNSET else f"campaigns[{place}]"
        _check_campaign(field, campaign, settings)


def _check_campaign(field: str, campaign: str, settings: Settings) -> None:
    check_campaign(field, campaign, settings.max_campaign_bytes)
