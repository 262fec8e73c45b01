"""The pooled method: all campaigns' maps from one hierarchical model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrators.atlas import Atlas
from calibrators.campaign_rows import CampaignRows
from calibrators.history import History
from calibrators.map_blocks import MapBlocks
from calibrators.method import Fitted
from calibrators.pooled.campaign_block import CampaignBlock
from calibrators.pooled.coordinates import Coordinates
from calibrators.pooled.drift import hour_weights
from calibrators.pooled.levels import Levels, fit_levels
from calibrators.pooled.memory import Memory
from calibrators.pooled.served_curves import served_curves, served_target_curve
from calibrators.pooled.served_maps import ServedKnots
from calibrators.pooled.shape import Shape
from calibrators.pooled.tree import Tree
from calibrators.pooled.window import GroupOf, Window
from calibrators.samples import Floats, Integers

_HALF_LIFE = 96.0
"""Hours in which what a shape was learnt from loses half its weight."""


@dataclass(frozen=True, slots=True)
class Pooled:
    """A penalised logistic spline for each campaign, shrunk to its group's and the target's as
    much as all campaigns together ask for, and levels that follow the last hours.

    See docs/pooled.md.

    Parameters: hours of the window; groups, the group of a campaign by its name, or None.
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
        window = Window.of(history, self.hours, self.groups)
        return _Refit(window, memory if isinstance(memory, Memory) else None, trial).run()


class _Refit:
    """One refit in its steps."""

    def __init__(self, window: Window, memory: Memory | None, trial: bool) -> None:
        self._window = window
        self._trial = trial
        self._campaigns = window.campaigns
        self._groups = window.rows_of_groups(self._campaigns)
        self._recency = np.exp2(-window.ages / _HALF_LIFE)
        self._past = slice(0, -1) if trial and window.begun_before_newest else slice(None)
        if self._past.stop:
            self._recency[-1] = 0.0
        self._shape = self._started(memory)
        self._drifted = np.ones((len(self._campaigns), len(window.ages)))

    def run(self) -> Fitted:
        """The maps, and what there is to tell of them."""
        self._weigh()
        self._shape.fit()
        expected, observed = self._by_hour(
            [self._shape.curves(block) for block in self._shape.blocks]
        )
        past = self._past
        drift = hour_weights(expected[:, past], observed[:, past], self._window.ages[past])
        if (drift.weights < 1).any():
            self._drifted[:, past] = drift.weights
            self._weigh()
            self._shape.fit()
        return self._fitted(int(drift.jumped.sum()))

    def _started(self, memory: Memory | None) -> Shape:
        window = self._window
        knots = window.knots()
        coordinates = Coordinates.of(knots, window.mass(knots))
        earlier = memory or Memory.nothing(knots)
        starts = window.split(earlier.campaigns_in(coordinates, self._campaigns))
        groups = window.split(self._groups)
        blocks = [
            CampaignBlock(cells, coordinates, rows, start)
            for cells, rows, start in zip(window.blocks, groups, starts, strict=True)
        ]
        tree = Tree(
            coordinates,
            earlier.target_in(coordinates),
            earlier.groups_in(coordinates, window.groups),
        )
        return Shape(coordinates, tree, blocks, earlier.priors)

    def _weigh(self) -> None:
        recent = self._drifted * self._recency
        for block, each in zip(self._shape.blocks, self._window.split(recent), strict=True):
            block.weigh(each)

    def _by_hour(self, curves: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Positives expected and observed of all campaigns by hour, (c, h) each."""
        length = len(self._window.ages)
        parts = [
            block.cells.by_hour(block.probabilities(each))
            for block, each in zip(self._shape.blocks, curves, strict=True)
        ]
        expected, observed = (
            np.vstack([np.empty((0, length)), *found]) for found in _unzipped(parts)
        )
        return expected, observed

    def _fitted(self, jumps: int) -> Fitted:
        shape, window = self._shape, self._window
        curves = [served_curves(shape, block) for block in shape.blocks]
        target = served_target_curve(shape)
        expected, observed = self._by_hour(curves)
        served = _Served(shape, self._campaigns, np.vstack([target, *curves]))
        levels = self._levels(expected, observed, window.ages, slice(None))
        return Fitted(
            served.atlas(levels),
            self._tried(served, expected, observed) if self._trial else None,
            memory=Memory.of(shape, window.groups),
            notes=_notes(shape, levels, jumps, len(window.groups)),
        )

    def _tried(self, served: "_Served", expected: Floats, observed: Floats) -> Atlas:
        if not self._past.stop:
            return Atlas.empty()
        ages = self._window.ages
        before = ages[:-1] - 2 * ages[-1]
        return served.atlas(self._levels(expected, observed, before, slice(0, -1)))

    def _levels(self, expected: Floats, observed: Floats, ages: Floats, hours: slice) -> Levels:
        return fit_levels(
            expected[:, hours],
            observed[:, hours],
            ages,
            groups=self._groups if self._window.groups else None,
            weights=self._drifted[:, hours],
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Served:
    """Curves to serve, the target's first, (1 + c, k)."""

    shape: Shape
    campaigns: tuple[str, ...]
    curves: Floats

    def atlas(self, levels: Levels) -> Atlas:
        """Their maps at these levels, campaigns in order of their names."""
        order = sorted(range(len(self.campaigns)), key=self.campaigns.__getitem__)
        rows: Integers = np.array([0, *(place + 1 for place in order)], np.int64)
        shifts = np.concatenate(([levels.target_shift], levels.shifts))
        maps = ServedKnots(self.shape.coordinates.knots).maps(self.curves[rows], shifts[rows])
        names = CampaignRows([self.campaigns[place] for place in order])
        return Atlas(names, MapBlocks(maps.lengths, maps.knots, maps.values), True)


def _unzipped(pairs: Sequence[tuple[Floats, Floats]]) -> tuple[list[Floats], list[Floats]]:
    return [first for first, _ in pairs], [second for _, second in pairs]


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
    }
