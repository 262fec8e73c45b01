"""The pooled method: all campaigns' maps from one hierarchical model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import NamedTuple, Self

import numpy as np

from calibrators.bins.table import History
from calibrators.fields.fit import FittedEffects, fit_effects
from calibrators.fields.window import FieldWindow
from calibrators.maps.atlas import Atlas
from calibrators.maps.calibration_map import PLACES, Spreads
from calibrators.maps.groups import CampaignGroups, FieldGroups, GroupMaps, GroupOf
from calibrators.methods.refit import Fitted
from calibrators.pooled.cells import CampaignBlock
from calibrators.pooled.families import family_names
from calibrators.pooled.fit import NO_STEPS, Shape, Steps
from calibrators.pooled.hierarchy import Priors, Tree, own_levels
from calibrators.pooled.levels import CountedHours, Levels, block_weights, levels_of_blocks
from calibrators.pooled.outliers import CampaignHours
from calibrators.pooled.pushes import ScoreScale
from calibrators.pooled.serving import (
    CurveUncertainty,
    ServedKnots,
    information_at_knots,
    served_curves,
    served_shared_curves,
)
from calibrators.pooled.spline import Coordinates, Knots
from calibrators.pooled.window import Window
from calibrators.samples import Floats, Integers


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
    families: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, shape: Shape, groups: Sequence[str], fields: FieldWindow | None = None) -> Self:
        """Of a fitted shape."""
        basis = shape.coordinates.basis
        names = [name for block in shape.blocks for name in block.campaigns]
        rows = np.concatenate([block.groups for block in shape.blocks])
        values = np.vstack([np.empty((0, len(basis))), *(block.values for block in shape.blocks)])
        return cls(
            shape.coordinates.knots,
            shape.priors,
            (shape.tree.target @ basis.T)[None],
            {name: row for row, name in enumerate(groups)},
            shape.tree.groups @ basis.T,
            {name: row for row, name in enumerate(names)},
            values @ basis.T,
            fields,
            shape.steps,
            {} if shape.families is None else dict(zip(names, rows.tolist(), strict=True)),
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


_HALF_LIFE = 96.0
"""Hours in which what a shape was learnt from loses half its weight."""


@dataclass(frozen=True, slots=True)
class Pooled:
    """A penalised logistic spline for each campaign, shrunk to its group's and the target's as
    much as all campaigns together ask for, and levels that follow the last hours.

    See docs/pooled.md.

    Parameters: hours of the window; groups, the group of a campaign by its name, or None. Maps of
    groups, for new campaigns, are in the atlas where it is `CampaignGroups` or `FieldGroups`, which
    can be stored; by a field, a campaign's group is what most of its events said.
    """

    hours: int = 48
    groups: GroupOf | None = None

    @property
    def name(self) -> str:
        """pooled."""
        return "pooled"

    def refit(self, history: History, *, memory: object = None, trial: bool = False) -> Fitted:
        """See `Method`.

        With a trial, both atlases have the same shape, which does not know the newest hour; only
        the levels of the one to publish do. Where there was no traffic before that hour, the
        trial is the identity.
        """
        known = memory if isinstance(memory, Memory) else None
        fields = self._fields(history, known)
        window = Window.of(history, self.hours, self._group_of(fields))
        scale = ScoreScale.of(window.blocks, history, self.hours)
        window = replace(window, blocks=scale.carried_over(window.blocks))
        fitted = _Refit(window, known, trial, fields).run()
        pushes = {"pushes": list(scale.pushes)} if scale.pushes else {}
        return replace(fitted, scale=scale, notes={**fitted.notes, **pushes})

    def _group_of(self, fields: "_Fields | None") -> GroupOf | None:
        if fields is None or not isinstance(self.groups, FieldGroups):
            return self.groups
        field = self.groups.field
        return FieldGroups(field, fields.window.owners(field))

    def _fields(self, history: History, memory: Memory | None) -> "_Fields | None":
        if history.fields is None:
            return None
        window = (memory and memory.fields) or FieldWindow()
        hours = range(history.newest + 1 - self.hours, history.newest + 1)
        window.read(history, hours)
        return _Fields(window, hours)


class _Fields(NamedTuple):
    """What is known of the fields in the hours of a refit."""

    window: FieldWindow
    hours: range

    def fit(self, blocks: Sequence[CampaignHours], ages: Floats) -> FittedEffects:
        """The effects that the first hours support; the campaigns' show which are an outage."""
        counted = CountedHours.of(blocks, np.maximum(ages, 0.0))
        weights = np.pad(counted.counted * 1.0, (0, len(ages) - len(counted.counted)))
        return fit_effects(self.window, self.hours[: len(ages)], ages, weights)


class _Refit:
    """One refit in its steps. Of the window, only what its blocks take from it is kept."""

    def __init__(
        self, window: Window, memory: Memory | None, trial: bool, fields: _Fields | None
    ) -> None:
        self._trial, self._fields = trial, fields
        self._ages, self._groups, self._campaigns = window.ages, window.groups, window.campaigns
        self._group_of = window.group_of
        self._recency = np.exp2(-window.ages / _HALF_LIFE)
        self._past = slice(0, -1) if trial and window.begun_before_newest else slice(None)
        if self._past.stop:
            self._recency[-1] = 0.0
        self._rows = window.rows_of_groups(window.campaigns)
        if memory is not None and memory.families and window.group_of is None:
            known = memory.families
            self._groups = tuple(memory.groups)
            self._rows = np.array([known.get(name, -1) for name in window.campaigns], np.int64)
        self._shape = self._started(window, memory)
        self._observed = np.vstack([block.hours.observed() for block in self._shape.blocks])

    def run(self) -> Fitted:
        """The maps, and what there is to tell of them."""
        self._shape.fit()
        return self._fitted(self._drifted())

    def _started(self, window: Window, memory: Memory | None) -> Shape:
        knots = window.knots()
        coordinates = Coordinates.of(knots, window.mass(knots))
        earlier = memory or Memory.nothing(knots)
        starts = window.split(earlier.campaigns_in(coordinates, self._campaigns))
        groups = window.split(self._rows)
        blocks = [
            CampaignBlock(cells, coordinates, rows, start, self._recent(np.ones((len(cells), 1))))
            for cells, rows, start in zip(window.blocks, groups, starts, strict=True)
        ]
        tree = Tree(
            coordinates,
            earlier.target_in(coordinates),
            earlier.groups_in(coordinates, self._groups),
        )
        steps = NO_STEPS if knots.scores else earlier.steps
        grid = np.sum([cells.grid for cells in window.blocks], axis=0)
        return Shape(coordinates, tree, blocks, earlier.priors, grid=grid, steps=steps)

    def _recent(self, weights: Floats) -> Floats:
        """Weights of campaigns in the first hours, (c, n), the last of them also in the others,
        times what the hours' age allows."""
        late = len(self._ages) - weights.shape[1]
        return np.pad(weights, ((0, 0), (0, late)), mode="edge") * self._recency

    def _drifted(self) -> int:
        """Fits again without the hours that speak no longer, if there are any; the jumps found."""
        seen = self._hours([self._shape.curves(block) for block in self._shape.blocks])
        past = [block.chosen(self._past) for block in seen]
        found = list(block_weights(past, self._ages[self._past]))
        weights = np.vstack([each.weights for each in found])
        weighed = bool((weights < 1).any())
        changed = self._shape.find_steps() | self._regrouped()
        if weighed:
            self._weigh(weights)
        if weighed or changed:
            self._shape.fit()
        return sum(int(each.jumped.sum()) for each in found)

    def _regrouped(self) -> bool:
        """Whether there are families, where nothing names groups: these are the groups then."""
        if self._group_of is not None or not self._shape.find_families():
            return False
        self._groups = family_names(len(self._shape.tree.groups))
        self._rows = np.concatenate([block.groups for block in self._shape.blocks])
        return True

    def _weigh(self, weights: Floats) -> None:
        blocks = self._shape.blocks
        parts = np.split(weights, np.cumsum([len(block) for block in blocks])[:-1])
        for block, part in zip(blocks, parts, strict=True):
            if (part < 1).any():
                block.weigh(self._recent(part))

    def _with_fields(
        self, blocks: Sequence[CampaignHours], ages: Floats
    ) -> tuple[Sequence[CampaignHours], FittedEffects | None]:
        """The same hours, freed of what the effects of fields did in each, and the effects."""
        if self._fields is None:
            return blocks, None
        found = self._fields.fit(blocks, ages)
        sizes = np.cumsum([len(block.expected) for block in blocks])
        means = np.split(found.means_of(self._campaigns, len(ages)), sizes[:-1])
        freed = [
            block._replace(expected=block.expected * each)
            for block, each in zip(blocks, means, strict=True)
        ]
        return freed, found

    def _hours(self, curves: Sequence[Floats]) -> list[CampaignHours]:
        """Positives expected under the curves of each block of the shape, and observed."""
        blocks = zip(self._shape.blocks, curves, strict=True)
        shape = self._shape
        expected = [block.hours.expected(block.probabilities(each)) for block, each in blocks]
        fitted = [own_levels(block.values, block.offsets) for block in shape.blocks]
        prior = [shape.priors.campaign.level / block.trust for block in shape.blocks]
        return CampaignHours.of(
            np.vstack(expected),
            self._observed,
            groups=self._rows,
            fitted=np.concatenate(fitted),
            variances=np.concatenate(prior),
        ).blocks()

    def _fitted(self, jumps: int) -> Fitted:
        shape = self._shape
        curves = [served_curves(shape, block) for block in shape.blocks]
        every = np.vstack([served_shared_curves(shape), *curves])
        served = _Served(
            shape, self._campaigns, self._groups, self._group_of, every, self._variances()
        )
        hours = self._hours(curves)
        freed, effects = self._with_fields(hours, self._ages)
        levels = levels_of_blocks(freed, self._ages, len(self._groups))
        notes = _notes(shape, levels, jumps, len(self._groups))
        return Fitted(
            served.atlas(levels).with_effects(None if effects is None else effects.effects),
            self._tried(served, hours) if self._trial else None,
            memory=Memory.of(shape, self._groups, self._fields and self._fields.window),
            notes=notes if effects is None else notes | {"fields": effects.notes},
            set_aside=frozenset(compress(self._campaigns, levels.set_aside.tolist())),
        )

    def _variances(self) -> Floats:
        """Of the curves to serve where `Spreads` are kept, in the order of `_Served`."""
        found = CurveUncertainty.of(self._shape, spread_places(self._shape))
        curves = [found.campaigns(block) for block in self._shape.blocks]
        return np.vstack([found.shared(), *curves]) + found.missing()

    def _tried(self, served: "_Served", hours: Sequence[CampaignHours]) -> Atlas:
        """With levels that know the newest hour neither by its positives nor by its weights."""
        if not self._past.stop:
            return Atlas.empty()
        past = [block.chosen(self._past) for block in hours]
        ages = self._ages[self._past] - 2 * self._ages[-1]
        freed, effects = self._with_fields(past, ages)
        levels = levels_of_blocks(freed, ages, len(self._groups))
        return served.atlas(levels).with_effects(None if effects is None else effects.effects)


@dataclass(frozen=True, slots=True, eq=False)
class _Served:
    """Curves to serve: the target's, the groups' and the campaigns', (1 + g + c, k), and their
    variances at `spread_places`, (1 + g + c, n)."""

    shape: Shape
    campaigns: tuple[str, ...]
    groups: tuple[str, ...]
    group_of: GroupOf | None
    curves: Floats
    variances: Floats

    def atlas(self, levels: Levels) -> Atlas:
        """Their maps at these levels, campaigns in order of their names."""
        first = 1 + len(self.groups)
        order = sorted(range(len(self.campaigns)), key=self.campaigns.__getitem__)
        rows: Integers = np.array([0, *(first + place for place in order)], np.int64)
        shifts = np.concatenate(([levels.target_shift], levels.group_shifts, levels.shifts))
        shape = self.shape
        knots = shape.coordinates.knots
        # A pass over all cells, which maps without steps do not need.
        weights = information_at_knots(shape) if len(shape.steps.cells) else np.zeros(knots.count)
        served = ServedKnots(knots, shape.steps, weights)
        maps = served.maps(self.curves[rows], shifts[rows])
        groups = None
        of = self.group_of
        if isinstance(of, CampaignGroups | FieldGroups):
            of_groups = served.maps(self.curves[1:first], shifts[1:first])
            # Whose campaigns are whose is known in a refit alone.
            stored = FieldGroups(of.field) if isinstance(of, FieldGroups) else of
            groups = GroupMaps(stored, self.groups, of_groups)
        names = [self.campaigns[place] for place in order]
        every = np.concatenate((rows, np.arange(1, first if groups else 1)))
        atlas = Atlas.of_columns(names, maps, True, groups)
        return atlas.with_spreads(self._spreads(every, levels))

    def _spreads(self, rows: Integers, levels: Levels) -> Spreads:
        moved = np.concatenate(([levels.target_variance], levels.group_variances, levels.variances))
        low, *_, high = spread_places(self.shape).tolist()
        return Spreads.of(low, high, np.sqrt(self.variances[rows] + moved[rows, None]))


def spread_places(shape: Shape) -> Floats:
    """Log-odds of the score at which `Spreads` are kept: from the outermost knots inwards."""
    positions = shape.coordinates.knots.positions
    return np.linspace(positions[0], positions[-1], PLACES)


def _notes(shape: Shape, levels: Levels, jumps: int, groups: int) -> dict[str, object]:
    named = {"campaign": shape.priors.campaign, "target": shape.priors.target}
    if groups:
        named["group"] = shape.priors.group
    deviations = {
        f"{node}_{name}": float(np.sqrt(value))
        for node, variances in named.items()
        for name, value in zip(("level", "slope", "bend", "step"), variances.values, strict=True)
        if node != "target" or name in ("bend", "step")
    }
    return {
        "priors": deviations,
        "groups": groups,
        "frozen": levels.frozen,
        "jumps": jumps,
        "strengths": dict(levels.strengths),
        "rounds": shape.rounds,
        "knots": shape.coordinates.knots.count,
        **({"steps": steps} if (steps := len(shape.steps.cells)) else {}),
    }
