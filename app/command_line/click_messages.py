"""Clicks, behaviours and conversions of a stream, as the systems of an ad platform send them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from app.command_line.event_messages import Message
from calibrators.samples import Floats, Integers
from evaluation import ClickStream
from pccem import Categorical, Column

_BEHAVIOUR, _FEATURE = "behaviour.", "feature."
# After the click, and inside every post-click window that can be set.
_SECONDS_AFTER = 5.0


@dataclass(frozen=True)
class ClickMessages:
    """The events of a stream for one target.

    A click's id is its number in the stream, padded so that ids sort as clicks do. Missing values
    are not sent.
    """

    stream: ClickStream
    target: str

    def between(self, first: float, behind: float) -> Iterator[Message]:
        """What becomes known in [first, behind): clicks, what was done after them, conversions.

        A click comes with its behaviours, though some were done a little after `behind`.
        """
        chosen = self.stream.between(first, behind)
        yield from self._clicks(chosen)
        yield from self._behaviours(chosen)
        start, end = np.searchsorted(self._converted_at, (first, behind))
        for number, at in zip(
            self._converting[start:end].tolist(),
            self._converted_at[start:end].tolist(),
            strict=True,
        ):
            yield {
                "type": "conversion",
                "click_id": self._id(number),
                "occurred_at": at,
                "target": self.target,
            }

    def _clicks(self, chosen: slice) -> Iterator[Message]:
        clicks = self.stream.clicks
        known = self._values(_FEATURE, chosen)
        rows = zip(
            clicks.clicked_at[chosen].tolist(),
            clicks.rows[chosen].tolist(),
            clicks.scores[chosen].tolist(),
            strict=True,
        )
        for place, (at, row, score) in enumerate(rows):
            yield {
                "type": "click",
                "click_id": self._id(chosen.start + place),
                "campaign": clicks.campaigns[row],
                "occurred_at": at,
                "impression_at": at,
                "scores": {self.target: score},
                "features": {
                    name: values[place]
                    for name, values in known.items()
                    if values[place] is not None
                },
            }

    def _behaviours(self, chosen: slice) -> Iterator[Message]:
        times = self.stream.clicks.clicked_at[chosen].tolist()
        for name, values in self._values(_BEHAVIOUR, chosen).items():
            for place, value in enumerate(values):
                if value is not None:
                    yield {
                        "type": "behaviour",
                        "click_id": self._id(chosen.start + place),
                        "occurred_at": times[place] + _SECONDS_AFTER,
                        "name": name,
                        "value": value,
                    }

    def _values(self, prefix: str, chosen: slice) -> dict[str, list[float | str | None]]:
        columns = self.stream.clicks.features.columns.items()
        return {
            name.removeprefix(prefix): _known(column, chosen)
            for name, column in columns
            if name.startswith(prefix)
        }

    def _id(self, number: int) -> str:
        return f"{number:0{self._digits}d}"

    @cached_property
    def _digits(self) -> int:
        return len(str(len(self.stream)))

    @cached_property
    def _converting(self) -> Integers:
        """Numbers of the clicks that convert, in order of the conversions' times."""
        delay = self.stream.delay
        numbers = np.flatnonzero(~np.isnan(delay))
        return numbers[np.argsort(self.stream.clicks.clicked_at[numbers] + delay[numbers])]

    @cached_property
    def _converted_at(self) -> Floats:
        """Their times, ascending."""
        numbers = self._converting
        return self.stream.clicks.clicked_at[numbers] + self.stream.delay[numbers]


def _known(column: Column, chosen: slice) -> list[float | str | None]:
    if isinstance(column, Categorical):
        return [*Categorical(column.codes[chosen], column.categories).values()]
    return [None if value != value else value for value in column[chosen].tolist()]
