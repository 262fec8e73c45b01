"""The guard's verdicts by loops over cells and campaigns, in plain Python."""

from math import exp, log

from calibrators import Atlas, BinsTable
from calibrators.guard import GuardRules

Cells = list[tuple[float, float, float]]
"""Score, outcome and weight of each cell."""


def cells_of(hour: list[BinsTable]) -> dict[str, Cells]:
    """By campaign."""
    return {
        name: list(zip(*(column.tolist() for column in bins.samples()), strict=True))
        for table in hour
        for name, bins in table
    }


def verdict(cells: Cells, trial: Atlas, in_force: Atlas, parent: Atlas, name: str) -> str:
    """Of one campaign, by the rules as they are when nobody sets them."""
    tried, served, shared = (
        [_log_odds(atlas.at(name, score)) for score, _, _ in cells]
        for atlas in (trial, in_force, parent)
    )
    rules = GuardRules()
    if _beats(shared, tried, cells, rules) and _beats(shared, served, cells, rules):
        return "parent"
    if _beats(served, tried, cells, rules) or _beats(shared, tried, cells, rules):
        return "kept"
    return "passed"


def _beats(better: list[float], worse: list[float], cells: Cells, rules: GuardRules) -> bool:
    return _likelihood(better, cells) - _best(worse, cells, rules.tolerance) >= rules.evidence


def _best(log_odds: list[float], cells: Cells, tolerance: float) -> float:
    """By halving the interval: the slope of the likelihood falls."""
    low, high = -tolerance, tolerance
    for _ in range(60):
        middle = (low + high) / 2
        slope = sum(
            weight * (outcome - 1 / (1 + exp(-(each + middle))))
            for each, (_, outcome, weight) in zip(log_odds, cells, strict=True)
        )
        low, high = (middle, high) if slope > 0 else (low, middle)
    return _likelihood([each + (low + high) / 2 for each in log_odds], cells)


def _likelihood(log_odds: list[float], cells: Cells) -> float:
    return sum(
        weight * (outcome * -log(1 + exp(-each)) + (1 - outcome) * -log(1 + exp(each)))
        for each, (_, outcome, weight) in zip(log_odds, cells, strict=True)
    )


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, 1e-9), 1 - 1e-9)
    return log(clipped / (1 - clipped))
