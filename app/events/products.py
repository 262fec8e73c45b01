"""The trials of products of targets: impressions with a score of every factor, or outcomes that are
sent of the product itself.

Each is counted by the product of its calibrated probabilities, with the effects of its fields,
which no later look at the bins of one target could tell, in the bins of a target of its own
(`keys.product`, `product_outcomes`). What came of impressions is known from elsewhere:
`app/worker/products.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, Self

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from app.events.schema import Impression, TargetOutcome
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage import keys
from app.storage.batch import EventBatch
from app.storage.event_columns import EventColumns, columns_of
from app.strict_json import ValidationError
from calibrators import Atlas
from calibrators.bins.model_versions import named
from calibrators.samples import Floats

_NOT_KEPT: Final = ("score", "unit", "arm", "bid", "cost", "value")
"""Nothing of these is kept of outcomes of products."""


class ProductTrials:
    """Of the impressions and outcomes of one request that count, by the atlases in force."""

    def __init__(self, settings: Settings, atlases: Mapping[str, Atlas]) -> None:
        """`atlases` are by target."""
        self._settings = settings
        self._atlases = atlases
        self._held: list[Impression] = []
        self._outcomes: dict[str, list[TargetOutcome]] = {}

    @classmethod
    def of(cls, settings: Settings, atlases: Mapping[str, Atlas]) -> Self | None:
        """None where there are no products."""
        return cls(settings, atlases) if settings.products else None

    def hold(self, impressions: Iterable[Impression]) -> None:
        """Take in impressions that count."""
        self._held.extend(impressions)

    def hold_outcome(self, outcome: TargetOutcome) -> None:
        """Take in an outcome of a product whose campaign and time are right; ValidationError where
        something else is not."""
        product, scores = outcome.target, _scores(outcome)
        factors, delayed = self._settings.products[product], self._settings.delayed_factors(product)
        if delayed:
            rule = f"is evaluated by clicks and conversions of {delayed[-1]}; send these"
            raise ValidationError("target", rule, product)
        if scores.keys() != {*factors}:
            rule = f"must be those of each factor of {product}: {', '.join(factors)}"
            raise ValidationError("scores", rule, dict(scores))
        for name in _NOT_KEPT:
            if getattr(outcome, name) not in (None, UNSET):
                raise ValidationError(name, "is not kept of outcomes of products")
        self._outcomes.setdefault(product, []).append(outcome)

    def add_to(self, batch: EventBatch) -> None:
        """Add to the batch what was taken in since."""
        held, self._held = self._held, []
        outcomes, self._outcomes = self._outcomes, {}
        for name, factors in self._settings.products.items():
            if sent := outcomes.get(name):
                batch.add_columns(keys.product_outcomes(name), self._columns(sent, factors))
            elif held and self._settings.delayed_factors(name):
                scored = [one for one in held if all(factor in one.scores for factor in factors)]
                named = [one for one in scored if one.id is not None]
                unnamed = [one for one in scored if one.id is None]
                for some in filter(None, (named, unnamed)):
                    ids = [one.id for one in some if one.id is not None]
                    columns = replace(self._columns(some, factors), ids=ids or None)
                    batch.add_derived(keys.product(name), columns)

    def _columns(
        self, events: Sequence[Impression] | Sequence[TargetOutcome], factors: Sequence[str]
    ) -> EventColumns:
        """Each as one trial, by the product of its calibrated probabilities."""
        campaigns = [one.campaign for one in events]
        named_ones = [named(one.campaign, one.model_version) for one in events]
        places = {name: place for place, name in enumerate(dict.fromkeys(campaigns))}
        rows = np.fromiter(map(places.__getitem__, campaigns), np.intp, len(campaigns))
        scores = [_scores(one) for one in events]
        fields = columns_of([one.fields for one in events])
        calibrated = (
            self._atlases[factor].served(named_ones, [one[factor] for one in scores], fields)
            for factor in factors
        )
        positives = [getattr(one, "outcome", 0.0) for one in events]
        product: Floats = reduce(np.multiply, calibrated)
        return EventColumns(
            list(places), rows, _hours(events), product, np.array(positives, np.float64)
        )


def _scores(event: Impression | TargetOutcome) -> Mapping[str, float]:
    return {} if event.scores is UNSET else event.scores


def _hours(events: Sequence[Impression] | Sequence[TargetOutcome]) -> NDArray[np.int64]:
    times = (one.occurred_at for one in events)
    seconds = [time if isinstance(time, float) else time.timestamp() for time in times]
    return np.floor_divide(seconds, SECONDS_PER_HOUR).astype(np.int64)
