"""The kinds of checks: printed digits, exact values, bands over evaluation sets, inequalities."""

import math
from decimal import Decimal

from evaluation.reproduction.check import SLACK, Check, Erratum

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
    (<Verdict.AGREES: 'agrees'>, '± 5e-05')
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
    words = f"{value:{form}} ± {tolerance:g}"
    return Check(what, ours, low, high, words, paper, paper_text, part, form, erratum)


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
    words = f"{mean:{form}} ± 3 x {deviation:.2g}"
    low, high = mean - reach, mean + reach
    return Check(what, ours, low, high, words, paper, paper_text, part, form, checked=checked)


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
    words = f"{low:{form}} .. {high:{form}}"
    return Check(what, ours, low, high, words, paper, paper_text, part, form, checked=checked)


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
    <Verdict.AGREES: 'agrees'>
    """
    limits = {sign: limit for sign, limit in ((">", above), ("<", below)) if limit is not None}
    if not limits:
        raise ValueError(f"{what}: give above or below")
    low = -math.inf if above is None else math.nextafter(above, math.inf)
    high = math.inf if below is None else math.nextafter(below, -math.inf)
    if above == math.inf or below == -math.inf:
        low, high = math.inf, -math.inf
    words = ", ".join(f"{sign} {limit:{form}}" for sign, limit in limits.items())
    return Check(what, ours, low, high, words, paper, paper_text, part, form, checked=checked)


def shown(
    what: str,
    ours: float,
    *,
    paper: float | None = None,
    paper_text: str = "",
    part: str = "",
    form: str = ".3f",
) -> Check:
    """Two numbers side by side that need not be equal, and are not judged."""
    return Check(what, ours, -math.inf, math.inf, "-", paper, paper_text, part, form)


def _number(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace("%", "").strip())


def _decimals(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"{number}: must be a finite number")
    return -exponent
