"""Experiments, as a published version holds them: by target which maps are on trial beside those
that serve, and how traffic is split between them.

They are part of the version's report, and the maps on trial are one more atlas of it, so that maps
and split change together, in every process.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from app.storage.versions import Published
from calibrators.arms import CHALLENGER, Split

Experiment = Mapping[str, Any]
"""challenger ({"method": name}, {"version": id}, or {} of a holdout), salt, shares by arm, canary,
since and split_at (epoch seconds: when it began, and when units last changed their arms), state,
reason (of an abort, else None), aborted_at (from then on everybody is the champion's) and watch."""

CHALLENGER_OF: Final = "{}:challenger".format
"""How a version names the maps on trial of a target, and the worker their bins; no target has a
colon. In the report of a target CHALLENGER is the part about them."""

RUNNING, ABORTED = "running", "aborted"


def experiments_of(report: Mapping[str, Any]) -> Mapping[str, Experiment]:
    """Those of a version's report, by target; it has none where nothing is on trial."""
    found: Mapping[str, Experiment] = report.get("experiments", {})
    return found


def split_of(experiment: Experiment, before: Split | None = None) -> Split | None:
    """How an experiment splits traffic: not at all where it is aborted, or no arm has a share. One
    that is that of `before` is not made again. Raises ValueError on what is no experiment."""
    try:
        state, salt, shares = (experiment[name] for name in ("state", "salt", "shares"))
    except KeyError as error:
        raise ValueError(f"an experiment has no {error}") from None
    if state != RUNNING or not any(shares.values()):
        return None
    if before is not None and (before.salt, before.shares) == (salt, shares):
        return before
    return Split(salt, shares)


def with_entry(found: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """A copy with this value under the name; without the name where there is nothing to say."""
    left = {key: one for key, one in found.items() if key != name}
    return {**left, name: value} if value else left


def with_experiment(
    present: Published,
    target: str,
    experiment: Experiment | None,
    on_trial: bytes | None = None,
    trial: Mapping[str, Any] | None = None,
) -> Published:
    """The version with this experiment on the target, in the place of any other: the maps on trial
    and the report on them, as far as there are any. Without an experiment for None."""
    experiments = with_entry(experiments_of(present.report), target, experiment)
    targets = present.report.get("targets", {})
    told = with_entry(targets.get(target, {}), CHALLENGER, trial)
    report = with_entry(present.report, "targets", with_entry(targets, target, told))
    return replace(
        present,
        atlases=with_entry(present.atlases, CHALLENGER_OF(target), on_trial),
        report=with_entry(report, "experiments", experiments),
        digests={},
    )


def with_method(report: Mapping[str, Any], target: str, method: str | None) -> dict[str, Any]:
    """The report with a promoted method of the target; with that of the settings for None."""
    return with_entry(report, "methods", with_entry(report.get("methods", {}), target, method))
