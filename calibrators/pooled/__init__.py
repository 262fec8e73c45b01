"""The pooled method: a hierarchical penalised logistic spline over all campaigns, from bins."""

from calibrators.pooled.method import Pooled

__all__ = ["Pooled"]
