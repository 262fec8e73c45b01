"""The options of `sirocco backtest --compare`."""

from pathlib import Path
from typing import Annotated, Final

import typer

PANEL: Final = "The comparison of all methods"

Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Every method in every regime of synthetic traffic, or on a log; see docs/proof.md.",
        rich_help_panel=PANEL,
    ),
]
Regimes = Annotated[
    str | None,
    typer.Option(
        "--regimes",
        metavar="NAMES",
        help="Some of mixed, sparse, dense, jumps, steps, many, calibrated.",
        show_default="all",
        rich_help_panel=PANEL,
    ),
]
Contenders = Annotated[
    str | None,
    typer.Option(
        "--contenders",
        metavar="NAMES",
        help="Some of the methods, by their names in the tables.",
        show_default="all",
        rich_help_panel=PANEL,
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes",
        min=1,
        max=256,
        help="Plays at a time; each takes a core and up to 2 GB.",
        show_default="1",
        rich_help_panel=PANEL,
    ),
]
Drift = Annotated[
    bool,
    typer.Option(
        "--drift",
        help="Refits every 60, 15 and 5 minutes around a jump; the regimes only where named.",
        rich_help_panel=PANEL,
    ),
]
Kept = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="PATH",
        help="Play nothing: show what --json has written; may be given again.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
Write = Annotated[
    Path | None,
    typer.Option(
        "--write",
        metavar="PAGE",
        help="Write the tables into a Markdown page, between its two marks.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
