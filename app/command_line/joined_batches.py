"""Two logs of the same impressions, joined by an id."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from app.click_log.id_hashes import Hashes
from app.command_line.agreement import PairedBatch, agreed
from app.command_line.errors import CommandError
from app.command_line.side_batches import SideBatch, SideFile


def joined_batches(a: SideFile, b: SideFile) -> Iterator[PairedBatch]:
    """The rows of A in order, each with the row of B that has its id; B is held in memory.

    A `CommandError` says how many ids stand twice in a log, or in one log only.
    """
    held = SideBatch.joined([*b.batches()])
    ids = _ids(held)
    order = np.argsort(ids)
    ordered = ids[order]
    _check_distinct(b, int((ordered[1:] == ordered[:-1]).sum()))
    found = np.zeros(len(ordered), bool)
    missing = twice = 0
    unlike: CommandError | None = None
    for batch in a.batches():
        places = np.minimum(np.searchsorted(ordered, _ids(batch)), len(ordered) - 1)
        known = ordered[places] == _ids(batch)
        matched = places[known]
        twice += len(matched) - int((~found[np.unique(matched)]).sum())
        found[matched] = True
        missing += int((~known).sum())
        if known.any() and unlike is None:
            try:
                yield agreed(batch.part(np.flatnonzero(known)), held.part(order[matched]))
            except CommandError as error:
                # Ids that stand twice explain it better.
                unlike = error
    _check_distinct(a, twice)
    _check_matched(a.path, b.path, missing, int((~found).sum()))
    if unlike is not None:
        raise unlike


def _ids(batch: SideBatch) -> Hashes:
    return np.empty(0, np.uint64) if batch.ids is None else batch.ids


def _check_distinct(file: SideFile, twice: int) -> None:
    if twice:
        raise CommandError(
            f"{file.path}: {twice:,} {'rows have' if twice > 1 else 'row has'} an id that stands"
            f" in a row before; column {file.id!r} must hold every id once"
        )


def _check_matched(a: Path, b: Path, only_a: int, only_b: int) -> None:
    if only_a or only_b:
        raise CommandError(
            f"{only_a:,} ids of {a} are not in {b}, {only_b:,} of {b} are not in {a}: both must"
            " hold the same impressions"
        )
