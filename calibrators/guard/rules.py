"""What the guard goes by."""

from dataclasses import dataclass
from math import log

import numpy as np


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Numbers of the guard; nobody has to set them. See docs/guard.md for how they were chosen.

    false_alarms : largest probability of one comparison that a map is called worse although its
        probabilities are true up to the tolerance, in (0, 1).
    tolerance : by how much the level of a single hour may be off in log-odds without telling
        anything about the hours to come, in [0, 1].
    creep : from where on the target's level counts as off for all campaigns but one, in log-odds,
        in [0, 1).
    step : by what factor in odds what serves a campaign may move in one refit, above 1.
    reach : by what factor in odds a campaign's map may lie from the target's, at least step.
    knots : how many a mended map should have at most, at least 2.

    Raises ValueError when a parameter breaks its rule; it is named.
    """

    false_alarms: float = 0.001
    tolerance: float = 0.1
    creep: float = 0.3
    step: float = 3.0
    reach: float = 27.0
    knots: int = 64

    def __post_init__(self) -> None:
        for name, holds, rule in (
            ("false_alarms", 0 < self.false_alarms < 1, "between 0 and 1"),
            ("tolerance", 0 <= self.tolerance <= 1, "in [0, 1]"),
            ("creep", 0 <= self.creep < 1, "in [0, 1)"),
            ("step", 1 < self.step < np.inf, "above 1, finite"),
            ("reach", self.step <= self.reach < np.inf, "at least step, finite"),
            ("knots", self.knots >= 2, "at least 2"),
        ):
            if not holds:
                raise ValueError(f"{name} = {getattr(self, name)}: must be {rule}")

    @property
    def evidence(self) -> float:
        """The log likelihood ratio, in nats, from which on a map is worse beyond noise."""
        return -log(self.false_alarms)
