"""Experiments, as a published version holds them: by target which maps are on trial beside those
that serve, and how traffic is split between them.

They are part of the version's report, and the maps on trial are one more atlas of it, so that maps
and split change together, in every process.
"""

from collections.abc import Mapping
from typing import Any, Final

from calibrators.arms import Split

Experiment = Mapping[str, Any]
"""challenger ({"method": name} or {"version": id}), salt, shares by arm, canary, since (epoch
seconds), state, reason (of an abort, else None) and watch."""

CHALLENGER_OF: Final = "{}:challenger".format
"""How a version names the maps on trial of a target, and the worker their bins; no target has a
colon."""

RUNNING, ABORTED = "running", "aborted"


def experiments_of(report: Mapping[str, Any]) -> Mapping[str, Experiment]:
    """Those of a version's report, by target; it has none where nothing is on trial."""
    found: Mapping[str, Experiment] = report.get("experiments", {})
    return found


def split_of(experiment: Experiment, before: Split | None = None) -> Split | None:
    """How an experiment splits traffic: not at all where it is aborted, or no arm has a share. One
    that is that of `before` is not made again. Raises ValueError on shares that are none."""
    salt, shares = experiment["salt"], experiment["shares"]
    if experiment["state"] != RUNNING or not any(shares.values()):
        return None
    if before is not None and (before.salt, before.shares) == (salt, shares):
        return before
    return Split(salt, shares)
