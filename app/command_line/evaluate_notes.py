"""What a reader of the metrics must know: what is undefined and why, what is not exact."""

import math
from collections.abc import Iterator, Mapping, Sequence

from evaluation.compact import OVERALL, CompactLog, LogMetrics
from evaluation.compact.cut_metrics import BINS

_WORTH_SAYING = 0.001


def notes(log: CompactLog, metrics: LogMetrics) -> Iterator[str]:
    """One sentence or two for each thing; none for a log in which all is defined and exact."""
    numbers = metrics.overall
    yield from _one_class(numbers)
    yield from _ranking(log, metrics)
    yield from _bins(numbers)
    yield from _cells(metrics)


def _one_class(numbers: Mapping[str, float]) -> Iterator[str]:
    rows, positives = numbers["n"], numbers["positives"]
    if positives in (0.0, rows):
        ratio = "PCOC, " if positives == 0.0 else ""
        yield (
            f"Every outcome is {positives / rows:.0f}: {ratio}RIG, NMSE, AUC and calibrated log"
            " loss have no value (-)."
        )
    elif math.isnan(numbers["calibrated_log_loss"]):
        yield (
            "Calibrated log loss has no value (-): the tenth of the rows that its bias is fitted on"
            " has outcomes of one kind only."
        )


def _ranking(log: CompactLog, metrics: LogMetrics) -> Iterator[str]:
    numbers = metrics.overall
    if log.has_bids and not log.has_classes:
        yield "Some outcomes are neither 0 nor 1, so there is no csAUC."
    elif log.has_bids and math.isnan(numbers["cs_auc"]):
        yield "csAUC has no value (-): no pair of rows could pay, since no positive has a bid."
    elif log.has_bids and numbers["cs_auc_tied_share"] > _WORTH_SAYING:
        yield (
            f"{numbers['cs_auc_tied_share']:.1%} of what csAUC decides about lies in pairs whose"
            " score x bid is equal; by its definition they pay in full."
        )
    if numbers.get("gauc_left_out", 0.0) > _WORTH_SAYING:
        yield (
            f"GAUC leaves out {numbers['gauc_left_out']:.1%} of the rows: their groups have"
            " outcomes of one kind only."
        )


def _bins(numbers: Mapping[str, float]) -> Iterator[str]:
    infinite = [f"Cal-{n}" for n in BINS if math.isinf(numbers[f"cal_{n}"])]
    if infinite:
        yield f"{_listed(infinite)}: a score bin without positives makes it infinite."
    missing = [f"Cal-{n}" for n in BINS if math.isnan(numbers[f"cal_{n}"])]
    if missing:
        verb = "has" if len(missing) == 1 else "have"
        yield f"{_listed(missing)} {verb} no value (-): too few rows, or no positive."
    left_out = {n: numbers.get(f"gc_{n}_left_out", 0.0) for n in BINS}
    if max(left_out.values()) > _WORTH_SAYING:
        shares = _listed([f"{share:.1%}" for share in left_out.values()])
        yield (
            f"GC-3, GC-4 and GC-5 leave out {shares} of the rows, whose campaigns have fewer than"
            " 15, 20 and 25 positives."
        )


def _cells(metrics: LogMetrics) -> Iterator[str]:
    coarse = [cut for cut in metrics.cuts.values() if cut.cells_per_octave is not None]
    if not coarse:
        return
    cells = min(cut.cells_per_octave or math.inf for cut in coarse)
    error = max(cut.auc_error for cut in coarse)
    whole = metrics.cuts[OVERALL].auc_error
    yield (
        "The log is too long to hold every score apart: from a score to its double there are"
        f" {cells:,.0f} cells or more, and scores of one cell tie. AUC is off by {whole:.1g} at"
        f" most, that of slices by {error:.1g} in the mean; the truth is usually far nearer."
        " PCOC and losses come from sums over all rows and are exact."
    )


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
