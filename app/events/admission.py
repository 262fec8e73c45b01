"""Which events count, and what each adds: to the bins of its hour, or to what its click knows."""

from collections import Counter
from collections.abc import Iterable, Sequence

from app.events.campaign_names import check_campaign
from app.events.click_features import check_features
from app.events.impressions import CLICK, FEW, LONGEST_ID, columns_of
from app.events.open_times import OpenTimes, Untimely
from app.events.parsing import INVALID, Parsed, Rejection
from app.events.refusals import ClickEvent, rejection_of
from app.events.schema import (
    TYPE_NAMES,
    Behaviour,
    Click,
    Conversion,
    Event,
    Impression,
    TargetOutcome,
)
from app.settings import Settings
from app.storage.batch import Batch, Cell
from app.storage.click_events import Refused
from app.storage.conversion_block import Conversion as StoredConversion
from app.storage.open_click import OpenClick
from app.strict_json import BrokenRule


class Admission:
    """Turns the events of one request into entries of its batch.

    An impression is one trial of the target `click`, a click the success of that trial; every
    other immediate target is counted by outcomes, which carry both. A click with a score for a
    delayed target opens: behaviours and conversions are told of it by its id.
    """

    def __init__(self, settings: Settings, times: OpenTimes) -> None:
        self.batch = Batch()
        self.admitted: Counter[str] = Counter()
        self._settings = settings
        self._times = times
        self._known = frozenset(settings.known_targets)
        self._delayed = frozenset(settings.delayed_targets)
        self._behaviours = frozenset(settings.behaviours)
        self._campaigns: set[str] = set()
        self._click_events: dict[int, ClickEvent] = {}

    def admit_all(self, parsed: Parsed) -> list[Rejection]:
        """Adds every event that counts to the batch; the rejections of all others, by index."""
        refused: list[Rejection] = []
        for index, event in self._left_by_columns(parsed):
            try:
                self.admit(event, index)
            except (BrokenRule, Untimely) as error:
                refused.append(_rejection(index, event, error))
        for kind, number in Counter(map(type, parsed.events)).items():
            self.admitted[TYPE_NAMES[kind]] += number
        self.admitted.subtract(rejection.event_type for rejection in refused)
        return sorted(parsed.rejections + refused, key=lambda rejection: rejection.index)

    def reject_refused(self, refused: Sequence[Refused]) -> list[Rejection]:
        """The rejections of events that were admitted and that the store then refused."""
        rejections = [
            rejection_of(self._click_events[event.place], event, self._settings)
            for event in refused
        ]
        self.admitted.subtract(rejection.event_type for rejection in rejections)
        return rejections

    def admit(self, event: Event, index: int = 0) -> None:
        """Adds the event of that index; BrokenRule or Untimely when it does not count."""
        if isinstance(event, Impression):
            self._admit_impression(event)
        elif isinstance(event, TargetOutcome):
            self._admit_outcome(event)
        else:
            self._admit_click_event(event, index)

    def _left_by_columns(self, parsed: Parsed) -> Iterable[tuple[int, Event]]:
        """Admits all impressions at once if there are many and all of them count; the others."""
        events = zip(parsed.indices, parsed.events, strict=True)
        if len(parsed.events) <= FEW:
            return events
        impressions = [event for event in parsed.events if isinstance(event, Impression)]
        columns = columns_of(impressions, self._settings, self._times) if impressions else None
        if columns is None:
            return events
        for some in columns:
            self.batch.add_columns(CLICK, some)
        return [(index, event) for index, event in events if not isinstance(event, Impression)]

    def _admit_impression(self, event: Impression) -> None:
        if event.campaign not in self._campaigns:
            self._check_campaign(event.campaign)
        score = self._click_score(event.scores)
        event_id = None if event.id is None else _checked_id("id", event.id)
        hour = self._times.hour("occurred_at", event.occurred_at)
        self.batch.add(CLICK, hour, event.campaign, score, 1.0, 0.0, event_id)

    def _admit_outcome(self, event: TargetOutcome) -> None:
        if event.campaign not in self._campaigns:
            self._check_campaign(event.campaign)
        if event.target not in self._settings.targets:
            immediate = ", ".join(self._settings.targets)
            rule = f"outcomes are taken for the immediate targets: {immediate}"
            raise BrokenRule("target", rule, event.target)
        hour = self._times.hour("occurred_at", event.occurred_at)
        self.batch.add(event.target, hour, event.campaign, event.score, 1.0, event.outcome)

    def _admit_click_event(self, event: ClickEvent, index: int) -> None:
        if isinstance(event, Click):
            self._admit_click(event, index)
        elif isinstance(event, Behaviour):
            self._admit_behaviour(event, index)
        else:
            self._admit_conversion(event, index)
        self._click_events[index] = event

    def _admit_click(self, event: Click, index: int) -> None:
        if event.campaign not in self._campaigns:
            self._check_campaign(event.campaign)
        opens = not self._delayed.isdisjoint(event.scores)
        counts = not opens or (CLICK in event.scores and CLICK in self._settings.targets)
        if not event.scores.keys() <= self._known:
            self._refuse_unknown_target(event.scores)
        score = self._click_score(event.scores) if counts else 0.0
        click_id = _checked_id("click_id", event.click_id)
        clicked_at = self._times.check("occurred_at", event.occurred_at)
        cell = None
        if counts:
            cell = Cell(CLICK, self._times.hour("impression_at", event.impression_at), score)
        if opens:
            self._times.seconds("occurred_at", event.occurred_at)
        features = event.features or {}
        check_features(features)
        click = OpenClick(click_id, event.campaign, clicked_at, event.scores, features)
        self.batch.add_click(index, click, opens=opens, cell=cell)

    def _admit_behaviour(self, event: Behaviour, index: int) -> None:
        self._check_delayed()
        click_id = _checked_id("click_id", event.click_id)
        if event.name not in self._behaviours:
            known = ", ".join(self._settings.behaviours)
            raise BrokenRule("name", f"unknown behaviour; known are {known}", event.name)
        occurred_at = self._times.seconds("occurred_at", event.occurred_at)
        self.batch.add_behaviour(index, click_id, event.name, occurred_at, event.value)

    def _admit_conversion(self, event: Conversion, index: int) -> None:
        self._check_delayed()
        click_id = _checked_id("click_id", event.click_id)
        target = self._settings.delayed_targets[0] if event.target is None else event.target
        if target not in self._delayed:
            delayed = ", ".join(self._settings.delayed_targets)
            rule = f"conversions are taken for the delayed targets: {delayed}"
            raise BrokenRule("target", rule, target)
        longer = self._settings.attribution_seconds(target)
        occurred_at = self._times.seconds("occurred_at", event.occurred_at, longer)
        conversion = StoredConversion(click_id, target, occurred_at, event.value)
        self.batch.add_conversion(index, conversion)

    # The checks of impressions are not calls of their own: there are a million of them a minute.
    def _check_campaign(self, campaign: str) -> None:
        check_campaign("campaign", campaign, self._settings.max_campaign_bytes)
        self._campaigns.add(campaign)

    def _check_delayed(self) -> None:
        if not self._delayed:
            raise BrokenRule("type", "there is no delayed target here; send outcomes")

    def _refuse_unknown_target(self, scores: dict[str, float]) -> None:
        unknown = next(target for target in scores if target not in self._known)
        known = ", ".join(self._settings.known_targets)
        raise BrokenRule(f"scores.{unknown}", f"unknown target; known are {known}")

    def _click_score(self, scores: dict[str, float]) -> float:
        if not scores.keys() <= self._known:
            self._refuse_unknown_target(scores)
        if CLICK not in self._settings.targets:
            raise BrokenRule("type", f"the target {CLICK} is not immediate here; send outcomes")
        if CLICK not in scores:
            raise BrokenRule(f"scores.{CLICK}", "is required: it says which cell to count in")
        return scores[CLICK]


def _rejection(index: int, event: Event, error: BrokenRule | Untimely) -> Rejection:
    reason = error.reason if isinstance(error, Untimely) else INVALID
    return Rejection(index, str(error), TYPE_NAMES[type(event)], reason)


def _checked_id(field: str, event_id: str) -> str:
    if not 0 < len(event_id) <= LONGEST_ID:
        raise BrokenRule(field, f"must have 1 to {LONGEST_ID} characters", event_id)
    return event_id
