"""Two logs of the same impressions, row beside row."""

from collections.abc import Iterator

from app.command_line.agreement import PairedBatch, agreed
from app.command_line.errors import CommandError
from app.command_line.side_batches import SideBatch, SideFile


def paired_batches(a: SideFile, b: SideFile) -> Iterator[PairedBatch]:
    """The rows of both logs in step, as they stand.

    A `CommandError` names the first row that differs, or how many rows each log has.
    """
    rest_a, rest_b = a.batches(), b.batches()
    ours, theirs = next(rest_a, None), next(rest_b, None)
    paired = 0
    while ours is not None and theirs is not None:
        size = min(len(ours), len(theirs))
        yield agreed(ours.part(slice(0, size)), theirs.part(slice(0, size)))
        paired += size
        ours, theirs = _behind(ours, size, rest_a), _behind(theirs, size, rest_b)
    if ours is not None or theirs is not None:
        rows_a, rows_b = paired + _left(ours, rest_a), paired + _left(theirs, rest_b)
        raise CommandError(
            f"{a.path} has {rows_a:,} rows, {b.path} has {rows_b:,}: both must hold the same"
            " impressions in the same order, or name an id to join them by with --id"
        )


def _behind(batch: SideBatch, size: int, rest: Iterator[SideBatch]) -> SideBatch | None:
    """What is left of a batch, or the next one."""
    return batch.part(slice(size, None)) if size < len(batch) else next(rest, None)


def _left(batch: SideBatch | None, rest: Iterator[SideBatch]) -> int:
    return 0 if batch is None else len(batch) + sum(map(len, rest))
