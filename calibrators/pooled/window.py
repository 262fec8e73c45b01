"""What a refit begins with: the window, which is the cells of all blocks, when the hours were, and
where the knots lie; and what is remembered of the refit before, which changes no result beyond the
method's tolerance.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrators.bins.codecs import even_spans
from calibrators.bins.table import BinsTable, ChangedHistory, History, HourTables, view_of
from calibrators.fields.window import FieldWindow
from calibrators.maps.groups import GroupOf
from calibrators.peers import ALONE, Part, Peers, as_array, listed_in
from calibrators.pooled.cells import CELL_WIDTH, Cells, log_odds, middles
from calibrators.pooled.fit import NO_STEPS, Shape, Steps
from calibrators.pooled.hierarchy import Priors, Variances
from calibrators.pooled.spline import AS_IS, AS_THEY_ARE, Coordinates, Knots, Stretch, Stretches
from calibrators.samples import Floats, Integers, expit, sum_at

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
        yield {hour: _between(table, first, behind) for hour, table in tables.items()}


def _between(table: BinsTable, first: str, behind: str | None) -> BinsTable:
    """The campaigns of first <= name < behind."""
    names = table.campaigns
    start = bisect_left(names, first)
    stop = len(names) if behind is None else bisect_left(names, behind)
    return view_of(table, start, stop)


def quantile(
    values: Sequence[Floats], weights: Sequence[Floats], share: float, peers: Peers = ALONE
) -> float:
    """The first of all values, ascending, up to which lies this share of the weight.

    values, weights: one array of each for each block, (m,), finite, the weights >= 0; one value at
    least. Sums by narrow bins say in which of them it lies, and only the values of that one are
    sorted: no array is as long as all blocks together. Raises ValueError without a value.
    """
    low = -peers.most(max((-float(block.min()) for block in values if len(block)), default=-np.inf))
    if low == np.inf:
        raise ValueError("values: there are none, so there is no quantile")
    bins = [((block - low) / CELL_WIDTH).astype(np.int32) for block in values]
    reached = np.cumsum(_sums(bins, weights, peers))
    goal = share * reached[-1]
    chosen = int(np.searchsorted(reached, goal))
    inside = [number == chosen for number in bins]
    found = np.concatenate([block[held] for block, held in zip(values, inside, strict=True)])
    weight = np.concatenate([block[held] for block, held in zip(weights, inside, strict=True)])
    found, weight = peers.joined(found, weight)
    order = np.argsort(found, kind="stable")
    before = reached[chosen - 1] if chosen else 0.0
    place = int(np.searchsorted(before + np.cumsum(weight[order]), goal))
    return float(found[order[min(place, len(order) - 1)]])


def _sums(bins: Sequence[NDArray[np.int32]], weights: Sequence[Floats], peers: Peers) -> Floats:
    size = 1 + int(peers.most(max(int(number.max(initial=0)) for number in bins)))
    parts = zip(bins, weights, strict=True)
    return peers.sum(sum_at(number, weight, size) for number, weight in parts)


Rows = TypeVar("Rows", Floats, Integers)
_FEWEST, _MOST_SCORES = 4, 64
"""Distinct scores that are the knots themselves."""

_MOST_WORK = 1e8
"""Campaigns times the third power of the scores that are knots: what a Newton step costs."""

_LOW, _HIGH = 0.001, 0.999
"""Shares of the impressions below, and of the predicted positives up to, the outermost knots."""

_MOST_LIE_BETWEEN = 0.05, 0.95
"""Shares of the impressions below the ends of what a narrow range is known by."""

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

    blocks: tuple[Cells, ...]
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
        read = tuple(map(partial(Cells.of, first=first, length=hours), spans))
        blocks = read or (Cells.of({}, first, hours),)
        found = group_of or _none
        names = {found(name) for block in blocks for name in block.campaigns}
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
        places: dict[str | None, int] = {name: row for row, name in enumerate(self.groups)}
        group_of = self.group_of or _none
        return np.array([places.get(group_of(name), -1) for name in campaigns], np.int64)

    def split(self, table: Rows) -> Iterator[Rows]:
        """Rows of all campaigns, (c, ...), block by block."""
        behind = 0
        for block in self.blocks:
            first, behind = behind, behind + len(block)
            yield table[first:behind]

    def needed_stretches(self) -> Stretches:
        """Those that the scores ask for, none of them being stretched."""
        samples = [self.grid()[0]]
        shared = Stretch.of(*(quantile([middles()], samples, share) for share in _MOST_LIE_BETWEEN))
        return self._own_stretches() if shared == AS_IS and self.size else Stretches(shared)

    def _own_stretches(self) -> Stretches:
        centres = [block.centres for block in self.blocks]
        pairs = zip(self.blocks, centres, strict=True)
        # Rounded: scores that are one have no range.
        offsets = [np.round(block.log_odds - own[block.hours.rows], 6) for block, own in pairs]
        weights = [block.samples for block in self.blocks]
        low, high = (quantile(offsets, weights, share, self.peers) for share in _MOST_LIE_BETWEEN)
        found = Stretch.of(low, high)
        if found == AS_IS or high - low > _OWN_NARROW:
            return AS_THEY_ARE
        (places,) = self.peers.joined(np.concatenate(centres), to_first=True)
        every = zip(self.peers.names(self.campaigns), places.tolist(), strict=True)
        return Stretches(own={name: found._replace(middle=at) for name, at in every})

    def knots(self) -> Knots:
        """Those that span the scores of the window."""
        size = self.size
        if not size:
            return Knots.between(0.0, 0.0)
        few = self._few_scores(size)
        if few is not None:
            return Knots.at(few)
        found = [block.log_odds for block in self.blocks]
        low = quantile(found, [block.samples for block in self.blocks], _LOW, self.peers)
        high = quantile(found, [block.predicted for block in self.blocks], _HIGH, self.peers)
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
        return np.round(log_odds(scores[found] / samples[found]), 6)

    def mass(self, knots: Knots) -> Floats:
        """How many positives scores predict near each knot, (k,)."""
        mass = np.zeros(knots.count)
        for before, after in self.peers.gather(_mass(block, knots) for block in self.blocks):
            mass += before
            mass += after
        return mass


def _mass(block: Cells, knots: Knots) -> tuple[Floats, Floats]:
    before, after = knots.places(block.log_odds)
    return (
        sum_at(before, block.predicted * (1 - after), knots.count),
        sum_at(before + 1, block.predicted * after, knots.count),
    )


def _none(campaign: str) -> None:
    return None


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
        deviations = np.vstack([block.values for block in blocks]) @ shape.coordinates.basis.T
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
        target: Floats = self._in(coordinates, self.target)[0]
        return target

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
