"""Is the total right? PCOC, COPC, prediction error, and ROPR, the same in money; losses: log loss,
RIG, mean square error, NMSE, mean absolute error; and the scorecard, the row of metrics that
commands and reports print, of samples or of bins.

Sums say nothing about where the errors lie: too high here and too low there cancel. `cal_n` sees
that. With a = sum p and b = sum y, PCOC = a / b, COPC = b / a and prediction error = PCOC - 1. What
is over 0 is infinite, 0 over 0 is nan: without positives PCOC and prediction error are infinite and
COPC is 0; where positives came and all p are 0, PCOC is 0, prediction error -1 and COPC infinite.
Log loss and RIG clip probabilities to [1e-12, 1 - 1e-12]; RIG and NMSE are nan unless there are
both positives and negatives. Arguments and errors are those of `evaluation.metrics`.
"""

from collections.abc import Mapping
from itertools import chain
from math import isfinite, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, logit, logsumexp, xlogy

from calibrators.bins.bins import Bins
from calibrators.bins.table import BinsTable
from calibrators.samples import Floats, check_equal_lengths, check_not_negative
from evaluation.metrics.auc import auc_of
from evaluation.metrics.cal_n import cal_n_of
from evaluation.metrics.gc_n import CampaignErrors, CampaignRuns, GroupCalibration
from evaluation.metrics.predictions import Campaigns, Predictions, ratio, weighted_mean


def pcoc(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Sum of the probabilities over the sum of the outcomes.

    1 is right on average, 1.3 predicts 30 % more clicks than came, 0.8 a fifth fewer. Infinite
    without positives; nan when neither came nor was predicted, and without samples.

    Source: Deng et al. (paper 004), section 4. Its later "PCOC(x) = E[Y | X = x] / x" is the
    inverse.

    >>> pcoc([0.25, 0.25, 0.5, 0.5], [0, 1, 0, 0])
    1.5
    """
    return pcoc_of(Predictions.check(p, y, sample_weight))


def pcoc_of(predictions: Predictions) -> float:
    """`pcoc` of checked predictions."""
    return ratio(predictions.expected.sum(), predictions.positives.sum())


def copc(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Sum of the outcomes over the sum of the probabilities: 1 / `pcoc`.

    1 is right on average, above 1 more clicks came than were predicted. Infinite when clicks came
    and all probabilities are 0; nan when neither came nor was predicted, and without samples.

    Source: Liu and Yin (paper 002), section 2: "click over predicted click".

    >>> copc([0.25, 0.25, 0.5, 0.5], [0, 1, 0, 1])
    1.3333333333333333
    """
    predictions = Predictions.check(p, y, sample_weight)
    return ratio(predictions.positives.sum(), predictions.expected.sum())


def ropr(
    p: ArrayLike, y: ArrayLike, bids: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Sum of outcome times bid over the sum of probability times bid.

    It is `copc` where clicks count by what they pay, so an error in dear campaigns shows here and
    hides there. Infinite when money came and none was predicted; nan when neither (so too when all
    bids are 0), and without samples.

    Source: Liu and Yin (paper 002), section 2: "revenue over predicted revenue".

    Half of the predicted clicks came, but they were the dear ones:

    >>> ropr([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1], [1, 1, 1, 3])
    1.0
    """
    predictions = Predictions.check(p, y, sample_weight)
    checked = check_not_negative("bids", bids)
    check_equal_lengths(probabilities=predictions.probabilities, bids=checked)
    held = predictions.weights > 0.0
    paid = _in_units_of_the_largest(checked[held])
    return ratio(
        (predictions.positives[held] * paid).sum(), (predictions.expected[held] * paid).sum()
    )


def _in_units_of_the_largest(bids: Floats) -> Floats:
    # The unit of money is of no effect, and with this one sums stay in the range of floats.
    unit = np.max(bids, initial=0.0)
    return bids / unit if unit > 0.0 else bids


def prediction_error(
    p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """Mean probability over mean outcome, less 1: `pcoc` - 1.

    0 is right on average, 0.3 predicts 30 % too many clicks, -0.2 a fifth too few; at least -1.
    Infinite without positives; nan when neither came nor was predicted, and without samples.
    `score_quantiles` shows where a model is wrong that is right on average.

    Source: Yi et al., KDD 2013 (paper 001), section 4.5.

    >>> prediction_error([0.25, 0.25, 0.5, 0.5], [0, 1, 0, 0])
    0.5
    """
    return pcoc(p, y, sample_weight=sample_weight) - 1.0


_CLOSE = 1e-12
"""The sum of the shifted probabilities is right to this share of itself."""


def bias_shift(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """The c for which q = sigmoid(logit(p) - c) has the least log loss of all shifts.

    There the sum of q is the sum of y, because the log loss is convex in c and that is where its
    derivative is 0. Positive c: the model predicts too much, and c comes off all its log-odds.
    ValueError when the outcomes are all 0 or all 1, which no finite shift fits.

    Newton's method on ln(sum q / sum y), with bisection where a step leaves the bracket or does
    not halve. With the rate r of the outcomes, the root lies between the lowest and the highest
    log-odds, each less logit(r): at one end no q is below r, at the other none above. When
    positives are the commoner class, negatives are summed instead, so that the rarer sum is the
    one met to twelve digits.

    Source: Fan et al. (paper 000), section 3, equation (6), and paper 003, section 3, equation (6),
    where "c* = min" is argmin; c is subtracted in both.

    All predictions are 1/2, and a quarter came: the odds fall from 1 to 1/3.

    >>> round(bias_shift([0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1]), 6), round(float(np.log(3)), 6)
    (1.098612, 1.098612)
    """
    return bias_shift_of(Predictions.check(p, y, sample_weight))


def bias_shift_of(predictions: Predictions) -> float:
    """`bias_shift` of checked predictions."""
    held = predictions.weights > 0.0
    if not held.any():
        return float("nan")
    outcomes, odds = predictions.outcomes[held], log_odds(predictions.probabilities[held])
    _check_both_classes(outcomes)
    # In logarithms, because with lopsided weights the sums leave the range of floats.
    log_weights = np.log(predictions.weights[held])
    log_weights -= log_weights.max()
    positives = float(logsumexp(log_weights, b=outcomes))
    negatives = float(logsumexp(log_weights, b=1.0 - outcomes))
    if positives <= negatives:
        return _root(odds, log_weights, positives, positives - negatives)
    return -_root(-odds, log_weights, negatives, negatives - positives)


def _check_both_classes(outcomes: Floats) -> None:
    if not both_outcomes(outcomes):
        raise ValueError(
            f"outcomes are all {outcomes[0]:.0f} ({len(outcomes):,} samples): the shift that would"
            " fit them is infinite; fit it on samples with both outcomes, such as more of them"
        )


def both_outcomes(y: Floats) -> bool:
    """Whether some outcome is above 0 and some below 1: the shift that fits them is finite."""
    return bool(len(y) and y.max() > 0.0 and y.min() < 1.0)


def _root(odds: Floats, log_weights: Floats, target: float, rate: float) -> float:
    """The c with ln(sum of weights * expit(odds - c)) = target; `rate` is the target's log-odds.

    The target is at most half of all weight.
    """
    low, high = float(odds.min()) - rate, float(odds.max()) - rate
    weights = np.exp(log_weights)
    mean = float((weights * expit(odds)).sum() / weights.sum())
    c = min(max(float(logit(mean)) - rate, low), high)
    step = high - low
    while True:
        excess, slope = _excess(odds - c, log_weights, target)
        if abs(excess) <= _CLOSE:
            return c
        low, high = (c, high) if excess > 0.0 else (low, c)
        following = c + excess / slope
        if not (low < following < high and abs(following - c) <= step / 2.0):
            following = low + (high - low) / 2.0
        if not low < following < high:
            return c
        c, step = following, abs(following - c)


def _excess(odds: Floats, log_weights: Floats, target: float) -> tuple[float, float]:
    """ln(sum of weights * expit(odds)) - target, and how fast it falls as the odds do."""
    terms = log_weights + log_expit(odds)
    largest = float(terms.max())
    shares = np.exp(terms - largest)
    total = float(shares.sum())
    return largest + log(total) - target, float((shares * expit(-odds)).sum()) / total


def log_odds(p: Floats) -> Floats:
    """ln(p / (1 - p)) with p clipped to [1e-12, 1 - 1e-12], in p's shape: within 27.7 of 0."""
    return np.asarray(logit(np.clip(p, EPSILON, 1.0 - EPSILON)))


EPSILON = 1e-12
"""Probabilities are clipped to [EPSILON, 1 - EPSILON], so a click at probability 0 costs 27.6."""

_BLOCK = 1 << 14
"""Samples worked on at a time: what is made of them stays in the processor's cache."""


def log_loss(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Weighted mean of -(y ln p + (1 - y) ln(1 - p)).

    In nats a sample; lower is better, and the true probabilities have the lowest expectation of
    all. Its size depends on the click rate, so compare it only on the same samples.

    Source: Yi et al., KDD 2013 (paper 001), section 3.

    >>> round(log_loss([0.5, 0.8], [0, 1]), 6)
    0.458145
    """
    return log_loss_of(Predictions.check(p, y, sample_weight))


def log_loss_of(predictions: Predictions) -> float:
    """`log_loss` of checked predictions."""
    weight = predictions.weights.sum()
    if weight == 0.0:
        return float("nan")
    starts = range(0, len(predictions.weights), _BLOCK)
    return float(sum(_loss(predictions, slice(start, start + _BLOCK)) for start in starts) / weight)


def _loss(predictions: Predictions, rows: slice) -> float:
    clipped = np.clip(predictions.probabilities[rows], EPSILON, 1.0 - EPSILON)
    positives = predictions.weights[rows] * predictions.outcomes[rows]
    hits = np.log(clipped)
    hits *= positives
    misses = np.log1p(np.negative(clipped, out=clipped), out=clipped)
    misses *= np.subtract(predictions.weights[rows], positives, out=positives)
    hits += misses
    return float(-hits.sum())


def sample_losses(p: Floats, positives: Floats, weights: Floats) -> Floats:
    """-(positives ln p + (weights - positives) ln(1 - p)) of every sample or run, (n,).

    `positives` are weight times outcome. Clipped as `log_loss` is.
    """
    clipped = np.clip(p, EPSILON, 1.0 - EPSILON)
    return np.asarray(-positives * np.log(clipped) - (weights - positives) * np.log1p(-clipped))


def click_entropy(positives: Floats, negatives: Floats) -> Floats:
    """Entropy in nats of each rate positives / (positives + negatives), in the arguments' shape.

    Both are at least 0. The entropy is 0 where there is one class only, nan where there is none.
    """
    with np.errstate(invalid="ignore"):
        # The rarer class, because 1 - x cannot tell a small x.
        rarer = np.minimum(positives, negatives) / (positives + negatives)
    return np.asarray(-xlogy(rarer, rarer) - (1.0 - rarer) * np.log1p(-rarer))


def rig(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Relative information gain: 1 - log loss / entropy of the click rate.

    0 is no better than giving every sample the click rate, negative is worse, and only knowing
    every outcome for certain reaches 1: the true probabilities do not. It has no unit, but it
    depends on the data as much as on the model, so compare models on the same samples only.

    Source: Yi et al., KDD 2013 (paper 001), section 4.2; its equation (2) omits the mean over the
    samples.

    >>> round(rig([0.1, 0.2, 0.6, 0.7], [0, 0, 1, 1]), 6)
    0.568633
    >>> rig([0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1])
    0.0
    """
    return rig_of(Predictions.check(p, y, sample_weight))


def rig_of(predictions: Predictions) -> float:
    """`rig` of checked predictions."""
    positives = predictions.positives.sum()
    negatives = (predictions.weights - predictions.positives).sum()
    if positives == 0.0 or negatives == 0.0:
        return float("nan")
    entropy = float(click_entropy(np.asarray(positives), np.asarray(negatives)))
    return 1.0 - log_loss_of(predictions) / entropy


def mse(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Weighted mean of (y - p)^2.

    Lower is better; the true probabilities have the lowest expectation of all. With few clicks
    nearly all of it is the noise of the clicks, which no model can remove: `nmse` sets it against
    that. A fraction y gives y (1 - p)^2 + (1 - y) p^2, so that bins give what their samples would.

    Source: Yi et al., KDD 2013 (paper 001), section 4.3.

    >>> round(mse([0.5, 0.8], [0, 1]), 6)
    0.145
    """
    return _mse(Predictions.check(p, y, sample_weight))


def _mse(predictions: Predictions) -> float:
    p, y = predictions.probabilities, predictions.outcomes
    return weighted_mean(y * (1.0 - p) ** 2 + (1.0 - y) * p**2, predictions.weights)


def nmse(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Mean square error over rate * (1 - rate), the error of giving every sample the click rate.

    1 is no better than the click rate, below is better, above is worse. With few clicks even good
    models stay close to 1: 0.987 in Table 2 of the paper.

    Source: Yi et al., KDD 2013 (paper 001), section 4.3.

    >>> round(nmse([0.1, 0.2, 0.6, 0.7], [0, 0, 1, 1]), 6)
    0.3
    >>> nmse([0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1])
    1.0
    """
    predictions = Predictions.check(p, y, sample_weight)
    rate = weighted_mean(predictions.outcomes, predictions.weights)
    others = weighted_mean(1.0 - predictions.outcomes, predictions.weights)
    if not rate * others > 0.0:
        return float("nan")
    return _mse(predictions) / (rate * others)


def mae(p: ArrayLike, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Weighted mean of |y - p|.

    Do not choose a model by it. It is no proper score: where clicks are rarer than one half, the
    model that never predicts any has the lowest expectation of all. In Table 2 of the paper the
    calibrated model has 2.095e-3 and p = 0 has 1.062e-3, the click rate, half as much. It is here
    because the paper calls it one of the most reliable metrics; `mse` and `log_loss` are proper. A
    fraction y gives y (1 - p) + (1 - y) p.

    Source: Yi et al., KDD 2013 (paper 001), section 4.4.

    Calibrated, and yet worse than to predict nothing:

    >>> round(mae([0.2] * 5, [0, 0, 0, 0, 1]), 6), round(mae([0.0] * 5, [0, 0, 0, 0, 1]), 6)
    (0.32, 0.2)
    """
    predictions = Predictions.check(p, y, sample_weight)
    missed = predictions.outcomes * (1.0 - predictions.probabilities)
    wrong = (1.0 - predictions.outcomes) * predictions.probabilities
    return weighted_mean(missed + wrong, predictions.weights)


GC_N = (3, 4, 5)
"""The bins of each GC-N of the scorecard."""


def scorecard(
    p: ArrayLike, y: ArrayLike, campaigns: Campaigns, *, sample_weight: ArrayLike | None = None
) -> dict[str, float]:
    """n, positives, pcoc, log_loss, auc, gc_3, gc_4 and gc_5 of one set of predictions.

    `n` and `positives` are weights' sums; log loss, PCOC and AUC pool the campaigns; an undefined
    number is nan. GC-N has its defaults: how many samples that leaves out,
    `grouped_cal_n(...).share_left_out` says. Arguments and errors: `evaluation.metrics`.

    >>> row = scorecard([0.2, 0.8], [0.4, 0.6], ["a", "a"], sample_weight=[10_000, 10_000])
    >>> {name: round(value, 3) for name, value in row.items()}
    {'n': 20000.0, 'positives': 10000.0, 'pcoc': 1.0, 'log_loss': 0.778, 'auc': 0.6, \
'gc_3': 0.609, 'gc_4': 0.745, 'gc_5': 0.667}
    """
    return scorecard_of(Predictions.check(p, y, sample_weight), campaigns)


def scorecard_of(predictions: Predictions, campaigns: Campaigns) -> dict[str, float]:
    """`scorecard` of checked predictions."""
    # First, so that the samples by campaign are gone when all of them are sorted for the AUC.
    runs = CampaignRuns.of(predictions, campaigns)
    by_campaign = {f"gc_{n}": runs.cal_n(n).mean for n in GC_N}
    del runs
    return {**pooled_scores(predictions), **by_campaign}


def pooled_scores(predictions: Predictions) -> dict[str, float]:
    """The scorecard's numbers that pool all campaigns."""
    return {
        "n": float(predictions.weights.sum()),
        "positives": float(predictions.positives.sum()),
        "pcoc": pcoc_of(predictions),
        "log_loss": log_loss_of(predictions),
        "auc": auc_of(predictions),
    }


_DRAWS = 20
"""Of the outcomes of each campaign, for the floor of GC-N, which is a mean over campaigns."""
_CELLS_TOGETHER = 1 << 13
"""Tables are joined up to so many cells: numpy is called as often for few as for many."""


class BinnedScorecard:
    """Scorecard of binned probabilities, with Cal-3 and Cal-5 of all campaigns together.

    A cell counts as its mean probability, and what pools the campaigns is taken from their pooled
    bins. Takes in tables of which none has a campaign of another's, so that only one of them needs
    to be in memory at a time.
    """

    def __init__(self, *, floors: bool = False) -> None:
        """With the `floors` of GC-N, which take as long as all else, where they are wanted."""
        self._waiting: list[BinsTable] = []
        self._totals: list[Bins] = []
        self._errors: dict[int, list[CampaignErrors]] = {n: [] for n in GC_N}
        self._floors: dict[int, list[CampaignErrors]] = {n: [] for n in GC_N if floors}

    def add(self, table: BinsTable) -> None:
        """Take in a table."""
        self._waiting.append(table)
        if sum(len(waiting.cells) for waiting in self._waiting) >= _CELLS_TOGETHER:
            self._take_in()

    def _take_in(self) -> None:
        waiting, self._waiting = self._waiting, []
        table = waiting[0] if len(waiting) == 1 else BinsTable.merge(waiting)
        # One, for those of a million campaigns are hundreds, of all cells each.
        self._totals = [Bins.merge([*self._totals, table.total()])]
        *columns, rows = table.samples()
        runs = CampaignRuns.of_rows(Predictions.check(*columns), table.campaigns, rows)
        for n, errors in self._errors.items():
            errors.append(runs.cal_n(n))
        for n, found in self._floors.items():
            found.append(_floors(runs, n))

    @property
    def sums(self) -> tuple[NDArray[Any], ...]:
        """What the numbers are made of; see `join`."""
        self._finish()
        pooled = Bins.merge(self._totals)
        errors = [CampaignErrors.joined(parts) for parts in self._parts]
        columns = ((each.campaigns, each.values, each.weights) for each in errors)
        return (pooled.cells, pooled.sums, *chain.from_iterable(columns))

    def join(self, sums: tuple[NDArray[Any], ...]) -> None:
        """Take in what `sums` gives of tables that a scorecard like this has taken in elsewhere."""
        cells, pooled, *columns = sums
        self._totals.append(Bins.of_sums(cells, pooled))
        of_each = zip(self._parts, columns[::3], columns[1::3], columns[2::3], strict=True)
        for parts, campaigns, values, weights in of_each:
            parts.append(CampaignErrors(campaigns, values, weights))

    @property
    def _parts(self) -> list[list[CampaignErrors]]:
        return [*self._errors.values(), *self._floors.values()]

    def _finish(self) -> None:
        if self._waiting or not self._totals:
            self._take_in()

    def row(self) -> Mapping[str, float | None]:
        """The numbers; what is undefined is None, so that no gauge shows it."""
        self._finish()
        pooled = Predictions.check(*Bins.merge(self._totals).samples())
        row = {
            **pooled_scores(pooled),
            **{f"cal_{n}": cal_n_of(pooled, n, "merge") for n in (3, 5)},
            **{f"gc_{n}": CampaignErrors.joined(parts).mean for n, parts in self._errors.items()},
            **{
                f"gc_{n}_floor": CampaignErrors.joined(parts).mean
                for n, parts in self._floors.items()
            },
        }
        return {name: value if isfinite(value) else None for name, value in row.items()}


def _floors(runs: CampaignRuns, n: int) -> CampaignErrors:
    """What GC-N would be made of if the probabilities were the truth."""
    rng = np.random.default_rng(n)
    found = GroupCalibration(runs.runs, runs.run_positives, n, rng, draws=_DRAWS)
    kept = np.flatnonzero(~np.isnan(found.floors))
    return CampaignErrors(kept, found.floors[kept], found.samples[kept])
