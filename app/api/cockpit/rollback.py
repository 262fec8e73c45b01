"""A rollback: what serves, but for some targets or campaigns, which get the maps of an older
version; and which version is their last good one.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.api.snapshot import NO_VERSION, Pace, seconds_of_others
from app.storage.experiments import CHALLENGER_OF, with_entry, with_experiment, with_method
from app.storage.overrides import frozen_name
from app.storage.versions import Published
from calibrators import Atlas, CalibrationMap
from calibrators.arms import CHALLENGER
from calibrators.bins.model_versions import SEPARATOR, campaign_of, names_by_version


@dataclass(frozen=True, slots=True)
class Chosen:
    """Targets, or some campaigns of one."""

    targets: list[str]
    campaigns: list[str] | None = None

    @property
    def summary(self) -> dict[str, Any]:
        """The campaigns, for reports, where there are some."""
        return {} if self.campaigns is None else {"campaigns": self.campaigns}

    @property
    def names(self) -> list[str]:
        """As `FrozenTargets` names them."""
        if self.campaigns is None:
            return self.targets
        return [frozen_name(self.targets[0], campaign) for campaign in self.campaigns]

    def without_map(self, atlases: Mapping[str, Atlas]) -> list[str]:
        """The campaigns, if there are some, without a map of their own: new, or mistyped."""
        known = atlases[self.targets[0]].campaigns if self.targets[0] in atlases else ()
        return [campaign for campaign in self.campaigns or () if not _is_in(known, campaign)]

    def differ(self, one: Published, other: Published) -> bool:
        """Whether any of them is served otherwise in the one than in the other."""
        targets = [
            name for name in self.targets if one.atlases.get(name) != other.atlases.get(name)
        ]
        if self.campaigns is None or not targets:
            return bool(targets)
        ours, theirs = (_atlas(version, targets[0]) for version in (one, other))
        names = names_by_version((*ours.campaigns, *theirs.campaigns), self.campaigns)
        return _maps(ours, names) != _maps(theirs, names)


def _is_in(known: Sequence[str], campaign: str) -> bool:
    """Whether these names, which ascend, have the campaign, or one of its versions of the model."""
    places = [bisect_left(known, name) for name in (campaign, campaign + SEPARATOR)]
    return any(campaign in map(campaign_of, known[place : place + 1]) for place in places)


def _maps(atlas: Atlas, campaigns: Iterable[str]) -> dict[str, CalibrationMap]:
    """What serves them. Whose group's map that is no atlas says where fields do: of none then."""
    own = set(campaigns if atlas.group_field is None else atlas.campaigns)
    return {campaign: atlas.map_of(campaign) for campaign in campaigns if campaign in own}


def _atlas(version: Published, target: str) -> Atlas:
    data = version.atlases.get(target)
    pause = Pace(seconds_of_others)
    return Atlas.empty() if data is None else Atlas.from_bytes(data, pause=pause)


def rolled_back(present: Published, to: Published, chosen: Chosen) -> Published | None:
    """What serves, but for the maps that are chosen, which are those of the older version; of whole
    targets the methods, too, and experiments on them end. None where that is what serves already.

    It has seen what either has, so that hours are evaluated with it from the rollback on.
    """
    if chosen.campaigns is None:
        found = _with_targets(present, to, chosen.targets)
    else:
        found = with_campaigns(present, to, chosen.targets[0], chosen.campaigns)
    if found.atlases == present.atlases and _steering(found) == _steering(present):
        return None
    about = {"to": to.version, "targets": sorted(chosen.targets), **chosen.summary}
    as_of = max(present.as_of, to.as_of)
    return replace(found, report={**found.report, "rolled_back": about}, as_of=as_of)


def _with_targets(present: Published, to: Published, targets: Iterable[str]) -> Published:
    found, older = present, to.report.get("targets", {})
    for target in targets:
        found = with_experiment(found, target, None)
        atlases = with_entry(found.atlases, target, to.atlases.get(target))
        older_report = with_entry(older.get(target, {}), CHALLENGER, None)
        reports = with_entry(found.report.get("targets", {}), target, older_report)
        report = with_method(found.report, target, to.report.get("methods", {}).get(target))
        found = replace(found, atlases=atlases, report={**report, "targets": reports})
    return found


def with_campaigns(
    present: Published, to: Published, target: str, campaigns: Iterable[str]
) -> Published:
    """A version with the maps of another for these campaigns of the target, and so are those on
    trial, if there are any: a campaign that is switched off is so in every arm."""
    older, on_trial = _atlas(to, target), {CHALLENGER_OF(target)} & present.atlases.keys()
    found = {name: _atlas(present, name) for name in {target} | on_trial}
    known = [name for atlas in (older, *found.values()) for name in atlas.campaigns]
    names = names_by_version(known, campaigns)
    maps = _maps(older, names)
    changed = {name: atlas.with_own(maps, names).to_bytes() for name, atlas in found.items()}
    return replace(present, atlases={**present.atlases, **changed}, digests={})


def _steering(version: Published) -> list[Any]:
    return [version.report.get(name, {}) for name in ("experiments", "methods")]


def last_good(versions: Iterable[Published], chosen: Chosen) -> Published | None:
    """Of the version in force and those before it, newest first: the newest before whose maps of
    the chosen are others; None where there is none.

    What an operator has chosen is taken for good, so that sent twice it goes back once: maps that
    were rolled back away from never return. Raw scores are not: it is what they stand for that is
    gone back from.
    """
    replaced: Published | None = None
    for version in versions:
        if replaced is not None and chosen.differ(replaced, version):
            return version
        replaced = version
        back = version.report.get("rolled_back", {})
        if not set(chosen.targets).isdisjoint(back.get("targets", ())):
            if _covers(back, chosen) and back["to"] != NO_VERSION:
                return version
            replaced = None
    return None


def _covers(back: Mapping[str, Any], chosen: Chosen) -> bool:
    """Whether it was a rollback of all that is chosen."""
    campaigns = back.get("campaigns")
    whole = set(chosen.targets) <= set(back["targets"])
    return whole and (campaigns is None or set(chosen.campaigns or ("",)) <= set(campaigns))
