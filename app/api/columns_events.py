"""`POST /v1/events` in binary columns."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.api.admission_times import open_times
from app.api.columns_problems import unknown_dictionary, unsupported_version
from app.api.rejections import refuse_if_all_are_broken, too_many_events
from app.api.resources import Resources
from app.columns.campaign_ids import UnknownDictionary
from app.columns.event_admission import EventAdmission
from app.columns.events_request import EventsRequest, TooManyRows, read_events
from app.columns.header import INTERNED, UnknownColumnsVersion
from app.events.admission import Admission
from app.events.parsing import Rejection
from app.strict_json import BrokenRule


def admit(body: bytes, resources: Resources) -> tuple[Admission, list[Rejection]]:
    """What a request in columns stores, and the rejections of events that do not count.

    Raises Problem or BrokenRule for a bad request.
    """
    request = _read(body, resources.settings.max_events)
    names, places = _campaigns(request, resources)
    times = open_times(resources)
    admitted = EventAdmission(request, names, places, resources.settings, times)
    rejections = admitted.admit_all()
    refuse_if_all_are_broken(request.header.rows, rejections)
    return admitted.admission, rejections


def _read(body: bytes, most: int) -> EventsRequest:
    try:
        return read_events(body, most)
    except UnknownColumnsVersion as error:
        raise unsupported_version(error) from None
    except TooManyRows as error:
        raise too_many_events(error, most) from None


def _campaigns(
    request: EventsRequest, resources: Resources
) -> tuple[Sequence[str], NDArray[np.intp]]:
    """Distinct names, and the place in them of each event's campaign, (n,)."""
    names, places = _named(request, resources)
    rows = request.header.rows
    return names, np.repeat(places, rows) if len(places) < rows else places


def _named(request: EventsRequest, resources: Resources) -> tuple[Sequence[str], NDArray[np.intp]]:
    if not request.header.flags & INTERNED:
        distinct = {name: place for place, name in enumerate(dict.fromkeys(request.names))}
        places = np.fromiter(map(distinct.__getitem__, request.names), np.intp, len(request.names))
        return list(distinct), places[request.numbers]
    ids = resources.refresher.current.ids.get(request.target)
    if ids is None:
        known = ", ".join(resources.settings.known_targets)
        raise BrokenRule("target", f"unknown target; known are {known}", request.target)
    try:
        return ids.names(request.header.dictionary, request.numbers)
    except UnknownDictionary as error:
        raise unknown_dictionary(error, ids) from None
