"""Clicks with the delays of their conversions: what delayed backtests read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibrators.samples import Floats, check_equal_lengths
from pccem import Attribution, Clicks, attribute


@dataclass(frozen=True, slots=True, eq=False)
class ClickStream:
    """n clicks in order of time, and what became of them in the end.

    Attributes
    ----------
    clicks : sorted by `clicked_at`.
    delay : (n,) seconds from each click to its first conversion, at least 0; nan where none came.

    Raises
    ------
    ValueError
        When the lengths differ, the clicks are not in order, or a delay is negative.

    Examples
    --------
    >>> from evaluation import ClickPlatform
    >>> stream = ClickPlatform(campaigns=2, clicks_per_hour=1_000, cvr=0.1, seed=1).hour(0).stream
    >>> bool(stream.outcomes(3600.0).sum() < stream.outcomes(86400.0).sum())
    True
    """

    clicks: Clicks
    delay: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", np.asarray(self.delay, np.float64))
        check_equal_lengths(clicked_at=self.clicks.clicked_at, delay=self.delay)
        early = np.flatnonzero(np.diff(self.clicks.clicked_at) < 0)
        if len(early):
            raise ValueError(f"clicks must be in order of time: number {early[0] + 1} is too early")
        wrong = np.flatnonzero((self.delay < 0) | np.isinf(self.delay))
        if len(wrong):
            first = wrong[0]
            raise ValueError(
                f"delay[{first}] = {self.delay[first]}: must be at least 0, or nan where none came"
            )

    def __len__(self) -> int:
        return len(self.clicks)

    @classmethod
    def concatenate(cls, parts: Sequence["ClickStream"]) -> Self:
        """The parts one after the other; each begins where the one before it ended."""
        delays = np.concatenate([np.empty(0), *(part.delay for part in parts)])
        return cls(Clicks.concatenate([part.clicks for part in parts]), delays)

    def select(self, chosen: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "ClickStream":
        """The clicks that an ascending index array, a mask of shape (n,) or a slice chooses."""
        return ClickStream(self.clicks.select(chosen), self.delay[chosen])

    def between(self, first: float, behind: float) -> slice:
        """Where the clicks with first <= clicked_at < behind stand."""
        start, end = np.searchsorted(self.clicks.clicked_at, (first, behind))
        return slice(int(start), int(end))

    def outcomes(self, window: float) -> Floats:
        """1 for a click that converted less than `window` seconds after it, else 0; (n,)."""
        return np.asarray(self.delay < window, np.float64)

    def attribution(self, *, window: float, as_of: float) -> Attribution:
        """What `pccem.attribute` knows of the clicks at the time `as_of`, epoch seconds."""
        converting = np.flatnonzero(~np.isnan(self.delay))
        converted_at = self.clicks.clicked_at[converting] + self.delay[converting]
        return attribute(
            np.arange(len(self)),
            self.clicks.clicked_at,
            converting,
            converted_at,
            window=window,
            as_of=as_of,
        )
