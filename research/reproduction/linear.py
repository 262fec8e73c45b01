"""Papers 000 and 003: the synthetic linear regression."""

from collections.abc import Iterator, Mapping

import numpy as np

from calibrators.samples import Floats
from evaluation.comparison.metric_accuracy import metric_accuracy
from research.reproduction.experiment import Check, Experiment, Progress, Reproduction, banded
from research.reproduction.regression_quantities import (
    ACCURACY,
    CALIBRATED_ACCURACY,
    CALIBRATED_DEVIATION,
    DEVIATION,
    GAP,
    GAP_ON_SAME_ROWS,
    MEAN,
    MEAN_CHANGE,
    RATIO,
    RATIO_ON_SAME_ROWS,
    Band,
    RegressionExperiment,
    Variant,
    trained_note,
)
from research.reproduction.regressions import (
    FEATURES,
    LINEAR,
    TRAINING_ROWS,
    USED_BY,
    expected_quadratic_risk,
    quadratic_risks,
)
from research.reproduction.training_rounds import Rounds

BANDS = {
    ACCURACY: Band(79.1, 98.4, 2.3),
    CALIBRATED_ACCURACY: Band(78.6, 98.6, 2.3),
    GAP: Band(-4.3, 4.3, 1.0),
    MEAN: Band(3.928, 4.243, 0.0029, ".3f"),
    MEAN_CHANGE: Band(-0.054, 0.055, 0.0007, ".3f"),
    DEVIATION: Band(0.0272, 0.0312, 0.0026, ".4f"),
    CALIBRATED_DEVIATION: Band(0.0266, 0.0311, 0.0026, ".4f"),
    RATIO: Band(0.946, 1.022, 0.028, ".3f"),
    GAP_ON_SAME_ROWS: Band(-1.6, 2.6, 0.9),
    RATIO_ON_SAME_ROWS: Band(0.950, 1.0, 0.024, ".3f"),
}
VARIANTS = (
    Variant(
        "000",
        "Tables 7 and 8",
        runs=100,
        rounds=20,
        accuracies=("93.49", "95.81"),
        errors=("0.35", "0.28"),
        means=("4.067", "4.070"),
        deviations=("0.0295", "0.0286"),
    ),
    Variant(
        "003",
        "Tables 8 and 9",
        runs=100,
        rounds=100,
        accuracies=("93.5", "94.53"),
        errors=("0.19", "0.17"),
        means=("4.067", "4.069"),
        deviations=("0.0298", "0.0286"),
    ),
)
LINEAR_EXPERIMENT = RegressionExperiment(LINEAR, VARIANTS, BANDS)
RISK_DEVIATION = 0.027
"""Of the risk over training draws."""

Risks = Mapping[str, tuple[Floats, Floats]]


def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Trains 24,000 linear regressions, or 400 when `quick`."""
    found = LINEAR_EXPERIMENT.rounds(quick=quick, seed=seed, progress=progress)
    checks = [*LINEAR_EXPERIMENT.checks(found), *_population(found[-1])]
    return Reproduction(
        EXPERIMENT.name,
        EXPERIMENT.title,
        "000, appendix B.1 and section 4; 003, appendix B.1",
        checks,
        (trained_note(found), *NOTES),
    )


def _population(rounds: Rounds) -> Iterator[Check]:
    """Risks under the known distribution, which the papers' theory is about."""
    models = {name: c.reshape(-1, c.shape[-1]) for name, c in rounds.coefficients.items()}
    risks = {name: quadratic_risks(coefficients) for name, coefficients in models.items()}
    for name in USED_BY:
        yield from _mean_risks(name, risks)
    yield _risk_ratio(risks)
    yield from _risk_accuracies(risks)


def _mean_risks(name: str, risks: Risks) -> Iterator[Check]:
    expected = expected_quadratic_risk(USED_BY[name])
    plain, calibrated = risks[name]
    error = RISK_DEVIATION / np.sqrt(len(plain))
    for what, values in (("risk", plain), ("(1 + 1/n) x calibrated risk", _scaled(calibrated))):
        yield banded(
            f"mean of {what}, pipeline {name}",
            float(values.mean()),
            expected,
            float(error),
            paper_text="equal, not printed",
            part=THEORY,
        )


def _risk_ratio(risks: Risks) -> Check:
    plain, calibrated = risks["A"]
    return banded(
        "sd of (1 + 1/n) x calibrated risk / sd of risk",
        float(_scaled(calibrated).std(ddof=1) / plain.std(ddof=1)),
        float(np.sqrt(FEATURES / (FEATURES + 1.0))),
        0.25 / float(np.sqrt(len(plain))),
        paper_text="below 1",
        part=THEORY,
        form=".3f",
    )


def _risk_accuracies(risks: Risks) -> Iterator[Check]:
    names = (("risk", 94.32), ("calibrated risk", 94.71))
    for place, (what, expected) in enumerate(names):
        better, worse = risks["A"][place], risks["B"][place]
        yield banded(
            f"Acc by {what}, %",
            100.0 * metric_accuracy(better, worse).value,
            expected,
            20.0 / float(np.sqrt(len(better))),
            part=THEORY,
            form=".2f",
        )


def _scaled(calibrated: Floats) -> Floats:
    return (1.0 + 1.0 / TRAINING_ROWS) * calibrated


THEORY = "Section 4, risk of the same models under the known distribution"
NOTES = (
    "Pipeline A has 20 features, B the first 19. Readings where the papers leave a gap: 2 is the"
    " standard deviation of the noise, an intercept is fitted, A and B train on draws of their own,"
    " one evaluation set serves all rounds, and the plain loss is that of all 11,000 rows while the"
    " calibrated one is that of the 10,000 not used for the bias.",
    "In the paper's column, differences and ratios follow from its printed numbers.",
    "A band holds at least 99.4 % of 1,505 evaluation sets drawn with the code of this experiment"
    " and is wider for fewer runs. So it tests the printed numbers, which hang on the one set that"
    " the authors drew; of ours it says only that the seed's set is inside too. That of seed 0 is"
    " unusual: on fewer than 1 in 100 is the accuracy so low.",
    "The calibrated loss varies less, by the 2.4 % that theory gives: sqrt(20 / 21). The printed"
    " gains in accuracy are no measure of that: plain and calibrated are of different rows, which"
    " alone moves the difference by 1.1 points from set to set, around 0.3; gains as large as the"
    " printed 2.3 and 1.0 came on 3 % and 21 % of sets. On the same rows the mean gain is 0.5"
    " points.",
    "Σ_e = 2 is written as a covariance; as a variance the mean loss would be 2.04.",
)
EXPERIMENT = Experiment(
    "linear",
    "Calibrated quadratic loss, linear regression",
    "000, 003: accuracy, mean and deviation of plain and calibrated loss, linear regression",
    15.0,
    run,
)
