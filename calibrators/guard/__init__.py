"""The guard: which map of a campaign is published, and how far it may move."""

from calibrators.guard.guard import Guarded, guard
from calibrators.guard.rules import GuardRules

__all__ = ["GuardRules", "Guarded", "guard"]
