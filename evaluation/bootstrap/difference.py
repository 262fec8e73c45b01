"""How far two metrics lie apart, and how far apart chance alone puts them."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from calibrators.samples import Floats

_FEWEST_FREE = 0.1
_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric of A minus the same metric of B, with its interval over draws of blocks.

    Attributes
    ----------
    value : A minus B, on the rows as they are.
    lower, upper : ends of the interval; one without 0 inside is a difference beyond chance.
    standard_error : standard deviation over the draws.
    share_below : share of the draws in which A is below B, equal ones counting one half.
    undefined : share of the draws in which the difference is undefined; they are left out.
    """

    value: float
    lower: float
    upper: float
    standard_error: float
    share_below: float
    undefined: float = 0.0

    @classmethod
    def of(cls, value: float, drawn: Floats, blocks: float, *, confidence: float = 0.95) -> Self:
        """The difference `value` of the rows as they are, and `drawn`, (draws,), in every draw.

        `blocks` is their effective number: it sets the tails that the interval leaves out, see
        `expanded_tail`. All but the value is nan where there are fewer than 2.
        """
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence = {confidence}: must be between 0 and 1")
        held = drawn[~np.isnan(drawn)]
        undefined = 1.0 - len(held) / len(drawn) if len(drawn) else float("nan")
        if np.isnan(value) or not blocks > 1.0 or not len(held):
            return cls(value, *(float("nan"),) * 4, undefined)
        tail = expanded_tail(confidence, blocks)
        lower, upper = np.quantile(held, [tail, 1.0 - tail], method="inverted_cdf")
        below = np.mean(held < 0.0) + 0.5 * np.mean(held == 0.0)
        return cls(value, float(lower), float(upper), _spread(held), float(below), undefined)

    @property
    def sign(self) -> int:
        """-1 where A is lower beyond chance, 1 where it is higher, 0 where nobody can tell."""
        return int(self.lower > 0.0) - int(self.upper < 0.0)

    def blocks_for(self, blocks: float, *, power: float = 0.8, confidence: float = 0.95) -> float:
        """Blocks it would take, where now there are `blocks`, to see a difference of this size.

        Roughly: if the true difference were the value, that many blocks would put 0 outside of
        the interval with probability `power`, since the standard error falls with their root.
        Infinite where the value is 0, nan where the standard error is unknown.
        """
        reach = float(ndtri(0.5 + confidence / 2.0) + ndtri(power))
        if self.value == 0.0 and self.standard_error > 0.0:
            return float("inf")
        return blocks * (reach * self.standard_error / self.value) ** 2 if self.value else np.nan


def less(a: Floats, b: Floats) -> Floats:
    """a - b, exactly 0 where they differ by rounding alone.

    Two ways to the same number part in its last digits, always the same way: of every draw that
    would be a difference beyond chance.
    """
    rounding = _ROUNDING * np.maximum(np.abs(a), np.abs(b))
    with np.errstate(invalid="ignore"):
        difference = a - b
        alike = np.isfinite(difference) & (np.abs(difference) <= rounding)
    return np.where(alike, 0.0, difference)


def expanded_tail(confidence: float, blocks: float) -> float:
    """Share of the draws that an interval leaves out at each end.

    Draws of B blocks vary by the factor sqrt((B - 1) / B) too little, and how much they vary is
    itself uncertain: Student's t instead of the normal distribution makes up for both.
    """
    free = max(blocks - 1.0, _FEWEST_FREE)
    reach = float(stdtrit(free, 0.5 + confidence / 2.0)) * (1.0 + 1.0 / free) ** 0.5
    return float(ndtr(-reach))


def _spread(drawn: Floats) -> float:
    if len(drawn) < 2 or not np.isfinite(drawn).all():
        return float("nan")
    return float(drawn.std(ddof=1))
