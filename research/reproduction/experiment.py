"""Experiments of the papers, and checks: a number of a paper beside ours, and whether they agree.

A check compares printed digits, exact values, bands over evaluation sets, or inequalities.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from typing import Protocol, Self

SLACK = 1e-9
"""Relative error that float64 arithmetic is allowed."""


class Conclusion(StrEnum):
    """What a check found."""

    AGREES = "agrees"
    PAPER_ERRS = "paper errs"
    DIFFERS = "differs"
    NOT_CHECKED = "not checked in quick"
    SHOWN = "shown"


@dataclass(frozen=True, slots=True)
class Erratum:
    """Where a value must lie by an argument that does not use the code under test.

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

    what : the quantity, as a reader of the paper knows it.
    ours : our number; nan agrees with nothing.
    low, high : the accepted range, ends included; both infinite where nothing is scored, low above
        high where nothing can agree.
    tolerance : the range as text.
    paper : the printed number, None where the paper prints none.
    paper_text : the printed number as printed.
    part : the table that the quantity belongs to.
    form : how numbers are shown.
    erratum : why the printed digit cannot be right, if it cannot.
    checked : False where a run of this size says nothing about it.
    arithmetic : whether it holds printed numbers against each other without the product's code: it
        says something of the paper, and nothing of us.
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
    arithmetic: bool = False

    def __post_init__(self) -> None:
        if math.isnan(self.low) or math.isnan(self.high):
            raise ValueError(f"{self.what}: [{self.low}, {self.high}] must be a range")

    @property
    def verdict(self) -> Conclusion:
        """From the numbers alone.

        The paper errs where our number is in the range of the erratum's argument, and nothing in
        the accepted range around the printed digit is.
        """
        if not self.checked:
            return Conclusion.NOT_CHECKED
        if self.low == -math.inf and self.high == math.inf:
            return Conclusion.SHOWN
        if self._accepts(self.ours) and (self.paper is None or self._accepts(self.paper)):
            return Conclusion.AGREES
        return Conclusion.PAPER_ERRS if self._paper_is_refuted() else Conclusion.DIFFERS

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


Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What a run of an experiment found.

    name, title : of the experiment.
    source : paper, section and tables.
    checks : every quantity compared, in the paper's order.
    notes : what a reader has to know: sizes, readings chosen where the paper leaves a gap, errata.
    """

    name: str
    title: str
    source: str
    checks: Sequence[Check]
    notes: Sequence[str] = ()

    @property
    def counts(self) -> Counter[Conclusion]:
        """How many checks of the product's code ended with each verdict."""
        return Counter(check.verdict for check in self.checks if not check.arithmetic)

    @property
    def arithmetic_counts(self) -> Counter[Conclusion]:
        """The same of the checks that use none of it."""
        return Counter(check.verdict for check in self.checks if check.arithmetic)

    @property
    def differs(self) -> bool:
        """Whether something is neither as printed nor explained."""
        return any(check.verdict is Conclusion.DIFFERS for check in self.checks)

    @property
    def errata(self) -> list[str]:
        """Each printed digit that cannot be right, and why."""
        return [
            f"{check.part + ', ' if check.part else ''}{check.what}: printed {check.paper_shown},"
            f" is {check.ours_shown}. {check.erratum.reason}"
            for check in self.checks
            if check.verdict is Conclusion.PAPER_ERRS and check.erratum is not None
        ]


class Run(Protocol):
    """Runs an experiment; the same arguments give the same numbers."""

    def __call__(self, *, quick: bool, seed: int, progress: Progress) -> Reproduction:
        """`quick` is a small run for a first look, with wider bands where chance plays a part."""
        ...


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment of the papers.

    name : what the user types.
    title : a short heading.
    about : one line for the list of experiments.
    seconds : about how long a full run takes on two cores.
    run : runs it.
    """

    name: str
    title: str
    about: str
    seconds: float
    run: Run


BAND_DEVIATIONS = 3.0


def printed(
    what: str,
    text: str,
    ours: float,
    *,
    decimals: int | None = None,
    part: str = "",
    erratum: Erratum | None = None,
) -> Check:
    """A printed number must be ours, rounded to as many digits as it has.

    `text` is the number as printed; a sign, commas and a per cent sign may stand in it, and ours
    is in its unit. `decimals` is for numbers such as 1 among others of 4 digits.

    >>> check = printed("csAUC of sequence 1", "0.2976", 125 / 420)
    >>> check.verdict, check.tolerance
    (<Conclusion.AGREES: 'agrees'>, '± 5e-05')
    """
    number = _number(text)
    decimals = _decimals(number) if decimals is None else decimals
    half = 0.5 * 10.0**-decimals
    slack = SLACK * max(abs(float(number)), half)
    low, high = float(number) - half - slack, float(number) + half + slack
    # One digit more than printed shows how ours rounds; counts have none.
    form = ",.0f" if decimals == 0 and float(ours).is_integer() else f",.{decimals + 1}f"
    return Check(what, ours, low, high, f"± {half:g}", float(number), text, part, form, erratum)


def printed_half_unit(text: str) -> float:
    """Half a unit of the last printed digit: what rounding may have hidden.

    >>> printed_half_unit("0.9193"), printed_half_unit("1,200"), printed_half_unit("+30.0 %")
    (5e-05, 0.5, 0.05)
    """
    return 0.5 * 10.0 ** -_decimals(_number(text))


def exact(
    what: str,
    ours: float,
    value: float,
    *,
    tolerance: float = SLACK,
    part: str = "",
    form: str = ".6f",
    paper: float | None = None,
    paper_text: str = "not printed",
    erratum: Erratum | None = None,
) -> Check:
    """Ours must be a value that is known exactly, by another way than the code under test."""
    low, high = value - tolerance, value + tolerance
    text = f"{value:{form}} ± {tolerance:g}"
    return Check(what, ours, low, high, text, paper, paper_text, part, form, erratum)


def banded(
    what: str,
    ours: float,
    mean: float,
    deviation: float,
    *,
    paper: float | None = None,
    paper_text: str = "",
    part: str = "",
    form: str = ".4f",
    checked: bool = True,
) -> Check:
    """Ours and the paper's must both lie within 3 standard deviations of a known mean.

    For numbers that hang on one random evaluation set: mean and deviation are those over sets.
    """
    reach = BAND_DEVIATIONS * deviation
    text = f"{mean:{form}} ± 3 x {deviation:.2g}"
    low, high = mean - reach, mean + reach
    return Check(what, ours, low, high, text, paper, paper_text, part, form, checked=checked)


def ranged(
    what: str,
    ours: float,
    low: float,
    high: float,
    *,
    paper: float | None = None,
    paper_text: str = "",
    part: str = "",
    form: str = ".2f",
    checked: bool = True,
) -> Check:
    """Ours and the paper's must both lie in a range, ends included."""
    text = f"{low:{form}} .. {high:{form}}"
    return Check(what, ours, low, high, text, paper, paper_text, part, form, checked=checked)


def bounded(
    what: str,
    ours: float,
    *,
    above: float | None = None,
    below: float | None = None,
    paper: float | None = None,
    paper_text: str = "",
    part: str = "",
    form: str = ".3f",
    checked: bool = True,
) -> Check:
    """An inequality, which holds strictly: above < ours < below.

    The paper's number, where given, must obey it too; `paper_text` alone is only shown.

    >>> bounded("GC-3: PCCEM below LTC", 0.31, below=0.56, paper_text="0.50 < 1.57").verdict
    <Conclusion.AGREES: 'agrees'>
    """
    limits = {sign: limit for sign, limit in ((">", above), ("<", below)) if limit is not None}
    if not limits:
        raise ValueError(f"{what}: give above or below")
    low = -math.inf if above is None else math.nextafter(above, math.inf)
    high = math.inf if below is None else math.nextafter(below, -math.inf)
    if above == math.inf or below == -math.inf:
        low, high = math.inf, -math.inf
    text = ", ".join(f"{sign} {limit:{form}}" for sign, limit in limits.items())
    return Check(what, ours, low, high, text, paper, paper_text, part, form, checked=checked)


def shown(
    what: str,
    ours: float,
    *,
    paper: float | None = None,
    paper_text: str = "",
    part: str = "",
    form: str = ".3f",
) -> Check:
    """Two numbers side by side that need not be equal, and are not scored."""
    return Check(what, ours, -math.inf, math.inf, "-", paper, paper_text, part, form)


def arithmetic(checks: Iterable[Check]) -> Iterator[Check]:
    """The checks, marked as using none of the product's code."""
    return (replace(check, arithmetic=True) for check in checks)


def _number(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace("%", "").strip())


def _decimals(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{number}: must be a finite number")
    return -exponent
