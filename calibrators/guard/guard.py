"""The guard: which map of a campaign is published, and of the target, and how far it may move.

And `RefitChange`: whether a refit as a whole is what refits are, or waits for an operator.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import log
from typing import Final

import numpy as np

from calibrators.bins.model_versions import SEPARATOR, by_version, named, parted
from calibrators.bins.table import BinsTable, TablesByField
from calibrators.fields.effects import FieldEffects
from calibrators.guard.bounds import (
    Bounds,
    GatheredMaps,
    Moved,
    Reach,
    bounded,
    campaigns_changed,
    materially_changed,
)
from calibrators.guard.rules import (
    Decision,
    Evidence,
    GuardRules,
    NewestHour,
    TargetTest,
    campaign_decisions,
    decisions_of,
    effects_are_worse,
    forecast,
)
from calibrators.maps.atlas import Atlas
from calibrators.maps.calibration_map import CalibrationMap, MapColumns
from calibrators.maps.groups import GroupMaps
from calibrators.samples import MANY, Scratch


class Choice:
    """For each campaign that has a map or had one, in order of names: the map chosen, whether it
    goes out as its own or is the group's or the parent's, (c,), and the row of the atlas in force
    that served it, (c,); and the groups' maps that go out."""

    def __init__(
        self,
        candidate: Atlas,
        in_force: Atlas,
        refused: Mapping[str, Decision],
        parent: CalibrationMap,
        groups: GroupMaps | None,
    ) -> None:
        """By the decisions: candidate, map in force or parent's, which are tested; a campaign that
        has neither of the first two is left to its group."""
        self.groups = groups
        self.campaigns = tuple(sorted({*candidate.campaigns, *in_force.campaigns}))
        decisions = np.array([refused.get(name, "passed") for name in self.campaigns], np.str_)
        kept, to_parent = decisions == "kept", decisions == "parent"
        offered = np.where(to_parent, 0, candidate.own_rows(self.campaigns))
        rows = np.where(kept, in_force.own_rows(self.campaigns), offered)
        # Row 0 is the parent that goes out, and behind it stand the groups.
        shared = Atlas.of_columns((), MapColumns.of_maps([parent]), True, groups)
        above = shared.rows(self.campaigns)
        numbers = np.where(rows > 0, rows, np.where(to_parent, 0, above))
        of_maps = np.where(rows > 0, 1 + kept, 0)
        sources = shared.columns, candidate.columns, in_force.columns
        # Left to itself, what the parent is to serve would be served by its group.
        self.own = (rows > 0) | (to_parent & (above > 0))
        self.maps = GatheredMaps(sources, of_maps, numbers)
        self.served = in_force.rows(self.campaigns)

    def changed(self, hour: NewestHour, moved: Moved) -> set[str]:
        """Of the campaigns whose maps were moved, those to which that makes a difference."""
        names = [self.campaigns[place] for place in moved.numbers.tolist()]
        return campaigns_changed(hour, names, self.maps.taken(moved.numbers), moved.maps)

    def atlas(self, moved: Moved, target_map: CalibrationMap | None) -> Atlas:
        """The atlas of the chosen maps, those that had to be moved in place of what they were."""
        held = self.own.copy()
        held[moved.numbers] = True
        first = MapColumns.of_maps([target_map or CalibrationMap.identity()])
        every = moved.laid_on(self.maps.taken, len(held))
        scratch = Scratch(len(held) >= MANY)
        columns = MapColumns.end_to_end((first, every.taken(np.flatnonzero(held))), scratch)
        names = tuple(compress(self.campaigns, held.tolist()))
        return Atlas.of_columns(names, columns, target_map is not None, self.groups)


class TargetMap:
    """The decision on it, the map chosen by that, and what goes out; None is the identity."""

    def __init__(
        self, hour: NewestHour, candidate: Atlas, trial: Atlas, in_force: Atlas, rules: GuardRules
    ) -> None:
        """Tested on the hour, and moved into its bounds."""
        self.decision = _target_decision(hour, candidate, trial, in_force, rules)
        source = candidate if self.decision == "passed" else in_force
        self.groups = source.groups
        self.chosen = None if self.decision == "parent" else source.target_map
        maps = MapColumns.of_maps([self.chosen or CalibrationMap.identity()])
        bounds = Bounds(in_force, np.zeros(1, np.int64), rules.step)
        moved = bounded(maps, bounds, rules.knots).maps
        self.map = CalibrationMap(moved.knots, moved.values) if len(moved) else self.chosen

    @property
    def serving(self) -> CalibrationMap:
        """What goes out, the identity included."""
        return self.map or CalibrationMap.identity()

    @property
    def moved(self) -> bool:
        """Whether it had to be moved."""
        return self.map is not self.chosen

    def reported(self, hour: NewestHour) -> str:
        """The decision, or "bounded" where a candidate was moved at a score of the hour."""
        if self.decision != "passed" or not self.moved:
            return self.decision
        chosen = self.chosen or CalibrationMap.identity()
        scores, _, weights = hour.total.samples()
        rows = np.zeros(len(scores), np.int64)
        changed = materially_changed(chosen(scores), self.serving(scores), weights, rows, 1)
        return "bounded" if changed.any() else "passed"


def _bounded_groups(
    target: TargetMap, in_force: Atlas, rules: GuardRules, reach: Reach
) -> GroupMaps | None:
    """The groups' maps, moved into the bounds around what served their new campaigns so far; of a
    group that is no more the target's map, until it has arrived there."""
    groups, before = target.groups, in_force.groups
    if groups is None:
        return None
    present = {*groups.names}
    gone = [name for name in (before.names if before else ()) if name not in present]
    names = (*groups.names, *gone)
    offered = (groups.maps, MapColumns.of_maps([target.serving] * len(gone)))
    maps = MapColumns.end_to_end(offered)
    served = in_force.rows_of_groups(names)
    moved = bounded(maps, Bounds(in_force, served, rules.step, reach), rules.knots)
    stay = [*range(len(groups.names)), *moved.numbers[moved.numbers >= len(groups.names)].tolist()]
    both = moved.laid_on(maps.taken, len(names)).taken(np.array(stay, np.int64))
    return GroupMaps(groups.group_of, tuple(names[place] for place in stay), both)


def shared(atlas: Atlas) -> CalibrationMap:
    """What serves campaigns without a map of their own."""
    return atlas.target_map or CalibrationMap.identity()


def _target_decision(
    hour: NewestHour, candidate: Atlas, trial: Atlas, in_force: Atlas, rules: GuardRules
) -> Decision:
    test = TargetTest(hour, rules)
    tried, served, identity = shared(trial), shared(in_force), CalibrationMap.identity()
    decision: Decision = decisions_of(
        np.array([test.beats(served, tried)]),
        np.array([test.beats(identity, tried)]),
        np.array([test.beats(identity, served)]),
    )[0].item()
    if decision == "passed" and test.suits_few(shared(candidate), served):
        return "kept"
    return decision


_RULES: Final = GuardRules()


@dataclass(frozen=True, slots=True, eq=False)
class Guarded:
    """What goes out.

    atlas : the maps to publish.
    decisions : campaigns that did not get their candidate as it was: "kept" (the map in force
        stays), "parent" (the target's map serves), "bounded" (the candidate, moved less).
    target_decision : the same of the target's own map, or "passed"; its parent is the identity.
    counts : campaigns by decision, all four named; "passed" are the candidates that went out.
    """

    atlas: Atlas
    decisions: Mapping[str, str]
    target_decision: str
    counts: Mapping[str, int]


def guard(
    candidate: Atlas,
    trial: Atlas,
    in_force: Atlas | None,
    newest: Iterable[BinsTable],
    rules: GuardRules = _RULES,
    fields: TablesByField | None = None,
    set_aside: Collection[str] = frozenset(),
) -> Guarded:
    """Choose between candidate, map in force and parent's, by the newest hour, and bound the step.

    A candidate goes out unless its trial, which has not seen the hour, is beaten on it beyond
    noise: by the map in force, which then stays, or by the target's map, which serves in its
    place where it beats the map in force too. One map beats another when its likelihood is
    1 / false_alarms times that of the other at the best level within the tolerance (universal
    inference: Wasserman, Ramdas and Balakrishnan, 2020). Whatever goes out stays in its bounds.

    The effects of fields go out or stay together, by the same test on the positives by value; each
    stays within the step of what it was.

    Parameters: candidate; trial, what would be the candidate without the newest hour; in_force,
    or None when nothing was ever published: then everything passes; newest, the bins of the hour
    in blocks, no campaign in two of them; rules; fields, the hour's tables by field; set_aside,
    campaigns whose hour the candidate has left out: their maps are not tested on it, nor others.

    Of several versions of the model each is looked at by itself: its maps by its impressions, and
    its map for new campaigns in the place of the target's.
    """
    if in_force is None:
        return _guarded(candidate, candidate, {}, "passed")
    names = (*candidate.campaigns, *in_force.campaigns)
    if SEPARATOR not in "".join(names):
        return _guard_version(candidate, trial, in_force, newest, rules, fields, set_aside)
    parts = [by_version(table) for table in newest]
    found = {}
    # A version that the window has no more gets what serves impressions without one, at once.
    for version in {None: None} | dict.fromkeys(parted(name)[1] for name in candidate.campaigns):
        ours, tried, served = (_of_version(each, version) for each in (candidate, trial, in_force))
        own = [part[version] for part in parts if version in part]
        found[version] = _guard_version(ours, tried, served, own, rules, fields, set_aside)
    return _of_all_versions(found)


def _guard_version(
    candidate: Atlas,
    trial: Atlas,
    in_force: Atlas,
    newest: Iterable[BinsTable],
    rules: GuardRules,
    fields: TablesByField | None,
    set_aside: Collection[str],
) -> Guarded:
    hour = NewestHour(newest, fields)
    tested = hour.leaving_out(set_aside)
    effects, tried = _effects(hour, candidate, trial, in_force, rules)
    candidate, trial = candidate.with_effects(effects), trial.with_effects(tried)
    target = TargetMap(tested, candidate, trial, in_force, rules)
    tried_parent = shared(trial) if target.decision == "passed" else target.serving
    refused = campaign_decisions(tested, trial, in_force, tried_parent, rules)
    reach = Reach(target.serving, rules.reach)
    groups = _bounded_groups(target, in_force, rules, reach)
    choice = Choice(candidate, in_force, refused, target.serving, groups)
    moved = bounded(choice.maps, Bounds(in_force, choice.served, rules.step, reach), rules.knots)
    decisions: dict[str, str] = dict.fromkeys(choice.changed(hour, moved), "bounded")
    decisions |= {name: refused[name] for name in choice.campaigns if name in refused}
    changed = target.decision != "passed" or target.moved or refused or moved.numbers.size
    # Of groups it costs little to put the same maps together again.
    atlas = choice.atlas(moved, target.map) if changed or groups else candidate
    atlas = atlas.with_effects(effects)
    return _guarded(candidate, atlas, decisions, target.reported(hour))


def _of_version(atlas: Atlas, version: str | None) -> Atlas:
    """What serves a version, under the campaigns' own names, with what new campaigns get as the
    target's map; of one that the atlas does not know, what serves impressions without one."""
    parts = [*map(parted, atlas.campaigns)]
    is_known = version is None or any(each == version for _, each in parts)
    names = [name for name, each in parts if name and each == (version if is_known else None)]
    rows = atlas.rows([named(name, version) for name in names])
    first = atlas.own_rows([named("", version)]) if version is not None else np.zeros(1, np.int64)
    maps = atlas.columns(np.concatenate((first, rows)))
    groups = atlas.groups if version is None else None
    has_target_map = atlas.target_map is not None or bool(first[0])
    return Atlas.of_columns(names, maps, has_target_map, groups).with_effects(atlas.effects)


def _of_all_versions(found: Mapping[str | None, Guarded]) -> Guarded:
    """One atlas, and one account of what was decided, of all versions."""
    main, counts = found[None], Counter[str]()
    decisions: dict[str, str] = {}
    maps: dict[str, CalibrationMap] = {}
    for version, guarded in found.items():
        atlas = guarded.atlas
        decisions |= {named(name, version): what for name, what in guarded.decisions.items()}
        counts.update(guarded.counts)
        if version is not None:
            maps[named("", version)] = shared(atlas)
            maps |= {named(name, version): atlas.map_of(name) for name in atlas.campaigns}
    return Guarded(main.atlas.with_own(maps), decisions, main.target_decision, dict(counts))


def _effects(
    hour: NewestHour, candidate: Atlas, trial: Atlas, in_force: Atlas, rules: GuardRules
) -> tuple[FieldEffects | None, FieldEffects | None]:
    """Those that go out, and those that the trial is tested with."""
    if effects_are_worse(hour, trial.effects, in_force.effects, rules):
        return in_force.effects, in_force.effects
    found, before = candidate.effects, in_force.effects
    if found is None and before is not None:
        found = FieldEffects.none(before.fields)
    out = None if found is None else found.stepped(before, rules.step)
    return None if out is None or out.is_none else out, trial.effects


def _guarded(
    candidate: Atlas, atlas: Atlas, decisions: Mapping[str, str], target_decision: str
) -> Guarded:
    held = Counter(decisions.values())
    passed = sum(name not in decisions for name in candidate.campaigns)
    counts = {"passed": passed, **{name: held[name] for name in ("kept", "parent", "bounded")}}
    return Guarded(atlas, decisions, target_decision, counts)


NO_MAPS: Final = "no-maps"
CAMPAIGNS_LOST: Final = "campaigns-lost"
MOVED_FAR: Final = "moved-far"

MOVES_KEPT: Final = 24
"""So many accepted moves are what "ever before" means: a day of hourly refits."""


_MOST_LOST, _FEWEST_CAMPAIGNS = 0.5, 4
"""Share of the campaigns with maps of their own that may lose theirs at once, of their number or of
their traffic; of fewer campaigns it says nothing. docs/guard.md says how all these were chosen."""

_LEAST_MOVE, _MOST_TIMES, _FEWEST_MOVES = log(2.0), 5.0, 3
"""Mean move in log-odds that is never too far, and how many times the largest move kept a move may
be; with fewer moves kept none is too far."""


@dataclass(frozen=True, slots=True)
class RefitChange:
    """What a refit changes of a target.

    in_force : the maps that serve.
    candidate : those that the refit fitted.
    move : `mean_move` of what would go out; None where there was no traffic to tell.
    moves : of the refits accepted before.
    traffic : impressions of the largest campaigns, by name, that the maps in force learnt from.
    """

    in_force: Atlas
    candidate: Atlas
    move: float | None
    moves: Sequence[float]
    traffic: Mapping[str, float]

    def held_because(self) -> str | None:
        """Why the maps wait for approval; None where they may go out. What follows on nothing,
        such as the first maps of all, always may."""
        if not _has_maps(self.in_force):
            return None
        if not _has_maps(self.candidate):
            return NO_MAPS
        if self._loses_most():
            return CAMPAIGNS_LOST
        return MOVED_FAR if self._moves_far() else None

    def _loses_most(self) -> bool:
        """By number, so that one large campaign may end; and by traffic, so that many small ones
        may fall below what a map of their own needs."""
        served = self.in_force.campaigns
        lost = set(served).difference(self.candidate.campaigns)
        if len(served) < _FEWEST_CAMPAIGNS or len(lost) <= _MOST_LOST * len(served):
            return False
        known = {name: n for name, n in self.traffic.items() if name in set(served)}
        return _sum_of(known, lost) > _MOST_LOST * _sum_of(known, known) or not known

    def _moves_far(self) -> bool:
        if self.move is None or len(self.moves) < _FEWEST_MOVES:
            return False
        return self.move > max(_LEAST_MOVE, _MOST_TIMES * max(self.moves))

    @property
    def accepted(self) -> list[float]:
        """The moves to keep once the maps are in force."""
        new = [self.move] if self.move is not None and _has_maps(self.in_force) else []
        return [*self.moves, *new][-MOVES_KEPT:]


def _has_maps(atlas: Atlas) -> bool:
    """Whether it serves anything but the identity."""
    return bool(len(atlas)) or atlas.target_map is not None


def mean_move(tables: Iterable[BinsTable], before: Atlas, after: Atlas) -> float | None:
    """By how much what serves the impressions of these bins moves from one atlas to the other: the
    mean of |difference in log-odds|; None without impressions. Tables are taken one by one."""
    moved = weight = 0.0
    for table in tables:
        evidence = Evidence.of_table(table)
        odds = [forecast(evidence, table, atlas) for atlas in (before, after)]
        moved += float(evidence.weights @ np.abs(odds[1] - odds[0]))
        weight += float(evidence.weights.sum())
    return moved / weight if weight > 0.0 else None


def _sum_of(traffic: Mapping[str, float], campaigns: Collection[str]) -> float:
    return sum(traffic.get(name, 0.0) for name in campaigns)
