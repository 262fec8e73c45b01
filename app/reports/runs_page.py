"""The report of several training runs of two models."""

from app.command_line.compare_tables import METRICS
from app.command_line.compared_runs import CALIBRATED, JUDGED, PLAIN, ComparedRuns
from app.command_line.run_tables import HOW_TO_READ_RUNS, accuracy_text
from app.command_line.tables import shown
from app.reports.charts import differences_chart, lines_chart
from app.reports.page import Chart, Page, Section, Table, Tile
from evaluation.model_comparison import A, B

_HEADINGS = {
    PLAIN: "log loss",
    CALIBRATED: "calibrated log loss",
    "mse_beside_calibrated": "quadratic loss",
    "calibrated_quadratic_loss": "calibrated quadratic loss",
}


def runs_page(compared: ComparedRuns, footer: str) -> Page:
    """The page that `sirocco compare --report` writes of folders."""
    models = "; ".join(f"{side}: {what}" for side, what in compared.names.items())
    return Page(
        title="Training runs of two models",
        subtitle=models,
        verdict=compared.verdict,
        tiles=[Tile(f"accuracy, {_HEADINGS[name]}", _percent(compared, name)) for name in JUDGED],
        sections=[
            Section("How often is a single run right?", HOW_TO_READ_RUNS, [_accuracies(compared)]),
            Section("Every run", "", [_runs(compared, PLAIN), _runs(compared, CALIBRATED)]),
            Section("All metrics", "", [_table(compared)]),
        ],
        warnings=compared.warnings,
        footer=footer,
    )


def _percent(compared: ComparedRuns, name: str) -> str:
    return f"{shown(100.0 * compared.accuracy(name).value, '.1f')} %"


def _accuracies(compared: ComparedRuns) -> Chart:
    found = [compared.accuracy(name) for name in JUDGED]
    return differences_chart(
        [_HEADINGS[name] for name in JUDGED],
        [100.0 * accuracy.value - 50.0 for accuracy in found],
        [100.0 * accuracy.lower - 50.0 for accuracy in found],
        [100.0 * accuracy.upper - 50.0 for accuracy in found],
        title="Metric accuracy above that of a coin",
        caption="Points above 50 %: how much more often than a coin a pair of runs is ranked"
        " rightly. The bar is the 95 % interval.",
        unit="%",
        heading="metric",
    )


def _runs(compared: ComparedRuns, name: str) -> Chart:
    sides = {side: sorted(compared.values(side, name)) for side in (A, B)}
    longest = max(map(len, sides.values()))
    padded = {side: [*v, *[float("nan")] * (longest - len(v))] for side, v in sides.items()}
    return lines_chart(
        list(range(1, longest + 1)),
        padded,
        f"{_HEADINGS[name]} of every run",
        "The runs of each model, from its best to its worst; lower is better.",
        "run, by rank",
        _HEADINGS[name],
    )


def _table(compared: ComparedRuns) -> Table:
    means, spreads = compared.means(), compared.spreads()
    rows = [
        (
            metric.heading.strip(),
            *(
                f"{shown(means[side][name], metric.form)} ± {shown(spreads[side][name], '.2g')}"
                for side in (A, B)
            ),
            accuracy_text(compared.accuracy(name)) if name in JUDGED else "",
        )
        for name, metric in METRICS.items()
        if name in means[A] and name in means[B]
    ]
    return Table(("", "A", "B", "metric accuracy"), rows)
