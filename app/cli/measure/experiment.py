"""What `sirocco experiment analyse` prints: the A/B analysis of an experiment that runs."""

import math
from collections.abc import Mapping
from typing import Any

from rich.text import Text

from app.cli.console import note, numbers_table, print_line, print_table
from app.cli.measure.ab_test import METRICS, interval, show_analysis, show_metrics
from app.results.formatting import shown
from evaluation import AbAnalysis, ArmAnalysis, Estimate, SampleRatio

HOW_TO_READ = (
    "Intervals are of 95 % on all days together, so look as often as you like; each is on its own:"
    " of twenty, one misses. A lift is clear when its interval leaves out 0. Units are buckets of"
    " users."
)
DAYS_SHOWN = 14


def show_experiment(found: Mapping[str, Any]) -> None:
    """Print the service's answer."""
    document = found["analysis"]
    title = f"{found['target']}: arms since {found['first_day']}"
    if document is None:
        print_line(f"{title}: no whole day of two arms yet.")
        return
    analysis = analysis_of(document)
    show_analysis(analysis, {arm: str(arm) for arm in analysis.arms}, title)
    for arm, lifts in document["lifts"].items():
        for metric, lift in lifts.items():
            _show_days(f"\n{METRICS[metric].heading} of {arm}, lift by day", lift)
    _show_predictions(document["predicted_over_actual"])
    for target, each in found["delayed"].items():
        _show_conversions(target, {**document, **each})
    note(f"\n{HOW_TO_READ}")
    if not found["days_before"]:
        note("Nothing is known of the days before it began, so nothing narrows the intervals.")


def analysis_of(document: Mapping[str, Any]) -> AbAnalysis:
    """The analysis that the service put into JSON."""
    arms = {
        name: ArmAnalysis(**{**arm, "metrics": _estimates(arm["metrics"])})
        for name, arm in document["arms"].items()
    }
    lifts = {name: _estimates(of_arm) for name, of_arm in document["lifts"].items()}
    check = {name: each for name, each in document["sample_ratio"].items() if name != "mismatch"}
    return AbAnalysis(document["control"], arms, lifts, SampleRatio(**check))


def _estimates(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Estimate]:
    return {name: _estimate(each) for name, each in found.items()}


def _estimate(found: Mapping[str, Any]) -> Estimate:
    ends = (found[end] for end in ("value", "lower", "upper"))
    return Estimate(*(math.nan if end is None else end for end in ends))


def _show_days(title: str, lift: Mapping[str, Any]) -> None:
    table = numbers_table("after", "lift", "interval")
    for look in lift["by_day"][-DAYS_SHOWN:]:
        estimate = _estimate(look)
        table.add_row(look["day"], shown(estimate.value, "+.2%"), interval(estimate, "+.2%"))
    print_table(table, title)
    left = lift["variance_left"]
    if left is not None and left < 1.0:
        print_line(f"What users did before takes away {1.0 - left:.0%} of its variance.")


def _show_conversions(target: str, document: Mapping[str, Any]) -> None:
    """Those of one delayed target; `document` has the rest of the analysis, too."""
    table = numbers_table("arm", "clicks", "conversions", "of these arrived", "value")
    sides = document["arms"]
    for arm, each in sides.items():
        sums = (f"{each[side]:,.1f}" for side in ("conversions", "arrived", "value"))
        table.add_row(Text(arm), f"{each['clicks']:,}", *sums)
    print_table(table, f"\n{target}: by day of the click, arrived and expected")
    arms = {
        arm: {name: each[name] for name in ("cost", "value", "metrics")}
        | {"impressions": each["clicks"], "units": 0, "clicks": each["conversions"]}
        for arm, each in sides.items()
    }
    show_metrics(analysis_of({**document, "arms": arms}), {arm: arm for arm in arms})


def _show_predictions(arms: Mapping[str, Any]) -> None:
    table = numbers_table("arm", "predicted", "actual", "predicted / actual", "interval")
    for arm, each in arms.items():
        pcoc = _estimate(each)
        sums = (f"{each[side]:,.1f}" for side in ("predicted", "actual"))
        table.add_row(Text(arm), *sums, shown(pcoc.value, ".4f"), interval(pcoc, ".4f"))
    print_table(table, "\nPredicted over actual, in the hours of the last versions, of one look")
