"""What a batch has gathered, whatever the order and the number of its blocks."""

from itertools import chain, repeat

from app.storage.batch import EventBatch
from app.storage.blocks import NO_TERMS
from app.storage.keys import TargetHour
from calibrators.fields.columns import by_event
from tests.storage.packing import terms_of, unpacked

Row = tuple[str, float, float, float, bytes | int | None, object, object]


def rows_by_log(batch: EventBatch) -> dict[TargetHour, list[Row]]:
    """Of each log the sorted rows: campaign, score, count, positive, id, number or neither,
    terms where there are any, and fields."""
    found: dict[TargetHour, list[Row]] = {}
    for entry in batch.entries():
        block = unpacked(entry.block)
        assert len(set(block.campaigns)) == len(block.campaigns)
        campaigns = (block.campaigns[row] for row in block.rows.tolist())
        values = (block.scores.tolist(), block.counts.tolist(), block.positives.tolist())
        known = [*entry.ids, *entry.numbers]
        assert not known or len(known) == len(block)
        terms = [None if row == NO_TERMS else row for row in terms_of(block)]
        ids, fields = chain(known, repeat(None)), by_event(block.fields or {}, len(block))
        rows = zip(campaigns, *values, ids, terms, fields, strict=False)
        found.setdefault(entry.log, []).extend(rows)
    return {log: sorted(rows, key=repr) for log, rows in found.items()}
