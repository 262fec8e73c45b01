"""Which clicks a refit of a delayed target learns from."""

from dataclasses import dataclass

import numpy as np

from evaluation.event_table import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class ClickWindows:
    """The windows of a delayed target, and the clicks that they leave to a refit as of t.

    Parameters
    ----------
    hours : hours of clicks that a refit learns from, at least 1.
    post_click : seconds in which a click gathers behaviours, above 0.
    attribution : seconds after its click in which a conversion counts, at least `post_click`.

    Raises
    ------
    ValueError
        When a parameter breaks its rule; it is named.

    Examples
    --------
    >>> ClickWindows().recent(1_000_000.0)
    (910000.0, 996400.0)
    """

    hours: int = 24
    post_click: float = 3600.0
    attribution: float = 604_800.0

    def __post_init__(self) -> None:
        for name, holds, rule in (
            ("hours", self.hours >= 1, "at least 1"),
            ("post_click", 0 < self.post_click < np.inf, "above 0, finite"),
            (
                "attribution",
                self.post_click <= self.attribution < np.inf,
                f"at least post_click = {self.post_click}, finite",
            ),
        ):
            if not holds:
                raise ValueError(f"{name} = {getattr(self, name)}: must be {rule}")

    def recent(self, as_of: float) -> tuple[float, float]:
        """The newest clicks whose post-click window is over: [first, behind)."""
        return self._before(as_of - self.post_click)

    def mature(self, as_of: float) -> tuple[float, float]:
        """The newest clicks whose attribution window is over: [first, behind)."""
        return self._before(as_of - self.attribution)

    @property
    def longest(self) -> float:
        """Seconds of clicks before a refit that these windows reach back, at most."""
        return self.attribution + self.hours * SECONDS_PER_HOUR

    def _before(self, behind: float) -> tuple[float, float]:
        return behind - self.hours * SECONDS_PER_HOUR, behind
