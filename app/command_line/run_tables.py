"""Training runs of two models beside each other: as a table for people and as JSON."""

from dataclasses import asdict
from typing import Any, Final

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from app.command_line.compare_tables import METRICS
from app.command_line.compared_runs import JUDGED, ComparedRuns
from app.command_line.console import results
from app.command_line.tables import shown
from evaluation import MetricAccuracy
from evaluation.model_comparison import A, B

HOW_TO_READ_RUNS: Final = (
    "Mean and standard deviation over the runs. Metric accuracy: how often one run of each model"
    " is ranked rightly, if the model with the lower plain log loss in most pairs is the better"
    " one; 50 % is a coin. It is that of this one set of impressions: on others it varies by"
    " several points more."
)


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


def accuracy_text(accuracy: MetricAccuracy) -> str:
    """The accuracy and its interval in percent."""
    value, lower, upper = (
        shown(100.0 * end, ".1f") for end in (accuracy.value, accuracy.lower, accuracy.upper)
    )
    return f"{value} % ({lower} to {upper})"


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
