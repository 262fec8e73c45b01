"""The pooled method: a hierarchical penalised logistic spline over all campaigns, from bins.

`method.py` is the method. `fit.py` fits the shape, and steps of the target's curve, on the knots of
`spline.py`, with priors and the parents of `hierarchy.py`, from the `cells.py` of a `window.py`,
which also has what is remembered of the last refit; `families.py` finds groups where none are
named. `levels.py` follows levels: `state_space.py` filters them, `change_points.py` and
`outliers.py` weigh hours. `score_shifts.py` finds that another model scores, and `pushes.py`
carries the history over to its scores. `serving.py` makes the maps and says how sure they are.
docs/pooled.md has the formulas.
"""

from calibrators.pooled.method import Pooled

__all__ = ["Pooled"]
