"""A synthetic log of auctions, whose truth is known."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from app.command_line.auction_log import AuctionLog
from app.command_line.errors import FAILED, CommandError
from evaluation.auction import DrawnSearchLog, SearchPlatform

PAGES_PER_QUERY = 100
DEMO_CANDIDATE = "sharper_head"
_BASELINE = "baseline"
_WRITERS = {".parquet": pyarrow.parquet.write_table, ".csv": pyarrow.csv.write_csv}


def drawn_log(pages: int, seed: int) -> DrawnSearchLog:
    """Pages of the synthetic search engine, a query for every hundred."""
    return SearchPlatform(max(pages // PAGES_PER_QUERY, 1), pages=pages, seed=seed).draw()


def demo_models(drawn: DrawnSearchLog) -> AuctionLog:
    """The log as `sirocco auction` would read it."""
    models = {"baseline": drawn.scores, "candidate": drawn.models[DEMO_CANDIDATE]}
    return AuctionLog(drawn.log, models)


def check_writable(path: Path) -> None:
    """A `CommandError` when no log can be written at `path`."""
    if path.suffix.lower() not in _WRITERS:
        raise CommandError(f"{path}: --write makes a {' or a '.join(_WRITERS)}")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"{path}: there is no folder {path.absolute().parent}")


def write_log(drawn: DrawnSearchLog, path: Path) -> int:
    """Save the log under the default names of columns; returns the number of rows."""
    log = drawn.log
    others = {name: scores for name, scores in drawn.models.items() if name != _BASELINE}
    table = pa.table(
        {
            "page": log.pages,
            "query": log.queries,
            "ad": log.ads,
            "position": pa.array(log.positions, mask=log.positions == 0),
            "clicked": log.clicks.astype(np.int8),
            "bid": log.bids,
            "score": drawn.scores,
            "candidate": others.pop(DEMO_CANDIDATE),
            **others,
        }
    )
    try:
        _WRITERS[path.suffix.lower()](table, path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", FAILED) from error
    return int(table.num_rows)
