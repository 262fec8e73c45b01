"""Which events count, and what each adds to the bins of its hour."""

from collections import Counter
from typing import Final

from app.events.open_times import OpenTimes, Untimely
from app.events.parsing import INVALID, Parsed, Rejection
from app.events.schema import TYPE_NAMES, Click, Event, Impression, TargetOutcome
from app.settings import Settings
from app.storage.batch import Batch
from app.strict_json import BrokenRule

CLICK: Final = "click"
_LONGEST_ID = 256


class Admission:
    """Turns the events of one request into entries of its batch.

    An impression is one trial of the target `click`, a click the success of that trial; every
    other immediate target is counted by outcomes, which carry both.
    """

    def __init__(self, settings: Settings, times: OpenTimes) -> None:
        self.batch = Batch()
        self.admitted: Counter[str] = Counter()
        self._settings = settings
        self._times = times
        self._known = frozenset(settings.known_targets)
        self._campaigns: set[str] = set()

    def admit_all(self, parsed: Parsed) -> list[Rejection]:
        """Adds every event that counts to the batch; the rejections of all others, by index."""
        refused: list[Rejection] = []
        for index, event in zip(parsed.indices, parsed.events, strict=True):
            try:
                self.admit(event)
            except (BrokenRule, Untimely) as error:
                refused.append(_rejection(index, event, error))
        self.admitted.update(TYPE_NAMES[kind] for kind in map(type, parsed.events))
        self.admitted.subtract(rejection.event_type for rejection in refused)
        return sorted(parsed.rejections + refused, key=lambda rejection: rejection.index)

    def admit(self, event: Event) -> None:
        """Adds one event; BrokenRule or Untimely when it does not count."""
        if event.campaign not in self._campaigns:
            check_campaign("campaign", event.campaign, self._settings.max_campaign_bytes)
            self._campaigns.add(event.campaign)
        if isinstance(event, Impression):
            self._admit_impression(event)
        elif isinstance(event, Click):
            self._admit_click(event)
        else:
            self._admit_outcome(event)

    def _admit_impression(self, event: Impression) -> None:
        score = self._click_score(event.scores)
        event_id = None if event.id is None else _checked_id("id", event.id)
        hour = self._times.hour("occurred_at", event.occurred_at)
        self.batch.add(CLICK, hour, event.campaign, score, 1.0, 0.0, event_id)

    def _admit_click(self, event: Click) -> None:
        score = self._click_score(event.scores)
        event_id = _checked_id("click_id", event.click_id)
        self._times.check("occurred_at", event.occurred_at)
        hour = self._times.hour("impression_at", event.impression_at)
        self.batch.add(CLICK, hour, event.campaign, score, 0.0, 1.0, event_id)

    def _admit_outcome(self, event: TargetOutcome) -> None:
        if event.target not in self._settings.targets:
            immediate = ", ".join(self._settings.targets)
            rule = f"outcomes are taken for the immediate targets: {immediate}"
            raise BrokenRule("target", rule, event.target)
        hour = self._times.hour("occurred_at", event.occurred_at)
        self.batch.add(event.target, hour, event.campaign, event.score, 1.0, event.outcome)

    def _click_score(self, scores: dict[str, float]) -> float:
        if not scores.keys() <= self._known:
            unknown = next(target for target in scores if target not in self._known)
            known = ", ".join(self._settings.known_targets)
            raise BrokenRule(f"scores.{unknown}", f"unknown target; known are {known}")
        if CLICK not in self._settings.targets:
            raise BrokenRule("type", f"the target {CLICK} is not immediate here; send outcomes")
        if CLICK not in scores:
            raise BrokenRule(f"scores.{CLICK}", "is required: it says which cell to count in")
        return scores[CLICK]


def _rejection(index: int, event: Event, error: BrokenRule | Untimely) -> Rejection:
    reason = error.reason if isinstance(error, Untimely) else INVALID
    return Rejection(index, str(error), TYPE_NAMES[type(event)], reason)


def check_campaign(field: str, campaign: str, longest: int) -> None:
    """BrokenRule unless the campaign has 1 to `longest` bytes of UTF-8."""
    # A character has at most four bytes: most names need no encoding to be judged.
    if campaign and (4 * len(campaign) <= longest or len(campaign.encode()) <= longest):
        return
    raise BrokenRule(field, f"must have 1 to {longest} bytes of UTF-8", campaign)


def _checked_id(field: str, event_id: str) -> str:
    if not 0 < len(event_id) <= _LONGEST_ID:
        raise BrokenRule(field, f"must have 1 to {_LONGEST_ID} characters", event_id)
    return event_id
