"""The trials of products of targets: impressions with a score of every factor.

Each is counted by the product of its calibrated probabilities, which no later look at the bins of
one target could tell, in the bins of a target of its own (`keys.product`). What came of the trials
is known from elsewhere: `app/worker/products.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.events.schema import Impression
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage import keys
from app.storage.batch import EventBatch
from app.storage.event_columns import EventColumns
from calibrators import Atlas
from calibrators.samples import Floats


class ProductTrials:
    """Of the impressions of one request that count, by the atlases in force."""

    def __init__(self, products: Mapping[str, Sequence[str]], atlases: Mapping[str, Atlas]) -> None:
        """`products` are factors by name, `atlases` by target."""
        self._products = products
        self._atlases = atlases
        self._held: list[Impression] = []

    @classmethod
    def of(cls, settings: Settings, atlases: Mapping[str, Atlas]) -> Self | None:
        """Of the products of which it is known what came; None where there are none."""
        evaluated = {
            name: factors
            for name, factors in settings.products.items()
            if settings.evaluated_by(name) is not None
        }
        return cls(evaluated, atlases) if evaluated else None

    def hold(self, impressions: Iterable[Impression]) -> None:
        """Take in impressions that count."""
        self._held.extend(impressions)

    def add_to(self, batch: EventBatch) -> None:
        """Add to the batch what was taken in since."""
        held, self._held = self._held, []
        for name, factors in self._products.items():
            scored = [one for one in held if all(factor in one.scores for factor in factors)]
            named = [one for one in scored if one.id is not None]
            unnamed = [one for one in scored if one.id is None]
            for some in filter(None, (named, unnamed)):
                batch.add_derived(keys.product(name), self._columns(some, factors))

    def _columns(self, impressions: Sequence[Impression], factors: Sequence[str]) -> EventColumns:
        """Impressions all of which have ids, or none."""
        campaigns = [one.campaign for one in impressions]
        places = {name: place for place, name in enumerate(dict.fromkeys(campaigns))}
        rows = np.fromiter(map(places.__getitem__, campaigns), np.intp, len(campaigns))
        ids = [one.id for one in impressions if one.id is not None]
        scores = self._probabilities(impressions, campaigns, factors)
        return EventColumns(
            list(places), rows, _hours(impressions), scores, np.zeros(len(rows)), ids or None
        )

    def _probabilities(
        self, impressions: Sequence[Impression], campaigns: Sequence[str], factors: Sequence[str]
    ) -> Floats:
        """The product of the calibrated probabilities of each, (n,)."""
        calibrated = (
            self._atlases[factor](campaigns, [one.scores[factor] for one in impressions])
            for factor in factors
        )
        return reduce(np.multiply, calibrated)


def _hours(impressions: Sequence[Impression]) -> NDArray[np.int64]:
    times = (one.occurred_at for one in impressions)
    seconds = [time if isinstance(time, float) else time.timestamp() for time in times]
    return np.floor_divide(seconds, SECONDS_PER_HOUR).astype(np.int64)
