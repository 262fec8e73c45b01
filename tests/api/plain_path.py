"""`POST /v1/calibrate` in plain Python, one value after the other: what the hot path must equal."""

from collections.abc import Iterator, Mapping

from msgspec import UNSET

from app.api.scoring.calibrate import RULES, CalibrateRequest
from app.settings import Settings
from app.strict_json import MalformedJson, ValidationError, convert, loads
from calibrators import Atlas

Asked = tuple[str, str, str, str, float]
"""A score with its target and campaign, behind the names of the fields that gave these two."""


def plain_answer(
    body: bytes, atlases: Mapping[str, Atlas], settings: Settings
) -> list[float] | set[str]:
    """The probabilities; or the fields that break a rule, `body` for one that is no JSON."""
    try:
        request = convert(loads(body), CalibrateRequest, RULES)
    except MalformedJson:
        return {"body"}
    except ValidationError as error:
        return {error.field}
    given = {name for name in request.__struct_fields__ if getattr(request, name) is not UNSET}
    faults = set(_faults_of_shape(given))
    asked = [] if faults else list(_asked(request, given))
    faults |= {"rows" if "rows" in given else "scores"} if not asked else set()
    if {"campaigns", "scores"} <= given and len(request.campaigns) != len(request.scores):
        faults.add("campaigns")
    if "target" in given and request.target not in atlases:
        faults.add("target")
    for target_field, campaign_field, target, campaign, _ in asked:
        if target not in atlases:
            faults.add(target_field)
        if not 1 <= len(campaign.encode()) <= settings.max_campaign_bytes:
            faults.add(campaign_field)
    return faults or [atlases[t].map_of(campaign).at(score) for _, _, t, campaign, score in asked]


def _faults_of_shape(given: set[str]) -> Iterator[str]:
    if "rows" in given:
        yield from given - {"rows"}
        return
    yield from {"target", "scores"} - given
    if {"campaign", "campaigns"} <= given:
        yield "campaign"
    if not {"campaign", "campaigns"} & given:
        yield "campaigns"


def _asked(request: CalibrateRequest, given: set[str]) -> Iterator[Asked]:
    if "rows" in given:
        for place, row in enumerate(request.rows):
            fields = (f"rows[{place}].target", f"rows[{place}].campaign")
            yield (*fields, row.target, row.campaign, row.score)
    elif "campaign" in given:
        for score in request.scores:
            yield "target", "campaign", request.target, request.campaign, score
    else:
        pairs = zip(request.campaigns, request.scores, strict=False)
        for place, (campaign, score) in enumerate(pairs):
            yield "target", f"campaigns[{place}]", request.target, campaign, score
