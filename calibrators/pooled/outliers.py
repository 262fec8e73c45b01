"""Expected and observed positives of campaigns by hour, and the outlier filter: hours whose ratio
no market gives, tracking outages of all campaigns, and bursts of bots in some.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import log
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrators.peers import ALONE, Peers
from calibrators.samples import Floats, Integers

SHORTEST = 1 / 12
"""Hours: a running hour that began less than five minutes ago is left out. Its last impressions
wait for their clicks still, and are too large a part of it."""

SPANS = (1, 2, 4, 8)
"""Hours that are tested together: where positives are few, an hour alone says nothing."""


class CampaignHours(NamedTuple):
    """Positives of c campaigns in h hours, oldest hour first.

    expected : (c, h), the sum of the probabilities that the shape gives, finite, >= 0.
    observed : (c, h), positives, finite, >= 0, may be fractional.
    weights : (c, h) in [0, 1], what each hour counts.
    begun : (c, h) in (0, 1], the probability that the last jump was no later than the hour, of
        which the weight is a part; never falling.
    groups : (c,), the group of each campaign counted from 0, or -1 for none.
    fitted, variances : (c,), the campaign's own level that is in the expected, a log ratio that
        may have been fitted on these very hours, and its variance before that, >= 0.
    rates : (c,), the mean probability of its expected positives, in [0, 1).
    steady : (c, h), the positives of a campaign's impressions at one rate, whatever their scores.
    """

    expected: Floats
    observed: Floats
    weights: Floats
    begun: Floats
    groups: Integers
    fitted: Floats
    variances: Floats
    rates: Floats
    steady: Floats

    @classmethod
    def of(
        cls,
        expected: Floats,
        observed: Floats,
        *,
        groups: ArrayLike | None = None,
        fitted: Floats | None = None,
        variances: Floats | None = None,
        rates: Floats | None = None,
        steady: Floats | None = None,
    ) -> "CampaignHours":
        """Every hour counts and there was no jump; without groups there are none, without a level,
        variance or rate it is 0, and the steady are the expected."""
        every = np.broadcast_to(1.0, expected.shape)
        rows = np.full(len(expected), -1) if groups is None else np.asarray(groups, np.int64)
        none = np.zeros(len(expected))
        own = (none if given is None else given for given in (fitted, variances, rates))
        columns = (*own, expected if steady is None else steady)
        return cls(expected, observed, every, every, rows, *columns)

    def chosen(self, hours: slice) -> "CampaignHours":
        """The same in some of the hours."""
        return self._replace(
            expected=self.expected[:, hours],
            observed=self.observed[:, hours],
            weights=self.weights[:, hours],
            begun=self.begun[:, hours],
            steady=self.steady[:, hours],
        )

    @classmethod
    def joined(cls, blocks: Sequence["CampaignHours"]) -> "CampaignHours":
        """The campaigns of all blocks, one at least, as one."""
        return cls._make(map(np.concatenate, zip(*blocks, strict=True)))


def complete_hours(ages: Floats) -> slice:
    """The hours without one that has only just begun; see `SHORTEST`. ages: (h,), hours from the
    middle of what has passed of each hour to the moment, oldest first."""
    begun = len(ages) and 2 * ages[-1] < SHORTEST - 1e-9
    return slice(0, len(ages) - int(begun))


def starts(ages: Floats) -> Floats:
    """Hours from the start of each hour to the moment, (h,); the newest may be part-filled."""
    return ages + np.minimum(ages, 0.5)


def span_sums(values: Floats, span: int) -> Floats:
    """Sums of `span` hours in turn, (c, h - span + 1); none where there are fewer."""
    sums = np.cumsum(np.hstack((np.zeros((len(values), 1)), values)), axis=1)
    # Rounding alone makes one negative.
    return np.maximum(sums[:, span:] - sums[:, :-span], 0.0)


def poisson_evidence(expected: Floats, observed: Floats) -> Floats:
    """Half the Poisson deviance, in nats, of what was observed, of one shape."""
    e, y = np.maximum(expected, 1e-12), np.maximum(observed, 1e-12)
    return y * np.log(y / e) - y + e


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
    return np.asarray((observed > FARTHEST * expected) | (observed * FARTHEST < expected))


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

_LIKELY = 1.0
"""Standard deviations of chance by which it is beyond a fall by `COLLAPSE`, which is believed."""

_NORMAL_QUARTILE = 0.6745
"""The median of the absolute value of a standard normal variable."""


class PlatformHours(NamedTuple):
    """Expected and observed positives of all campaigns by hour, (k, h) each, for each of `SPANS`,
    no campaign with more than the cap in it: few large ones make no outage, and an attack on few
    hides none; and the steady and observed ones so. Additive over blocks of campaigns."""

    expected: Floats
    observed: Floats
    steady: Floats
    seen: Floats

    @classmethod
    def of(cls, blocks: Iterable[CampaignHours], peers: Peers = ALONE) -> Self:
        """The sums over all campaigns of all blocks, one at least."""
        return cls(*peers.sum(map(_capped, blocks)))


def _capped(block: CampaignHours) -> Floats:
    """Positives of a block as `PlatformHours` has them, (4, k, h)."""
    found = []
    for expected in (block.expected, block.steady):
        shares = [most / np.maximum(expected, most) for most in CAMPAIGN_CAP / np.array(SPANS)]
        found.append([(share * expected).sum(axis=0) for share in shares])
        observed = (share * block.observed for share in shares)
        most = COLLAPSE * CAMPAIGN_CAP
        found.append([np.minimum(each, most).sum(axis=0) for each in observed])
    return np.array(found)


def outage_hours(platform: PlatformHours) -> NDArray[np.bool_]:
    """The hours of a tracking outage, (h,).

    In a span of hours the ratio of observed to expected positives must fall to below 1 /
    `COLLAPSE` of the median span's, by more than `CERTAINTY` times the ordinary drift (median
    absolute deviation of the log ratios of spans) and of chance (signed root of the Poisson
    deviance), and be likely below it; the span's hours below 1 / `COLLAPSE` are an outage. No
    taste changes that fast in all campaigns at once. What has lasted for half of the hours is the
    median: it is believed. So is what has collapsed against the expected alone, not against the
    steady: these impressions have their positives, and it is the scores that are others. Hours at
    the end with too little traffic go with those before them.
    """
    out = np.zeros(platform.expected.shape[1], dtype=bool)
    for span, hourly, seen in zip(SPANS, platform.expected, platform.observed, strict=True):
        if span <= len(out):
            out |= _of_span(hourly, seen, span)
    return _continued(out & _low(platform.steady[0], platform.seen[0]), platform.expected[0])


def _low(usual: Floats, seen: Floats) -> NDArray[np.bool_]:
    held = usual > 1e-9
    if not held.any():
        return held
    ratio = float(np.median(seen[held] / usual[held]))
    return np.asarray(seen * COLLAPSE < ratio * usual)


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
    far: NDArray[np.bool_] = logs < -CERTAINTY * drift
    return far & _below(observed, usual, CERTAINTY) & _below(observed, usual / COLLAPSE, _LIKELY)


def _below(observed: Floats, most: Floats, deviations: float) -> NDArray[np.bool_]:
    nats = poisson_evidence(most, observed)
    return np.asarray((observed < most) & (2 * nats > deviations**2))


def _continued(out: NDArray[np.bool_], expected: Floats) -> NDArray[np.bool_]:
    """Hours with too little to end an outage continue it."""
    ending = np.flatnonzero(out | (expected >= CERTAINTY**2 / 2))
    if len(ending) and out[ending[-1]]:
        out[ending[-1] :] = True
    return out


RAISED = 2.0
"""Where all campaigns together are higher by this factor, it is a market."""

LONGEST_BURST = 4
"""Hours: what is raised for longer is believed."""

_RATIOS = (2.0, 4.0, 8.0)
"""How many times as much as before may be seen in a burst."""

_MOST_LEFT = 2 / 3
"""Of the rate, where bots see impressions and click none: half as many more are none of them."""

_TINY = 1e-9
"""Positives, fewer than any there are."""

_CHOSEN = np.log(len(_RATIOS) + 1.0)
"""Nats that the likeliest of so many has by being chosen: chance alone must not add up."""

_EVIDENCE, _MOST_OF_ONE = 2.0, 2.5
"""Nats of all campaigns that tell a burst, and as many as one may add."""

_AGAINST = -1.0
"""Nats of an hour that speaks against a campaign's being hit: it is not its first."""

_ABOUT = 0.75
"""A burst's first hour has so much of the most evidence within `LONGEST_BURST` hours from it."""

_SHARES = (0.03, 0.1, 0.3)
"""Of all campaigns, that may be hit."""

_FEWEST_TOGETHER, _LEAST_TOGETHER, _MOST_TOGETHER = 3, 0.03, 0.5
"""Campaigns that are raised together, as number and as shares of those that expect a positive:
fewer jump by themselves, and more are a market."""

_LIKELY_HIT = 0.7
"""The chance from which on a campaign's hours are set aside, where a burst is certain: from a
quarter on one campaign-hour in 400 beside it would be, by chance."""


class BurstScan(NamedTuple):
    """Of a block, the positives that are usual and that are observed; and of the hours just before
    each hour the ratio, 1 at least, since a cycle's morning is not raised against it, and the usual
    positives of impressions as many as in them, infinite where there were none, (c, h) each."""

    usual: Floats
    observed: Floats
    before: Floats
    quiet: Floats

    @classmethod
    def of(cls, usual: Floats, observed: Floats, traffic: Floats) -> "BurstScan":
        """From the positives that are usual where all campaigns are as high, those observed, and
        the usual ones of all campaigns, (h,), in which a campaign keeps its share."""
        tables, width = (observed, usual, traffic[None]), ((0, 0), (LONGEST_BURST, 0))
        padded = (np.pad(table, width)[:, :-1] for table in tables)
        seen, had, all_had = (span_sums(table, LONGEST_BURST) for table in padded)
        before = np.maximum((seen + LONGEST_BURST) / (had + LONGEST_BURST), 1.0)
        shares = np.divide(had, all_had, np.full(had.shape, np.inf), where=had > 0)
        return cls(usual, observed, before, shares * np.maximum(traffic, _TINY))

    def evidence(self, span: int) -> Floats:
        """Log likelihood ratios of bursts that begin in each hour, from so many hours, in nats,
        (c, h): the likeliest of `_RATIOS` against 1, or that of impressions beyond those before
        without a positive; minus infinity where hours are missing."""
        seen, usual = span_sums(self.observed, span), span_sums(self.usual, span)
        before, quiet = (table[:, : usual.shape[1]] for table in (self.before, self.quiet))
        left = np.minimum(span * quiet / (usual + _TINY), 1.0)
        usual *= before
        logs = [seen * np.log(ratio) - (ratio - 1) * usual for ratio in (*_RATIOS, left)]
        logs[-1][left >= _MOST_LEFT] = -np.inf
        return np.pad(np.max(logs, axis=0), ((0, 0), (0, span - 1)), constant_values=-np.inf)

    def sums(self) -> Floats:
        """Over all campaigns, (s, h): for each span, that each of `_SHARES` of them is hit. Source:
        Xie and Siegmund, Sequential multi-sensor change-point detection, Annals of Statistics 41,
        2013."""
        alone, found = self.evidence(1), []
        for span in range(1, min(LONGEST_BURST, self.usual.shape[1] + 1)):
            evidence = self.evidence(span) if span > 1 else alone
            nats = np.where(alone > _AGAINST, evidence - _CHOSEN, -np.inf)
            for share in _SHARES:
                each = np.logaddexp(np.log1p(-share), np.log(share) + nats)
                found.append(np.minimum(each, _MOST_OF_ONE).sum(axis=0))
        return np.array(found)


class Burst(NamedTuple):
    """The campaigns of each block, (c,), that are raised together in the hours [first, behind)."""

    rows: list[NDArray[np.bool_]]
    first: int
    behind: int


Scans = Callable[[], Iterator[BurstScan]]
"""Makes those of all blocks anew: they are gone through once mostly, and larger than the blocks."""


def _scans(
    blocks: Sequence[CampaignHours], ratios: Sequence[Floats], everyone: Floats, traffic: Floats
) -> Iterator[BurstScan]:
    for block, each in zip(blocks, ratios, strict=True):
        yield BurstScan.of(block.expected * each * everyone, block.observed, traffic)


def _bursts(scans: Scans, tested: Floats, peers: Peers) -> Iterator[Burst]:
    """However long they last, in turn, none within `LONGEST_BURST` hours of another's first; each
    begins where that is about as likely as in the hours after."""
    sums = peers.sum(scan.sums() for scan in scans())
    most, behind = sums.max(axis=0), 0
    for first in np.flatnonzero(most > _EVIDENCE).tolist():
        if first < behind or most[first] < _ABOUT * most[first : first + LONGEST_BURST].max():
            continue
        span, place = divmod(int(np.argmax(sums[:, first])), len(_SHARES))
        span += 1
        rows = _hit(scans, first, span, _SHARES[place], 0.5)
        together = int(peers.sum(np.array([np.count_nonzero(some)]) for some in rows)[0])
        enough = max(_FEWEST_TOGETHER, _LEAST_TOGETHER * tested[first])
        if enough <= together <= _MOST_TOGETHER * tested[first]:
            lasts = _length(scans, Burst(rows, first, first), span, peers)
            behind = first + min(lasts, LONGEST_BURST)
            share = together / tested[first]
            rows = _hit(scans, first, max(behind - first, 1), share, _LIKELY_HIT)
            yield Burst(rows, first, first + lasts)


def _hit(
    scans: Scans, first: int, span: int, share: float, chance: float
) -> list[NDArray[np.bool_]]:
    """The campaigns of each block, (c,), that are raised in so many hours from the first on with
    more than this chance, where such a share of all is."""
    least = log(chance / (1 - chance)) - log(share / (1 - share))
    return [scan.evidence(span)[:, first] > least for scan in scans()]


def _length(scans: Scans, burst: Burst, span: int, peers: Peers) -> int:
    """Hours for which its campaigns together stay raised."""
    seen, usual = peers.sum(
        np.stack(
            (
                scan.observed[rows, burst.first :].sum(axis=0),
                (scan.usual[rows, burst.first :].T * scan.before[rows, burst.first]).sum(axis=1),
            )
        )
        for scan, rows in zip(scans(), burst.rows, strict=True)
    )
    ratio = (seen[:span].sum() + _TINY) / (usual[:span].sum() + _TINY)
    back = np.log((seen + ratio) / (usual + 1)) / np.log(ratio) < 0.5
    return int(np.argmax(np.append(back, True)))


_LOOKS = 6
"""At all campaigns, each with what the look before leaves usual."""

_RAISED_BY, _ODDS_OF_BOTS, _CERTAIN = 2.5, 0.1, 100.0
"""What bots may make of a campaign, and the odds of it, as far as a market is looked for; and nats,
of which more would overflow."""


def _everyone(blocks: Sequence[CampaignHours], ratios: Sequence[Floats], peers: Peers) -> Floats:
    """The ratio of all campaigns to what is usual, (h,), 1 at least, as those have it that are not
    raised against it: bots in a fifth of them are no market. Each look is a step of expectation
    maximisation (Dempster, Laird and Rubin, JRSS B 39, 1977)."""
    everyone = np.full(blocks[0].expected.shape[1], FARTHEST)
    for _ in range(_LOOKS):
        parts = zip(blocks, ratios, strict=True)
        sums = (_of_all(block, block.expected * each * everyone) for block, each in parts)
        expected, observed = peers.sum(sums)
        higher = (observed + 1) / (expected + 1)
        everyone = np.maximum(higher / np.median(higher), 1.0)
    return everyone


def _of_all(block: CampaignHours, usual: Floats) -> Floats:
    """Expected and observed positives, (2, h): of a campaign as many as count in outages at most,
    and as far as they are likelier as usual than raised by bots."""
    raised = block.observed * np.log(_RAISED_BY) - (_RAISED_BY - 1) * usual
    share = CAMPAIGN_CAP / np.maximum(block.expected, CAMPAIGN_CAP)
    share /= 1 + _ODDS_OF_BOTS * np.exp(np.minimum(raised, _CERTAIN))
    return np.stack(((share * block.expected).sum(axis=0), (share * block.observed).sum(axis=0)))


def burst_hours(blocks: Sequence[CampaignHours], peers: Peers = ALONE) -> list[NDArray[np.bool_]]:
    """Of each block, the hours, (c, h), in which bots are at work: several campaigns are raised, or
    have more impressions and no more positives, from the same hour on, and most are not. A market
    raises all, and what concerns one campaign comes at a time of its own. What lasts for more than
    `LONGEST_BURST` hours is believed; so is what has not come back yet, where of what was raised
    before two more have stayed than have."""
    found = [np.zeros(block.expected.shape, bool) for block in blocks]
    hours = blocks[0].expected.shape[1]
    if not hours:
        return found
    ratios = [_usual(block.expected, block.observed)[:, None] for block in blocks]
    everyone = _everyone(blocks, ratios, peers)
    tested = (everyone <= RAISED) * peers.sum((block.expected > 1).sum(axis=0) for block in blocks)
    usual = (block.expected * each * everyone for block, each in zip(blocks, ratios, strict=True))
    traffic = peers.sum(each.sum(axis=0) for each in usual)
    scans = partial(_scans, blocks, ratios, everyone, traffic)
    bursts = list(_bursts(scans, tested, peers))
    short = [burst for burst in bursts if burst.behind - burst.first <= LONGEST_BURST]
    back = [burst for burst in short if burst.behind < hours]
    stay = len(bursts) - len(short) >= len(back) + 2
    for rows, first, behind in back if stay else short:
        for block, some in zip(found, rows, strict=True):
            block[some, first:behind] = True
    return found
