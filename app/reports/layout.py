"""Where the parts of a section stand on a wide screen: two charts side by side, no empty half."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from app.reports.page import Chart, Table

# A drawing so high has two others beside it.
_TALL: Final = 560.0
_HEIGHT: Final = re.compile(r'viewBox="0 0 \S+ ([\d.]+)"')

TABLE, CHART, TALL, ALONE = "wide", "", "tall", "alone"


def layout(parts: Sequence[Chart | Table]) -> list[str]:
    """How each part stands: `wide` over the whole width, `tall` beside two others, `alone` with
    its words beside it, or as usual."""
    found: list[str] = []
    for are_charts, run in groupby(parts, lambda part: isinstance(part, Chart)):
        held = list(run)
        found += _of_charts(held) if are_charts else [TABLE] * len(held)
    return found


def _of_charts(run: Sequence[Chart | Table]) -> list[str]:
    if len(run) == 1:
        return [ALONE]
    tall = [isinstance(chart, Chart) and _is_tall(chart.svg) for chart in run]
    classes = [TALL if is_tall else CHART for is_tall in tall]
    if (len(tall) + sum(tall)) % 2 == 0:
        return classes
    # One place is left over; a tall one at the end has one neighbour and no second.
    classes[-1] = CHART if tall[-1] else ALONE
    return classes


def _is_tall(svg: str) -> bool:
    found = _HEIGHT.search(svg)
    return found is not None and float(found[1]) > _TALL
