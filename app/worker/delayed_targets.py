"""Delayed targets as the worker's loop sees them: close clicks, relabel and refit, train.

Closing moves what Redis has gathered of clicks and conversions into the click log. Every step is
write, then remove, so that a worker that dies in between repeats it; the click log counts a
repeated click or conversion once.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import redis

from app.click_log.folder import ClickLogError, OtherClickLog
from app.click_log.log import ClickLog
from app.click_log.rows import ClosedClick
from app.settings import SECONDS_PER_DAY, Settings
from app.storage.bins import BinsStore
from app.storage.blocks import StoredConversion
from app.storage.clicks import OpenClick, OpenClicks
from app.storage.conversions import ConversionLog, ReadMark
from app.storage.event_columns import columns_of
from app.storage.keys import SHARDS, TargetHour, closed_hours
from app.storage.lease import LeaseToken, ShardShare
from app.storage.models import Models
from app.storage.versions import Versions
from app.worker.atlas_cache import AtlasCache, CachedVersion
from app.worker.fitting import Fitting, RefitOutcome, RefitTask, refit_target
from app.worker.model_cache import CachedModel, ModelCache, signing_key
from app.worker.products import ProductEvaluation
from app.worker.relabelling import (
    DAYS_SHOWN,
    DayRecord,
    LabelHistory,
    ReadSpan,
    RelabelledClicks,
    ScoredClicks,
    Span,
    UnitConversions,
    labelled_days,
    merged_days,
)
from app.worker.training import Trainer, TrainingTask
from calibrators import Atlas

_log = logging.getLogger(__name__)

CLICKS_AT_ONCE = 20_000
"""Bounds the worker's memory, and the rows of a part."""

CONVERSIONS_AT_ONCE = 100_000


@dataclass(slots=True)
class ClickCloser:
    """Closes what is due; time comes in with every call."""

    settings: Settings
    clicks: OpenClicks
    conversions: ConversionLog
    versions: Versions
    cache: AtlasCache

    def run(
        self,
        log: ClickLog,
        before: float,
        now: float,
        shards: Sequence[int] = range(SHARDS),
        *,
        all_due: bool = True,
    ) -> int:
        """Close the clicks of these shards that are due at `before` (of the events' clock), all or
        as many as one part holds; hand over the conversions, forget behaviours that waited for long
        enough at `now` (of the wall).

        Returns how many clicks were closed. Any number of workers may do so at once.
        """
        closed = 0
        while due := self.clicks.begin_close(before, CLICKS_AT_ONCE, shards):
            claim_click_log(self.settings, self.clicks, log)
            log.write_clicks(self._closed(due))
            closed += self.clicks.finish_close(due)
            if not all_due:
                break
        self._hand_over_conversions(log, shards)
        self.clicks.expire_waiting(now, shards)
        return closed

    def _hand_over_conversions(self, log: ClickLog, shards: Sequence[int]) -> None:
        """What the logs hold now: more may come meanwhile, without end."""
        waiting = self.conversions.pending(shards)
        # All logs together: a part for each would be hundreds of tiny files an hour.
        while read := list(self._read_conversions(waiting)):
            conversions = [conversion for _, _, found in read for conversion in found]
            if conversions:
                claim_click_log(self.settings, self.clicks, log)
                log.write_conversions(conversions)
            for pending, mark, _ in read:
                self.conversions.drop(pending, mark)
                waiting[pending] -= mark.blocks

    def _read_conversions(
        self, waiting: Mapping[TargetHour, int]
    ) -> Iterator[tuple[TargetHour, ReadMark, list[StoredConversion]]]:
        """The heads of the logs of which blocks are waited for, until there are enough for one
        write."""
        conversions = 0
        for pending in (log for log, blocks in waiting.items() if blocks > 0):
            mark, found = self.conversions.read(pending)
            if mark.blocks:
                yield pending, mark, found
            conversions += len(found)
            if conversions >= CONVERSIONS_AT_ONCE:
                return

    def _closed(self, due: Sequence[OpenClick]) -> list[ClosedClick]:
        history = self.versions.history()
        by_hour = defaultdict(list)
        for click in due:
            by_hour[closed_hours(click.clicked_at)].append(click)
        return [
            ClosedClick.close(click, self.settings.post_click_seconds, probabilities)
            for hour, clicks in sorted(by_hour.items())
            for click, probabilities in zip(
                clicks, served(clicks, self.cache.serving(hour, history)), strict=True
            )
        ]


def served(clicks: Sequence[OpenClick], in_force: CachedVersion | None) -> list[dict[str, float]]:
    """What the atlases in force made of each click's scores, by target.

    Empty where nobody knows any more what was in force.
    """
    probabilities: list[dict[str, float]] = [{} for _ in clicks]
    if in_force is None:
        return probabilities
    for target in sorted({target for click in clicks for target in click.scores}):
        places = [place for place, click in enumerate(clicks) if target in click.scores]
        atlas = in_force.atlases.get(target, Atlas.empty())
        campaigns = [clicks[place].campaign for place in places]
        scores = [clicks[place].scores[target] for place in places]
        fields = columns_of([clicks[place].fields for place in places])
        found = atlas.served(campaigns, scores, fields).tolist()
        for place, probability in zip(places, found, strict=True):
            probabilities[place][target] = probability
    return probabilities


Report = dict[str, Any]


def check_click_log(settings: Settings, clicks: OpenClicks, log: ClickLog) -> None:
    """Raises OtherClickLog where clicks are closed into another, or nobody knows any more."""
    try:
        known = clicks.closed_into()
    except ValueError as error:
        raise OtherClickLog(settings.click_log, log.identity, str(error)) from None
    if known not in (None, log.identity):
        raise OtherClickLog(settings.click_log, log.identity, f"id {known}")


def claim_click_log(
    settings: Settings, clicks: OpenClicks, log: ClickLog, *, instead: bool = False
) -> None:
    """Clicks are closed into this log: raises OtherClickLog where they are closed into another, if
    this is not to be the one instead."""
    if not instead:
        check_click_log(settings, clicks, log)
    clicks.close_into(log.identify(uuid4().hex), instead=instead)
    check_click_log(settings, clicks, log)


class DelayedTargets:
    """What is done for all delayed targets; opens the click log when it is first needed."""

    def __init__(
        self, settings: Settings, client: redis.Redis, versions: Versions, atlases: AtlasCache
    ) -> None:
        self._settings = settings
        self._versions = versions
        self._atlases = atlases
        self._clicks = OpenClicks(client)
        self._bins = BinsStore(client, settings.ttl_seconds)
        self._closing = ClickCloser(
            settings, self._clicks, ConversionLog(client), versions, atlases
        )
        self.models = Models(client)
        self.cache = ModelCache(self.models, lambda: signing_key(settings))
        self._trainer = Trainer(settings, self.models, self.cache, lambda: signing_key(settings))
        self.together: Callable[[str, float, str, Span], ScoredClicks | None] | None = None
        self._opened: ClickLog | None = None
        self._damaged_parts = 0

    @property
    def own_log(self) -> ClickLog:
        """That of the settings, whatever clicks are closed into."""
        if self._opened is None:
            self._opened = ClickLog.open(self._settings.click_log)
        return self._opened

    @property
    def _log(self) -> ClickLog:
        check_click_log(self._settings, self._clicks, self.own_log)
        return self.own_log

    def close(self, now: float, share: ShardShare | None = None, *, leads: bool = True) -> None:
        """Move what is due by the wall's clock, of its share or all, into the click log, which who
        leads chooses; the events' clock says what is due with jobs only."""
        if not self._settings.delayed_targets or self._settings.clock != "wall":
            return
        if leads or self._clicks.closed_into() == self.own_log.identity is not None:
            # Who has another log, or none, takes no share: the others close all. Who waits for the
            # lease must not be kept from it by all that an outage has left.
            log, before = self._log, now - self._settings.refit_delay_seconds
            shards = range(SHARDS) if share is None else share.take()
            self._closing.run(log, before, now, shards, all_due=leads)

    def prepare(self, now: float, as_of: float) -> None:
        """Have the click log hold all that is due as of a moment, in few parts."""
        before = as_of
        if self._settings.clock == "wall":
            before = now - self._settings.refit_delay_seconds
        self._closing.run(self._log, before, now)
        self._log.compact(as_of - self._settings.post_click_seconds)

    def refit(
        self, fitting: Fitting, order: RefitTask, as_of: float
    ) -> tuple[Report, RefitOutcome | None]:
        """The target's report as of a moment, out of the one in force, and its maps; None while
        labels have no source, when the maps stay as they are."""
        target, before = order.target, order.before
        window = self._settings.attribution_seconds(target)
        newest = self.cache.newest(target, window, as_of)
        read = self.together and partial(self.together, target, as_of)
        known_clicks = self._log, newest, target, as_of, self._settings
        labels = LabelHistory(*known_clicks, order.in_force, read)
        found = labels.of(fitting.hours(target, order.own))
        self._damaged_parts = self._log.damaged()
        counting = UnitConversions(*known_clicks, self._bins.unit_days)
        counting.count(found and found[0].clicks)
        evaluation = ProductEvaluation(self._bins, self._log, self._settings, target, as_of)
        known: Mapping[str, Report] = before.get("products", {})
        products = evaluation.of(found and found[0], known)
        if found is None:
            # Those that labels evaluate stay as they are, as the maps do.
            kept = {"products": {**known, **products}} if products else {}
            return {**before, "source": "none", **kept}, None
        recent, history = found
        outcome = refit_target(fitting, order, history)
        quality = recent.report(self._settings)
        report = {
            **outcome.report(),
            "fitted_as_of": as_of if order.campaigns is None else before.get("fitted_as_of"),
            "judged_until": recent.span[1],
            "source": recent.source.source,
            **quality,
            "top": outcome.decided(quality["top"]),
            "model": model_report(recent.cached),
            "matured": recent.cached.trained.report["matured"],
            "days": self._days(recent, before, as_of, window),
        }
        report |= {"products": products} if products else {}
        return report, outcome

    def reader(self, target: str, as_of: float, model: str) -> ReadSpan | None:
        """Reads clicks with others; None, and says so, where this worker has not the click log that
        clicks are closed into, or cannot load the model of that version."""
        newest = self.cache.newest(target, self._settings.attribution_seconds(target), as_of)
        with suppress(ValueError, ClickLogError):
            shared = self._clicks.closed_into() == self.own_log.identity is not None
            if shared and newest is not None and newest.version == model:
                about = self.own_log, newest, target, as_of, self._settings
                return partial(ScoredClicks.read, *about)
        _log.warning("%s is labelled without this worker: another click log, or no model", target)
        return None

    def train(
        self,
        target: str,
        as_of: float,
        lease_token: LeaseToken,
        now: Callable[[], float],
        advance: Callable[[str, float], None] = lambda *_: None,
    ) -> Report:
        """Publish what the click log teaches as of a moment; returns its report, with the version.

        `advance` is called with each phase and the share that is done. Raises NothingToTrain while
        that is nothing.
        """
        window = self._settings.attribution_seconds(target)
        task = TrainingTask(target, window, as_of, self._expected(target))
        return self._trainer.run(self._log, task, lease_token, now, advance)

    def finalise(self, as_of: float) -> None:
        """Write conversions into the rows of mature clicks, and let those go that are too old."""
        targets = self._settings.delayed_targets
        windows = {target: self._settings.attribution_seconds(target) for target in targets}
        self._log.finalise(windows, as_of)
        self._log.expire(as_of - self._settings.click_log_days * SECONDS_PER_DAY)

    def count_on(self, state: Mapping[str, Any]) -> None:
        """From what who did this before has told."""
        self.cache.refused = state.get("refused_models", 0)
        self._damaged_parts = state.get("damaged_parts", 0)

    def state(self) -> dict[str, Any]:
        """What the heartbeat tells."""
        if not self._settings.delayed_targets:
            return {}
        return {
            "clicks": self._clicks.counts(),
            "refused_models": self.cache.refused,
            "damaged_parts": self._damaged_parts,
        }

    def _days(
        self, recent: RelabelledClicks, before: Mapping[str, Any], as_of: float, window: float
    ) -> list[DayRecord]:
        clicked_at = recent.clicks.clicks.clicked_at
        new = labelled_days(clicked_at, recent.labels, recent.span, as_of)
        since = as_of - window - (DAYS_SHOWN + 1) * SECONDS_PER_DAY
        return merged_days(before.get("days", ()), new, since)

    def _expected(self, target: str) -> Sequence[DayRecord]:
        version = self._versions.current()
        in_force = None if version is None else self._atlases.take(version)
        reports = {} if in_force is None else in_force.targets
        days: Sequence[DayRecord] = reports.get(target, {}).get("days", ())
        return days


def model_report(cached: CachedModel) -> Report:
    """What a model is, how its last training went, and what came of it."""
    trained = cached.trained
    about = trained.report["model"] or {}
    return {
        "version": cached.version,
        "as_of": about.get("as_of"),
        "trained_at": about.get("trained_at"),
        **{name: trained.report[name] for name in ("training", "seconds", "delay_median")},
        "strays": trained.report["strays"],
        "refused": cached.refused,
    }
