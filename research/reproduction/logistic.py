"""Papers 000 and 003: the synthetic logistic regression."""

from collections.abc import Iterator

from research.reproduction.experiment import (
    Check,
    Experiment,
    Progress,
    Reproduction,
    arithmetic,
    exact,
)
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
from research.reproduction.regressions import LOGISTIC, USED_BY, bayes_log_loss

BANDS = {
    ACCURACY: Band(65.2, 92.4, 3.3),
    CALIBRATED_ACCURACY: Band(62.4, 93.3, 3.3),
    GAP: Band(-7.2, 7.2, 1.1),
    MEAN: Band(0.519, 0.5462, 0.00043, ".4f"),
    MEAN_CHANGE: Band(-0.0066, 0.0070, 0.0001, ".4f"),
    DEVIATION: Band(0.00358, 0.0042, 0.00035, ".5f"),
    CALIBRATED_DEVIATION: Band(0.00355, 0.00416, 0.00035, ".5f"),
    RATIO: Band(0.941, 1.042, 0.032, ".3f"),
    GAP_ON_SAME_ROWS: Band(-1.8, 2.5, 0.9),
    RATIO_ON_SAME_ROWS: Band(0.953, 1.001, 0.026, ".3f"),
}
VARIANTS = (
    Variant(
        "000",
        "Tables 9 and 10",
        runs=1_000,
        rounds=20,
        accuracies=("79.62", "83.7"),
        errors=("0.18", "0.15"),
        means=("0.5366", "0.5343"),
        deviations=("0.00385", "0.00370"),
    ),
    Variant(
        "003",
        "Tables 10 and 11",
        runs=100,
        rounds=100,
        accuracies=("85.93", "89.36"),
        errors=("0.26", "0.24"),
        means=("0.5249", "0.5219"),
        deviations=("0.00376", "0.00357"),
    ),
)
LOGISTIC_EXPERIMENT = RegressionExperiment(LOGISTIC, VARIANTS, BANDS)
BAYES = {"A": 0.521192, "B": 0.526588}
"""Log losses of the true probabilities, by adaptive integration to 1e-6."""


def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Trains 60,000 logistic regressions, or 400 when `quick`."""
    found = LOGISTIC_EXPERIMENT.rounds(quick=quick, seed=seed, progress=progress)
    checks = [*LOGISTIC_EXPERIMENT.checks(found), *arithmetic(_bayes())]
    return Reproduction(
        EXPERIMENT.name,
        EXPERIMENT.title,
        "000, appendix B.2; 003, appendix B.2",
        checks,
        (trained_note(found), *NOTES),
    )


def _bayes() -> Iterator[Check]:
    for name, used in USED_BY.items():
        yield exact(
            f"log loss of the true probabilities given {used} features",
            bayes_log_loss(used),
            BAYES[name],
            tolerance=1e-6,
            part="What no model can beat",
        )


NOTES = (
    "Pipeline A has 20 features, B the first 19. Readings where the papers leave a gap: an"
    " intercept is fitted although the truth has none, nothing is penalised, A and B train on draws"
    " of their own, one evaluation set serves all rounds, and the plain loss is that of all 12,000"
    " rows while the calibrated one is that of the 10,000 not used for the bias.",
    "In the paper's column, differences and ratios follow from its printed numbers.",
    "A band holds at least 99.2 % of 376 evaluation sets drawn with the code of this experiment and"
    " is wider for fewer runs. So it tests the printed numbers, which hang on the one set that the"
    " authors drew; of ours it says only that the seed's set is inside too.",
    "The calibrated loss varies less, by about 2 % on the same rows. The printed gains in accuracy"
    " are no measure of that: plain and calibrated are of different rows, which alone moves the"
    " difference by 2.3 points from set to set, around 0; gains as large as the printed 4.1 and 3.4"
    " came on 3 % and 5 % of sets. On the same rows the mean gain is 0.5 points.",
    "Calibration cannot see a pipeline that improves calibration itself: read PCOC beside it.",
)
EXPERIMENT = Experiment(
    "logistic",
    "Calibrated log loss, logistic regression",
    "000, 003: accuracy, mean and deviation of plain and calibrated loss, logistic regression",
    90.0,
    run,
)
