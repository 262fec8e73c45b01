"""The guard: which map of a campaign is published, and how far it may move.

`guard.py` decides, and says which refits as a whole wait for an operator; `rules.py` has the
numbers, such as how far a map may move, and compares maps on the newest hour; `bounds.py` clamps
and simplifies. docs/guard.md explains them.
"""

from calibrators.guard.guard import Guarded, RefitChange, guard, mean_move
from calibrators.guard.rules import GuardRules

__all__ = ["GuardRules", "Guarded", "RefitChange", "guard", "mean_move"]
