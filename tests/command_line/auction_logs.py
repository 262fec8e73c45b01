"""Small logs of auctions in files."""

from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.auction.search_platform import DrawnSearchLog, SearchPlatform

HEAD = "page,query,ad,position,clicked,bid,score,candidate"
ROWS = (
    "p1,q,a,1,1,2.0,0.30,0.2",
    "p1,q,b,2,0,1.0,0.20,0.4",
    "p1,q,c,,,0.5,0.10,0.1",
    "p2,q,a,1,0,2.0,0.30,0.2",
    "p2,q,b,0,0,1.0,0.01,0.4",
)


def write_rows(path: Path, *rows: str, head: str = HEAD) -> Path:
    """A text file of these rows."""
    path.write_text("\n".join((head, *rows)) + "\n")
    return path


@cache
def drawn() -> DrawnSearchLog:
    """2,000 pages of the synthetic search engine, a query for every hundred."""
    return SearchPlatform(20, pages=2_000, seed=1).draw()


def write_drawn(path: Path) -> Path:
    """The log as Parquet under other names of columns, rows not in order."""
    log = drawn()
    table = pa.table(
        {
            "request": log.log.pages,
            "words": np.char.add("query ", log.log.queries.astype(str)),
            "creative": log.log.ads,
            "slot": log.log.positions,
            "click": log.log.clicks,
            "cpc": log.log.bids,
            "pctr": log.scores,
            "pctr_new": log.models["sharper_head"],
        }
    )
    order = np.random.default_rng(0).permutation(len(log.log))
    pq.write_table(table.take(order), path)
    return path


NAMED = (
    *("--page", "request", "--query", "words", "--ad", "creative", "--position", "slot"),
    *("--clicked", "click", "--bid", "cpc", "--score", "pctr", "--candidate", "pctr_new"),
)
