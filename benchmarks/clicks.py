"""Synthetic clicks whose conversions come days late, and what is known of them at a moment."""

from dataclasses import dataclass

import numpy as np

from calibrators.samples import Floats
from evaluation import ClickPlatform, ClickStream
from pccem import Attribution, Clicks

CLICKS_SEED = 7
HOUR, DAY = 3600.0, 86_400.0
ATTRIBUTION_SECONDS = 7 * DAY
FEWEST_PER_HOUR = 1.0


@dataclass(frozen=True)
class Span:
    """About `size` clicks of whole days, as of the end of the last of them."""

    stream: ClickStream
    end: float

    @classmethod
    def of(cls, size: int, days: int) -> "Span":
        """Drawn from the synthetic platform; the same for the same arguments."""
        hours = 24 * days
        platform = ClickPlatform(clicks_per_hour=max(size / hours, FEWEST_PER_HOUR), seed=CLICKS_SEED)
        return cls(platform.hours(0, hours).stream, platform.start + hours * HOUR)

    @property
    def clicks(self) -> Clicks:
        """In order of time."""
        return self.stream.clicks

    def known(self, as_of: float) -> Attribution:
        """What `pccem.attribute` makes of all that happened by then."""
        return self.stream.attribution(window=ATTRIBUTION_SECONDS, as_of=as_of)

    @property
    def final_delays(self) -> Floats:
        """Sorted delays of all conversions there will ever be."""
        return np.sort(self.stream.delay[~np.isnan(self.stream.delay)])
