"""The metrics of a whole log: what each is, and how to read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.results.evaluation import EvaluatedLog
from app.results.formatting import shown
from evaluation.streaming.group_metrics import BINS

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
class Part:
    """Metrics that tell of the same thing."""

    title: str
    question: str
    lines: Sequence[Line]


def overview(log: EvaluatedLog) -> list[Part]:
    """All metrics of a log that it has the columns for."""
    parts = [
        Part("Calibration", "do promises come true?", _calibration(log)),
        Part("Loss", "what do wrong probabilities cost?", _loss(log.overall)),
        Part("Ranking", "do positives come first?", _ranking(log)),
        Part("Revenue", "and by what they pay?", _revenue(log)),
    ]
    return [part for part in parts if part.lines]


def _calibration(log: EvaluatedLog) -> list[Line]:
    numbers = log.overall
    lines = [
        Line("PCOC", _with_interval(numbers), "promised over actual: 1 is right"),
        Line("COPC", shown(numbers["copc"], ".3f"), "actual over promised"),
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
        Line("MAE", shown(numbers["mae"], ".6f"), "no fair judge: promising 0 wins"),
    ]


def _ranking(log: EvaluatedLog) -> list[Line]:
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
    lines = [Line("ROPR", shown(numbers["ropr"], ".3f"), "actual over promised: 1 is right")]
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


def _with_interval(numbers: Numbers) -> str:
    lower, upper = (shown(numbers[f"pcoc_{end}"], ".3f") for end in ("lower", "upper"))
    return f"{shown(numbers['pcoc'], '.3f')} ({lower}-{upper})"


def _triple(numbers: Numbers, name: str) -> str:
    return "  ".join(shown(numbers[name.format(n)], ".3f") for n in BINS)


def _calibrated(numbers: Numbers, name: str, plain: str, form: str) -> Line:
    reading = f"with the bias: {shown(numbers[plain], form)}, same rows"
    words = name.replace("_", " ").removesuffix(" loss" if "quadratic" in name else "")
    return Line(words, shown(numbers[name], form), reading)
