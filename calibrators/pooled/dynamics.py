"""How campaigns' levels move from hour to hour: what may be, and what the data say of it."""

from typing import NamedTuple

import numpy as np

from calibrators.samples import Floats, Integers

_STEPS = (0.0, 2.5e-5, 1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2)
_TRENDS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)
_PERSISTENCE = (0.9, 0.95)


class Dynamics(NamedTuple):
    """A local level with a damped trend: n ways of moving, each an array (n, 1).

    Attributes
    ----------
    steps : variance of an hour's random step of the level, in log ratio.
    trends : variance of an hour's random step of the trend, in log ratio an hour.
    persistence : the share of a trend that is left after an hour, in [0, 1).

    Source: Harrison and Stevens, JRSS B 38, 1976; damped: Gardner and McKenzie, Management
    Science 31, 1985.
    """

    steps: Floats
    trends: Floats
    persistence: Floats

    @classmethod
    def of(cls, rows: list[tuple[float, float, float]]) -> "Dynamics":
        """From a row (step, trend, persistence) each."""
        return cls(*np.array(rows, np.float64).reshape(-1, 3).T[:, :, None])

    def chosen(self, rows: Integers) -> "Dynamics":
        """Some of them."""
        return Dynamics(*(column[rows] for column in self))

    @property
    def ordinary(self) -> Floats:
        """The variance of a trend that has gone on for long, (n, 1)."""
        return np.asarray(self.trends / (1 - self.persistence**2))


EVERY = Dynamics.of(
    [
        *((step, 0.0, 0.0) for step in _STEPS),
        *((0.0, trend, share) for share in _PERSISTENCE for trend in _TRENDS),
    ]
)
"""First a level that stays, then those that wander by half to 16 percent an hour, then those that
go their way for ten or twenty hours."""
