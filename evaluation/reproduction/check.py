"""A number of a paper beside ours, and whether they agree: computed, never stated."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

SLACK = 1e-9
"""Relative error that float64 arithmetic is allowed."""


class Verdict(StrEnum):
    """What a check found."""

    AGREES = "agrees"
    PAPER_ERRS = "paper errs"
    DIFFERS = "differs"
    NOT_CHECKED = "not checked in quick"
    SHOWN = "shown"


@dataclass(frozen=True, slots=True)
class Erratum:
    """Where a value must lie by an argument that does not use the code under test.

    Attributes
    ----------
    reason : what is wrong with the printed digit, in one sentence.
    low, high : the range that the argument leaves.
    """

    reason: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError("reason: an erratum says what is wrong with the printed digit")
        if not -math.inf < self.low <= self.high < math.inf:
            raise ValueError(f"[{self.low}, {self.high}]: must be a finite range, low <= high")

    @classmethod
    def exact(cls, value: float, reason: str) -> Self:
        """The argument gives one value."""
        margin = SLACK * max(abs(value), 1.0)
        return cls(reason, value - margin, value + margin)


@dataclass(frozen=True, slots=True)
class Check:
    """One quantity: what a paper prints, what we get, and the range in which both must lie.

    Make one with `printed`, `exact`, `banded`, `bounded` or `shown`.

    Attributes
    ----------
    what : the quantity, as a reader of the paper knows it.
    ours : our number; nan agrees with nothing.
    low, high : the accepted range, ends included; both infinite where nothing is judged, low above
        high where nothing can agree.
    tolerance : the range in words.
    paper : the printed number, None where the paper prints none.
    paper_text : the printed number as printed.
    part : the table that the quantity belongs to.
    form : how numbers are shown.
    erratum : why the printed digit cannot be right, if it cannot.
    checked : False where a run of this size says nothing about it.
    """

    what: str
    ours: float
    low: float
    high: float
    tolerance: str
    paper: float | None = None
    paper_text: str = ""
    part: str = ""
    form: str = ".4g"
    erratum: Erratum | None = None
    checked: bool = True

    def __post_init__(self) -> None:
        if math.isnan(self.low) or math.isnan(self.high):
            raise ValueError(f"{self.what}: [{self.low}, {self.high}] must be a range")

    @property
    def verdict(self) -> Verdict:
        """From the numbers alone.

        The paper errs where our number is in the range of the erratum's argument, and nothing in
        the accepted range around the printed digit is.
        """
        if not self.checked:
            return Verdict.NOT_CHECKED
        if self.low == -math.inf and self.high == math.inf:
            return Verdict.SHOWN
        if self._accepts(self.ours) and (self.paper is None or self._accepts(self.paper)):
            return Verdict.AGREES
        return Verdict.PAPER_ERRS if self._paper_is_refuted() else Verdict.DIFFERS

    @property
    def paper_shown(self) -> str:
        """The printed number, or a dash."""
        if self.paper_text or self.paper is None:
            return self.paper_text or "-"
        return number_shown(self.paper, self.form)

    @property
    def ours_shown(self) -> str:
        """Our number."""
        return number_shown(self.ours, self.form)

    def _accepts(self, value: float) -> bool:
        return self.low <= value <= self.high

    def _paper_is_refuted(self) -> bool:
        if self.erratum is None or self.paper is None:
            return False
        agreed = self.erratum.low <= self.ours <= self.erratum.high
        return agreed and (self.high < self.erratum.low or self.erratum.high < self.low)


def number_shown(value: float, form: str) -> str:
    """The number as text; an undefined one is a dash.

    >>> number_shown(0.29762, ".4f"), number_shown(float("inf"), ".4f"), number_shown(3e6, ",.0f")
    ('0.2976', '∞', '3,000,000')
    """
    if math.isnan(value):
        return "-"
    return format(value, form) if math.isfinite(value) else ("∞" if value > 0 else "-∞")
