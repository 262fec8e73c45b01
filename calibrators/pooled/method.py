"""The pooled method: all campaigns' maps from one hierarchical model."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice
from typing import NamedTuple

import numpy as np

from calibrators.bins.table import History
from calibrators.fields.fit import EffectsFit, FittedEffects
from calibrators.fields.window import FieldWindow
from calibrators.maps.atlas import Atlas
from calibrators.maps.calibration_map import PLACES, Spreads
from calibrators.maps.groups import CampaignGroups, FieldGroups, GroupMaps, GroupOf
from calibrators.methods.refit import Fitted
from calibrators.peers import NotDivided, Peers, as_array, listed_in
from calibrators.pooled.cells import FARTHEST, CampaignBlock, forget_entries, log_odds
from calibrators.pooled.families import family_names
from calibrators.pooled.fit import NO_STEPS, Shape
from calibrators.pooled.hierarchy import Tree, own_levels
from calibrators.pooled.levels import (
    ALL_MOVEMENTS,
    CountedHours,
    Levels,
    Movements,
    block_weights,
    levels_of_blocks,
)
from calibrators.pooled.outliers import CampaignHours, PlatformHours, outage_hours
from calibrators.pooled.pushes import ScoreScale, names_of_rows
from calibrators.pooled.serving import (
    CurveUncertainty,
    ServedKnots,
    in_log_ratios,
    missing_variance,
    served_curves,
    served_shared_curves,
)
from calibrators.pooled.spline import AS_THEY_ARE, Coordinates, Stretches
from calibrators.pooled.window import CampaignDeviations, Memory, Window, stretched
from calibrators.samples import Floats, Integers, by_block, expit, scratch_of

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
        groups = self._groups_by(fields)
        window, scale = self._window(history, groups, AS_THEY_ARE)
        if (stretches := window.needed_stretches(history, scale.pushes)) != AS_THEY_ARE:
            del window  # Two are too large.
            changed = stretched(history, self.hours, stretches)
            window, scale = self._window(changed, groups, stretches)
        if known is not None and known.knots.stretch != stretches.shared:
            known = None
        known = Memory.shared(known, window.campaigns, history.peers)
        refit = _Refit(window, known, trial, fields, window.size <= _JOINED)
        del window
        fitted = refit.run()
        if stretches.own:
            tried = fitted.trial and _moved_back(fitted.trial, stretches)
            fitted = replace(fitted, atlas=_moved_back(fitted.atlas, stretches), trial=tried)
        pushes = {"pushes": list(scale.pushes)} if scale.pushes else {}
        return replace(fitted, scale=scale, notes={**fitted.notes, **pushes})

    def _window(
        self, history: History, groups: GroupOf | None, stretches: Stretches
    ) -> tuple[Window, ScoreScale]:
        """The window on the scale of the newest scores, which are stretched already."""
        window = Window.of(history, self.hours, groups)
        size = _divisible(window) if history.peers.count > 1 else window.size
        scale = ScoreScale.of(window.blocks, history, self.hours, size <= _JOINED)
        blocks = scale.carried_over(window.blocks)
        shared = stretches.shared
        return replace(window, blocks=blocks, stretch=shared), replace(scale, stretches=stretches)

    def _groups_by(self, fields: "_Fields | None") -> GroupOf | None:
        if fields is None or not isinstance(self.groups, FieldGroups):
            return self.groups
        return FieldGroups(self.groups.field, fields.owners(self.groups.field))

    def _fields(self, history: History, memory: Memory | None) -> "_Fields | None":
        if not history.peers.any(history.fields is not None):
            return None
        window = (memory and memory.fields) or FieldWindow()
        if not history.peers.is_first:
            return _Fields(history.peers, window, None)
        hours = range(history.newest + 1 - self.hours, history.newest + 1)
        window.read(history, hours)
        return _Fields(history.peers, window, EffectsFit(window, hours))


def _moved_back(atlas: Atlas, stretches: Stretches) -> Atlas:
    """Maps of scores that each campaign has stretched by itself, as those of the scores."""
    of, shared = names_of_rows(atlas), stretches.shared
    return atlas.at_scores(lambda own, at: expit(stretches.at(of, own).back(shared(log_odds(at)))))


_JOINED = 4096
"""Campaigns up to which the hours of all blocks are looked at as one: a step through them takes no
longer than its call. So few are not divided among workers."""

_MOST_GROUPS = 256
"""What campaigns of more groups tell is more than workers can tell each other."""


def _divisible(window: Window) -> int:
    """How many campaigns there are; raises `NotDivided` where they are no work for several."""
    size = window.size
    if size <= _JOINED:
        raise NotDivided(f"{size} campaigns are too few")
    if len(window.groups) > _MOST_GROUPS:
        raise NotDivided(f"{len(window.groups)} groups are too many")
    return size


class _Fields(NamedTuple):
    """What is known of the fields in the hours of a refit, and the fit of their effects: by the
    first of those that refit together, which tells the others."""

    peers: Peers
    window: FieldWindow
    effects: EffectsFit | None

    def owners(self, field: str) -> dict[str, str]:
        """The value of a field by campaign."""
        owners = self.window.owners(field)
        (told,) = self.peers.from_first(as_array([*owners.items()]))
        return dict(listed_in(told))

    def fit(self, blocks: Sequence[CampaignHours], ages: Floats, hours: int) -> FittedEffects:
        """The effects that the first of so many hours support, those that have an age; the
        campaigns' show which are an outage. Without the effects, but at the first."""
        outage = outage_hours(PlatformHours.of(blocks, self.peers))
        counted = CountedHours.of(outage, ages).counted
        found = FittedEffects(None, {}, np.empty(0))
        if self.effects is not None:
            weights = np.pad(counted * 1.0, (0, hours - len(counted)))
            ages = np.pad(ages, (0, hours - len(ages)), mode="edge")
            found = self.effects.fit(ages, weights)
        names, means = self.peers.from_first(as_array([*found.campaigns]), found.means)
        rows = {name: row for row, name in enumerate(listed_in(names))}
        return replace(found, campaigns=rows, means=means)


class _Served(NamedTuple):
    """Curves to serve: the target's, the groups' and the campaigns', (1 + g + c, k), and their
    variances at `spread_places`, (1 + g + c, n)."""

    campaigns: tuple[str, ...]
    knots: ServedKnots
    curves: Floats
    variances: Floats


class _Refit:
    """One refit in its steps. Of the window, only what its blocks take from it is kept."""

    def __init__(
        self,
        window: Window,
        memory: Memory | None,
        trial: bool,
        fields: _Fields | None,
        joined: bool,
    ) -> None:
        self._trial, self._fields, self._joined = trial, fields, joined
        self._ages, self._groups, self._campaigns = window.ages, window.groups, window.campaigns
        self._peers = window.peers
        self._group_of, self._scratch = window.group_of, scratch_of(window.blocks)
        self._recency = np.exp2(-window.ages / _HALF_LIFE)
        begun = trial and window.begun_before_newest
        self._past = slice(0, -1) if begun else slice(None)
        if self._past.stop:
            self._recency[-1] = 0.0
        self._rows = window.rows_of_groups(window.campaigns)
        if memory is not None and memory.families is not None and window.group_of is None:
            known = memory.families
            self._groups = tuple(memory.groups)
            self._rows = np.array([known.get(name, -1) for name in window.campaigns], np.int64)
        self._shape = self._started(window, memory)

    def run(self) -> Fitted:
        """The maps, and what there is to tell of them."""
        self._shape.fit()
        return self._fitted(self._drifted())

    def _started(self, window: Window, memory: Memory | None) -> Shape:
        knots = replace(window.knots(), stretch=window.stretch)
        coordinates = Coordinates.of(knots, window.mass(knots))
        earlier = memory or Memory.nothing(knots)
        groups, names = by_block(window.blocks, self._rows), iter(self._campaigns)
        # By block: last bits hang on how many are solved for at once.
        starts = (earlier.campaigns_in(coordinates, [*islice(names, len(rows))]) for rows in groups)
        weights = (self._recent(np.ones((len(cells), 1))) for cells in window.blocks)
        parts = zip(window.blocks, groups, starts, weights, strict=True)
        blocks = self._scratch.kept(
            CampaignBlock(cells, coordinates, rows, start, weight, self._scratch)
            for cells, rows, start, weight in parts
        )
        tree = Tree(
            coordinates,
            earlier.target_in(coordinates),
            earlier.groups_in(coordinates, self._groups),
        )
        steps = NO_STEPS if knots.scores else earlier.steps
        grid, priors = window.grid(), earlier.priors
        return Shape(coordinates, tree, blocks, priors, grid=grid, steps=steps, peers=window.peers)

    def _recent(self, weights: Floats) -> Floats:
        """Weights of campaigns in the first hours, (c, n), the last of them also in the others,
        times what the hours' age allows."""
        late = len(self._ages) - weights.shape[1]
        return np.pad(weights, ((0, 0), (0, late)), mode="edge") * self._recency

    def _drifted(self) -> int:
        """Fits again without the hours that speak no longer, if there are any; the jumps found."""
        weights, jumps = self._weights()
        weighed = self._peers.any(any((part < 1).any() for part in weights))
        changed = self._shape.find_steps() | self._regrouped()
        if weighed:
            self._weigh(weights)
        del weights
        if weighed or changed:
            self._shape.fit()
        return jumps

    def _weights(self) -> tuple[Sequence[Floats], int]:
        """Of each block's campaigns in the past hours, (c, h), and how many have jumped."""
        blocks = self._shape.blocks
        seen = self._hours(block.probabilities(self._shape.curves(block)) for block in blocks)
        past = self._scratch.kept(block.chosen(self._past) for block in seen)
        found = block_weights(past, self._ages[self._past], self._peers)
        # Of each block no more is kept than that.
        stored = self._scratch.stored
        told = [(stored(each.weights), np.array([each.jumped.sum()])) for each in found]
        weights, jumps = zip(*told, strict=True)
        if self._joined:
            weights = tuple(by_block(blocks, weights[0]))
        return weights, int(self._peers.sum(jumps)[0])

    def _regrouped(self) -> bool:
        """Whether there are families, where nothing names groups: these are the groups then."""
        if self._group_of is not None or not self._shape.find_families():
            return False
        self._groups = family_names(len(self._shape.tree.groups))
        return True

    def _weigh(self, weights: Sequence[Floats]) -> None:
        for block, part in zip(self._shape.blocks, weights, strict=True):
            if (part < 1).any():
                block.weigh(self._recent(part))

    def _with_fields(
        self, blocks: Sequence[CampaignHours], ages: Floats
    ) -> tuple[Sequence[CampaignHours], FittedEffects | None]:
        """The same hours, freed of what the effects of fields did in each, and the effects."""
        if self._fields is None:
            return blocks, None
        found = self._fields.fit(blocks, ages, len(self._ages))
        means = found.means_of(self._campaigns, len(ages))
        parts = by_block([block.expected for block in blocks], means)
        freed = self._scratch.kept(
            block._replace(expected=block.expected * each)
            for block, each in zip(blocks, parts, strict=True)
        )
        return freed, found

    def _hours(self, probabilities: Iterable[Floats]) -> list[CampaignHours]:
        """Positives expected by the probabilities of each block's cells, and observed."""
        found = self._scratch.kept(map(self._hours_of, self._shape.blocks, probabilities))
        return [CampaignHours.joined(found)] if self._joined else found

    def _hours_of(self, block: CampaignBlock, probabilities: Floats) -> CampaignHours:
        counts, expected, observed = block.hours.outcomes(probabilities)
        rates, levels = block.rates(probabilities), own_levels(block.values, block.offsets)
        variances = self._shape.priors.campaign.level / block.trust
        fitted, variances = in_log_ratios(levels, variances, rates)
        return CampaignHours.of(
            expected,
            observed,
            groups=block.groups,
            fitted=fitted,
            variances=variances,
            rates=rates,
            steady=_steady(counts, observed),
        )

    def _fitted(self, jumps: int) -> Fitted:
        shape = self._shape
        knots = ServedKnots(shape.coordinates.knots, shape.steps, shape.grid)
        found = list(zip(*self._scratch.kept(self._solved()), strict=True))
        hours = self._hours(map(knots.probabilities, shape.blocks, found[0]))
        campaigns = CampaignDeviations.of(shape, self._peers)
        served = self._served(campaigns.names, knots, *found)
        # Most of what a refit holds, and told all that they know.
        shape.blocks, found = (), []
        forget_entries()
        # First, so that nothing which it begins with knows the newest hour.
        tried = self._tried_levels(hours) if self._trial and self._past.stop else None
        likely = ALL_MOVEMENTS if tried is None else tried[0].movements
        levels, effects = self._levels(hours, self._ages, likely)
        del hours
        levels = levels.of_all(self._peers)
        trial = None if tried is None else (tried[0].of_all(self._peers), tried[1])
        if not self._peers.is_first:
            return Fitted(Atlas.empty())
        notes = _notes(shape, levels, jumps, len(self._groups))
        window = self._fields and self._fields.window
        return Fitted(
            self._atlas(served, levels, effects),
            (Atlas.empty() if trial is None else self._atlas(served, *trial))
            if self._trial
            else None,
            memory=Memory.of(shape, self._groups, campaigns, window),
            notes=notes if effects is None else notes | {"fields": effects.notes},
            set_aside=frozenset(compress(campaigns.names, levels.set_aside.tolist())),
        )

    def _solved(self) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Of each block, at the mode, which is solved for once: the curves to serve, (c, k), their
        variances, (c, n), and sums of what they miss of its cells."""
        shape, uncertainty = self._shape, self._uncertainty()
        for block in shape.blocks:
            solved = shape.eliminated(block)
            curves = served_curves(shape, block, solved)
            yield curves, uncertainty.campaigns(block, solved), uncertainty.missed(block, solved)

    def _served(
        self,
        campaigns: tuple[str, ...],
        knots: ServedKnots,
        curves: Sequence[Floats],
        variances: Sequence[Floats],
        missed: Sequence[Floats],
    ) -> _Served:
        """With the curves of all workers' campaigns, for the first of them, from those of its own
        blocks."""
        of_shared, missing = self._uncertainty().shared(), missing_variance(missed, self._peers)
        above = served_shared_curves(self._shape)
        joined = self._scratch.joined
        own = self._peers.joined(joined(curves), joined(variances), to_first=True)
        every, spreads = (joined(part) for part in zip((above, of_shared), own, strict=True))
        spreads += missing
        return _Served(campaigns, knots, every, spreads)

    def _levels(
        self, hours: Sequence[CampaignHours], ages: Floats, movements: Movements = ALL_MOVEMENTS
    ) -> tuple[Levels, FittedEffects | None]:
        """Of its own campaigns, and the effects of fields, of which the hours are freed first."""
        freed, effects = self._with_fields(hours, ages)
        groups, peers = len(self._groups), self._peers
        return levels_of_blocks(freed, ages, groups, peers, movements), effects

    def _uncertainty(self) -> CurveUncertainty:
        """Where `Spreads` are kept."""
        coordinates = self._shape.coordinates
        places = coordinates.knots.stretch(spread_places(self._shape))
        return CurveUncertainty(self._shape, coordinates.directions(places))

    def _tried_levels(self, hours: Sequence[CampaignHours]) -> tuple[Levels, FittedEffects | None]:
        """Those that know the newest hour neither by its positives nor by its weights."""
        past = self._scratch.kept(block.chosen(self._past) for block in hours)
        return self._levels(past, self._ages[self._past] - 2 * self._ages[-1])

    def _atlas(self, served: _Served, levels: Levels, effects: FittedEffects | None) -> Atlas:
        """Their maps at these levels, campaigns in order of their names, and the effects."""
        if not served.campaigns:
            # Of straight pieces between few knots: scores would not come back as they are.
            return Atlas.empty()
        first = 1 + len(self._groups)
        order = sorted(range(len(served.campaigns)), key=served.campaigns.__getitem__)
        rows: Integers = np.array([0, *(first + place for place in order)], np.int64)
        shifts = np.concatenate(([levels.target_shift], levels.group_shifts, levels.shifts))
        maps = served.knots.maps(served.curves[rows], shifts[rows], self._scratch)
        groups = None
        if isinstance(self._group_of, CampaignGroups | FieldGroups):
            of_groups = served.knots.maps(served.curves[1:first], shifts[1:first])
            groups = GroupMaps(self._group_of, self._groups, of_groups)
        names = [served.campaigns[place] for place in order]
        every = np.concatenate((rows, np.arange(1, first if groups else 1)))
        atlas = Atlas.of_columns(names, maps, True, groups)
        found = atlas.with_spreads(self._spreads(served, every, levels))
        return found.with_effects(None if effects is None else effects.effects)

    def _spreads(self, served: _Served, rows: Integers, levels: Levels) -> Spreads:
        moved = np.concatenate(([levels.target_variance], levels.group_variances, levels.variances))
        low, *_, high = spread_places(self._shape).tolist()
        return Spreads.of(low, high, np.sqrt(served.variances[rows] + moved[rows, None]))


def _steady(counts: Floats, observed: Floats) -> Floats:
    """See `CampaignHours`, from impressions and positives, (c, h) each."""
    total = np.maximum(counts.sum(axis=1), np.finfo(float).tiny)
    return np.asarray(counts * (observed.sum(axis=1) / total)[:, None])


def spread_places(shape: Shape) -> Floats:
    """Log-odds of the score at which `Spreads` are kept: from the outermost knots inwards."""
    knots = shape.coordinates.knots
    low, high = np.clip(knots.stretch.back(knots.positions[[0, -1]]), -2 * FARTHEST, 2 * FARTHEST)
    return np.linspace(low, high, PLACES)


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
