"""`POST /v1/calibrate` in binary columns."""

from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from app.api.answer import JSON_TYPE, Answer
from app.api.body import JSON
from app.api.calibrated import Calibrated
from app.api.columns_problems import unknown_dictionary, unsupported_version
from app.api.map_age import age_headers
from app.api.resources import Resources
from app.api.snapshot import Snapshot
from app.columns.campaign_ids import UnknownDictionary
from app.columns.header import (
    FLOAT32,
    INTERNED,
    LEVELS,
    MEDIA_TYPE,
    ONE_CAMPAIGN,
    UnknownColumnsVersion,
)
from app.columns.probabilities import LEVEL_NUMBERS, pack_probabilities
from app.columns.scores_request import ScoresRequest, read_scores
from app.events.campaign_names import are_campaigns, check_campaign
from app.settings import Settings
from app.strict_json import BrokenRule
from calibrators import FEW, Atlas
from calibrators.atlas import CAMPAIGN

VERSION_HEADER: Final = b"sirocco-version"

_COLUMNS_TYPE: Final = (b"content-type", MEDIA_TYPE.encode())


def respond(
    body: bytes, accept: bytes | None, resources: Resources
) -> tuple[Answer, list[Calibrated]]:
    """The answer to a request in columns, and what was looked up for it.

    It is in columns too, unless the `Accept` header names JSON and not columns. Raises Problem or
    BrokenRule for a bad request.
    """
    snapshot = resources.refresher.current
    asked = _read(body, resources.settings, snapshot)
    part = _calibrated(asked, snapshot)
    pack = _json if accept is not None and _wants_json(accept) else _columns
    return pack(asked, part, snapshot), [part]


def _read(body: bytes, settings: Settings, snapshot: Snapshot) -> ScoresRequest:
    try:
        asked = read_scores(body, settings.max_scores)
    except UnknownColumnsVersion as error:
        raise unsupported_version(error) from None
    if asked.target not in snapshot.atlases:
        known = ", ".join(settings.known_targets)
        raise BrokenRule("target", f"unknown target; known are {known}", asked.target)
    if asked.names:
        _check_names(asked, settings.max_campaign_bytes)
    return asked


def _check_names(asked: ScoresRequest, longest: int) -> None:
    if are_campaigns(asked.names, longest):
        return
    one = asked.header.flags & ONE_CAMPAIGN
    for place, number in enumerate(asked.numbers.tolist()):
        check_campaign("campaign" if one else f"campaigns[{place}]", asked.names[number], longest)


def _calibrated(asked: ScoresRequest, snapshot: Snapshot) -> Calibrated:
    try:
        return _looked_up(asked, snapshot)
    except IndexError:
        # The look-up meets an id beyond the list anyway; only then is it sought for the words.
        snapshot.ids[asked.target].check(asked.header.dictionary, asked.numbers)
        raise


def _looked_up(asked: ScoresRequest, snapshot: Snapshot) -> Calibrated:
    atlas = snapshot.atlases[asked.target]
    rows = _rows(asked, atlas, snapshot)
    number = len(asked.scores)
    if number <= FEW:
        few = rows.tolist() * (number if len(rows) < number else 1)
        return Calibrated(asked.target, atlas.look_up_few(few, asked.scores.tolist()), atlas, few)
    if len(rows) < number:
        rows = np.repeat(rows, number)
    probabilities = atlas.look_up(rows, asked.scores)
    return Calibrated(asked.target, probabilities, atlas, rows)


def _rows(asked: ScoresRequest, atlas: Atlas, snapshot: Snapshot) -> NDArray[np.int64]:
    if not asked.header.flags & INTERNED:
        return atlas.rows(asked.names)[asked.numbers]
    ids = snapshot.ids[asked.target]
    try:
        return ids.rows(asked.header.dictionary, asked.numbers)
    except UnknownDictionary as error:
        raise unknown_dictionary(error, ids) from None


def _columns(asked: ScoresRequest, part: Calibrated, snapshot: Snapshot) -> Answer:
    flags = asked.header.flags
    body = pack_probabilities(
        part.probabilities,
        snapshot.ids[asked.target].dictionary,
        float32=bool(flags & FLOAT32),
        levels=_level_numbers(part) if flags & LEVELS else None,
    )
    version = (VERSION_HEADER, snapshot.version.encode())
    return Answer(200, [_COLUMNS_TYPE, version, *age_headers(snapshot)], body)


def _level_numbers(part: Calibrated) -> NDArray[np.uint8]:
    """The level behind each row; no campaign has an empty name, so its level is that of row 0."""
    shared = LEVEL_NUMBERS[part.atlas.level("")]
    return np.where(np.asarray(part.rows), LEVEL_NUMBERS[CAMPAIGN], shared).astype(np.uint8)


def _json(asked: ScoresRequest, part: Calibrated, snapshot: Snapshot) -> Answer:
    content: dict[str, Any] = {
        "probabilities": part.probabilities,
        "version": snapshot.version,
    }
    if asked.header.flags & LEVELS:
        content["levels"] = part.levels
    packed = orjson.dumps(content, None, orjson.OPT_SERIALIZE_NUMPY)
    return Answer(200, [JSON_TYPE, *age_headers(snapshot)], packed)


def _wants_json(accept: bytes) -> bool:
    named = {kind.partition(";")[0].strip() for kind in accept.decode("latin-1").lower().split(",")}
    return JSON in named and MEDIA_TYPE not in named
