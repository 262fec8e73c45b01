"""Table 1 of paper 004 in shape: calibrators hour by hour on the synthetic platform.

A log whose scores are the truth, distorted in a way that is known.
What GC-N is for the truth itself, by chance alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import expit, logit

from calibrators import BayesianBinning, Beta, Calibrator, Isotonic, SmoothedIsotonic, Sufficiency
from calibrators.samples import Floats, Integers
from evaluation.backtest.backtest import RAW, backtest
from evaluation.backtest.event_table import EventTable
from evaluation.metrics.auc import gauc
from evaluation.metrics.calibration import scorecard
from evaluation.metrics.gc_n import CampaignRuns
from evaluation.metrics.predictions import Predictions
from evaluation.simulation.ad_platform import Platform, PlatformHour
from research.reproduction.experiment import (
    Check,
    Experiment,
    Progress,
    Reproduction,
    bounded,
    shown,
)

Distortion = Callable[[Floats], Floats]
"""Log-odds of the score, from those of the truth; both relative to the campaign's mean."""


def too_steep(deviation: Floats) -> Floats:
    """Affine: too high everywhere, and over-confident."""
    return 0.6 + deviation / 0.7


def inflated_top(deviation: Floats) -> Floats:
    """Not affine: nearly flat below, exploding above half a standard deviation or so."""
    return 0.4 * deviation + 1.8 * np.logaddexp(0.0, 4.0 * (deviation - 0.5)) / 4.0


DISTORTIONS: Mapping[str, Distortion] = {"affine": too_steep, "not affine": inflated_top}


def distorted(log: PlatformHour, distortion: Distortion) -> EventTable:
    """The same impressions and clicks with other scores; inside a campaign they rank the same.

    >>> from evaluation.simulation.ad_platform import Platform
    >>> log = Platform(campaigns=2, impressions_per_hour=1_000, seed=1).hour(0)
    >>> scores = distorted(log, too_steep).scores
    >>> bool(scores.mean() > log.truth.mean())
    True
    """
    log_odds, rows = logit(log.truth), log.events.rows.astype(np.int64)
    centres = _means(log_odds, rows)[rows]
    scores = expit(centres + distortion(log_odds - centres))
    events = log.events
    return EventTable(events.times, events.campaigns, events.rows, scores, events.outcomes)


def _means(values: Floats, rows: Integers) -> Floats:
    counts = np.maximum(np.bincount(rows), 1)
    return np.asarray(np.bincount(rows, values) / counts)


def gc_n_floor(
    p: Floats, campaigns: Integers, n: int, *, rng: np.random.Generator, draws: int = 20
) -> float:
    """Mean GC-N of the probabilities, shape (k,), over outcomes drawn from them.

    Two values of GC-N that differ by less cannot be distinguished.

    >>> p, campaigns = np.linspace(0.05, 0.15, 4_000), np.arange(4_000) % 2
    >>> 0.05 < gc_n_floor(p, campaigns, 2, rng=np.random.default_rng(0)) < 0.15
    True
    """
    runs = CampaignRuns.of(Predictions.check(p, p, None), campaigns)
    outcomes = ((rng.random(len(p)) < p).astype(np.float64) for _ in range(draws))
    drawn = (replace(runs, run_positives=runs.runs.sums(y)) for y in outcomes)
    return float(np.mean([each.cal_n(n).mean for each in drawn]))


_WINDOW_HOURS: Final = 24
_MOST_LOST: Final = 1e-3
"""AUC inside a campaign-hour that the flat stretches of a map may cost."""

_PRINTED: Final[Mapping[str, Mapping[int, str]]] = {
    "none": {3: "0.63, 0.40", 4: "0.67, 0.45", 5: "0.72, 0.46"},
    "isotonic": {3: "0.82, 0.31", 4: "0.89, 0.35", 5: "0.98, 0.40"},
    "bbq": {3: "0.57, 0.71", 4: "0.63, 0.81", 5: "3.05, 0.84"},
    "beta": {3: "0.56, 0.27", 4: "0.60, 0.32", 5: "0.66, 0.36"},
    "sir, midpoint": {3: "0.56, 0.27", 4: "0.60, 0.30", 5: "0.65, 0.35"},
}
"""GC-N of the paper's data sets A and B."""

_NOTES: Final = (
    "Printed are the values of the paper's two data sets, A and B. Ours come from another platform,"
    " so the values differ; what has to agree is the shape.",
    "Every hour is scored by maps of the 24 hours before it, all scored hours pooled. Outcomes of"
    " one hour train the next, so a GC-N may fall a little below that of the truth.",
    "A campaign without a sample in the window gets the map of all campaigns, where the paper"
    " keeps the score.",
    "SIR with midpoints has the paper's 1000 samples in a bin; SIR with means has 50 divided by"
    " the click rate of the first 24 hours, at least 1000.",
    "The paper's averages, SIR against none: -10.4 % on A, -29.9 % on B. How large the cut is"
    " depends on how wrong the scores were.",
    "Distortions: truth in log-odds, stretched and shifted (affine), or flat below and exploding"
    " above (not affine). Beta calibration contains every affine one.",
)


@dataclass(frozen=True, slots=True)
class _Size:
    """How much traffic an experiment draws."""

    campaigns: int
    hours: int
    distorted_hours: int
    impressions_per_hour: float
    ctr: float
    floor_draws: int

    def platform(self, seed: int, drift: float = 1.0) -> Platform:
        """The platform of this size."""
        return Platform(self.campaigns, self.impressions_per_hour, self.ctr, seed, drift)


_FULL: Final = _Size(10, 96, 72, 10_400, 0.028, 20)
_QUICK: Final = _Size(2, 27, 26, 3_000, 0.15, 5)


def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Compare the calibrators of Table 1 on the platform, then SIR with beta on known distortions.

    quick : a few hours of a small platform, of which little is checked.
    seed : of the platform, at least 0.
    progress : called with the share of the work that is done.
    """
    size = _QUICK if quick else _FULL
    log = size.platform(seed).hours(0, size.hours)
    scored = _score(log.events, _calibrators(log.events), _part(progress, 0.0, 0.7))
    checks = [
        *_table(log, scored, np.random.default_rng((seed, 4)), size.floor_draws),
        *_criteria(log.events, scored, checked=not quick),
        *_distortion_checks(size, seed, _part(progress, 0.7, 1.0), checked=not quick),
    ]
    return Reproduction(EXPERIMENT.name, EXPERIMENT.title, _SOURCE, checks, _NOTES)


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """Impressions scored, and what each calibrator said of them."""

    rows: Integers
    probabilities: Mapping[str, Floats]
    scorecards: Mapping[str, Mapping[str, float]]

    def gc(self, name: str, n: int) -> float:
        """GC-N."""
        return self.scorecards[name][f"gc_{n}"]


def _score(
    events: EventTable, calibrators: Mapping[str, Calibrator], progress: Progress
) -> _Scored:
    found = backtest(
        events,
        calibrators,
        window_hours=_WINDOW_HOURS,
        sufficiency=Sufficiency(min_samples=1, min_positives=0),
        raw_samples=True,
        progress=lambda done, of: progress(done / of),
    )
    renamed = {("none" if name == RAW else name): p for name, p in found.probabilities.items()}
    cards = {("none" if n == RAW else n): card for n, card in found.scorecards.items()}
    return _Scored(found.rows, renamed, cards)


def _calibrators(events: EventTable) -> dict[str, Calibrator]:
    return {
        "isotonic": Isotonic(),
        "bbq": BayesianBinning(),
        "beta": Beta(),
        "sir, midpoint": SmoothedIsotonic(bin_size=1000, anchor="midpoint"),
        "sir, mean": SmoothedIsotonic(bin_size=_bin_size(events)),
    }


def _bin_size(events: EventTable) -> float:
    """By the rule, from the hours that are not scored."""
    first = events.hours < events.hours.min() + _WINDOW_HOURS
    return max(1000.0, float(np.round(50.0 / events.outcomes[first].mean())))


def _table(
    log: PlatformHour, scored: _Scored, rng: np.random.Generator, draws: int
) -> Iterator[Check]:
    truth, campaigns = log.truth[scored.rows], log.events.rows[scored.rows].astype(np.int64)
    cards = {
        **scored.scorecards,
        "truth": scorecard(truth, log.events.outcomes[scored.rows], campaigns),
    }
    for name, card in cards.items():
        for n in (3, 4, 5):
            paper = _PRINTED.get(name, {}).get(n, "")
            yield shown(f"{name}, GC-{n}", card[f"gc_{n}"], paper_text=paper, part="Table 1")
    for n in (3, 4, 5):
        floor = gc_n_floor(truth, campaigns, n, rng=rng, draws=draws)
        yield shown(f"noise floor, GC-{n}", floor, part="Table 1")
    for name, card in cards.items():
        yield shown(f"{name}, PCOC", card["pcoc"], part=_BESIDE)
        yield shown(f"{name}, log loss", card["log_loss"], part=_BESIDE, form=".4f")
        yield shown(f"{name}, AUC", card["auc"], part=_BESIDE, form=".4f")
    for name, p in scored.probabilities.items():
        yield shown(f"{name}, share of zeros", float(np.mean(p == 0.0)), part=_BESIDE, form=".4f")


def _criteria(events: EventTable, scored: _Scored, *, checked: bool) -> Iterator[Check]:
    for name in ("sir, midpoint", "sir, mean"):
        for n in (3, 4, 5):
            cut = 1.0 - scored.gc(name, n) / scored.gc("none", n)
            what = f"{name}: GC-{n} cut against none"
            yield bounded(what, cut, above=0.5, part=_SHAPE, checked=checked)
    for n in (3, 4, 5):
        gap = scored.gc("sir, mean", n) - scored.gc("isotonic", n)
        what = f"sir, mean: GC-{n} less that of isotonic"
        yield bounded(what, gap, below=0.0, part=_SHAPE, checked=checked)
    ranking = {name: _hourly_auc(events, scored, name) for name in scored.probabilities}
    for name in ("sir, midpoint", "sir, mean"):
        lost = ranking[name] - ranking["none"]
        what = f"{name}: AUC inside a campaign-hour less that of the scores"
        yield bounded(what, lost, above=-_MOST_LOST, part=_SHAPE, form=".4f")


def _hourly_auc(events: EventTable, scored: _Scored, name: str) -> float:
    hours = events.hours[scored.rows]
    campaign_hours = (hours - hours.min()) * len(events.campaigns) + events.rows[scored.rows]
    return gauc(scored.probabilities[name], events.outcomes[scored.rows], campaign_hours)


def _distortion_checks(
    size: _Size, seed: int, progress: Progress, *, checked: bool
) -> Iterator[Check]:
    log = size.platform(seed, drift=0.0).hours(0, size.distorted_hours)
    for done, (name, distortion) in enumerate(DISTORTIONS.items()):
        events = distorted(log, distortion)
        rivals = {"beta": Beta(), "sir": SmoothedIsotonic(bin_size=_bin_size(events))}
        scored = _score(events, rivals, _part(progress, done / 2, (done + 1) / 2))
        for row in ("none", "beta", "sir"):
            for n in (3, 4, 5):
                yield shown(f"{name}: {row}, GC-{n}", scored.gc(row, n), part=_DISTORTED)
        better, worse = ("beta", "sir") if name == "affine" else ("sir", "beta")
        for n in (3, 4, 5):
            gap = scored.gc(better, n) - scored.gc(worse, n)
            what = f"{name}: GC-{n} of {better} less that of {worse}"
            yield bounded(what, gap, below=0.0, part=_DISTORTED, checked=checked)


def _part(progress: Progress, first: float, last: float) -> Progress:
    """Progress of one part of the work."""
    return lambda share: progress(first + share * (last - first))


_BESIDE: Final = "Beside GC-N"
_SHAPE: Final = "Shape"
_DISTORTED: Final = "Distortions"
_SOURCE: Final = "004, section 5.1, Table 1"
EXPERIMENT: Final = Experiment(
    "platform_sir",
    "SIR beside other calibrators",
    "004, Table 1: GC-3, 4 and 5 of the calibrators on the synthetic platform",
    80.0,
    run,
)
