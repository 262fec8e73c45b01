"""What a binary body is refused for beyond its rules: its version, or the list of its ids."""

from http import HTTPStatus

from app.api.problems import Problem
from app.columns.campaign_ids import CampaignIds, UnknownDictionary
from app.columns.header import VERSIONS, UnknownColumnsVersion


def unsupported_version(error: UnknownColumnsVersion) -> Problem:
    """Another version of the layout will do."""
    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    return Problem(status, "unsupported-columns-version", str(error), versions=VERSIONS)


def unknown_dictionary(error: UnknownDictionary, ids: CampaignIds) -> Problem:
    """Names will do, and so will the list in force."""
    in_force = f"{ids.dictionary:016x}"
    return Problem(HTTPStatus.CONFLICT, "unknown-dictionary", str(error), dictionary=in_force)
