"""Options of `sirocco auction`, each described once."""

from pathlib import Path
from typing import Annotated

import typer

_COLUMNS = "Columns of the log"
_AUCTION = "How the auction is held"
_CLICKS = "How clicks are expected"
_SWEEP = "Operating points"
_DEMO = "Without a log"

Log = Annotated[
    Path | None,
    typer.Argument(
        metavar="LOG",
        help="Auctions: .parquet, .csv or .tsv; .gz, .bz2 or .zst may follow.",
        show_default=False,
    ),
]
PageColumn = Annotated[
    str, typer.Option("--page", help="Page (request) of the candidate.", rich_help_panel=_COLUMNS)
]
QueryColumn = Annotated[
    str, typer.Option("--query", help="What the user searched for.", rich_help_panel=_COLUMNS)
]
AdColumn = Annotated[
    str, typer.Option("--ad", help="The ad; once on a page.", rich_help_panel=_COLUMNS)
]
PositionColumn = Annotated[
    str,
    typer.Option(
        "--position",
        help="Slot it was shown in, from 1; empty or 0: not shown.",
        rich_help_panel=_COLUMNS,
    ),
]
ClickedColumn = Annotated[
    str, typer.Option("--clicked", help="0 or 1; may be empty.", rich_help_panel=_COLUMNS)
]
BidColumn = Annotated[
    str, typer.Option("--bid", help="Bid for a click, from 0.", rich_help_panel=_COLUMNS)
]
ScoreColumn = Annotated[
    str,
    typer.Option(
        "--score",
        help="Model in force: probability of a click at the first position.",
        rich_help_panel=_COLUMNS,
    ),
]
CandidateColumn = Annotated[
    str | None,
    typer.Option(
        "--candidate",
        metavar="TEXT",
        help="The same of the new model.",
        rich_help_panel=_COLUMNS,
        show_default="candidate, where the log has it",
    ),
]
Mainline = Annotated[
    int, typer.Option("--mainline", min=0, max=1_000, help="Slots above.", rich_help_panel=_AUCTION)
]
Sidebar = Annotated[
    int,
    typer.Option(
        "--sidebar",
        min=0,
        max=1_000,
        help="Slots beside; positions go on after the mainline's last.",
        rich_help_panel=_AUCTION,
    ),
]
Alpha = Annotated[
    float,
    typer.Option(
        "--alpha",
        min=0,
        help="Click investment power: ads rank by bid * score ** alpha.",
        rich_help_panel=_AUCTION,
    ),
]
Reserve = Annotated[
    float | None,
    typer.Option(
        "--reserve",
        min=0,
        help="Least rank score to be shown.",
        rich_help_panel=_AUCTION,
        show_default="as many ads a page as logged",
    ),
]
MainlineReserve = Annotated[
    float | None,
    typer.Option(
        "--mainline-reserve",
        min=0,
        help="Least rank score in the mainline.",
        rich_help_panel=_AUCTION,
        show_default="as many mainline ads a page as logged",
    ),
]
Curve = Annotated[
    str,
    typer.Option(
        "--curve",
        metavar="mle|naive",
        help="How the click curve is estimated.",
        rich_help_panel=_CLICKS,
    ),
]
Shrinkage = Annotated[
    float,
    typer.Option(
        "--shrinkage",
        min=0,
        help="Impressions by which a rate at a position is drawn to the ad's elsewhere; 0 as in"
        " the paper.",
        rich_help_panel=_CLICKS,
    ),
]
MinImpressions = Annotated[
    float,
    typer.Option(
        "--min-impressions",
        min=1,
        help="Impressions at a position that its own rate needs.",
        rich_help_panel=_CLICKS,
    ),
]
MostUnseen = Annotated[
    float,
    typer.Option(
        "--most-unseen",
        min=0,
        max=1,
        help="Share of slots with ads never shown for the query above which nothing is concluded.",
        rich_help_panel=_CLICKS,
    ),
]
Confidence = Annotated[
    float,
    typer.Option("--confidence", min=0.5, max=0.999, help="Of intervals.", rich_help_panel=_CLICKS),
]
Sweep = Annotated[
    bool,
    typer.Option(
        "--sweep", help="Try other alphas at equal mainline load.", rich_help_panel=_SWEEP
    ),
]
Alphas = Annotated[
    str, typer.Option("--alphas", help="Which, comma-separated.", rich_help_panel=_SWEEP)
]
Loads = Annotated[
    str,
    typer.Option(
        "--loads",
        help="Mainline ads a page, as multiples of today's, comma-separated.",
        rich_help_panel=_SWEEP,
    ),
]
Demo = Annotated[
    bool,
    typer.Option(
        "--demo",
        help="Use a synthetic log, whose truth is known: a candidate that AUC and RIG praise and"
        " users click less.",
        rich_help_panel=_DEMO,
    ),
]
Pages = Annotated[
    int, typer.Option("--pages", min=1_000, help="Pages of that log.", rich_help_panel=_DEMO)
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Another seed is another log.", rich_help_panel=_DEMO)
]
Write = Annotated[
    Path | None,
    typer.Option(
        "--write",
        metavar="PATH",
        help="With --demo: save that log as a .parquet or .csv, to see what one looks like.",
        rich_help_panel=_DEMO,
        show_default=False,
    ),
]
