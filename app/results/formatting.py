"""Numbers, intervals and names as tables and reports show them."""

import math
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from numpy.typing import NDArray

from evaluation.bootstrap.blocks import LEAST_BLOCKS
from evaluation.bootstrap.paired import Difference

Rows = Mapping[str, Mapping[str, float]]
HOW_TO_READ = (
    "PCOC is predicted over actual clicks: 1 is right, 1.2 is 20 % too many."
    " GC-N is how far off the prediction is inside a campaign's N score bins: 0 is right."
)


_REPLACED: Final = "�"
# They turn the direction of all that follows, outside the name too.
_TURNING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def shown(value: float, form: str) -> str:
    """A number in a cell; an undefined one is -."""
    if math.isfinite(value):
        # From there on a double holds no decimals, and its digits would fill a page.
        return format(value, form if abs(value) < 1e15 else form.replace("f", "e"))
    return "-" if math.isnan(value) else "∞" if value > 0 else "-∞"


def percent(share: float) -> str:
    """A share in percent; no more than two digits count of what is below all."""
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{shown(100.0 * share, ',.0f')} %"


def counted(number: float, one: str) -> str:
    """How many there are of a thing, such as "1 hour" or "1,200 hours"."""
    return f"{number:,.0f} {one}{'' if round(number) == 1 else 's'}"


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


def clean(text: str) -> str:
    """The text without what no document may hold: control characters, halves of characters."""
    return "".join(character if _is_allowed(character) else _REPLACED for character in text)


def _is_allowed(character: str) -> bool:
    if character in "\n\t":
        return True
    if character in _TURNING or character in "\ufffe\uffff":
        return False
    return unicodedata.category(character) not in ("Cc", "Cs")


def cells(text: str) -> int:
    """Width of a text in characters of the usual width; East Asian ones take two."""
    return sum(_cells_of(character) for character in text)


def _cells_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(name: str, most: int) -> str:
    """The name on one line of at most `most` cells; an ellipsis stands for the rest."""
    line = " ".join(clean(name).split())
    if cells(line) <= most:
        return line
    ends = list(accumulate(_cells_of(character) for character in line))
    return f"{line[: bisect_right(ends, most - 1)].rstrip()}…"


def records(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, float]]:
    """Columns, (n,) each, as n rows for programs."""
    lists = {name: column.tolist() for name, column in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def listed(names: Sequence[str]) -> str:
    """The names as in: a, b and c."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
