"""Two models beside each other: as a table for people and as JSON for programs.

Training runs of two models beside each other: as a table for people and as JSON.
"""

from dataclasses import asdict
from typing import Any

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from app.cli.console import results
from app.results.comparison import (
    JUDGED,
    METRICS,
    Compared,
    ComparedRuns,
    accuracy_text,
    compared_by,
    shown_metrics,
)
from app.results.formatting import interval_text, shown, value_text
from evaluation.bootstrap.paired import Difference
from evaluation.comparison.models import A, B, ModelComparison


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


def show_runs(compared: ComparedRuns) -> None:
    """Print the metrics of both over their runs, and the accuracy of each loss."""
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("A", "B", "metric accuracy"):
        table.add_column(heading, justify="right", no_wrap=True)
    means, spreads = compared.means(), compared.spreads()
    for name, metric in METRICS.items():
        if name in means[A] and name in means[B]:
            cells = [
                f"{shown(means[side][name], metric.form)} ± {shown(spreads[side][name], '.2g')}"
                for side in (A, B)
            ]
            accuracy = accuracy_text(compared.accuracy(name)) if name in JUDGED else ""
            table.add_row(metric.heading, *cells, accuracy)
    console = results()
    for side, what in compared.names.items():
        console.print(Text.assemble((f"{side}: ", "bold"), what), soft_wrap=True)
    console.print(table)


def runs_json(compared: ComparedRuns) -> dict[str, Any]:
    """The runs for programs."""
    return {
        "rows": compared.means(),
        "spread": compared.spreads(),
        "runs": {side: dict(runs) for side, runs in compared.runs.items()},
        "names": dict(compared.names),
        "verdict": compared.verdict,
        "warnings": [*compared.warnings],
        "better": compared.better,
        "metric_accuracy": {name: asdict(compared.accuracy(name)) for name in JUDGED},
        "seed": compared.seed,
        "bias_share": compared.bias_share,
    }


def print_runs(compared: ComparedRuns) -> None:
    """Print the runs as JSON; an undefined number is null."""
    results().out(orjson.dumps(runs_json(compared)).decode(), highlight=False)
