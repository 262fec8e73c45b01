"""The delay distribution of clicks of every age, read a day at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.click_log import ClickLog
from app.settings import SECONDS_PER_DAY
from pccem import Attribution, Clicks, DelayDistribution, Features


@dataclass(frozen=True, slots=True, eq=False)
class ConvertedClicks:
    """What delays are learnt from: clicks that did not convert tell nothing about them."""

    clicks: Clicks
    delay: NDArray[np.float64]
    age: NDArray[np.float64]

    @classmethod
    def of(cls, clicks: Clicks, known: Attribution) -> Self:
        """Those of the clicks that have converted, without their features."""
        bare = Clicks(
            clicks.clicked_at,
            clicks.campaigns,
            clicks.rows,
            clicks.scores,
            Features({}, len(clicks)),
        )
        chosen = known.converted
        return cls(bare.select(chosen), known.delay[chosen], known.age[chosen])


def fitted_delays(
    log: ClickLog,
    mature: ConvertedClicks,
    target: str,
    *,
    window: float,
    as_of: float,
    closed: float,
) -> DelayDistribution | None:
    """The target's distribution as of a moment; None with too few conversions.

    `mature` are the clicks that the caller has read already; the younger ones, up to `closed`, are
    read here.
    """
    parts = [mature, *_young(log, target, closed, window=window, as_of=as_of)]
    clicks = Clicks.concatenate(part.clicks for part in parts)
    return DelayDistribution.fit(
        np.concatenate([part.delay for part in parts]),
        np.concatenate([part.age for part in parts]),
        clicks.rows,
        clicks.campaigns,
        window=window,
    )


def _young(
    log: ClickLog, target: str, closed: float, *, window: float, as_of: float
) -> Iterator[ConvertedClicks]:
    first = as_of - window
    while first < closed:
        behind = min(first + SECONDS_PER_DAY, closed)
        logged, known = log.known(target, first, behind, window=window, as_of=as_of)
        yield ConvertedClicks.of(logged.clicks, known)
        first = behind
