"""The outlier filter: hours whose ratio no market gives, tracking outages of all campaigns, and
bursts of bots in some."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calibrators.pooled.campaign_hours import SPANS, CampaignHours, poisson_evidence, span_sums
from calibrators.samples import Floats

FARTHEST = 9.0
"""A ratio farther than this factor from the campaign's median is implausible, however sure: the
square of the levels' bound."""

EVIDENCE = 12.5
"""In nats, half a Poisson deviance: five standard deviations."""

_MEDIAN_OF = 8
"""Hours of the spans over which the median is taken."""


def outlier_hours(expected: Floats, observed: Floats) -> NDArray[np.bool_]:
    """The hours, (c, h), from positives as ratios to the campaign's mean, (c, h).

    Spans of hours whose ratio is farther than `FARTHEST` from the median ratio of the campaign's
    spans, beyond chance; in them, the hours that are as far themselves. What lasts for half of the
    hours is the median, and so is believed.
    """
    if not expected.size:
        return np.zeros(expected.shape, bool)
    usual = expected * _usual(expected, observed)[:, None]
    far = _far(usual, observed)
    found = np.zeros_like(far)
    for span in SPANS:
        if span <= expected.shape[1]:
            e, y = span_sums(usual, span), span_sums(observed, span)
            found |= _covered(_far(e, y) & (poisson_evidence(e, y) > EVIDENCE), span)
    return found & far


def _usual(expected: Floats, observed: Floats) -> Floats:
    """The median ratio of the spans with traffic, (c,), drawn to 1 where there is little."""
    span = min(_MEDIAN_OF, expected.shape[1])
    e, y = span_sums(expected, span), span_sums(observed, span)
    ratios = np.sort(np.where(e > 0, (y + 0.5) / (e + 0.5), np.inf), axis=1)
    spans = np.maximum((e > 0).sum(axis=1), 1)
    rows = np.arange(len(e))
    middle = (ratios[rows, (spans - 1) // 2] + ratios[rows, spans // 2]) / 2
    return np.where(np.isfinite(middle), middle, 1.0)


def _far(expected: Floats, observed: Floats) -> NDArray[np.bool_]:
    far: NDArray[np.bool_] = (observed > FARTHEST * expected) | (observed * FARTHEST < expected)
    return far


def _covered(spans: NDArray[np.bool_], span: int) -> NDArray[np.bool_]:
    """The hours of the spans that are marked, by their first hour."""
    hours = np.zeros((len(spans), spans.shape[1] + span - 1), dtype=bool)
    for first in range(span):
        hours[:, first : first + spans.shape[1]] |= spans
    return hours


CAMPAIGN_CAP = 5.0
"""Expected positives: no campaign counts in a span with more than this many."""

FEWEST = 4 * CAMPAIGN_CAP
"""Expected positives of a span that is tested: of four campaigns at least."""

COLLAPSE = 3.0
"""A fall by more than this factor is a collapse: the bound of the levels."""

CERTAINTY = 5.0
"""Standard deviations, of chance and of ordinary drift, by which a collapse exceeds both."""

_NORMAL_QUARTILE = 0.6745
"""The median of the absolute value of a standard normal variable."""


class PlatformHours(NamedTuple):
    """Expected and observed positives of all campaigns by hour, (k, h) each, for each of `SPANS`,
    no campaign with more than the cap in it: few large ones make no outage, and an attack on few
    hides none. Additive over blocks of campaigns."""

    expected: Floats
    observed: Floats

    @classmethod
    def of(cls, blocks: Iterable[CampaignHours], hours: int) -> Self:
        """The sums over all campaigns of all blocks."""
        expected, observed = np.zeros((2, len(SPANS), hours))
        for block in blocks:
            for row, span in enumerate(SPANS):
                most = CAMPAIGN_CAP / span
                share = most / np.maximum(block.expected, most)
                expected[row] += (share * block.expected).sum(axis=0)
                observed[row] += np.minimum(share * block.observed, COLLAPSE * CAMPAIGN_CAP).sum(
                    axis=0
                )
        return cls(expected, observed)


def outage_hours(platform: PlatformHours) -> NDArray[np.bool_]:
    """The hours of a tracking outage, (h,).

    In a span of hours the ratio of observed to expected positives must fall to below 1 /
    `COLLAPSE` of the median span's, by more than `CERTAINTY` times the ordinary drift (median
    absolute deviation of the log ratios of spans) and by more than chance (signed root of the
    Poisson deviance under -`CERTAINTY`); the span's hours below 1 / `COLLAPSE` are an outage. No
    taste changes that fast in all campaigns at once. What has lasted for half of the hours is the
    median: it is believed. Hours at the end with too little traffic go with those before them.
    """
    out = np.zeros(platform.expected.shape[1], dtype=bool)
    for span, hourly, seen in zip(SPANS, platform.expected, platform.observed, strict=True):
        if span <= len(out):
            out |= _of_span(hourly, seen, span)
    return _continued(out, platform.expected[0])


def _of_span(hourly: Floats, seen: Floats, span: int) -> NDArray[np.bool_]:
    expected, observed = (np.convolve(each, np.ones(span), mode="valid") for each in (hourly, seen))
    tested = expected >= FEWEST
    if not tested.any():
        return np.zeros(len(hourly), dtype=bool)
    usual = float(np.median(observed[tested] / expected[tested]))
    collapsed = tested & _collapsed(observed, usual * expected, tested)
    covered = np.convolve(collapsed, np.ones(span)) > 0
    low: NDArray[np.bool_] = seen * COLLAPSE < usual * hourly
    return covered & low


def _collapsed(observed: Floats, usual: Floats, tested: NDArray[np.bool_]) -> NDArray[np.bool_]:
    logs = np.log((observed + 0.5) / (usual + 0.5))
    drift = float(np.median(np.abs(logs[tested]))) / _NORMAL_QUARTILE
    deviance = 2 * (observed * np.log((observed + 1e-300) / (usual + 1e-300)) - observed + usual)
    sure = (observed < usual) & (deviance > CERTAINTY**2)
    far: NDArray[np.bool_] = logs < -max(float(np.log(COLLAPSE)), CERTAINTY * drift)
    return sure & far


def _continued(out: NDArray[np.bool_], expected: Floats) -> NDArray[np.bool_]:
    """Hours with too little to end an outage continue it."""
    ending = np.flatnonzero(out | (expected >= CERTAINTY**2 / 2))
    if len(ending) and out[ending[-1]]:
        out[ending[-1] :] = True
    return out


RAISED = 2.0
"""A ratio above this factor of the campaign's median, and of everyone's, is raised."""

LONGEST_BURST = 4
"""Hours: what is raised for longer is believed."""

_BURST_EVIDENCE = 6.0
_FEWEST_TOGETHER, _LEAST_TOGETHER, _MOST_TOGETHER = 3, 0.03, 0.5
"""Campaigns that are raised together, as number and as shares of those that expect a positive:
fewer jump by themselves, and more are a market."""


def raised_hours(block: CampaignHours, everyone: Floats) -> NDArray[np.bool_]:
    """The hours, (c, h), in spans of one to three that are raised beyond chance, `_BURST_EVIDENCE`
    nats, for `LONGEST_BURST` hours at most. everyone: (h,), the ratio of all campaigns."""
    expected, observed = block.expected, block.observed
    if not expected.size:
        return np.zeros(expected.shape, bool)
    usual = expected * _usual(expected, observed)[:, None] * everyone
    high = observed > RAISED * usual
    found = np.zeros_like(high)
    for span in range(1, min(LONGEST_BURST, expected.shape[1] + 1)):
        e, y = span_sums(usual, span), span_sums(observed, span)
        sure = (y > RAISED * e) & (poisson_evidence(e, y) > _BURST_EVIDENCE)
        found |= _covered(sure, span)
    return _short(found & high)


def _short(hours: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Without what lasts for longer than a burst."""
    if hours.shape[1] <= LONGEST_BURST:
        return hours
    spans = np.lib.stride_tricks.sliding_window_view(hours, LONGEST_BURST + 1, axis=1)
    long: NDArray[np.bool_] = np.asarray(spans.all(axis=2))
    return hours & ~_covered(long, LONGEST_BURST + 1)


def burst_hours(blocks: Sequence[CampaignHours]) -> list[NDArray[np.bool_]]:
    """Of each block, the hours, (c, h), in which bots are at work: several campaigns are raised
    from the same hour on and most are not. A market raises all, and what concerns one campaign
    comes at a time of its own. What lasts for more than `LONGEST_BURST` hours is believed."""
    hours = blocks[0].expected.shape[1]
    if not hours:
        return [np.zeros(block.expected.shape, bool) for block in blocks]
    platform = PlatformHours.of(blocks, hours)
    ratios = (platform.observed[0] + 1) / (platform.expected[0] + 1)
    everyone = np.maximum(ratios / np.median(ratios), 1.0)
    raised = [raised_hours(block, everyone) for block in blocks]
    begun = [found & ~np.pad(found, ((0, 0), (1, 0)))[:, :-1] for found in raised]
    together = np.sum([found.sum(axis=0) for found in begun], axis=0)
    tested = np.sum([(block.expected > 1).sum(axis=0) for block in blocks], axis=0)
    least = np.maximum(_FEWEST_TOGETHER, _LEAST_TOGETHER * tested)
    market = (together > _MOST_TOGETHER * tested) | (everyone > RAISED)
    struck = (together >= least) & ~market
    near = np.convolve(struck, np.ones(LONGEST_BURST))[: len(struck)] > 0
    return [found & near for found in raised]
