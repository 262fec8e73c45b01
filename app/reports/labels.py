"""Names and numbers as a chart can show them."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from app.results.formatting import cells, shown

# In the widest of the usual fonts.
_CELL: Final = 0.62
_BROAD: Final = frozenset("%+=@MWmw∞…")
_BROAD_CELL: Final = 0.98
_PLAIN: Final = (1e-4, 1e12)
UNDEFINED: Final = "-"
_SHORT_UNIT: Final = 2


def width(text: str, size: float) -> float:
    """About how wide a text is, in the unit of `size`; rather more than less."""
    broad = sum(character in _BROAD for character in text)
    return ((cells(text) - broad) * _CELL + broad * _BROAD_CELL) * size


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits that count; an undefined one is -."""
    if not math.isfinite(value):
        return shown(value, "")
    if value == 0 or _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return _without_exponent(value, digits)
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{_trimmed(mantissa)}e{int(exponent)}"


def _without_exponent(value: float, digits: int) -> str:
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    leading = -math.floor(math.log10(abs(value))) - 1 if 0 < abs(value) < 1 else 0
    return _trimmed(f"{value:,.{max(digits - whole + leading, 0)}f}")


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def alike(values: Sequence[float], digits: int = 12) -> list[str]:
    """Numbers with as many decimals each, as many as the one that needs most."""
    known = [value for value in values if math.isfinite(value)]
    if not all(value == 0 or _PLAIN[0] <= abs(value) < _PLAIN[1] for value in known):
        return [number(value, digits) for value in values]
    most = max((_decimals(number(value, digits)) for value in known), default=0)
    return [shown(value, f",.{most}f") for value in values]


def in_unit(unit: str) -> Callable[[Sequence[float]], list[str]]:
    """What writes a unit behind each number, when it is short enough for that."""
    beside = unit if has_room(unit) else ""
    return lambda values: [with_unit(text, beside) for text in alike(values)]


def has_room(unit: str) -> bool:
    """Whether a unit is short enough to stand behind each number of an axis."""
    return len(unit) <= _SHORT_UNIT


def percents(values: Sequence[float], digits: int = 12) -> list[str]:
    """Shares in percent, with as many decimals each."""
    return [with_unit(text, "%") for text in alike([100 * value for value in values], digits)]


def _decimals(text: str) -> int:
    return 0 if "e" in text else len(text.partition(".")[2])


def percent(value: float, digits: int = 3) -> str:
    """A share in percent."""
    return f"{number(100 * value, digits)} %" if not math.isnan(value) else UNDEFINED


def with_unit(text: str, unit: str) -> str:
    """A number beside its unit."""
    return f"{text} {unit}" if unit and text != UNDEFINED else text
