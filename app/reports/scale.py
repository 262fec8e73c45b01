"""The axis of a chart: where it begins and ends, and what is written along it."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.results.formatting import cells, shown
from calibrators.samples import Floats

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
        return _without_exponent(value + 0.0, digits)  # -0.0 has a sign, 0.0 has none
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


Mask = NDArray[np.bool_]
Form = Callable[[float], str]
FormAll = Callable[[Sequence[float]], Sequence[str]]

# Beyond it a value is drawn like infinity: at the edge.
_FARTHEST: Final = 1e15
# Under it a value is zero.
_NEAREST: Final = 1e-100
_MOST_DECADES: Final = 9.0
_MOST_TICKS: Final = 6
_LEAST_REACH, _LARGEST_RATIO = 1.25, 100.0
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_IN_DECADE: Final = (
    (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 5.0),
    (1.0, 3.0),
    (1.0,),
)
# Under this ratio of its ends an axis has too few round numbers of a decade.
_NARROW: Final = 2.5


@dataclass(frozen=True, slots=True)
class Scale:
    """The ends of an axis, its ticks and whether it is logarithmic."""

    low: float
    high: float
    ticks: Sequence[float]
    labels: Sequence[str]
    logarithmic: bool = False

    def inside(self, values: Floats) -> Mask:
        """Which values have a place on the axis."""
        return np.asarray((values >= self.low) & (values <= self.high))

    def below(self, values: Floats) -> Mask:
        """Which lie before its beginning; zeros of a logarithmic axis do."""
        return np.asarray(values < self.low)

    def above(self, values: Floats) -> Mask:
        """Which lie after its end."""
        return np.asarray(values > self.high)


def linear_scale(
    values: Iterable[Floats],
    *,
    include: Sequence[float] = (),
    end_on: Sequence[float] = (),
    room: float = 0.06,
    least_step: float = 0.0,
    form: FormAll = alike,
    most: int = _MOST_TICKS,
) -> Scale:
    """An axis that holds all finite values, and those of `include`, with room at both ends, but
    none behind a value of `end_on`: bars stand on zero."""
    known = _known(values, include)
    low, high = float(known.min()), float(known.max())
    more = room * (high - low) or 0.1 * abs(high) or 1.0
    low = low if low in end_on and low < high else low - more
    high = high if high in end_on and low < high else high + more
    ticks = _linear_ticks(low, high, most, least_step)
    return Scale(low, high, ticks, form(ticks))


def log_scale(
    values: Iterable[Floats],
    *,
    include: Sequence[float] = (),
    most_high: float = math.inf,
    form: Form = number,
) -> Scale:
    """An axis that holds all finite values above zero, and those of `include`."""
    known = _known(values, include)
    positive = known[known > 0]
    high = float(positive.max(initial=0.0)) or 1.0
    low = max(float(positive.min(initial=high)), high / 10**_MOST_DECADES)
    room = max((high / low) ** 0.06, 1.03)
    low, high = low / room, min(high * room, most_high)
    ticks = _log_ticks(low, high)
    return Scale(low, high, ticks, [form(tick) for tick in ticks], True)


def ratio_scale(values: Iterable[Floats], *, form: Form = number) -> Scale:
    """A logarithmic axis around 1 that ends at 100, and at the least at 1.25."""
    known = (found[np.isfinite(found) & (found > 0)] for found in values)
    held = [np.clip(found, 1 / _LARGEST_RATIO, _LARGEST_RATIO) for found in known]
    return log_scale(held, include=(1 / _LEAST_REACH, _LEAST_REACH), form=form)


def drawable(values: Iterable[Floats]) -> Floats:
    """All the values that an axis can hold, in one row."""
    together = np.concatenate([np.empty(0), *(np.ravel(found) for found in values)])
    held = together[np.abs(together) <= _FARTHEST]
    return np.where(np.abs(held) < _NEAREST, 0.0, held)


def within_reach(ends: Iterable[Floats], values: Iterable[Floats], factor: float) -> list[Floats]:
    """Ends of intervals, but none further than `factor` from the nearest of the values above zero:
    an interval may be so wide that an axis for all of it would press the values together."""
    held = drawable(values)
    known = held[held > 0]
    if not len(known):
        return []
    return [np.clip(end, known.min() / factor, known.max() * factor) for end in ends]


def _known(values: Iterable[Floats], include: Sequence[float]) -> Floats:
    known = drawable([np.asarray(include, float), *values])
    return known if len(known) else np.array([0.0, 1.0])


def _linear_ticks(low: float, high: float, most: int, least_step: float = 0.0) -> list[float]:
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    steps = (max(power * step, least_step) for step in _STEPS)
    choices = (_multiples(low, high, step) for step in steps)
    return next(ticks for ticks in choices if len(ticks) <= most)


def _multiples(low: float, high: float, step: float) -> list[float]:
    digits = 12 - math.floor(math.log10(step))
    places = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [tick for place in places if low <= (tick := round(place * step, digits)) <= high]


def _log_ticks(low: float, high: float) -> list[float]:
    if high / low < _NARROW:
        return _linear_ticks(low, high, _MOST_TICKS)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for multiples in _IN_DECADE:
        ticks = [m * 10.0**d for d in range(first, last + 1) for m in multiples]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= _MOST_TICKS:
            return ticks
    step = math.ceil(len(ticks) / _MOST_TICKS)
    return ticks[::step]
