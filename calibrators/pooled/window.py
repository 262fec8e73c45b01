"""What a refit begins with: the window, which is the cells of all blocks, when the hours were, and
where the knots lie; and what is remembered of the refit before, which changes no result beyond the
method's tolerance.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from math import sqrt
from typing import NamedTuple, Self

import numpy as np

from calibrators.bins.codecs import even_spans, places_between
from calibrators.bins.table import BinsTable, ChangedHistory, History, HourTables, view_of
from calibrators.fields.window import FieldWindow
from calibrators.maps.groups import GroupOf
from calibrators.peers import ALONE, Part, Peers, as_array, listed_in
from calibrators.pooled.cells import CELL_WIDTH, Cells, log_odds, middles
from calibrators.pooled.fit import NO_STEPS, Shape, Steps
from calibrators.pooled.hierarchy import Priors, Variances
from calibrators.pooled.spline import AS_IS, Coordinates, Knots, Stretch, Stretches
from calibrators.samples import Floats, Integers, Scratch, expit, scratch_of, sum_at

MOST = 1024
"""Campaigns of a span: what a refit makes of one at a time, hour by hour, takes some 100 MB."""


def campaign_spans(tables: HourTables, most: int = MOST) -> Iterator[HourTables]:
    """The same tables, none with more campaigns than that, as views: those of ascending spans of
    names where a table has more, else as they are."""
    if all(len(table) <= most for table in tables.values()):
        yield tables
        return
    names = sorted({name for table in tables.values() for name in table.campaigns})
    for first, behind in even_spans(names, most):
        yield {
            hour: view_of(table, *places_between(table.campaigns, first, behind))
            for hour, table in tables.items()
        }


def _quantile(weights: Floats, share: float) -> float:
    """The log-odds of the grid's cell up to which this share of the weights, (GRID.size,), lies."""
    reached = np.cumsum(weights)
    return float(middles()[np.searchsorted(reached, share * reached[-1])])


_FEWEST, _MOST_SCORES = 4, 64
"""Distinct scores that are the knots themselves."""

_MOST_WORK = 1e8
"""Campaigns times the third power of the scores that are knots: what a Newton step costs."""

_LOW, _HIGH = 0.001, 0.999
"""Shares of the impressions below, and of the predicted positives up to, the outermost knots."""

_PARTS = np.linspace(0.05, 0.95, 19)
"""Shares of the impressions below the ends of what a narrow range is known by, and between."""

_KNOWN = 50.0
"""Impressions of a campaign that tell how wide its scores are."""

_GAP, _NEAR, _FINEST = 3.5, 0.7, -10.0
"""Log-odds, half of what knots reach at their closest, and a part of it; and from where on, up to
half as far above 0, the grid has room for scores that come nearer."""

_STEEP = 2.0
"""How steep outcomes must be within narrow scores for these to be stretched."""

_RARE = 1e-5
"""Share of the impressions that is too little to bridge a gap."""

_OWN_NARROW = 4 * CELL_WIDTH
"""Log-odds from knot to knot: a campaign whose range is less has no curve but one straight piece,
so steep, where the truth is wide, that a cell's middle does not tell what is served in it."""

_AWAKE = 1e-6
"""The least variance that a refit begins with: smaller ones grow too little a round to be seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Cells block by block, one at least, the age in hours of the middle of each hour, oldest
    first, (h,), and the groups' names, ascending. Of several workers, each has blocks of its own;
    all else is the same at all."""

    blocks: Sequence[Cells]
    ages: Floats
    groups: tuple[str, ...]
    group_of: GroupOf | None
    peers: Peers = ALONE
    stretch: Stretch = AS_IS

    @classmethod
    def of(cls, history: History, hours: int, group_of: GroupOf | None) -> Self:
        """The last hours of the history, the newest, maybe running one included."""
        first = history.newest + 1 - hours
        # Mapped, so that no block's tables are held while the next block's are read.
        spans = chain.from_iterable(map(campaign_spans, history.blocks))
        cells = map(partial(Cells.of, first=first, length=hours), spans)
        # Of others there are about as many.
        read = Scratch().kept(cells, lambda each: len(each) * history.peers.count)
        blocks = read or (Cells.of({}, first, hours),)
        names = {group_of(name) for block in blocks for name in block.campaigns if group_of}
        ends = np.minimum(np.arange(first, first + hours) + 1.0, history.as_of)
        ages = history.as_of - (np.arange(first, first + hours) + ends) / 2
        own = [name for name in names if name is not None]
        parts = history.peers.gather([(as_array(own),)]) if group_of else []
        groups = sorted({name for (part,) in parts for name in listed_in(part)})
        return cls(blocks, ages, tuple(groups), group_of, history.peers)

    @property
    def campaigns(self) -> tuple[str, ...]:
        """Of all blocks, in their order."""
        return tuple(name for block in self.blocks for name in block.campaigns)

    @property
    def begun_before_newest(self) -> bool:
        """Whether there was traffic before the newest hour."""
        begun = (block.hours.entries.lengths[:-1].any() for block in self.blocks)
        return self.peers.any(any(begun))

    @property
    def size(self) -> int:
        """Campaigns of all workers."""
        return int(self.peers.sum(np.array([len(block)]) for block in self.blocks)[0])

    def rows_of_groups(self, campaigns: tuple[str, ...]) -> Integers:
        """The group of each campaign by its place in `groups`, (c,), -1 for none."""
        if self.group_of is None:
            return np.full(len(campaigns), -1)
        places: dict[str | None, int] = {name: row for row, name in enumerate(self.groups)}
        return np.array([places.get(self.group_of(name), -1) for name in campaigns], np.int64)

    def needed_stretches(self, history: History, pushes: Sequence[int]) -> Stretches:
        """Those that the scores ask for, none of them being stretched."""
        samples = self.grid()[0]
        ends = _ends_of_gaps(samples)
        between = samples * ((middles() >= ends[0]) & (middles() <= ends[1]))
        found = (_quantile(between, share) for share in _PARTS[[0, -1]].tolist())
        shared = Stretch.of(*found)._replace(low=ends[0], high=ends[1])
        since = max([history.newest + 1 - len(self.ages), *pushes[-1:]])
        return Stretches(shared, self._own_stretches(shared, history, since))

    def _own_stretches(
        self, shared: Stretch, history: History, since: int
    ) -> dict[str | None, Stretch]:
        """Of campaigns whose scores are narrow even so, as the hours since the newest push have
        them, cells being too wide to tell; none where all of them together show no steep truth."""
        names = {name for block in self.blocks for name in _narrow(block, shared)}
        if not self.peers.any(bool(names)):
            return {}
        parts = [
            _NarrowScores.of(table, names, shared)
            for table in history.windows(since, history.newest + 1)
        ]
        pull, information = self.peers.sum(part.slope for part in parts).tolist()
        if pull < _STEEP * information or pull - information < 3 * sqrt(information):
            return {}
        ends = np.hstack([np.empty((5, 0)), *(part.ends for part in parts)])
        (found,) = self.peers.joined(ends.T, to_first=True)
        own = self.peers.names([name for part in parts for name in part.campaigns])
        return {
            name: Stretch.exactly(*each)._replace(low=shared.low, high=shared.high)
            for name, each in zip(own, found.tolist(), strict=True)
        }

    def knots(self) -> Knots:
        """Those that span the scores of the window."""
        size = self.size
        if not size:
            return Knots.between(0.0, 0.0)
        few = self._few_scores(size)
        if few is not None:
            return Knots.at(few)
        samples = self.grid()[0]
        low, high = _quantile(samples, _LOW), _quantile(samples * expit(middles()), _HIGH)
        return Knots.between(low, max(low, high))

    def grid(self) -> Floats:
        """Of all campaigns, see `Cells`, (4, GRID.size)."""
        return self.peers.sum(block.grid for block in self.blocks)

    def _few_scores(self, size: int) -> Floats | None:
        """The log-odds of all scores, ascending, where these are few: each in a coarse cell of its
        own. None for others."""
        held = np.count_nonzero(self.grid()[0])
        work = size * held**3
        if not _FEWEST <= held <= _MOST_SCORES or work > _MOST_WORK:
            return None
        samples, scores = self.peers.sum(block.score_sums() for block in self.blocks)
        found = samples > 0
        if np.count_nonzero(found) < held:
            return None
        # One score is of two cells where it lies at the end of one.
        return np.unique(np.round(log_odds(scores[found] / samples[found]), 6))

    def mass(self, knots: Knots) -> Floats:
        """How many positives scores predict near each knot, (k,)."""
        return self.peers.sum(_mass(block, knots) for block in self.blocks)


def _mass(block: Cells, knots: Knots) -> Floats:
    before, after = knots.places(block.log_odds)
    held = sum_at(before, block.predicted * (1 - after), knots.count)
    return held + sum_at(before + 1, block.predicted * after, knots.count)


def _narrow(block: Cells, shared: Stretch) -> Iterator[str]:
    """Campaigns of which most scores may be narrow."""
    columns = block.hours.rows, len(block), block.log_odds, block.samples
    found = _ends(*columns, shared, CELL_WIDTH)[-1] >= 0
    return compress(block.campaigns, found.tolist())


class _NarrowScores(NamedTuple):
    """Of campaigns of one block: the ends of their narrow scores, (5, c), see `_ends`, and how much
    the log-odds of outcomes rise by those of the scores between them, as if a campaign had one rate
    on each side of a gap: the slope's score and information, (2,)."""

    campaigns: tuple[str, ...]
    ends: Floats
    slope: Floats

    @classmethod
    def of(cls, table: BinsTable, names: Collection[str], shared: Stretch) -> Self:
        """Of those of these campaigns whose scores are narrow, and not one."""
        table = table.chosen(np.array([name in names for name in table.campaigns], bool))
        scores, outcomes, weights, rows = table.samples()
        at = log_odds(scores)
        ends = _ends(rows, len(table), at, weights, shared)
        low, start, stop, high, _ = ends[:, rows]
        inside = ((at >= low) & (at <= start)) | ((at >= stop) & (at <= high))
        sides = (2 * rows + (at > start))[inside]
        at, weights, positives = (each[inside] for each in (at, weights, weights * outcomes))
        columns = weights, weights * at, positives
        counts, moments, clicked = (sum_at(sides, each, 2 * len(table)) for each in columns)
        counts = np.maximum(counts, 1.0)
        offsets, rates = at - (moments / counts)[sides], clicked / counts
        pull = (offsets * (positives - weights * rates[sides])).sum()
        information = (offsets**2 * weights * (rates * (1 - rates))[sides]).sum()
        several = ends[-1] > 0
        kept = tuple(compress(table.campaigns, several.tolist()))
        return cls(kept, ends[:, several], np.array([pull, information]))


def _ends(
    rows: Integers, size: int, values: Floats, weights: Floats, shared: Stretch, coarse: float = 0.0
) -> Floats:
    """Of so many campaigns whose values, ascending for each, lie within less than narrow scores,
    but for one wider gap: low, where the gap begins and ends, or the high end twice, high, and how
    wide that is without the gap, (5, c). NaN of others, and where too little is known. Values may
    be coarse by so much."""
    weights = weights * ((values >= shared.low) & (values <= shared.high))
    reached, totals = np.cumsum(weights), sum_at(rows, weights, size)
    goals = np.cumsum(totals) - totals + np.outer(_PARTS, totals)
    # Of no value the last is nan.
    places = np.minimum(np.searchsorted(reached, goals), len(values) - 1)
    found = np.append(values, np.nan)[places]
    before, low, high = np.diff(found, axis=0).argmax(axis=0), *found[[0, -1]]
    gap = found[[before, before + 1], np.arange(size)]
    most = _OWN_NARROW / shared.factor + coarse
    start, stop = np.where(gap[1] - gap[0] < most, high, gap)
    width = high - low - (stop - start)
    narrow = (totals >= _KNOWN) & (width < most)
    return np.where(narrow, (low, start, stop, high, width), np.nan)


def _ends_of_gaps(samples: Floats) -> tuple[float, float]:
    """The log-odds, on a lattice, between which most samples of the grid's cells lie, where there
    are some beyond a gap, such as of scores cut off at 0 and 1; infinite without any."""
    at = np.flatnonzero(samples > _RARE * samples.sum())
    places, reached = middles()[at] / _NEAR, np.cumsum(samples[at])
    gaps = np.flatnonzero(np.diff(places) > _GAP / _NEAR)
    below = reached[gaps] < reached[-1:].sum() / 2
    low = float(np.floor(places[gaps[below] + 1].max(initial=-np.inf))) * _NEAR
    high = float(np.ceil(places[gaps[~below]].min(initial=np.inf))) * _NEAR
    return low if low < -_FINEST / 2 else -np.inf, high if high > _FINEST else np.inf


def stretched(history: History, hours: int, stretches: Stretches) -> History:
    """The last hours of a history with their scores stretched."""

    def moved(block: HourTables) -> HourTables:
        since = history.newest - hours
        return {hour: _moved(table, stretches) for hour, table in block.items() if hour > since}

    return ChangedHistory.by(moved, history)


def _moved(table: BinsTable, stretches: Stretches) -> BinsTable:
    scores, outcomes, counts, rows = table.samples()
    moved = expit(stretches.at(table.campaigns, rows)(log_odds(scores)))
    return BinsTable.from_columns(table.campaigns, rows, moved, counts, counts * outcomes)


class CampaignDeviations(NamedTuple):
    """Names of campaigns, the deviations of their curves at the knots, (c, k), and their groups,
    (c,): at the first of several workers those of all, elsewhere its own."""

    names: tuple[str, ...]
    deviations: Floats
    groups: Integers

    @classmethod
    def of(cls, shape: Shape, peers: Peers) -> Self:
        """Of a fitted shape."""
        blocks = shape.blocks
        names = peers.names([name for block in blocks for name in block.campaigns])
        # By block: the last bits hang on how many are multiplied at once.
        scratch, basis = scratch_of(blocks), shape.coordinates.basis
        deviations = scratch.joined(scratch.kept(block.values @ basis.T for block in blocks))
        groups = np.concatenate([block.groups for block in blocks])
        return cls(tuple(names), *peers.joined(deviations, groups, to_first=True))


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """Priors, and curves at the knots: the target's, (1, k), and the deviations of groups, (g, k),
    and of campaigns, (c, k), with the row of each by name; what was read of fields; steps; the
    family of each campaign, where there are families."""

    knots: Knots
    priors: Priors
    target: Floats
    groups: Mapping[str, int]
    group_curves: Floats
    campaigns: Mapping[str, int]
    campaign_curves: Floats
    fields: FieldWindow | None = None
    steps: Steps = NO_STEPS
    families: Mapping[str, int] | None = None

    @classmethod
    def of(
        cls,
        shape: Shape,
        groups: Sequence[str],
        campaigns: CampaignDeviations,
        fields: FieldWindow | None = None,
    ) -> Self:
        """Of a fitted shape."""
        basis = shape.coordinates.basis
        of_families = dict(zip(campaigns.names, campaigns.groups.tolist(), strict=True))
        return cls(
            shape.coordinates.knots,
            Priors(*(Variances(*np.maximum(each.values, _AWAKE)) for each in shape.priors)),
            (shape.tree.target @ basis.T)[None],
            {name: row for row, name in enumerate(groups)},
            shape.tree.groups @ basis.T,
            {name: row for row, name in enumerate(campaigns.names)},
            campaigns.deviations,
            fields,
            shape.steps,
            None if shape.families is None else of_families,
        )

    @classmethod
    def shared(cls, own: "Memory | None", names: Sequence[str], peers: Peers) -> "Memory | None":
        """What the first of several workers remembers, who alone does, as each needs it for the
        campaigns of these names."""
        if peers.count == 1:
            return own
        wanted = [listed_in(part) for (part,) in peers.gather([(as_array(names),)], to_first=True)]
        parts = peers.gather([] if own is None or not wanted else own._parts_for(wanted))
        return cls._of_parts(list(parts), peers.place)

    def _parts_for(self, wanted: Sequence[Sequence[str]]) -> Iterator[Part]:
        """What all need, then the curves and families of each worker's campaigns."""
        knots, families = self.knots, self.families or {}
        yield (
            np.array([knots.first, knots.count, knots.spacing, *knots.stretch]),
            np.array(knots.scores),
            np.stack([variances.values for variances in self.priors]),
            self.target,
            as_array(tuple(self.groups)),
            self.group_curves,
            *self.steps,
            np.array([self.families is not None]),
        )
        for names in wanted:
            known = [name for name in names if name in self.campaigns]
            rows = np.array([self.campaigns[name] for name in known], np.int64)
            of_families = np.array([families.get(name, -1) for name in known], np.int64)
            yield as_array(known), self.campaign_curves[rows], of_families

    @classmethod
    def _of_parts(cls, parts: Sequence[Part], place: int) -> "Memory | None":
        if not parts:
            return None
        (lattice, scores, priors, target, groups, group_curves, *steps, some), *own = parts
        known, curves, of_families = own[place]
        first, count, spacing, *stretch = lattice.tolist()
        listed = listed_in(known)
        return cls(
            Knots(int(first), int(count), spacing, tuple(scores.tolist()), Stretch(*stretch)),
            Priors(*(Variances(*row) for row in priors.tolist())),
            target,
            {name: row for row, name in enumerate(listed_in(groups))},
            group_curves,
            {name: row for row, name in enumerate(listed)},
            curves,
            steps=Steps(*steps),
            families=dict(zip(listed, of_families.tolist(), strict=True)) if some[0] else None,
        )

    @classmethod
    def nothing(cls, knots: Knots) -> Self:
        """What is known before the first refit."""
        none = np.empty((0, knots.count))
        return cls(knots, Priors(), np.zeros((1, knots.count)), {}, none, {}, none)

    def target_in(self, coordinates: Coordinates) -> Floats:
        """The target's coordinates, (k,)."""
        return np.asarray(self._in(coordinates, self.target)[0])

    def groups_in(self, coordinates: Coordinates, names: Sequence[str]) -> Floats:
        """The groups' coordinates, (g, k), 0 for one that is new."""
        return self._of(coordinates, self.group_curves, self.groups, names)

    def campaigns_in(self, coordinates: Coordinates, names: Sequence[str]) -> Floats:
        """The campaigns' coordinates, (c, k), 0 for one that is new."""
        return self._of(coordinates, self.campaign_curves, self.campaigns, names)

    def _of(
        self,
        coordinates: Coordinates,
        curves: Floats,
        known: Mapping[str, int],
        names: Sequence[str],
    ) -> Floats:
        rows = np.array([known.get(name, -1) for name in names], np.int64)
        found = np.zeros((len(names), coordinates.knots.count))
        found[rows >= 0] = self._in(coordinates, curves[rows[rows >= 0]])
        return found

    def _in(self, coordinates: Coordinates, curves: Floats) -> Floats:
        return coordinates.of_curves(self.knots.moved(curves, coordinates.knots))
