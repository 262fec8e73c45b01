"""What `sirocco readout` prints of an A/B test: tables, conclusions in words, JSON."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from app.cli.console import (
    note,
    note_skipped,
    numbers_table,
    plain,
    print_json,
    print_line,
    print_table,
)
from app.cli.measure_logs import AbTestOptions, ArmColumnOptions
from app.cli.options import ReadingOptions
from app.datasets.ab_test import AbColumns, AbTestLog, read_ab_test
from app.errors import CommandError
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


METRICS = {
    "rpm": _Metric("RPM", "what the platform earns with 1,000 impressions", ",.4g"),
    "ctr": _Metric("CTR", "clicks for each impression", ".3%"),
    "roi": _Metric("ROI", "what advertisers get for what they pay", ",.4g"),
    "cvr": _Metric("CVR", "conversions for each click", ".3%"),
    "value_per_click": _Metric("Value of a click", "what its conversions are worth", ",.4g"),
}


_UNWEIGHTED = "does not go with a readout: its intervals are over units, a row for each impression"


def run_ab_test(
    log: str, given: AbTestOptions, columns: ArmColumnOptions, reading: ReadingOptions
) -> None:
    """Analyse the log of a test, and print what came of it."""
    shares = _shares(given.split or ())
    how = reading.reading(_UNWEIGHTED)
    test = read_ab_test(log, AbColumns(**asdict(columns)), how)
    note_skipped(how)
    found = test.analysed(given.control, shares)
    names: dict[Hashable, str] = dict(enumerate(test.arms))
    if given.json:
        print_json(_document(found, names))
        return
    show_analysis(found, names, f"{test.file}: arms against {given.control}")
    note(f"\n{HOW_TO_READ}")
    _note_what_is_missing(test)


def show_analysis(analysis: AbAnalysis, names: Names, title: str) -> None:
    """Print sizes, then what `show_metrics` prints."""
    print_table(_sizes(analysis, names), title)
    style = "bold red" if analysis.sample_ratio.mismatch else ""
    print_line(_split_in_words(analysis.sample_ratio, names), style)
    show_metrics(analysis, names)


def show_metrics(analysis: AbAnalysis, names: Names) -> None:
    """Print a table and a conclusion in words for each metric."""
    for metric in analysis.arms[analysis.control].metrics:
        about = METRICS[metric]
        print_table(_table_of(analysis, names, metric), f"\n{about.heading}: {about.meaning}")
        for arm in analysis.lifts:
            print_line(_conclusion(analysis, names, arm, metric))


def _document(analysis: AbAnalysis, names: Names) -> dict[str, Any]:
    """`{"rows": {arm: {column: number}}, "lifts": ..., "verdicts": ..., "split": ...}`."""
    check = analysis.sample_ratio
    return {
        "rows": {names[arm]: _row(each) for arm, each in analysis.arms.items()},
        "lifts": {names[arm]: _columns(each) for arm, each in analysis.lifts.items()},
        "verdicts": {
            names[arm]: {metric: analysis.conclusion(arm, metric) for metric in lifts}
            for arm, lifts in analysis.lifts.items()
        },
        "split": {
            "counted": check.counted,
            "expected": {names[arm]: size for arm, size in check.expected.items()},
            "p_value": check.p_value,
            "mismatch": check.mismatch,
        },
    }


def _row(arm: ArmAnalysis) -> dict[str, float]:
    totals = {"n": arm.impressions, "units": arm.units, "cost": arm.cost}
    return {**totals, "positives": arm.clicks, "value": arm.value, **_columns(arm.metrics)}


def _columns(estimates: Mapping[str, Estimate]) -> dict[str, float]:
    columns: dict[str, float] = {}
    for name, each in estimates.items():
        columns |= {name: each.value, f"{name}_lower": each.lower, f"{name}_upper": each.upper}
    return columns


def _sizes(analysis: AbAnalysis, names: Names) -> Table:
    table = numbers_table("arm", "impressions", "units", "cost", "clicks", "value")
    for arm, each in analysis.arms.items():
        sums = (each.cost, each.clicks, each.value)
        cells = (f"{each.impressions:,}", f"{each.units:,}", *(shown(x, ",.6g") for x in sums))
        table.add_row(plain(names[arm]), *cells)
    return table


def _table_of(analysis: AbAnalysis, names: Names, metric: str) -> Table:
    about = METRICS[metric]
    table = numbers_table("arm", about.heading, "interval", "lift", "interval")
    for arm, each in analysis.arms.items():
        estimate, lift = each.metrics[metric], analysis.lifts.get(arm, {}).get(metric)
        cells = [shown(estimate.value, about.form), interval(estimate, about.form)]
        cells += ["", ""] if lift is None else [shown(lift.value, "+.2%"), interval(lift, "+.2%")]
        table.add_row(plain(names[arm]), *cells)
    return table


def _conclusion(analysis: AbAnalysis, names: Names, arm: Hashable, metric: str) -> str:
    heading, control = METRICS[metric].heading, names[analysis.control]
    lift, verdict = analysis.lifts[arm][metric], analysis.conclusion(arm, metric)
    if verdict == "undefined":
        return (
            f"{names[arm]}: {heading} cannot be compared with {control}: in one of the two nothing"
            " counts for it, or too few units do."
        )
    ends = interval(lift, "+.2%")
    if verdict == "no clear difference":
        return f"{names[arm]}: no clear difference in {heading} from {control} ({ends})."
    size = shown(abs(lift.value), ".2%")
    return f"{names[arm]}: {heading} is {verdict} than {control}'s by {size} ({ends})."


def _split_in_words(check: SampleRatio, names: Names) -> str:
    sizes = ", ".join(
        f"{names[arm]} {size:,} of {check.expected[arm]:,.0f}"
        for arm, size in check.observed.items()
    )
    p = "< 0.0001" if check.p_value < 0.0001 else f"= {check.p_value:.2g}"
    said = f"Split by {check.counted}, found of expected: {sizes} (p {p})."
    if not check.mismatch:
        return said
    return f"{said} THE SPLIT IS WRONG: believe nothing below until you know why."


def interval(estimate: Estimate, form: str) -> str:
    """Its ends in words; - without any."""
    if math.isnan(estimate.lower):
        return "-"
    return f"{shown(estimate.lower, form)} to {shown(estimate.upper, form)}"


def _shares(split: Sequence[str]) -> dict[str, float] | None:
    if not split:
        return None
    shares: dict[str, float] = {}
    for text in split:
        arm, _, share = text.rpartition("=")
        if not arm or arm in shares:
            raise CommandError(f"--split {text!r}: give ARM=SHARE, once for each arm")
        shares[arm] = _share(text, share)
    return shares


def _share(text: str, share: str) -> float:
    try:
        number = float(share)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise CommandError(f"--split {text!r}: a share is a number above 0, such as 9 or 0.1")
    return number


def _note_what_is_missing(test: AbTestLog) -> None:
    if test.units is None:
        note(
            "Impressions are taken as independent; where one user sees many, name the user with"
            " --unit."
        )
    if test.clicks is None:
        note("No CTR: the log has no column 'outcome'; name the clicks with --outcome.")
    if test.values is None:
        note("No ROI: the log has no column 'value'; name the advertisers' value with --value.")


HOW_TO_READ_LOOKS = (
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
    note(f"\n{HOW_TO_READ_LOOKS}")
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
        table.add_row(plain(arm), f"{each['clicks']:,}", *sums)
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
        table.add_row(plain(arm), *sums, shown(pcoc.value, ".4f"), interval(pcoc, ".4f"))
    print_table(table, "\nPredicted over actual, in the hours of the last versions, of one look")
