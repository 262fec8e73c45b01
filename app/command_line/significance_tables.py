"""Which calibrators differ beyond chance: as tables, as words and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from app.command_line.block_words import block_warnings, drawn_how_often
from app.command_line.console import results
from app.command_line.interval_text import decimals_for, interval_text, value_text
from evaluation.significance import Significance

HEADINGS: Final = {"log_loss": "log loss", "gc_3": "GC-3", "auc": "AUC"}
WORDS: Final = {1: "better", 0: "", -1: "worse"}
_STYLES: Final = {1: "green", 0: "", -1: "red"}


def show_significance(found: Significance, reference: str) -> None:
    """Print the differences of all that were compared with `reference`."""
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    for heading in HEADINGS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    names = compared_with(found, reference)
    places = {metric: _decimals(found, names, reference, metric) for metric in HEADINGS}
    for name in names:
        cells = (_cell(found, (name, reference), metric, places[metric]) for metric in HEADINGS)
        table.add_row(name, *cells)
    console = results()
    console.print(Text(f"\nDifference from {reference}", style="bold"), soft_wrap=True)
    console.print(table)


def compared_with(found: Significance, reference: str) -> list[str]:
    """The names that were compared with `reference`."""
    return [a for a, b in found.differences if b == reference]


def references(found: Significance) -> list[str]:
    """The names that others were compared with."""
    return list(dict.fromkeys(b for _, b in found.differences))


def _decimals(found: Significance, names: Sequence[str], reference: str, metric: str) -> int:
    """Decimals for a whole column, so that its numbers align."""
    places = [decimals_for(found.differences[name, reference][metric]) for name in names]
    return int(median(places))


def _cell(found: Significance, pair: tuple[str, str], metric: str, decimals: int) -> Text:
    difference, better = found.differences[pair][metric], found.better(pair, metric)
    value = f"{WORDS[better]} {value_text(difference, decimals)}".lstrip()
    interval = interval_text(difference, decimals)
    return Text.assemble((value, _STYLES[better]), "\n", (interval, "dim"), justify="right")


def about(found: Significance) -> str:
    """How the intervals were made, and how to read them."""
    draws = found.draws
    return drawn_how_often(
        found.blocks, found.unit, draws["log_loss"], draws["gc_3"], "GC-3 and AUC"
    )


def warnings(found: Significance) -> list[str]:
    """What makes the intervals less than they seem."""
    return block_warnings(found.blocks, found.unit, found.effective)


def differences_json(found: Significance, verdict: str) -> dict[str, Any]:
    """The differences for programs: `against` -> reference -> name -> metric -> numbers."""
    against: dict[str, dict[str, Any]] = {reference: {} for reference in references(found)}
    for (name, reference), metrics in found.differences.items():
        against[reference][name] = {
            metric: {**asdict(difference), "verdict": word(found, (name, reference), metric)}
            for metric, difference in metrics.items()
        }
    return {
        "verdict": verdict,
        "warnings": warnings(found),
        "unit": found.unit,
        "blocks": found.blocks,
        "effective_blocks": found.effective,
        "draws": dict(found.draws),
        "seed": found.seed,
        "confidence": 0.95,
        "against": against,
    }


def word(found: Significance, pair: tuple[str, str], metric: str) -> str:
    """better, worse, or unclear."""
    return WORDS[found.better(pair, metric)] or "unclear"
