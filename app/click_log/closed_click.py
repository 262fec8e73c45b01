"""A click whose post-click window is over, as the click log keeps it."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Self

from app.storage.open_clicks import OpenClick


@dataclass(frozen=True, slots=True)
class ClosedClick:
    """What was known of a click before it, what was done after it, and what it was worth then.

    `scores` and `probabilities` are by target, `features` and `behaviours` by name. A probability
    is what the atlas in force gave when the click was closed.
    """

    click_id: str
    campaign: str
    clicked_at: float
    scores: Mapping[str, float]
    features: Mapping[str, float | str]
    behaviours: Mapping[str, float]
    probabilities: Mapping[str, float]

    @classmethod
    def close(
        cls, click: OpenClick, post_click_seconds: float, probabilities: Mapping[str, float]
    ) -> Self:
        """Add up each behaviour's values inside the post-click window."""
        return cls(
            click.click_id,
            click.campaign,
            click.clicked_at,
            click.scores,
            click.features,
            _sums(click, post_click_seconds),
            probabilities,
        )


def _sums(click: OpenClick, post_click_seconds: float) -> dict[str, float]:
    values = defaultdict(list)
    for name, occurred_at, value in click.behaviours:
        if 0.0 <= occurred_at - click.clicked_at < post_click_seconds:
            values[name].append(value)
    # Exact sums do not depend on the order of arrival.
    return {name: fsum(values[name]) for name in sorted(values)}
