"""Impressions played through a running service in event time, hour by hour."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.serving.client import ServiceClient
from app.cli.serving.settings import free_port
from app.cli.serving.whole_service import WholeService, whole_service
from app.errors import Advance
from app.results.backtest import RAW, ScoredEvents
from app.settings import SECONDS_PER_HOUR
from calibrators.bins.model_versions import parted
from calibrators.fields.columns import FieldColumns, by_event
from calibrators.samples import Floats
from evaluation import EventTable

Message = dict[str, Any]
Messages = Callable[[EventTable, str], list[Message]]


def outcomes(events: EventTable, target: str) -> list[Message]:
    """One `outcome` per event: a platform that joins impressions and clicks itself."""
    return [
        {
            "type": "outcome",
            "campaign": campaign,
            "target": target,
            "occurred_at": time,
            "score": score,
            "outcome": outcome,
            **given,
        }
        for campaign, time, score, outcome, given in _rows(events)
    ]


def impressions_and_clicks(events: EventTable, target: str) -> list[Message]:
    """What an ad server logs for every impression, then what a tracker sends for every click."""
    return [*_impressions(events, target), *_clicks(events, target)]


def _impressions(events: EventTable, target: str) -> Iterator[Message]:
    for campaign, time, score, _, given in _rows(events):
        yield {
            "type": "impression",
            "campaign": campaign,
            "occurred_at": time,
            "scores": {target: score},
            **given,
        }


def _clicks(events: EventTable, target: str) -> Iterator[Message]:
    clicked = events.select(np.flatnonzero(events.outcomes))
    for number, (campaign, time, score, _, given) in enumerate(_rows(clicked)):
        yield {
            "type": "click",
            "click_id": f"{time:.6f}-{number}",
            "campaign": campaign,
            "occurred_at": time,
            "impression_at": time,
            "scores": {target: score},
            **given,
        }


def _rows(events: EventTable) -> Iterator[tuple[str, float, float, float, Message]]:
    """Campaign, time, score, outcome, and what there is to say of fields and the model."""
    names = [parted(name) for name in events.campaigns]
    campaigns = (names[row][0] for row in events.rows.tolist())
    times, scores, outcomes = events.times, events.scores, events.outcomes
    given = fields_of(events.fields or {}, len(events))
    for one, row in zip(given, events.rows.tolist(), strict=True):
        one |= {} if names[row][1] is None else {"model_version": names[row][1]}
    columns = (times.tolist(), scores.tolist(), outcomes.tolist())
    return zip(campaigns, *columns, given, strict=True)


def fields_of(columns: FieldColumns, length: int) -> list[Message]:
    """What a message of each event has of fields; nothing of one that has none."""
    return [{"fields": fields} if fields else {} for fields in by_event(columns, length)]


_REFIT_SECONDS = 300.0
_SERVING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Hour:
    """The traffic of one hour; `number` counts hours since 1970."""

    number: int
    events: EventTable


@dataclass(frozen=True, slots=True)
class Playback:
    """How traffic of one target is played through a service.

    `messages` turns an hour's events into what is posted; `batch` is how many scores, and how
    many events, go into one request.
    """

    service: ServiceClient
    target: str
    messages: Messages
    batch: int = 10_000

    def play(self, hours: Iterable[Hour]) -> Iterator[tuple[Hour, Floats]]:
        """Each hour with its probabilities, (n,), given before any of its outcomes is known.

        Every hour but the first is served by maps fitted as of its start; a last refit closes the
        last hour.
        """
        end = None
        for hour in hours:
            if end is not None:
                self.refit(hour.number)
            yield hour, self.calibrate(hour.events)
            self.post(hour.events)
            end = hour.number + 1
        if end is not None:
            self.refit(end)

    def calibrate(self, events: EventTable) -> Floats:
        """What the ad server asks for: a probability for every score, (n,)."""
        campaigns = [events.campaigns[row] for row in events.rows.tolist()]
        asked = (events.scores, self.batch, events.fields)
        return calibrated(self.service, self.target, campaigns, *asked)

    def post(self, events: EventTable) -> None:
        """What the platform reports afterwards."""
        messages = self.messages(events, self.target)
        for start in range(0, len(messages), self.batch):
            self.service.post_events(messages[start : start + self.batch])

    def refit(self, hour: int) -> None:
        """Have the maps fitted as of the start of `hour`, and wait until they serve."""
        refit(self.service, {"target": self.target, "as_of": hour * SECONDS_PER_HOUR})


def calibrated(
    service: ServiceClient,
    target: str,
    campaigns: Sequence[str],
    scores: Floats,
    batch: int,
    fields: FieldColumns | None = None,
) -> Floats:
    """A probability for every score, (n,), in requests of `batch` scores at most."""
    probabilities: list[float] = []
    given = fields_of(fields, len(scores)) if fields else []
    for start in range(0, len(scores), batch):
        part = slice(start, start + batch)
        asked = (campaigns[part], scores[part].tolist(), given[part])
        probabilities += service.calibrate(target, *asked)
    return np.array(probabilities)


def refit(service: ServiceClient, request: Mapping[str, Any]) -> None:
    """Have a refit done, and wait until its maps serve; nobody is there whose approval to await."""
    result = service.finished(service.change("retrain", request=request), _REFIT_SECONDS)["result"]
    if result.get("held"):
        job = service.change("versions", result["held"]["version"], "approve")
        result = service.finished(job, _REFIT_SECONDS)["result"]
    service.await_version(result["version"], _SERVING_SECONDS)


def hours_of(events: EventTable) -> list[Hour]:
    """A log cut into the hours that hold anything, in order."""
    order = np.argsort(events.hours, kind="stable")
    numbers, starts = np.unique(events.hours[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [
        Hour(number, events.select(part))
        for number, part in zip(numbers.tolist(), parts, strict=True)
    ]


def play_and_score(
    playback: Playback, hours: Sequence[Hour], first: int, name: str, advance: Advance
) -> ScoredEvents:
    """Play every hour; from hour `first` on, take the scores and the probabilities, called `name`,
    that the service gave them."""
    events: list[EventTable] = []
    served: list[Floats] = []
    for hour, probabilities in playback.play(hours):
        if hour.number >= first:
            events.append(hour.events)
            served.append(probabilities)
        advance(_so_far(events, served))
    played = EventTable.concatenate(events).without_versions()
    return ScoredEvents(played, {RAW: played.scores, name: np.concatenate(served)})


def _so_far(events: Sequence[EventTable], served: Sequence[Floats]) -> str:
    clicks = sum(float(table.outcomes.sum()) for table in events)
    if not clicks:
        return "the first window fills"
    before = sum(float(table.scores.sum()) for table in events) / clicks
    after = sum(float(probabilities.sum()) for probabilities in served) / clicks
    return f"PCOC so far: {before:.2f} raw, {after:.2f} calibrated"


HOST = "127.0.0.1"
# Whoever plays hours in a second waits for every new version.
_REFRESH_SECONDS = 0.05
# A service has an immediate target, though nothing here is sent for it.
_CLICK, _OTHER = "click", "impression"
_MOST_FEATURES = 1_000


def of_immediate(target: str) -> dict[str, Any]:
    """The settings of a service for one immediate target."""
    return {
        "targets": (target,),
        "delayed_targets": (),
        "attribution_hours": {},
        "target_calibrators": {},
    }


def of_delayed(target: str, attribution_hours: int) -> dict[str, Any]:
    """The settings of a service for one delayed target, and whatever features a log has."""
    return {
        "targets": (_OTHER if target == _CLICK else _CLICK,),
        "delayed_targets": (target,),
        "attribution_hours": {target: attribution_hours},
        "target_calibrators": {},
        "max_features": _MOST_FEATURES,
    }


@contextmanager
def private_service(settings: Mapping[str, Any], port: int | None = None) -> Iterator[WholeService]:
    """A service in event time on loopback, with its data in a temporary folder.

    `settings` are its targets, and what was given of its other settings.
    """
    with tempfile.TemporaryDirectory(prefix="sirocco-") as folder:
        options = {
            **settings,
            "clock": "event",
            "host": HOST,
            "port": port if port is not None else free_port(HOST),
            "data_dir": Path(folder) / "data",
            "snapshot_dir": "off",
            # Not None, which would leave it to the environment.
            "redis_url": "",
            "admin_port": 0,
            "bootstrap_admin_key": "",
            "audit_log": "",
            "click_log_url": str(Path(folder) / "click-log"),
            "refresh_seconds": _REFRESH_SECONDS,
        }
        # Who plays a log waits for each refit: a nice worker got a third of our share of two cores
        # with a load of 19.
        with whole_service(options, Path(folder), nice_worker=False) as service:
            yield service
