"""Compaction: the many parts of an hour that is over become one."""

from typing import Any

from app.click_log.columns import stacked
from app.click_log.partitions import CLICKS, DATASETS
from app.click_log.parts import COMPACT, SETTLED, Part
from app.click_log.reading_order import distinct_clicks, distinct_conversions
from app.click_log.shelf import Contents, Shelf


def compact(shelf: Shelf, before: float) -> int:
    """Compact every partition that is over `before` (epoch seconds); returns how many were.

    Partitions with a settled part are left to the settling, which rewrites them anyway.
    """
    listings = [shelf.list(dataset) for dataset in DATASETS]
    scattered = [
        parts
        for listing in listings
        for partition, parts in listing.items()
        if partition.ends <= before and _is_scattered(parts)
    ]
    for parts in scattered:
        contents = shelf.read(parts)
        if contents.parts:
            shelf.replace(contents.parts, COMPACT, merged(contents))
    return len(scattered)


def merged(contents: Contents) -> Any:
    """The partition's rows in reading order, each click or conversion once."""
    table = stacked(contents.tables)
    if contents.parts[0].partition.dataset == CLICKS:
        return distinct_clicks(table).table
    return distinct_conversions(table)


def _is_scattered(parts: list[Part]) -> bool:
    return len(parts) > 1 and parts[0].kind != SETTLED
