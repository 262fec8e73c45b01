"""Whether the rows of two logs are the same impressions."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

import numpy as np

from app.command_line.errors import CommandError
from app.command_line.judged import Floats
from app.command_line.side_batches import Campaigns, SideBatch
from evaluation import EventTable

MILLISECOND: Final = 1e-3
"""Times that are no further apart are one: files differ in what they round them to."""

Column = TypeVar("Column", Floats, Campaigns)

_HINT: Final = {
    False: "both must hold the same impressions in the same order, or name an id to join them by"
    " with --id",
    True: "rows of one id must be the same impression",
}


@dataclass(frozen=True, slots=True, eq=False)
class PairedBatch:
    """Impressions with A's scores, and B's scores of them, (n,); `done` is the share read."""

    events: EventTable
    scores_b: Floats
    done: float


def agreed(a: SideBatch, b: SideBatch) -> PairedBatch:
    """The rows of both, (n,) each, as one.

    What only one log has is taken from it. A `CommandError` names the first row that differs in
    what both have, or a column that neither has.
    """
    _agree_on_campaigns(a, b)
    _agree(a, b, "time", (a.times, b.times), MILLISECOND, _moment)
    _agree(a, b, "outcome", (a.outcomes, b.outcomes), 0.0, "{:g}".format)
    _agree(a, b, "bid", (a.bids, b.bids), 0.0, "{:g}".format)
    campaigns = _either(a, b, "campaign", a.campaigns, b.campaigns)
    events = EventTable(
        _either(a, b, "time", a.times, b.times),
        campaigns.names,
        campaigns.rows,
        a.scores,
        _either(a, b, "outcome", a.outcomes, b.outcomes),
        a.bids if a.bids is not None else b.bids,
    )
    return PairedBatch(events, b.scores, 0.5 * (a.done + b.done))


def _either(
    a: SideBatch, b: SideBatch, what: str, ours: Column | None, theirs: Column | None
) -> Column:
    found = ours if ours is not None else theirs
    if found is None:
        raise CommandError(
            f"neither {a.file} nor {b.file} has a column of the {what}: name it with --{what}"
        )
    return found


def _agree_on_campaigns(a: SideBatch, b: SideBatch) -> None:
    ours, theirs = a.campaigns, b.campaigns
    if ours is None or theirs is None:
        return
    index = {name: row for row, name in enumerate(ours.names)}
    places = np.array([index.get(name, -1) for name in theirs.names], np.int32)
    differs = places[theirs.rows] != ours.rows
    if differs.any():
        row = int(np.argmax(differs))
        found = (repr(side.names[side.rows[row]]) for side in (ours, theirs))
        raise _unlike(a, b, "campaign", row, *found)


def _agree(
    a: SideBatch,
    b: SideBatch,
    what: str,
    columns: tuple[Floats | None, Floats | None],
    most: float,
    shown: Callable[[float], str],
) -> None:
    ours, theirs = columns
    if ours is None or theirs is None:
        return
    differs = np.abs(ours - theirs) > most
    if differs.any():
        row = int(np.argmax(differs))
        raise _unlike(a, b, what, row, *(shown(float(column[row])) for column in (ours, theirs)))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _unlike(
    a: SideBatch, b: SideBatch, what: str, row: int, ours: str, theirs: str
) -> CommandError:
    joined = a.ids is not None
    place = "a row" if joined else f"row {a.first + row + 1}"
    return CommandError(
        f"{place}: the {what} is {ours} in {a.file} and {theirs} in {b.file}; {_HINT[joined]}"
    )
