"""Targets in paths and parameters."""

from app.api.problems import Problem, not_found
from app.api.resources import Resources
from app.strict_json import show


def known_target(resources: Resources, target: str) -> str:
    """The target; a 404 problem that lists the known ones if it is not among them."""
    known = resources.settings.known_targets
    if target not in known:
        raise _unknown(target, known)
    return target


def _unknown(target: str, known: tuple[str, ...]) -> Problem:
    return not_found(f"target = {show(target)}: unknown target; known are {', '.join(known)}")
