"""What a comparison of two models, or of their training runs, found: numbers and conclusion."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Final, NamedTuple

import numpy as np

from app.results.formatting import (
    Rows,
    block_warnings,
    drawn_how_often,
    interval_text,
    shown,
    value_text,
)
from calibrators.samples import Floats
from evaluation import MetricAccuracy, metric_accuracy
from evaluation.bootstrap.paired import sample_deviation
from evaluation.comparison.models import A, B, ModelComparison, PairedLog


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two models on the same impressions.

    names : what A and B are: files and columns.
    log : the impressions.
    found : metrics and differences.
    seed : of the draws, of the bias rows and of a sample of rows.
    bias_share : share of the rows that the bias was fitted on.
    """

    names: Mapping[str, str]
    log: PairedLog
    found: ModelComparison
    seed: int
    bias_share: float

    @property
    def warnings(self) -> list[str]:
        """What makes the numbers less than they seem."""
        said = []
        if self.found.draws[0]:
            blocks = self.log.blocks
            said += block_warnings(blocks.count, blocks.unit, self.found.effective)
        if not self.found.models[A].can_be_calibrated:
            said.append(
                f"The {self.bias_share:.0%} of the rows that the bias is fitted on hold one outcome"
                " only: the calibrated log loss is undefined; give a larger --bias-share."
            )
        return [*said, *sample_notes(self.log, "log has")]


def sample_notes(log: PairedLog, which: str) -> list[str]:
    """What is measured on a sample of the rows, where that is so."""
    if not log.sampled:
        return []
    return [
        f"The {which} {log.rows:,} rows. AUC, csAUC, GC-N, calibrated losses and those beside them"
        f" are of a random {len(log.events):,} of them; PCOC, log loss, quadratic loss and RIG are"
        " of all."
    ]


PLAIN: Final = "log_loss_beside_calibrated"
CALIBRATED: Final = "calibrated_log_loss"
LOSSES: Final = (PLAIN, CALIBRATED, "mse_beside_calibrated", "calibrated_quadratic_loss")
"""The metrics whose accuracy is shown, each plain one before its calibrated form."""

_OTHER: Final = {A: B, B: A}


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRuns:
    """Training runs of two models, all evaluated on the same impressions.

    names : where the runs of A and of B came from.
    runs : side -> name of the run -> its metrics.
    seed : of the bias rows and of a sample of rows.
    bias_share : share of the rows that the bias was fitted on.
    warnings : what the reader must know about the logs.
    """

    names: Mapping[str, str]
    runs: Mapping[str, Rows]
    seed: int
    bias_share: float
    warnings: Sequence[str] = ()

    def values(self, side: str, metric: str) -> list[float]:
        """The metric of every run of a side."""
        return [metrics[metric] for metrics in self.runs[side].values()]

    def means(self) -> dict[str, dict[str, float]]:
        """The mean of every metric over the runs."""
        return self._over_runs(lambda values: float(values.mean()))

    def spreads(self) -> dict[str, dict[str, float]]:
        """The standard deviation of every metric over the runs; nan of a single one."""
        return self._over_runs(sample_deviation)

    @property
    def better(self) -> str | None:
        """The model that the plain log loss puts first in most pairs of runs; None in half."""
        share = self.share_of_a(PLAIN).value
        return None if share == 0.5 or isnan(share) else A if share > 0.5 else B

    def share_of_a(self, metric: str) -> MetricAccuracy:
        """Share of the pairs of runs in which A has the lower metric; nan where undefined."""
        a, b = (self.values(side, metric) for side in (A, B))
        if np.isnan([*a, *b]).any():
            return MetricAccuracy(*[float("nan")] * 4)
        return metric_accuracy(a, b)

    def accuracy(self, metric: str) -> MetricAccuracy:
        """How often the metric of single runs puts the better model first."""
        found = self.share_of_a(metric)
        if self.better != B:
            return found
        return MetricAccuracy(
            1.0 - found.value, found.standard_error, 1.0 - found.upper, 1.0 - found.lower
        )

    def _over_runs(self, of: Callable[[Floats], float]) -> dict[str, dict[str, float]]:
        names = {side: [*next(iter(runs.values()))] for side, runs in self.runs.items()}
        return {
            side: {name: of(np.array(self.values(side, name))) for name in of_side}
            for side, of_side in names.items()
        }

    @property
    def conclusion(self) -> str:
        """Who is better, and whether the calibrated metric tells it with fewer runs."""
        better = self.better
        if isnan(self.share_of_a(PLAIN).value):
            return "Who is better is not known: the log loss of a run is undefined."
        if better is None:
            return "A and B cannot be told apart: neither has the lower log loss in most pairs."
        plain, calibrated = self.accuracy(PLAIN), self.accuracy(CALIBRATED)
        sure = plain.lower > 0.5
        said = (
            f"{better} is better{'' if sure else ', as far as these runs tell'}: a run of it has"
            f" the lower log loss in {_share(plain)} of all pairs."
        )
        return f"{said} {self._calibrated(calibrated, plain)}"

    def _calibrated(self, calibrated: MetricAccuracy, plain: MetricAccuracy) -> str:
        if isnan(calibrated.value):
            return "The calibrated log loss is undefined: give a larger --bias-share."
        if calibrated.value < 0.5:
            return (
                "The calibrated log loss disagrees: it puts"
                f" {_OTHER[str(self.better)]} first, in {1.0 - calibrated.value:.1%} of the pairs."
                " The plain one decides here; look at the PCOC of both."
            )
        more = "more often" if calibrated.value > plain.value else "no more often"
        return f"The calibrated log loss says so {more}, in {_share(calibrated)} of them."


def _share(accuracy: MetricAccuracy) -> str:
    return f"{accuracy.value:.1%} ({accuracy.lower:.1%} to {accuracy.upper:.1%})"


_PLAIN: Final = "log_loss"
_MOST_TIMES: Final = 100.0


def compare_conclusion(compared: Compared) -> str:
    """The conclusion, without intervals only what can be said without."""
    found = compared.found
    if compared.log.identical:
        return _identical(compared)
    if not found.draws[0]:
        return _without_draws(found)
    if isnan(found.differences[_PLAIN].lower):
        return "There is too little to compare: an interval takes two blocks at least."
    return " ".join([*_main(found), *_ranking(found), *_calibration(found)])


def _identical(compared: Compared) -> str:
    if compared.names[A] == compared.names[B]:
        return (
            "A and B are the same column of the same file: every difference is zero by"
            " construction."
        )
    return "A and B give every impression the same score: every difference is zero."


def _without_draws(found: ModelComparison) -> str:
    leader = found.leads(_PLAIN)
    return (
        f"{leader} has the lower log loss; whether by chance, nobody can tell without intervals"
        " (--draws)."
    )


def _main(found: ModelComparison) -> list[str]:
    """What the log losses say, as they are and with the overall bias taken out."""
    plain, calibrated = found.better(_PLAIN), found.better(CALIBRATED)
    if plain is None:
        said = f"A and B cannot be told apart on this log: log loss {_span(found, _PLAIN)}."
        return [said, _needed(found) if calibrated is None else _if_calibrated(found, calibrated)]
    said = f"{plain} is better: log loss {_span(found, _PLAIN)}."
    if isnan(found.differences[CALIBRATED].value):
        return [said]
    if calibrated == plain:
        return [said, f"It stays better once the overall bias of both is taken out{_cal(found)}."]
    if calibrated is None:
        return [said, _level(found, plain)]
    return [
        said.replace("is better", "is better as it is"),
        f"But only its level is: with the overall bias of both taken out {calibrated} is"
        f" better{_cal(found)}. Calibrate {calibrated}, and it wins.",
    ]


def _level(found: ModelComparison, plain: str) -> str:
    why = f": what {_OTHER[plain]} lacks is its level" if found.better("cal_1") == plain else ""
    return (
        f"Once the overall bias of both is taken out, they cannot be told apart{_cal(found)}{why}."
    )


def _if_calibrated(found: ModelComparison, winner: str) -> str:
    return (
        f"With the overall bias of both taken out {winner} is better{_cal(found)}. Calibrate"
        f" {winner}, and it wins."
    )


def _cal(found: ModelComparison) -> str:
    return f", calibrated log loss {_span(found, CALIBRATED)}"


def _span(found: ModelComparison, metric: str) -> str:
    difference = found.differences[metric]
    return f"A less B {value_text(difference)} ({interval_text(difference)})"


def _needed(found: ModelComparison) -> str:
    blocks = found.blocks
    needed = found.differences[_PLAIN].blocks_for(blocks.count)
    if not isfinite(needed) or needed > _MOST_TIMES * blocks.count:
        return (
            f"If the true difference is as small, it would take more than {_MOST_TIMES:.0f} times"
            f" as many {blocks.unit} to see it."
        )
    more = needed - blocks.count
    if more < 1.0:
        return f"It is close: a few more {blocks.unit} may tell."
    return (
        f"If the true difference is the one seen, roughly {_rounded(more)} more {blocks.unit}"
        " would be needed to see it four times in five."
    )


def _rounded(number: float) -> str:
    """Two digits that count: no more is known."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _ranking(found: ModelComparison) -> list[str]:
    """By AUC and, where there are bids, in money."""
    said: dict[str, list[str]] = {A: [], B: []}
    for metric, name in (("auc", "AUC"), ("cs_auc", "csAUC, in money")):
        better = found.better(metric) if metric in found.differences else None
        if better is not None:
            value, other = (found.metrics[side][metric] for side in (better, _OTHER[better]))
            said[better].append(f"{value:.4f} against {other:.4f} ({name})")
    sentences = [f"{side} ranks better: {', '.join(said[side])}." for side in said if said[side]]
    if any(each and each[0].endswith("(csAUC, in money)") for each in said.values()):
        sentences.append("csAUC pays pairs of one score x bid in full: of few scores, trust AUC.")
    return sentences or ["Neither ranks better beyond chance."]


def _calibration(found: ModelComparison) -> list[str]:
    """Calibrated losses do not see a model that is better calibrated, so PCOC stands beside."""
    better = found.better("cal_1")
    nearer = f"; {better} predicts nearer to what happens" if better else ""
    ratios = (f"{found.metrics[side]['pcoc']:.3f} of {side}" for side in (A, B))
    return [f"PCOC {' and '.join(ratios)}{nearer}."]


HOW_TO_READ: Final = (
    "A calibrated loss is what is left once a model's overall bias is taken out: fitted on some"
    " rows, evaluated on the others, beside the plain loss of the same rows. It does not see which"
    " model is calibrated better; PCOC does: predicted over actual clicks, 1 is right."
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


class ComparedMetric(NamedTuple):
    """The cells of a metric: what it is called, its values, A less B with a star where that is of
    the distance from 1, the interval, and which is better beyond chance."""

    heading: str
    a: str
    b: str
    difference: str
    interval: str
    better: str


def compared_metrics(found: ModelComparison) -> Iterator[ComparedMetric]:
    """Those of METRICS that both models have."""
    for name, metric in METRICS.items():
        if name in found.metrics[A]:
            key = compared_by(name)
            a, b = (shown(found.metrics[side][name], metric.form) for side in (A, B))
            less = value_text(found.differences[key]) + (" *" if metric.difference else "")
            interval = interval_text(found.differences[key])
            yield ComparedMetric(metric.heading, a, b, less, interval, found.better(key) or "")


def compared_by(name: str) -> str:
    """The metric whose difference is shown beside a metric."""
    return METRICS[name].difference or name


def about(compared: Compared) -> str:
    """How the intervals were made; empty without any."""
    blocks, (draws, few) = compared.log.blocks, compared.found.draws
    return drawn_how_often(blocks.count, blocks.unit, draws, few, RANKED) if draws else ""


HOW_TO_READ_RUNS: Final = (
    "Mean and standard deviation over the runs. Metric accuracy: how often one run of each model"
    " is ranked rightly, if the model with the lower plain log loss in most pairs is the better"
    " one; 50 % is a coin. It is that of this one set of impressions: on others it varies by"
    " several points more."
)


def rows_of_runs(compared: ComparedRuns) -> list[tuple[str, ...]]:
    """The cells of the table of runs: metric, mean and spread of each side, accuracy."""
    means, spreads = compared.means(), compared.spreads()
    return [
        (
            metric.heading,
            *(
                f"{shown(means[side][name], metric.form)} ± {shown(spreads[side][name], '.2g')}"
                for side in (A, B)
            ),
            accuracy_text(compared.accuracy(name)) if name in LOSSES else "",
        )
        for name, metric in METRICS.items()
        if name in means[A] and name in means[B]
    ]


def accuracy_text(accuracy: MetricAccuracy) -> str:
    """The accuracy and its interval in percent."""
    value, lower, upper = (
        shown(100.0 * end, ".1f") for end in (accuracy.value, accuracy.lower, accuracy.upper)
    )
    return f"{value} % ({lower} to {upper})"
