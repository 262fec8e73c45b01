"""Numbers as tables and reports show them.

A difference and its interval, written with as many decimals as the interval is worth.
How far intervals over drawn blocks can be trusted, in words.
"""

import math
from collections.abc import Mapping

from evaluation.bootstrap.blocks import LEAST_BLOCKS
from evaluation.bootstrap.paired import Difference

Rows = Mapping[str, Mapping[str, float]]
HOW_TO_READ = (
    "PCOC is promised over actual clicks: 1 is right, 1.2 promises 20 % too many."
    " GC-N is how far off the promise is inside a campaign's N score bins: 0 is right."
)


def shown(value: float, form: str) -> str:
    """A number in a cell; an undefined one is -."""
    if math.isnan(value):
        return "-"
    return "∞" if math.isinf(value) else format(value, form)


_MOST_DECIMALS = 9
_USUAL = 5


def decimals_for(difference: Difference) -> int:
    """Decimals with which half the interval has two digits that count."""
    half = (difference.upper - difference.lower) / 2.0
    if not (math.isfinite(half) and half > 0.0):
        return _USUAL
    return min(max(1 - math.floor(math.log10(half)), 0), _MOST_DECIMALS)


def value_text(difference: Difference, decimals: int | None = None) -> str:
    """The difference with its sign."""
    places = decimals_for(difference) if decimals is None else decimals
    return _without_sign_of_zero(shown(difference.value, f"+.{places}f"))


def interval_text(difference: Difference, decimals: int | None = None) -> str:
    """The interval, such as "-0.0021 to 0.0003"."""
    places = decimals_for(difference) if decimals is None else decimals
    ends = (shown(end, f".{places}f") for end in (difference.lower, difference.upper))
    return " to ".join(map(_without_sign_of_zero, ends))


def _without_sign_of_zero(text: str) -> str:
    return (
        text.lstrip("+-") if text[:1] in "+-" and not text.strip("+-0.") and text != "-" else text
    )


_FEW = LEAST_BLOCKS / 2


def block_warnings(blocks: int, unit: str, effective: float) -> list[str]:
    """What makes intervals over so many blocks less than they seem."""
    said = []
    if unit == "campaign-hours":
        said.append(
            f"There are fewer than {LEAST_BLOCKS} campaign-days, so campaign-hours were drawn:"
            " hours of one day share its luck, and the intervals are too narrow."
        )
    if blocks < LEAST_BLOCKS:
        said.append(
            f"Only {blocks} {unit}: the intervals cannot be trusted; it takes {LEAST_BLOCKS} at"
            " least."
        )
    elif effective < _FEW:
        said.append(
            f"A few of the {blocks} {unit} have most of the impressions (they vary as"
            f" {effective:.1f} of one size would): the intervals are rough."
        )
    return said


def drawn_how_often(blocks: int, unit: str, draws: int, few: int, which: str) -> str:
    """How the intervals were made, and how to read them; `which` are drawn fewer times."""
    fewer = f" ({which} {few:,} times)" if few != draws else ""
    return (
        f"95 % intervals over {blocks:,} {unit}, drawn {draws:,} times{fewer}. Without 0 inside, a"
        " difference is beyond chance on these campaigns; of 20 equal pairs, one shows it"
        " nevertheless."
    )
