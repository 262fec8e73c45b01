"""Two models beside each other: as a table for people and as JSON for programs."""

from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from app.command_line.block_words import drawn_how_often
from app.command_line.compared import Compared
from app.command_line.console import results
from app.command_line.interval_text import interval_text, value_text
from app.command_line.tables import shown
from evaluation.difference import Difference
from evaluation.model_comparison import A, B, ModelComparison

HOW_TO_READ: Final = (
    "A calibrated loss is what is left once a model's overall bias is taken out: fitted on some"
    " rows, judged on the others, beside the plain loss of the same rows. It does not see which"
    " model is calibrated better; PCOC does: promised over actual clicks, 1 is right."
)
STARRED: Final = "* A less B of the distance from 1, max(PCOC, 1 / PCOC) - 1."
RANKED: Final = "AUC, csAUC, GC-3 and calibrated log loss"


@dataclass(frozen=True, slots=True)
class Metric:
    """How a metric is shown."""

    heading: str
    form: str
    difference: str = ""


METRICS: Final = {
    "log_loss": Metric("log loss", ".5f"),
    "log_loss_beside_calibrated": Metric("  on the rows below", ".5f"),
    "calibrated_log_loss": Metric("calibrated log loss", ".5f"),
    "mse": Metric("quadratic loss", ".6f"),
    "mse_beside_calibrated": Metric("  on the rows below", ".6f"),
    "calibrated_quadratic_loss": Metric("calibrated quadratic", ".6f"),
    "rig": Metric("RIG", ".4f"),
    "auc": Metric("AUC", ".4f"),
    "cs_auc": Metric("csAUC", ".4f"),
    "pcoc": Metric("PCOC", ".4f", "cal_1"),
    "gc_3": Metric("GC-3", ".4f"),
}
"""The metrics that are shown. Two ratios lie apart by their distances from 1, which is Cal-1."""


def show_comparison(compared: Compared) -> None:
    """Print the metrics of both, their difference and its interval."""
    found = compared.found
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("A", "B", "A less B", "better"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in shown_metrics(found):
        table.add_row(*_cells(found, name))
    console = results()
    for side, what in compared.names.items():
        console.print(Text.assemble((f"{side}: ", "bold"), what), soft_wrap=True)
    console.print(table)


def shown_metrics(found: ModelComparison) -> list[str]:
    """The metrics of METRICS that both have."""
    return [name for name in METRICS if name in found.metrics[A]]


def compared_by(name: str) -> str:
    """The metric whose difference is shown beside a metric."""
    return METRICS[name].difference or name


def _cells(found: ModelComparison, name: str) -> list[Text]:
    metric, key = METRICS[name], compared_by(name)
    difference, better = found.differences[key], found.better(key)
    values = [shown(found.metrics[side][name], metric.form) for side in (A, B)]
    mark = " *" if metric.difference else ""
    return [
        Text(metric.heading),
        *(Text(value) for value in values),
        Text.assemble(
            f"{value_text(difference)}{mark}", (_below(found, difference), "dim"), justify="right"
        ),
        Text(better or "", style="bold green"),
    ]


def _below(found: ModelComparison, difference: Difference) -> str:
    return f"\n{interval_text(difference)}" if found.draws[0] else ""


def about(compared: Compared) -> str:
    """How the intervals were made; empty without any."""
    blocks, (draws, few) = compared.log.blocks, compared.found.draws
    return drawn_how_often(blocks.count, blocks.unit, draws, few, RANKED) if draws else ""


def comparison_json(compared: Compared, verdict: str) -> dict[str, Any]:
    """The comparison for programs."""
    found, blocks = compared.found, compared.log.blocks
    return {
        "rows": found.metrics,
        "names": dict(compared.names),
        "verdict": verdict,
        "warnings": compared.warnings,
        "differences": {
            name: {**asdict(difference), "better": found.better(name)}
            for name, difference in found.differences.items()
        },
        "lifts": {name: asdict(lift) for name, lift in found.lifts.items()},
        "unit": blocks.unit,
        "blocks": blocks.count,
        "effective_blocks": found.effective,
        "draws": {"sums": found.draws[0], "rows": found.draws[1]},
        "confidence": 0.95,
        "seed": compared.seed,
        "bias_share": compared.bias_share,
        "rows_in_log": compared.log.rows,
        "rows_held": len(compared.log.events),
    }


def print_comparison(compared: Compared, verdict: str) -> None:
    """Print the comparison as JSON; an undefined number is null."""
    results().out(orjson.dumps(comparison_json(compared, verdict)).decode(), highlight=False)
