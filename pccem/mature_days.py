"""The clicks that a training may learn from: those of the last days that are over."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pccem.arrays import Flags, Floats, check_equal_lengths
from pccem.attribution import Attribution
from pccem.canonical_order import canonical_order
from pccem.clicks import Clicks
from pccem.training_rules import TrainingRules

Integers = NDArray[np.int64]
DAY: Final = 86_400.0


@dataclass(frozen=True, slots=True, eq=False)
class MatureDays:
    """Mature clicks of the last days in canonical order.

    Attributes
    ----------
    indices : (m,) where they stood in the clicks given.
    clicks : m clicks.
    outcomes : (m,) 1.0 where the click converted, else 0.0.
    held_out : (m,) whether the click is of the newest day.
    days : number of days with clicks.
    """

    indices: Integers
    clicks: Clicks
    outcomes: Floats
    held_out: Flags
    days: int

    @classmethod
    def of(
        cls, clicks: Clicks, attribution: Attribution, as_of: float, rules: TrainingRules
    ) -> "MatureDays":
        """The clicks in [as_of - window - days, as_of - window), or a sample if they are too many.

        Those that converted within the post-click window are left out.

        Raises
        ------
        ValueError
            The clicks and their attribution differ in length, or `as_of` is not finite.
        """
        check_equal_lengths(clicks=len(clicks), attribution=len(attribution))
        if not math.isfinite(as_of):
            raise ValueError(f"as_of = {as_of}: must be finite")
        end = as_of - attribution.window
        first = end - rules.days * DAY
        inside = (clicks.clicked_at >= first) & (clicks.clicked_at < end) & attribution.mature
        inside &= ~(attribution.delay < rules.post_click)
        indices = _thinned(_in_order(clicks, attribution, np.flatnonzero(inside)), rules)
        chosen = clicks.select(indices)
        ages = np.floor((end - chosen.clicked_at) / DAY)
        return cls(
            indices,
            chosen,
            attribution.converted[indices].astype(np.float64),
            chosen.clicked_at >= end - DAY,
            len(np.unique(ages)),
        )

    def newest(self) -> Clicks:
        """The clicks of the newest day, which is held out."""
        return self.clicks.select(self.held_out)

    def lack(self, rules: TrainingRules) -> str | None:
        """What there is too little of to train, in words; None if there is enough."""
        clicks, held_out = len(self.clicks), int(self.held_out.sum())
        conversions, learned = (int(y.sum()) for y in (self.outcomes, self._learned()))
        for name, found, least in (
            ("mature clicks", clicks, rules.min_clicks),
            ("mature conversions", conversions, rules.min_conversions),
            ("clicks of the newest mature day", held_out, 1),
            ("clicks before the newest mature day", clicks - held_out, 1),
            ("conversions before the newest mature day", learned, 1),
            ("clicks without conversion before it", clicks - held_out - learned, 1),
        ):
            if found < least:
                return f"{found} {name}: training needs at least {least}"
        return None

    def _learned(self) -> Floats:
        return self.outcomes[~self.held_out]

    def figures(self) -> dict[str, float | int | None]:
        """Sizes and times, for a report."""
        times = self.clicks.clicked_at
        return {
            "clicks": len(times),
            "conversions": int(self.outcomes.sum()),
            "days": self.days,
            "first_click": float(times[0]) if len(times) else None,
            "last_click": float(times[-1]) if len(times) else None,
            "held_out_clicks": int(self.held_out.sum()),
            "held_out_conversions": int(self.outcomes[self.held_out].sum()),
        }


def _in_order(clicks: Clicks, attribution: Attribution, inside: Integers) -> Integers:
    outcomes = attribution.converted[inside].astype(np.float64)
    return inside[canonical_order(clicks.select(inside), outcomes)]


def _thinned(indices: Integers, rules: TrainingRules) -> Integers:
    if len(indices) <= rules.max_clicks:
        return indices
    generator = np.random.default_rng(rules.seed)
    return indices[np.sort(generator.choice(len(indices), rules.max_clicks, replace=False))]
