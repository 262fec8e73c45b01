"""What `sirocco evaluate` found out about a log: slices, conclusions, notes, all metrics."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import bdtrc

from app.results.fields import field_conclusions, off_by
from app.results.formatting import counted, listed, percent, shortened, shown
from calibrators.samples import Floats
from evaluation.fields.field_log import FieldMetrics
from evaluation.streaming.log import OVERALL, StreamedLog
from evaluation.streaming.log_metrics import BINS, GroupMetrics, LogMetrics, pcoc_interval

CHANCE = 0.05
"""Share of the intervals that do not hold the truth."""


@dataclass(frozen=True, eq=False)
class SliceTable:
    """The slices of one cut and their metrics.

    names : of the slices, in order.
    columns : metrics by their JSON names, (slices,) each, nan where undefined.
    metrics : those of the cut as a whole.
    """

    names: Sequence[str]
    columns: Mapping[str, Floats]
    metrics: GroupMetrics

    @classmethod
    def of(cls, names: Sequence[str], metrics: GroupMetrics) -> "SliceTable":
        """The slices of a cut, by name."""
        order = sorted(range(len(names)), key=names.__getitem__)
        columns = {name: column[order] for name, column in metrics.columns.items()}
        return cls([names[i] for i in order], columns, metrics)

    def __len__(self) -> int:
        return len(self.names)

    def row(self, i: int) -> dict[str, float]:
        """The metrics of one slice."""
        return {name: float(column[i]) for name, column in self.columns.items()}

    @cached_property
    def beyond_chance(self) -> Floats:
        """How far the interval of PCOC is from 1, in logarithms, (slices,); 0 where it holds 1."""
        lower, upper = self.columns["pcoc_lower"], self.columns["pcoc_upper"]
        with np.errstate(divide="ignore", invalid="ignore"):
            too_high, too_low = np.log(np.maximum(lower, 1.0)), -np.log(np.minimum(upper, 1.0))
        return np.nan_to_num(np.maximum(too_high, too_low))

    @property
    def worst_first(self) -> list[int]:
        """The slices that chance explains least first; among others the largest first."""
        order: list[int] = np.lexsort((-self.columns["n"], -self.beyond_chance)).tolist()
        return order

    @property
    def off(self) -> int:
        """How many slices have a PCOC that chance does not explain."""
        return int(np.count_nonzero(self.beyond_chance))

    @property
    def off_by_chance(self) -> float:
        """How many would seem so if all were right: the intervals leave out so many."""
        return CHANCE * len(self)

    def off_text(self, what: str) -> str:
        """How many of them they are, in words that call the slices so."""
        verb = "is" if self.off == 1 else "are"
        return f"{self.off:,} of {len(self):,} {what} {verb} off by more than chance"

    @cached_property
    def ends_for_all(self) -> tuple[Floats, Floats]:
        """Where every PCOC may lie by chance, all of them at once, (slices,) each."""
        n, positives, expected = (self.columns[name] for name in ("n", "positives", "expected"))
        return pcoc_interval(n, positives, expected, 1.0 - CHANCE / len(self))

    @property
    def more_than_chance(self) -> bool:
        """Whether more are off than chance explains, or one by more than it explains for any."""
        lower, upper = self.ends_for_all
        one_is = bool(((lower > 1.0) | (upper < 1.0)).any())
        return one_is or (self.off > 0 and bool(bdtrc(self.off - 1, len(self), CHANCE) < CHANCE))


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedLog:
    """A log and all its metrics.

    name : of the file.
    metrics : of all rows and of all cuts.
    campaigns, hours : None where the log has no such column.
    by : the slices of further columns.
    campaign_numbers : the campaigns as `metrics` numbers them; one without a name where the log
        has no such column.
    epoch_hours : hours since 1970, in the order of `hours`.
    group : what GAUC and gcsAUC average over; None where the log has no such column.
    fields : None where no fields are named.
    notes : what is undefined or left out, and why.
    """

    name: str
    metrics: LogMetrics
    campaigns: SliceTable | None
    hours: SliceTable | None
    by: Mapping[str, SliceTable]
    campaign_numbers: Sequence[str]
    epoch_hours: Sequence[int]
    group: str | None
    notes: Sequence[str]
    fields: FieldMetrics | None = None

    @property
    def overall(self) -> Mapping[str, float]:
        """Metrics of all rows, by their JSON names; nan where undefined."""
        return self.metrics.overall

    @property
    def is_right(self) -> bool | None:
        """Whether chance explains PCOC; None where there is so little that it explains a half of
        it, or its double."""
        lower, upper = self.overall["pcoc_lower"], self.overall["pcoc_upper"]
        if not lower <= 1.0 <= upper:
            return False
        return True if lower >= _HALF and upper <= 1.0 / _HALF else None

    @property
    def fewest_cells(self) -> float | None:
        """Score cells of an octave in the coarsest cut; None where all scores are exact."""
        cells = [cut.cells_per_octave for cut in self.metrics.groupings.values()]
        return min((count for count in cells if count is not None), default=None)


_HALF = 0.5
_BEYOND_FLOOR = 2.0
"""Cal-N of so many times its floor is more than chance: scores that are right have that once in
twenty logs or so, because a thin lowest bin decides."""
_LONGEST_NAME = 40


def conclusions(log: EvaluatedLog) -> list[str]:
    """Sentences, the most important first."""
    by_field = [] if log.fields is None else field_conclusions(log.fields)
    return [*_total(log), *_bins(log), *_information(log), *by_field, *_slices(log)]


def summary(log: EvaluatedLog) -> str:
    """How large the log is."""
    n, positives = log.overall["n"], log.overall["positives"]
    share = f"{shown(100.0 * positives / n, '.3g')} %"
    parts = [counted(n, "impression"), f"{counted(positives, 'positive')} ({share})"]
    tables = ((log.campaigns, "campaign"), (log.hours, "hour"))
    parts += [counted(len(table), one) for table, one in tables if table is not None]
    return ", ".join(parts)


def _total(log: EvaluatedLog) -> Iterator[str]:
    numbers = log.overall
    lower, upper = numbers["pcoc_lower"], numbers["pcoc_upper"]
    interval = f"by chance {shown(lower, '.3f')} to {shown(upper, '.3f')}"
    if not numbers["positives"]:
        expected = shown(numbers["expected"], ",.4g")
        yield f"No positive came, and {expected} were predicted."
    elif (right := log.is_right) is not False:
        ratio = f"PCOC {numbers['pcoc']:.3f}, {interval}"
        little = "there is too little to tell whether predictions are right"
        yield f"In total, {'predictions are right within chance' if right else little}: {ratio}."
    else:
        yield (
            f"In total, {off_by(numbers['pcoc'])} positives are predicted:"
            f" PCOC {numbers['pcoc']:.3f}, {interval}."
        )


def _bins(log: EvaluatedLog) -> Iterator[str]:
    value, floor = log.overall["cal_5"], log.overall["cal_5_floor"]
    if not (math.isfinite(value) and math.isfinite(floor)):
        return
    if value > _BEYOND_FLOOR * floor:
        yield (
            f"By score, they are off by {percent(value)} in a typical fifth of the rows;"
            f" chance explains {percent(floor)}."
        )
    else:
        yield f"By score, fifths of the rows show no more error than chance: {percent(value)}."


def _information(log: EvaluatedLog) -> Iterator[str]:
    rig = log.overall["rig"]
    if rig < 0.0:
        yield f"Giving every row the mean rate would cost less: RIG {rig:.3f}."
    elif not math.isnan(rig):
        yield f"The scores take away {percent(rig)} of the uncertainty about outcomes (RIG)."


def _slices(log: EvaluatedLog) -> Iterator[str]:
    tables = {"campaigns": log.campaigns, "hours": log.hours}
    tables |= {f"values of {column}": table for column, table in log.by.items()}
    for what, table in tables.items():
        if table is not None and len(table) > 1:
            yield _off(what, table)


def _off(what: str, table: SliceTable) -> str:
    said = table.off_text(what)
    if not table.more_than_chance:
        return f"{said}, as may be if all are right."
    worst = table.worst_first[0]
    lower, upper = (float(ends[worst]) for ends in table.ends_for_all)
    name, least = shortened(table.names[worst], _LONGEST_NAME), max(lower, min(upper, 1.0))
    return f"{said}; {name} most" + ("." if least == 1.0 else f": at least {off_by(least)}.")


_WORTH_SAYING = 0.001


def notes(log: StreamedLog, metrics: LogMetrics) -> Iterator[str]:
    """One sentence or two for each thing; none for a log in which all is defined and exact."""
    numbers = metrics.overall
    yield from _one_class(numbers)
    yield from _ranking(log, metrics)
    yield from _bin_notes(numbers)
    yield from _cells(metrics)


def _one_class(numbers: Mapping[str, float]) -> Iterator[str]:
    rows, positives = numbers["n"], numbers["positives"]
    if positives in (0.0, rows):
        pcoc = "PCOC, " if math.isnan(numbers["pcoc"]) else "PCOC is infinite; "
        ratio = "" if positives else pcoc
        yield (
            f"Every outcome is {positives / rows:.0f}: {ratio}RIG, NMSE, AUC and calibrated log"
            " loss have no value (-)."
        )
    elif math.isnan(numbers["calibrated_log_loss"]):
        yield (
            "Calibrated log loss has no value (-): the tenth of the rows that its bias is fitted on"
            " has outcomes of one kind only."
        )


def _ranking(log: StreamedLog, metrics: LogMetrics) -> Iterator[str]:
    numbers = metrics.overall
    if log.has_bids and not log.has_classes:
        yield "Some outcomes are neither 0 nor 1, so there is no csAUC."
    elif log.has_bids and math.isnan(numbers["cs_auc"]):
        yield "csAUC has no value (-): no positive has a bid, or all rows pay the same."
    elif log.has_bids and numbers["cs_auc_tied_share"] > _WORTH_SAYING:
        yield (
            f"{numbers['cs_auc_tied_share']:.1%} of what csAUC decides about lies in pairs whose"
            " score x bid is equal; by its definition they pay in full."
        )
    if numbers.get("gauc_left_out", 0.0) > _WORTH_SAYING:
        yield (
            f"GAUC leaves out {numbers['gauc_left_out']:.1%} of the rows: they have no group, or"
            " outcomes of one kind only in it."
        )


def _bin_notes(numbers: Mapping[str, float]) -> Iterator[str]:
    infinite = [f"Cal-{n}" for n in BINS if math.isinf(numbers[f"cal_{n}"])]
    if infinite:
        yield f"{listed(infinite)} infinite: a score bin has no positives, seen or expected."
    missing = [f"Cal-{n}" for n in BINS if math.isnan(numbers[f"cal_{n}"])]
    if missing:
        verb = "has" if len(missing) == 1 else "have"
        yield f"{listed(missing)} {verb} no value (-): too few rows, or no positive."
    left_out = {n: numbers.get(f"gc_{n}_left_out", 0.0) for n in BINS}
    if max(left_out.values()) > _WORTH_SAYING:
        shares = listed([f"{share:.1%}" for share in left_out.values()])
        yield (
            f"GC-3, GC-4 and GC-5 leave out {shares} of the rows, whose campaigns have fewer than"
            " 15, 20 and 25 positives."
        )


def _cells(metrics: LogMetrics) -> Iterator[str]:
    coarse = [cut for cut in metrics.groupings.values() if cut.cells_per_octave is not None]
    if not coarse:
        return
    cells = min(cut.cells_per_octave or math.inf for cut in coarse)
    error = max(cut.auc_error for cut in coarse)
    whole = metrics.groupings[OVERALL].auc_error
    yield (
        "The log is too long to hold every score apart: from a score to its double there are"
        f" {cells:,.0f} cells or more, and scores of one cell tie. AUC is off by {whole:.1g} at"
        f" most, that of slices by {error:.1g} in the mean; the truth is usually far nearer."
        " PCOC and losses come from sums over all rows and are exact."
    )


Numbers = Mapping[str, float]
_FLOOR = "that much, by chance alone"
_TOP = "top 10 % of negatives; 0.05 random"


@dataclass(frozen=True, slots=True)
class Line:
    """A metric, its value as text, and how to read it."""

    name: str
    value: str
    reading: str


@dataclass(frozen=True, slots=True)
class MetricGroup:
    """Metrics that tell of the same thing."""

    title: str
    question: str
    lines: Sequence[Line]


def overview(log: EvaluatedLog) -> list[MetricGroup]:
    """All metrics of a log that it has the columns for."""
    parts = [
        MetricGroup("Calibration", "are predictions right on average?", _calibration(log)),
        MetricGroup("Loss", "what do wrong probabilities cost?", _loss(log.overall)),
        MetricGroup("Ranking", "do positives come first?", _ranking_overview(log)),
        MetricGroup("Revenue", "and by what they pay?", _revenue(log)),
    ]
    return [part for part in parts if part.lines]


def _calibration(log: EvaluatedLog) -> list[Line]:
    numbers = log.overall
    lower, upper = (shown(numbers[f"pcoc_{end}"], ".3f") for end in ("lower", "upper"))
    pcoc = f"{shown(numbers['pcoc'], '.3f')} ({lower}-{upper})"
    lines = [
        Line("PCOC", pcoc, "predicted over actual: 1 is right"),
        Line("COPC", shown(numbers["copc"], ".3f"), "actual over predicted"),
        Line("prediction error", shown(numbers["prediction_error"], "+.1%"), "PCOC less 1"),
        Line("Cal-3, -4, -5", _triple(numbers, "cal_{}"), "error in score bins: 0.2 is 20 %"),
        Line("  truth would have", _triple(numbers, "cal_{}_floor"), _FLOOR),
    ]
    if _has_several(log, log.metrics.campaigns):
        lines += [
            Line("GC-3, -4, -5", _triple(numbers, "gc_{}"), "the same inside each campaign"),
            Line("  truth would have", _triple(numbers, "gc_{}_floor"), _FLOOR),
        ]
    return lines


def _loss(numbers: Numbers) -> list[Line]:
    return [
        Line("log loss", shown(numbers["log_loss"], ".5f"), "lower is better, on the same rows"),
        _calibrated(numbers, "calibrated_log_loss", "log_loss_beside_calibrated", ".5f"),
        Line("RIG", shown(numbers["rig"], ".4f"), "0: no better than the mean rate"),
        Line("MSE", shown(numbers["mse"], ".6f"), "mean square error"),
        _calibrated(numbers, "calibrated_quadratic_loss", "mse_beside_calibrated", ".6f"),
        Line("NMSE", shown(numbers["nmse"], ".4f"), "1: no better than the mean rate"),
        Line("MAE", shown(numbers["mae"], ".6f"), "misleads: predicting 0 wins"),
    ]


def _ranking_overview(log: EvaluatedLog) -> list[Line]:
    numbers = log.overall
    lines = [
        Line("AUC", shown(numbers["auc"], ".4f"), "1 is best, 0.5 random"),
        Line("AUC at the top", shown(numbers["partial_auc"], ".4f"), _TOP),
    ]
    if "mainline_auc" in numbers:
        lines.append(Line("mainline AUC", shown(numbers["mainline_auc"], ".4f"), "its rows only"))
    if _has_several(log, log.metrics.groups):
        reading = f"AUC inside each {log.group}"
        lines.append(Line("GAUC", shown(numbers["gauc"], ".4f"), reading))
    return lines


def _revenue(log: EvaluatedLog) -> list[Line]:
    numbers = log.overall
    if not numbers["bids"]:
        return []
    lines = [Line("ROPR", shown(numbers["ropr"], ".3f"), "actual over predicted: 1 is right")]
    if "cs_auc" in numbers:
        random = shown((1.0 + numbers["cs_auc_worst"]) / 2.0, ".2f")
        reading = f"AUC in money: 1 is best, {random} random"
        lines.append(Line("csAUC", shown(numbers["cs_auc"], ".4f"), reading))
    if "cs_auc" in numbers and _has_several(log, log.metrics.groups):
        reading = f"csAUC inside each {log.group}"
        lines.append(Line("gcsAUC", shown(numbers["gcs_auc"], ".4f"), reading))
    return lines


def _has_several(log: EvaluatedLog, cut: str | None) -> bool:
    """Whether a mean over the slices of a cut tells anything else than the whole log does."""
    return cut is not None and len(log.metrics.groupings[cut].columns["n"]) > 1


def _triple(numbers: Numbers, name: str) -> str:
    return "  ".join(shown(numbers[name.format(n)], ".3f") for n in BINS)


def _calibrated(numbers: Numbers, name: str, plain: str, form: str) -> Line:
    reading = f"with the bias: {shown(numbers[plain], form)}, same rows"
    words = name.replace("_", " ").removesuffix(" loss" if "quadratic" in name else "")
    return Line(words, shown(numbers[name], form), reading)
