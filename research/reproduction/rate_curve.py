"""Figure 2 of paper 001: how RIG moves with the click rate, four ways for the rate to move."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from calibrators.samples import Floats, Integers, check_equal_lengths, sum_at
from evaluation.metrics.calibration import click_entropy, sample_losses
from evaluation.metrics.predictions import Campaigns, Predictions, encode_campaigns, quotients
from research.reproduction.experiment import (
    Check,
    Experiment,
    Progress,
    Reproduction,
    bounded,
    exact,
    shown,
)

_SPREAD: Final = 1.2
"""Standard deviation of the scores in log-odds."""

_TYPICAL_RATE: Final = 0.033
_SAMPLES: Final = 100_000

_TOLERANCE: Final = 2e-3
"""The values known are rounded to three digits, and which samples are easy is a choice."""

_A: Final = "(a) calibrated scores, mean shifted"
_B: Final = "(b) one model, rate shifted"
_C: Final = "(c) deciles of the score"
_D: Final = "(d) easy samples repeated"
_SOURCE: Final = "001, section 5.2, Figure 2"

_NOTES: Final = (
    "The figure has no printed numbers; its text says that RIG falls as the click rate rises. That"
    " holds for some of the ways in which a rate can move, and not for others. What is safe to say:"
    " never compare RIG across data sets.",
    "Scores are normal in log-odds with a standard deviation of 1.2. Each sample counts as the"
    " clicks that are expected of it, so there is no chance in these numbers.",
    "Expected values were computed apart from this code. (a) rises: the same spread in log-odds"
    " separates more where clicks are common. (b) one model while the rate moves: highest where the"
    " prediction error is 0. (c) inside deciles of the score: low, except at both ends. (d) the"
    " lower half of the scores 1, 2, 4 and 11 times: easy samples first help, then drown the rest.",
)


@dataclass(frozen=True, slots=True, eq=False)
class RateSlices:
    """Slices of the data, k of them, lowest click rate first.

    names : the k slices.
    weights : (k,) samples in each, or their weight.
    rates : (k,) mean outcome of each: its click rate.
    probabilities : (k,) mean probability of each.
    prediction_errors : (k,) mean probability over mean outcome, less 1; infinite without
        positives, nan when neither has anything.
    rigs : (k,) relative information gain over the slice's own click rate; nan with one class only.
    """

    names: tuple[Hashable, ...]
    weights: Floats
    rates: Floats
    probabilities: Floats
    prediction_errors: Floats
    rigs: Floats


def rate_slices(
    p: ArrayLike, y: ArrayLike, slices: Campaigns, *, sample_weight: ArrayLike | None = None
) -> RateSlices:
    """RIG and prediction error of every slice, in order of the slices' click rates.

    Read it as a warning: one model, and RIG differs from slice to slice. How depends on why the
    rates differ. With calibrated scores it rises with the rate; for a fixed model whose base rate
    moves it is highest where the prediction error is 0 and falls on both sides. So never compare
    RIG, or AUC, across data sets.

    slices : (n,) the slice of each sample: any hashable keys, such as campaign, position or hour.

    Source: Yi et al., KDD 2013 (paper 001), section 5.2, figure 2, which says that RIG falls as the
    click rate rises; that depends on how the rate moves.

    >>> result = rate_slices([0.1, 0.3, 0.2, 0.6], [0, 1, 0.1, 0.3], ["a", "a", "b", "b"])
    >>> result.names, result.rates, result.prediction_errors.round(3), result.rigs.round(3)
    (('b', 'a'), array([0.2, 0.5]), array([ 1. , -0.6]), array([-0.155,  0.056]))
    """
    predictions = Predictions.check(p, y, sample_weight)
    names, codes = encode_campaigns(slices)
    check_equal_lengths(probabilities=predictions.probabilities, slices=codes)
    sums = _sums(predictions, codes, len(names))
    held = np.flatnonzero(sums[0] > 0.0)
    order = held[_ascending([names[code] for code in held], sums[1, held] / sums[0, held])]
    weights, positives, expected, losses = sums[:, order]
    return RateSlices(
        names=tuple(names[code] for code in order),
        weights=weights,
        rates=np.minimum(positives / weights, 1.0),
        probabilities=np.minimum(expected / weights, 1.0),
        prediction_errors=quotients(expected, positives) - 1.0,
        rigs=_rigs(losses, positives, weights),
    )


def _sums(predictions: Predictions, codes: Integers, slices: int) -> Floats:
    """Weight, positives, expected positives and log loss over the weight, (4, slices)."""
    weights, positives = predictions.weights, predictions.positives
    total = sum_at(codes, weights, slices)
    share = weights / np.where(total > 0.0, total, 1.0)[codes]
    losses = sample_losses(predictions.probabilities, share * predictions.outcomes, share)
    columns = (positives, predictions.expected, losses)
    return np.stack((total, *(sum_at(codes, column, slices) for column in columns)))


def _rigs(mean_losses: Floats, positives: Floats, weights: Floats) -> Floats:
    entropy = click_entropy(positives, np.maximum(weights - positives, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(entropy > 0.0, 1.0 - mean_losses / entropy, np.nan)


def _ascending(names: list[Hashable], rates: Floats) -> Integers:
    """The order by rate, equal rates by name, so that the order of rows is of no effect."""
    keys = [(rate, str(name)) for rate, name in zip(rates.tolist(), names, strict=True)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Measure RIG by slices of the click rate.

    quick, seed : of no effect: the run is short, and there is no chance in it.
    progress : called with the share of the work that is done.
    """
    deviations = ndtri((np.arange(_SAMPLES) + 0.5) / _SAMPLES)
    checks: list[Check] = []
    for done, part in enumerate((_calibrated, _one_model, _deciles, _easy_samples), 1):
        checks += part(deviations)
        progress(done / 4)
    return Reproduction(EXPERIMENT.name, EXPERIMENT.title, _SOURCE, checks, _NOTES)


def _calibrated(deviations: Floats) -> Iterator[Check]:
    """Calibrated scores, their mean shifted until the click rate is as required."""
    rates = np.array([0.0019, 0.01, _TYPICAL_RATE, 0.1, 0.5])
    found = _sliced([_probabilities(deviations, rate) for rate in rates])
    for rate, rig in zip(found.rates, found.rigs, strict=True):
        yield shown(f"RIG at click rate {rate:.2g}", rig, part=_A)
    yield _known("RIG at the lowest rate", found.rigs[0], 0.098, _A)
    yield _known("RIG at the highest rate", found.rigs[-1], 0.177, _A)
    yield bounded(
        "smallest rise from rate to rate",
        float(np.diff(found.rigs).min()),
        above=0.0,
        part=_A,
        form=".4f",
    )
    yield _largest_error(found, _A)


def _one_model(deviations: Floats) -> Iterator[Check]:
    """One model; the clicks come more or less often than when it was calibrated."""
    shifts = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    p = _probabilities(deviations, _TYPICAL_RATE)
    odds = p / (1.0 - p)
    actual = [odds * factor / (1.0 + odds * factor) for factor in np.exp(shifts)]
    found = _sliced([p] * len(shifts), actual)
    for shift, rate, error, rig in zip(
        shifts, found.rates, found.prediction_errors, found.rigs, strict=True
    ):
        what = f"RIG at click rate {rate:.2g}, PE {error:+.2f}"
        yield shown(what, rig, part=_B)
        if shift == 0.0:
            yield _known("RIG where PE is 0", rig, 0.143, _B)
    best = found.prediction_errors[np.argmax(found.rigs)]
    yield exact("PE where RIG is highest", float(best), 0.0, part=_B)


def _deciles(deviations: Floats) -> Iterator[Check]:
    """Inside deciles of the score, all calibrated."""
    p = _probabilities(deviations, _TYPICAL_RATE)
    found = _sliced(np.array_split(p, 10))
    for decile, (rate, rig) in enumerate(zip(found.rates, found.rigs, strict=True), 1):
        yield shown(f"RIG of decile {decile}, click rate {rate:.2g}", rig, part=_C, form=".4f")
    turns = np.count_nonzero(np.diff(np.sign(np.diff(found.rigs))))
    yield exact("turns of the curve: it falls, then rises", float(turns), 1.0, part=_C, form=".0f")
    yield _largest_error(found, _C)


def _easy_samples(deviations: Floats) -> Iterator[Check]:
    """The lower half of the scores counted several times."""
    p = _probabilities(deviations, _TYPICAL_RATE)
    lower = deviations < 0.0
    for times, known in ((1.0, 0.143), (2.0, 0.151), (4.0, 0.144), (11.0, 0.107)):
        found = rate_slices(
            p, p, np.zeros(len(p), np.int64), sample_weight=np.where(lower, times, 1.0)
        )
        what = f"RIG with the lower half {times:.0f} times, click rate {found.rates[0]:.2g}"
        yield _known(what, found.rigs[0], known, _D)


def _probabilities(deviations: Floats, rate: float) -> Floats:
    """Calibrated probabilities with this mean, ascending."""
    spread = _SPREAD * deviations
    level = brentq(lambda shift: float(expit(shift + spread).mean()) - rate, -20.0, 20.0)
    return np.asarray(expit(level + spread))


def _sliced(predicted: list[Floats], actual: list[Floats] | None = None) -> RateSlices:
    """RIG of one slice for each array; calibrated where no other outcomes are given."""
    slices = np.repeat(np.arange(len(predicted)), [len(p) for p in predicted])
    outcomes = np.concatenate(predicted if actual is None else actual)
    return rate_slices(np.concatenate(predicted), outcomes, slices)


def _known(what: str, ours: float, value: float, part: str) -> Check:
    """A value worked out apart, to three digits."""
    return exact(what, float(ours), value, tolerance=_TOLERANCE, part=part, form=".3f")


def _largest_error(found: RateSlices, part: str) -> Check:
    largest = float(np.abs(found.prediction_errors).max())
    return exact("largest prediction error", largest, 0.0, part=part, tolerance=1e-9)


EXPERIMENT: Final = Experiment(
    "rate_curve",
    "RIG against the click rate",
    "001, Figure 2: RIG moves with the click rate, up or down, by the reason why the rate moves",
    1.0,
    run,
)
