"""Logs of auctions in files: what is read, and how every error names file, row, column, value and
rule."""

from pathlib import Path

import pyarrow as pa
import pytest

from app.datasets.auctions import AuctionColumns, AuctionLog, read_auction_log
from app.errors import CommandError
from evaluation.auction.gsp import SlotLayout
from tests.command_line.auction_logs import HEAD, ROWS, write_rows
from tests.command_line.logs import write

ID_RULE = "every candidate has a page, a query and an ad: their names or numbers"
POSITION_RULE = (
    "a position is a whole number from 1 to 9 (--mainline 4, --sidebar 5), empty or 0 where the ad"
    " was not shown"
)
CLICK_RULE = "0 or 1; it may be empty where the ad was not shown"


def read(path: Path, columns: AuctionColumns | None = None) -> AuctionLog:
    return read_auction_log(path, columns or AuctionColumns(), SlotLayout())


def error_of(path: Path, columns: AuctionColumns | None = None) -> str:
    with pytest.raises(CommandError) as caught:
        read(path, columns)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_text_is_read(tmp_path):
    """An empty position or click is 0; names are numbered in their order."""
    given = read(write_rows(tmp_path / "log.csv", *ROWS))

    assert given.log.n_pages == 2
    assert given.log.positions.tolist() == [1, 2, 0, 1, 0]
    assert given.log.clicks.tolist() == [True, False, False, False, False]
    assert given.log.ads.tolist() == [0, 1, 2, 0, 1]
    assert given.models["baseline"].tolist() == [0.3, 0.2, 0.1, 0.3, 0.01]
    assert given.models["candidate"].tolist() == [0.2, 0.4, 0.1, 0.2, 0.4]


@pytest.mark.parametrize("kind", ["numbers", "texts", "dictionaries", "nothing shown"])
def test_parquet_of_any_types_is_read(tmp_path, kind):
    """Numbers, text, dictionaries; booleans as clicks; a column of nothing but empty values."""
    pages: pa.Array = pa.array([11, 11, 2])
    queries, ads = pa.array([1.0, 1.0, 2.0]), pa.array([7, 8, 7])
    position, clicked = pa.array([1, None, 2]), pa.array([True, None, False])
    if kind == "texts":
        pages, position = pa.array(["11", "11", "2"]), pa.array(["1", None, "2.0"])
    if kind == "dictionaries":
        pages, position = pages.dictionary_encode(), position.dictionary_encode()
    if kind == "nothing shown":
        position, clicked = pa.nulls(3), pa.nulls(3)
    table = {"page": pages, "query": queries, "ad": ads, "position": position}
    table |= {"clicked": clicked, "bid": [1, 2, 3], "score": [0.1, 0.2, 0.3]}

    given = read(write(tmp_path / "log.parquet", table))

    shown = [0, 0, 0] if kind == "nothing shown" else [1, 0, 2]
    assert given.log.positions.tolist() == shown
    assert given.log.bids.tolist() == [1.0, 2.0, 3.0]
    assert list(given.models) == ["baseline"]


def test_clicks_may_be_words(tmp_path):
    """As some tools write booleans."""
    path = write_rows(tmp_path / "log.csv", "p,q,a,1,True,1,0.1,0.1", "p,q,b,2,false,1,0.1,0.1")

    assert read(path).log.clicks.tolist() == [True, False]


def test_pages_are_names_so_leading_zeros_count(tmp_path):
    """Page 07 is not page 7."""
    path = write_rows(tmp_path / "log.csv", "07,q,a,1,0,1,0.1,0.1", "7,q,a,1,0,1,0.1,0.1")

    assert read(path).log.n_pages == 2


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            "p3,q,a,1,0,2.0,1.7,0.2",
            "score = 1.7; a score must be a number in [0, 1]; --percent reads 0 to 100",
        ),
        ("p3,q,a,1,0,2.0,0.2,-1", "candidate = -1.0; a score must be a number in [0, 1]"),
        ("p3,q,a,1,0,-2.0,0.2,0.2", "bid = -2.0; a bid is a number from 0 to 1e280"),
        ("p3,q,a,1.5,0,2,0.2,0.2", f"position = 1.5; {POSITION_RULE}"),
        ("p3,q,a,-1,0,2,0.2,0.2", f"position = -1.0; {POSITION_RULE}"),
        ("p3,q,a,10,0,2,0.2,0.2", f"position = 10.0; {POSITION_RULE}"),
        ("p3,q,a,nan,0,2,0.2,0.2", f"position = nan; {POSITION_RULE}"),
        ("p3,q,a,top,0,2,0.2,0.2", f"position = 'top'; {POSITION_RULE}"),
        ("p3,q,a,1,2,2,0.2,0.2", f"clicked = 2.0; {CLICK_RULE}"),
        ("p3,q,a,1,0.5,2,0.2,0.2", f"clicked = 0.5; {CLICK_RULE}"),
        ("p3,q,a,1,,2,0.2,0.2", f"clicked = ''; {CLICK_RULE}"),
        ("p3,q,a,,what,2,0.2,0.2", f"clicked = 'what'; {CLICK_RULE}"),
        ("p3,q,a,,1,2,0.2,0.2", "clicked = 1.0; the ad was not shown: its position is 0"),
        (",q,a,1,0,2,0.2,0.2", f"page = ''; {ID_RULE}"),
        ("p3,,a,1,0,2,0.2,0.2", f"query = ''; {ID_RULE}"),
        ("p3,q,,1,0,2,0.2,0.2", f"ad = ''; {ID_RULE}"),
        ("p1,q,c,3,0,2,0.2,0.2", "ad = 'c'; the same ad twice on one page"),
        ("p1,q,d,2,0,2,0.2,0.2", "position = 2.0; two ads in one position of a page"),
        ("p1,r,d,3,0,2,0.2,0.2", "query = 'r'; its page has another query too"),
    ],
)
def test_a_bad_value_is_named_with_its_row(tmp_path, row, expected):
    path = write_rows(tmp_path / "log.csv", *ROWS, row)

    assert error_of(path) == f"log.csv, row 6: {expected}"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1.0, float("nan")], f"log.parquet, row 2: page = nan; {ID_RULE}"),
        (["x", ""], f"log.parquet, row 2: page = ''; {ID_RULE}"),
        ([[1, 2], []], "log.parquet: column 'page' holds list<"),
    ],
)
def test_an_id_is_a_name_or_a_number(tmp_path, values, said):
    rest = {name: [1, 1] for name in ("query", "ad", "bid", "score", "position", "clicked")}

    assert error_of(write(tmp_path / "log.parquet", {**rest, "page": values})).startswith(said)


def test_a_log_of_impressions_says_what_it_lacks(tmp_path):
    """The log of `sirocco evaluate` has neither pages nor queries nor ads."""
    path = write_rows(
        tmp_path / "log.csv", "1767225600,a,0.5,1,2", head="time,campaign,score,outcome,bid"
    )

    assert error_of(path) == (
        "log.csv has no column 'page', 'query', 'ad', 'position', 'clicked': name what it has with"
        " --page, --query, --ad, --position, --clicked. A log of auctions has a row for each"
        " candidate of each page, shown or not (sirocco auction --help)."
        " It has: time, campaign, score, outcome, bid"
    )


def test_a_candidate_that_was_asked_for_must_be_there(tmp_path):
    """Unlike the one by default."""
    path = write_rows(tmp_path / "log.csv", *ROWS)

    assert "no column 'new': name what it has with --candidate" in error_of(
        path, AuctionColumns(candidate="new")
    )


def test_a_column_stands_once(tmp_path):
    path = write_rows(tmp_path / "log.csv", f"{ROWS[0]},a", head=f"{HEAD},ad")

    assert "2 columns named 'ad'" in error_of(path)
