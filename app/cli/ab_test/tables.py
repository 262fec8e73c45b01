"""The readout of an A/B test, as tables and words for people and as JSON for programs."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from rich import box
from rich.table import Table
from rich.text import Text

from app.cli.console import results
from app.results.formatting import shown
from evaluation import AbAnalysis, ArmAnalysis, Estimate, SampleRatio

Names = Mapping[Hashable, str]
HOW_TO_READ = (
    "Intervals are of 95 %, each on its own: of twenty, one misses. A lift is clear when its"
    " interval leaves out 0."
)


@dataclass(frozen=True, slots=True)
class _Metric:
    heading: str
    meaning: str
    form: str


_METRICS = {
    "rpm": _Metric("RPM", "what the platform earns with 1,000 impressions", ",.4g"),
    "ctr": _Metric("CTR", "clicks for each impression", ".3%"),
    "roi": _Metric("ROI", "what advertisers get for what they pay", ",.4g"),
}


def show_readout(readout: AbAnalysis, names: Names, title: str) -> None:
    """Print sizes, then a table and a verdict in words for each metric.

    `names` are what the readout's arms are called.
    """
    console = results()
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(_sizes(readout, names))
    style = "bold red" if readout.sample_ratio.mismatch else ""
    console.print(Text(_split_in_words(readout.sample_ratio, names), style=style), soft_wrap=True)
    for metric in readout.arms[readout.control].metrics:
        about = _METRICS[metric]
        console.print(Text(f"\n{about.heading}: {about.meaning}", style="bold"), soft_wrap=True)
        console.print(_table_of(readout, names, metric))
        for arm in readout.lifts:
            console.print(Text(_verdict(readout, names, arm, metric)), soft_wrap=True)


def print_readout(readout: AbAnalysis, names: Names) -> None:
    """Print `{"rows": {arm: {column: number}}, "lifts": ..., "verdicts": ..., "split": ...}`."""
    check = readout.sample_ratio
    found: dict[str, Any] = {
        "rows": {names[arm]: _row(each) for arm, each in readout.arms.items()},
        "lifts": {names[arm]: _columns(each) for arm, each in readout.lifts.items()},
        "verdicts": {
            names[arm]: {metric: readout.conclusion(arm, metric) for metric in lifts}
            for arm, lifts in readout.lifts.items()
        },
        "split": {
            "counted": check.counted,
            "expected": {names[arm]: size for arm, size in check.expected.items()},
            "p_value": check.p_value,
            "mismatch": check.mismatch,
        },
    }
    results().out(orjson.dumps(found).decode(), highlight=False)


def _row(arm: ArmAnalysis) -> dict[str, float]:
    totals = {"n": arm.impressions, "units": arm.units, "cost": arm.cost}
    return {**totals, "positives": arm.clicks, "value": arm.value, **_columns(arm.metrics)}


def _columns(estimates: Mapping[str, Estimate]) -> dict[str, float]:
    columns: dict[str, float] = {}
    for name, each in estimates.items():
        columns |= {name: each.value, f"{name}_lower": each.lower, f"{name}_upper": each.upper}
    return columns


def _sizes(readout: AbAnalysis, names: Names) -> Table:
    table = _table("arm", "impressions", "units", "cost", "clicks", "value")
    for arm, each in readout.arms.items():
        sums = (each.cost, each.clicks, each.value)
        cells = (f"{each.impressions:,}", f"{each.units:,}", *(shown(x, ",.6g") for x in sums))
        table.add_row(Text(names[arm]), *cells)
    return table


def _table_of(readout: AbAnalysis, names: Names, metric: str) -> Table:
    about = _METRICS[metric]
    table = _table("arm", about.heading, "interval", "lift", "interval")
    for arm, each in readout.arms.items():
        estimate, lift = each.metrics[metric], readout.lifts.get(arm, {}).get(metric)
        cells = [shown(estimate.value, about.form), _interval(estimate, about.form)]
        cells += ["", ""] if lift is None else [shown(lift.value, "+.2%"), _interval(lift, "+.2%")]
        table.add_row(Text(names[arm]), *cells)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, show_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _verdict(readout: AbAnalysis, names: Names, arm: Hashable, metric: str) -> str:
    heading, control = _METRICS[metric].heading, names[readout.control]
    lift, verdict = readout.lifts[arm][metric], readout.conclusion(arm, metric)
    if verdict == "undefined":
        return (
            f"{names[arm]}: {heading} cannot be compared with {control}: in one of the two nothing"
            " counts for it, or there is one unit only."
        )
    interval = _interval(lift, "+.2%")
    if verdict == "no clear difference":
        return f"{names[arm]}: no clear difference in {heading} from {control} ({interval})."
    size = shown(abs(lift.value), ".2%")
    return f"{names[arm]}: {heading} is {verdict} than {control}'s by {size} ({interval})."


def _split_in_words(check: SampleRatio, names: Names) -> str:
    sizes = ", ".join(
        f"{names[arm]} {size:,} of {check.expected[arm]:,.0f}"
        for arm, size in check.observed.items()
    )
    said = (
        f"Split by {check.counted}, found of expected: {sizes} (p {_probability(check.p_value)})."
    )
    if not check.mismatch:
        return said
    return f"{said} THE SPLIT IS WRONG: believe nothing below until you know why."


def _probability(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"= {p:.2g}"


def _interval(estimate: Estimate, form: str) -> str:
    if math.isnan(estimate.lower):
        return "-"
    return f"{shown(estimate.lower, form)} to {shown(estimate.upper, form)}"
