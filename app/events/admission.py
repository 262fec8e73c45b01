"""Which events count, and what each adds: to the bins of its hour, or to what its click knows.

Impressions are checked as columns, all at once, few of them without arrays; those checks only say
whether everything is in order, and where something is not, events are admitted one by one, which
finds the errors and keeps those that count. What the store refused afterwards is a rejection like
any other: field, value and rule.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from time import perf_counter
from typing import Any, Final, NamedTuple, Self, cast

import numpy as np
from msgspec import UNSET
from msgspec.structs import astuple
from numpy.typing import NDArray

from app.events.products import ProductTrials
from app.events.reading import SLICE_SECONDS, Parsed
from app.events.rejections import (
    INVALID,
    ClickEvent,
    EventRejection,
    OpenTimes,
    Rejections,
    Untimely,
    reason_of,
    rejection_of,
)
from app.events.schema import (
    LONGEST_UNIT,
    TYPE_NAMES,
    Behaviour,
    Click,
    Conversion,
    Event,
    Impression,
    TargetOutcome,
    Time,
    are_field_values,
    check_campaign,
    check_features,
    check_fields,
    check_version,
)
from app.settings import Settings
from app.storage.batch import Cell, EventBatch
from app.storage.blocks import MONEY, NO_TERMS, TERMS, StoredConversion, TermColumns, Terms
from app.storage.clicks import OpenClick, StoreRefusal
from app.storage.event_columns import EventColumns, FieldValues
from app.storage.event_columns import columns_of as columns_of_fields
from app.strict_json import ValidationError, all_fit
from calibrators.arms import ARMS, bucket_of_number, buckets_of, unit_number, unit_numbers
from calibrators.bins.model_versions import SEPARATOR, is_version, named
from calibrators.fields.columns import FieldColumns
from calibrators.fields.sums import OTHER
from calibrators.samples import Floats

CLICK: Final = "click"
_FOR_PRODUCTS: Final = "is for products only"
LONGEST_ID: Final = 256
FEW: Final = 32
"""Up to about so many events are admitted sooner without arrays."""


_ARM_NUMBERS: Final[dict[str | None, int]] = {
    None: NO_TERMS.arm,
    **{arm: number for number, arm in enumerate(ARMS)},
}


def _terms(event: Impression | Click | TargetOutcome) -> Terms | None:
    """What an event says of unit, arm and money; None of one that says nothing of them."""
    if event.unit is event.arm is None is event.bid is event.cost is event.value:
        return None
    money = (event.bid or 0.0, event.cost or 0.0, event.value or 0.0)
    return Terms(_ARM_NUMBERS[event.arm], _bucket(event.unit), *money)


def _bucket(unit: str | int | None) -> int:
    """Of a unit by its name, or in columns, which have no names, by its number."""
    if unit is None:
        return NO_TERMS.bucket
    if isinstance(unit, str):
        check_campaign("unit", unit, LONGEST_UNIT)
        unit = unit_number(unit)
    return bucket_of_number(unit)


def _term_columns(events: Sequence[Impression] | Sequence[TargetOutcome]) -> TermColumns:
    """`_terms` of many whose units are all in order."""
    units = list({event.unit for event in events if event.unit is not None})
    buckets: dict[str | None, int] = {None: NO_TERMS.bucket}
    buckets |= dict(zip(units, buckets_of(unit_numbers(units)).tolist(), strict=True))
    terms = np.empty(len(events), TERMS)
    terms["arm"] = [_ARM_NUMBERS[event.arm] for event in events]
    terms["bucket"] = [buckets[event.unit] for event in events]
    for name in MONEY:
        terms[name] = [getattr(event, name) or 0.0 for event in events]
    return terms


class Trials(NamedTuple):
    """Events that are counted for one target, and the columns that only their kind has, (n,)."""

    target: str
    events: Sequence[Impression] | Sequence[TargetOutcome]
    scores: Floats
    positives: Floats
    ids: Sequence[str] = ()

    @classmethod
    def of_impressions(cls, impressions: Sequence[Impression], settings: Settings) -> list[Self]:
        """Those with ids, and those without. KeyError where one lacks a score for `click`, or has
        one for an unknown target."""
        if CLICK not in settings.targets:
            raise KeyError(CLICK)
        if unknown := set().union(*(one.scores for one in impressions)) - {*settings.known_targets}:
            raise KeyError(unknown)
        return [
            cls(
                CLICK,
                some,
                np.fromiter([one.scores[CLICK] for one in some], np.float64, len(some)),
                np.zeros(len(some)),
                [one.id for one in some if one.id is not None],
            )
            for some in _by_ids(impressions)
        ]

    @classmethod
    def of_outcomes(cls, outcomes: Sequence[TargetOutcome], settings: Settings) -> list[Self]:
        """By target. KeyError where one is not immediate or has scores of factors, TypeError where
        one has no score."""
        by_target: dict[str, list[TargetOutcome]] = {}
        for outcome in outcomes:
            by_target.setdefault(outcome.target, []).append(outcome)
        if not by_target.keys() <= {*settings.targets}:
            raise KeyError(*by_target)
        if any(outcome.scores is not UNSET for outcome in outcomes):
            raise KeyError("scores")
        return [
            cls(
                target,
                some,
                np.fromiter([cast(float, one.score) for one in some], np.float64, len(some)),
                np.fromiter([one.outcome for one in some], np.float64, len(some)),
            )
            for target, some in by_target.items()
        ]

    def columns(self, settings: Settings, times: OpenTimes) -> EventColumns | None:
        """None unless every one of the events counts."""
        events = self.events
        hours = times.hours(_seconds([event.occurred_at for event in events]))
        campaigns = [event.campaign for event in events]
        versions = {event.model_version for event in events if event.model_version is not None}
        lengths = [*map(len, self.ids)]
        stated = _with_terms(events)
        units = {one.unit for one in stated if one.unit is not None}
        # Binary columns have numbers of units: these go one by one.
        if not all(isinstance(unit, str) for unit in units):
            return None
        named = all_fit({*campaigns}, settings.max_campaign_bytes) and all_fit(units, LONGEST_UNIT)
        named = named and SEPARATOR not in "".join(campaigns) and all(map(is_version, versions))
        if lengths and not 0 < min(lengths) <= max(lengths) <= LONGEST_ID:
            return None
        if hours is None or not named:
            return None
        fields = _field_columns([event.fields for event in events], settings)
        if fields is None:
            return None
        if versions:
            campaigns = [*map(_name, events)]
        rows = {name: row for row, name in enumerate(dict.fromkeys(campaigns))}
        places = np.fromiter(map(rows.__getitem__, campaigns), np.intp, len(campaigns))
        terms = _term_columns(events) if stated else None
        beside = (self.ids or None, terms, fields or None)
        return EventColumns([*rows], places, hours, self.scores, self.positives, *beside)


def _name(event: Impression | TargetOutcome) -> str:
    """The name that an event is counted under; raises ValidationError."""
    if event.model_version is None:
        return event.campaign
    check_version("model_version", event.model_version)
    return named(event.campaign, event.model_version)


def _by_ids(impressions: Sequence[Impression]) -> Iterator[Sequence[Impression]]:
    """All with ids or all without, so far as there are any."""
    missing = [impression.id for impression in impressions].count(None)
    if not missing or missing == len(impressions):
        yield impressions
    else:
        yield [impression for impression in impressions if impression.id is not None]
        yield [impression for impression in impressions if impression.id is None]


def _with_terms(
    events: Sequence[Impression] | Sequence[TargetOutcome],
) -> list[Impression | TargetOutcome]:
    """Those that say anything of unit, arm and money."""
    return [
        event
        for event in events
        if not (event.unit is event.arm is None is event.bid is event.cost is event.value)
    ]


def _field_columns(events: Sequence[FieldValues | None], settings: Settings) -> FieldColumns | None:
    """The fields of the events; None if one is not declared, or a value cannot be."""
    if not any(events):
        return {}
    if any(OTHER in fields.values() for fields in events if fields):
        return None
    columns = columns_of_fields(events)
    values = {value for column in columns.values() for value in column.names} - {OTHER}
    in_order = columns.keys() <= {*settings.fields} and are_field_values(values)
    return columns if in_order else None


def _seconds(times: Sequence[Time]) -> NDArray[np.float64]:
    try:
        return np.fromiter(times, np.float64, len(times))
    except TypeError:
        seconds = (time if isinstance(time, float) else time.timestamp() for time in times)
        return np.fromiter(seconds, np.float64, len(times))


class Admission:
    """Turns the events of one request into entries of its batch.

    An impression is one trial of the target `click`, a click the success of that trial; every
    other immediate target is counted by outcomes, which carry both. A click with a score for a
    delayed target opens: behaviours and conversions name it by its id.
    """

    def __init__(
        self, settings: Settings, times: OpenTimes, trials: ProductTrials | None = None
    ) -> None:
        """`trials` get impressions that count and outcomes of products, if there are products."""
        self.batch = EventBatch()
        self._trials = trials
        self.rejections = Rejections()
        self.admitted: defaultdict[str, int] = defaultdict(int)
        self._settings = settings
        self._times = times
        self._known = frozenset(settings.known_targets)
        self._campaigns: set[str] = set()
        self._click_events: dict[int, ClickEvent] = {}

    def admit_all(self, parsed: Parsed) -> Iterator[None]:
        """Adds every event that counts to the batch, a slice a step; the rejections get others."""
        until = perf_counter() + SLICE_SECONDS
        for index, event in self._left_of(parsed):
            try:
                self.admit(event, index)
            except (ValidationError, Untimely) as error:
                reason = error.reason if isinstance(error, Untimely) else INVALID
                what = TYPE_NAMES[type(event)]
                self._reject(EventRejection(index, str(error), what, reason))
            if perf_counter() > until:
                yield
                until = perf_counter() + SLICE_SECONDS
        if self._trials is not None:
            self._trials.add_to(self.batch)
        kinds = [*map(type, parsed.events)]
        for kind in {*kinds}:
            self.admitted[TYPE_NAMES[kind]] += kinds.count(kind)

    def reject_refused(self, refused: Sequence[StoreRefusal]) -> None:
        """The rejections get events that were admitted and that the store then refused."""
        for one in refused:
            event = self._click_events[one.place]
            if self.rejections.wants(one.place):
                self._reject(rejection_of(event, one, self._settings))
            else:
                self.rejections.count(TYPE_NAMES[type(event)], reason_of(one))
                self.admitted[TYPE_NAMES[type(event)]] -= 1

    def _reject(self, rejection: EventRejection) -> None:
        self.rejections.add(rejection)
        self.admitted[rejection.event_type] -= 1

    def admit(self, event: Event, index: int = 0) -> None:
        """Adds the event of that index; ValidationError or Untimely when it does not count."""
        if isinstance(event, Impression):
            self._admit_impression(event)
        elif isinstance(event, TargetOutcome):
            self._admit_outcome(event)
        else:
            self._admit_click_event(event, index)

    def _left_of(self, parsed: Parsed) -> Iterable[tuple[int, Event]]:
        """Admits all impressions at once if all of them count, and many outcomes; the others."""
        events: Iterable[tuple[int, Event]] = zip(parsed.indices, parsed.events, strict=True)
        impressions = [event for event in parsed.events if isinstance(event, Impression)]
        left = len(parsed.events) - len(impressions)
        if len(parsed.events) <= FEW:
            is_admitted = bool(impressions) and self._admit_few(impressions)
        else:
            outcomes = [event for event in parsed.events if isinstance(event, TargetOutcome)]
            if left and self._admit_many(Trials.of_outcomes, outcomes):
                events = (each for each in events if not isinstance(each[1], TargetOutcome))
            is_admitted = self._admit_many(Trials.of_impressions, impressions)
        if not is_admitted:
            return events
        if self._trials is not None:
            self._trials.hold(impressions)
        return (each for each in events if not isinstance(each[1], Impression)) if left else ()

    def _admit_many(
        self, trials_of: Callable[[Any, Settings], list[Trials]], events: Sequence[Event]
    ) -> bool:
        """With arrays: adds all of them if all of them count."""
        try:
            trials = trials_of(events, self._settings) if events else []
        except (KeyError, TypeError):
            return False
        columns = [one.columns(self._settings, self._times) for one in trials]
        counted = [one for one in columns if one is not None]
        if not columns or len(counted) < len(columns):
            return False
        for one, column in zip(trials, counted, strict=True):
            self.batch.add_columns(one.target, column)
        return True

    def _admit_few(self, impressions: Sequence[Impression]) -> bool:
        """Without a call for each, and without arrays, which take longer than few events."""
        campaigns, times, scores, *others = zip(*map(astuple, impressions), strict=True)
        hours, settings = self._times.hours_of_few(times), self._settings
        are_known = {*chain.from_iterable(scores)} <= self._known and CLICK in settings.targets
        are_named = all_fit({*campaigns}, settings.max_campaign_bytes)
        if hours is None or SEPARATOR in "".join(campaigns) or not (are_known and are_named):
            return False
        try:
            clicks = [score[CLICK] for score in scores]
            if others == [(None,) * len(impressions)] * len(others):
                rows = zip(campaigns, clicks, repeat(1.0), repeat(0.0))
                self.batch.add_rows(CLICK, hours, [*rows])
                return True
            stated = [self._stated(impression) for impression in impressions]
        except (KeyError, ValidationError):
            return False
        for hour, score, (campaign, event_id, terms, fields) in zip(
            hours, clicks, stated, strict=True
        ):
            self.batch.add(CLICK, hour, campaign, score, 1.0, 0.0, event_id, terms, fields)
        return True

    def _stated(
        self, event: Impression
    ) -> tuple[str, str | None, Terms | None, FieldValues | None]:
        """The name that it is counted under, its id, terms and fields; raises ValidationError."""
        event_id = None if event.id is None else _checked_id("id", event.id)
        # Not a call unless it says something: there are a million of them a minute.
        plain = event.unit is event.arm is None is event.bid is event.cost is event.value
        terms = None if plain else _terms(event)
        if event.fields:
            check_fields(event.fields, self._settings.fields)
        campaign = event.campaign if event.model_version is None else _name(event)
        return campaign, event_id, terms, event.fields

    def _admit_impression(self, event: Impression) -> None:
        if event.campaign not in self._campaigns:
            self._check_campaign(event.campaign)
        score = self._click_score(event.scores)
        hour = self._times.hour("occurred_at", event.occurred_at)
        campaign, event_id, terms, fields = self._stated(event)
        self.batch.add(CLICK, hour, campaign, score, 1.0, 0.0, event_id, terms, fields)
        if self._trials is not None:
            self._trials.hold((event,))

    def _admit_outcome(self, event: TargetOutcome) -> None:
        if event.campaign not in self._campaigns:
            self._check_campaign(event.campaign)
        if event.fields:
            check_fields(event.fields, self._settings.fields)
        if self._trials is not None and event.target in self._settings.products:
            _name(event)
            self._times.hour("occurred_at", event.occurred_at)
            self._trials.hold_outcome(event)
            return
        if event.target not in self._settings.targets:
            immediate = ", ".join(self._settings.targets)
            rule = f"outcomes are taken for the immediate targets: {immediate}"
            raise ValidationError("target", rule, event.target)
        if event.score is UNSET or event.scores is not UNSET:
            wrong = ("score", "is required") if event.score is UNSET else ("scores", _FOR_PRODUCTS)
            raise ValidationError(*wrong)
        hour = self._times.hour("occurred_at", event.occurred_at)
        terms, one = _terms(event), (event.score, 1.0, event.outcome)
        self.batch.add(event.target, hour, _name(event), *one, terms=terms, fields=event.fields)

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
        opens = any(name in event.scores for name in self._settings.delayed_targets)
        counts = not opens or (CLICK in event.scores and CLICK in self._settings.targets)
        if not event.scores.keys() <= self._known:
            self._refuse_unknown_target(event.scores)
        score = self._click_score(event.scores) if counts else 0.0
        click_id = _checked_id("click_id", event.click_id)
        clicked_at = self._times.check("occurred_at", event.occurred_at)
        hour = self._times.hour("impression_at", event.impression_at) if counts else None
        terms = _terms(event)
        if event.model_version is not None:
            check_version("model_version", event.model_version)
        said = (score, terms, event.fields, event.model_version)
        cell = None if hour is None else Cell(CLICK, hour, *said)
        if event.fields:
            check_fields(event.fields, self._settings.fields)
        if opens:
            self._times.seconds("occurred_at", event.occurred_at)
        features = event.features or {}
        check_features(features)
        known = (event.scores, features)
        fields = event.fields or {}
        bucket = None if terms is None or terms.bucket == NO_TERMS.bucket else terms.bucket
        click = OpenClick(
            click_id, event.campaign, clicked_at, *known, fields=fields, bucket=bucket
        )
        self.batch.add_click(index, click, opens=opens, cell=cell)

    def _admit_behaviour(self, event: Behaviour, index: int) -> None:
        self._check_delayed()
        click_id = _checked_id("click_id", event.click_id)
        if event.name not in self._settings.behaviours:
            known = ", ".join(self._settings.behaviours)
            raise ValidationError("name", f"unknown behaviour; known are {known}", event.name)
        occurred_at = self._times.seconds("occurred_at", event.occurred_at)
        self.batch.add_behaviour(index, click_id, event.name, occurred_at, event.value)

    def _admit_conversion(self, event: Conversion, index: int) -> None:
        self._check_delayed()
        click_id = _checked_id("click_id", event.click_id)
        target = self._settings.delayed_targets[0] if event.target is None else event.target
        if target not in self._settings.delayed_targets:
            delayed = ", ".join(self._settings.delayed_targets)
            rule = f"conversions are taken for the delayed targets: {delayed}"
            raise ValidationError("target", rule, target)
        longer = self._settings.attribution_seconds(target)
        occurred_at = self._times.seconds("occurred_at", event.occurred_at, longer)
        conversion = StoredConversion(click_id, target, occurred_at, event.value)
        self.batch.add_conversion(index, conversion)

    # The checks of impressions are not calls of their own: there are a million of them a minute.
    def _check_campaign(self, campaign: str) -> None:
        check_campaign("campaign", campaign, self._settings.max_campaign_bytes)
        if SEPARATOR in campaign:
            raise ValidationError("campaign", "must not have U+001E; give model_version", campaign)
        self._campaigns.add(campaign)

    def _check_delayed(self) -> None:
        if not self._settings.delayed_targets:
            raise ValidationError("type", "there is no delayed target here; send outcomes")

    def _refuse_unknown_target(self, scores: dict[str, float]) -> None:
        unknown = next(target for target in scores if target not in self._known)
        known = ", ".join(self._settings.known_targets)
        raise ValidationError(f"scores.{unknown}", f"unknown target; known are {known}")

    def _click_score(self, scores: dict[str, float]) -> float:
        if not scores.keys() <= self._known:
            self._refuse_unknown_target(scores)
        if CLICK not in self._settings.targets:
            raise ValidationError(
                "type", f"the target {CLICK} is not immediate here; send outcomes"
            )
        if CLICK not in scores:
            raise ValidationError(f"scores.{CLICK}", "is required: it says which cell to count in")
        return scores[CLICK]


def _checked_id(field: str, event_id: str) -> str:
    if not 0 < len(event_id) <= LONGEST_ID:
        raise ValidationError(field, f"must have 1 to {LONGEST_ID} characters", event_id)
    return event_id
