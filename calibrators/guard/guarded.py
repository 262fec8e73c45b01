"""The guard: which map of a campaign is published."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from calibrators.atlas import Atlas
from calibrators.bins_table import BinsTable
from calibrators.guard.bounding import bounded
from calibrators.guard.bounds import Bounds, Reach
from calibrators.guard.choice import Choice
from calibrators.guard.newest_hour import NewestHour
from calibrators.guard.rules import GuardRules
from calibrators.guard.target import TargetMap, shared
from calibrators.guard.verdict import campaign_verdicts

_RULES: Final = GuardRules()


@dataclass(frozen=True, slots=True, eq=False)
class Guarded:
    """What goes out.

    Attributes
    ----------
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
) -> Guarded:
    """Choose between candidate, map in force and parent's, by the newest hour, and bound the step.

    A candidate goes out unless its trial, which has not seen the hour, is beaten on it beyond
    noise: by the map in force, which then stays, or by the target's map, which serves in its
    place where it beats the map in force too. One map beats another when its likelihood is
    1 / false_alarms times that of the other at the best level within the tolerance (universal
    inference: Wasserman, Ramdas and Balakrishnan, 2020). Whatever goes out stays in its bounds.

    Parameters: candidate; trial, what would be the candidate without the newest hour; in_force,
    or None when nothing was ever published: then everything passes; newest, the bins of the hour
    in blocks, no campaign in two of them; rules.
    """
    if in_force is None:
        return _guarded(candidate, candidate, {}, "passed")
    hour = NewestHour.of(newest)
    target = TargetMap.of(hour, candidate, trial, in_force, rules)
    judged_parent = shared(trial) if target.verdict == "passed" else target.serving
    refused = campaign_verdicts(hour, trial, in_force, judged_parent, rules)
    choice = Choice.of(candidate, in_force, refused, target.serving)
    reach = Reach.around(target.serving, rules.reach)
    moved = bounded(choice.maps, Bounds(in_force, choice.served, rules.step, reach), rules.knots)
    decisions: dict[str, str] = dict.fromkeys(choice.felt(hour, moved), "bounded")
    decisions |= {name: refused[name] for name in choice.campaigns if name in refused}
    changed = target.verdict != "passed" or target.moved or refused or moved.numbers.size
    atlas = choice.atlas(moved, target.map) if changed else candidate
    return _guarded(candidate, atlas, decisions, target.decision(hour))


def _guarded(
    candidate: Atlas, atlas: Atlas, decisions: Mapping[str, str], target_decision: str
) -> Guarded:
    held = Counter(decisions.values())
    passed = sum(name not in decisions for name in candidate.campaigns)
    counts = {"passed": passed, **{name: held[name] for name in ("kept", "parent", "bounded")}}
    return Guarded(atlas, decisions, target_decision, counts)
