"""Small traffic for the tests of the pooled method: hours of bins, and shapes to fit."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import expit

from calibrators import BinsTable, History
from calibrators.pooled.cells import CampaignBlock
from calibrators.pooled.fit import Shape
from calibrators.pooled.hierarchy import Priors, Tree
from calibrators.pooled.spline import Coordinates
from calibrators.pooled.window import Window
from calibrators.samples import Floats

NEWEST = 100


def table(
    campaigns: Sequence[str],
    rows: Sequence[int] | np.ndarray,
    scores: Sequence[float] | Floats,
    counts: Sequence[float] | Floats,
    positives: Sequence[float] | Floats,
) -> BinsTable:
    """Bins of cells given as columns."""
    columns = (np.asarray(column, np.float64) for column in (scores, counts, positives))
    return BinsTable.from_columns(campaigns, np.asarray(rows, np.int64), *columns)


def drawn_hours(
    levels: Sequence[float],
    impressions: Sequence[int],
    *,
    slopes: Sequence[float] | None = None,
    hours: int = 24,
    seed: int = 0,
    centre: float = -3.0,
) -> dict[int, BinsTable]:
    """Campaigns a0, a1, ... whose true log-odds are score's + level + slope * (score's - centre);
    the last hour is the newest, each campaign has so many impressions in each."""
    rng = np.random.default_rng(seed)
    names = [f"a{number:04d}" for number in range(len(levels))]
    rows = np.repeat(np.arange(len(levels)), impressions)
    tilted = np.zeros(len(levels)) if slopes is None else np.asarray(slopes)
    found = {}
    for hour in range(NEWEST - hours + 1, NEWEST + 1):
        z = rng.normal(centre, 0.8, len(rows))
        truth = expit(z + np.asarray(levels)[rows] + tilted[rows] * (z - centre))
        clicks = rng.random(len(rows)) < truth
        found[hour] = table(names, rows, expit(z), np.ones(len(rows)), clicks)
    return found


def history(*blocks: dict[int, BinsTable]) -> History:
    """The history of these blocks at the end of the newest hour."""
    return History(NEWEST + 1.0, blocks)


def shape_of(past: History, groups: Callable[[str], str | None], priors: Priors) -> Shape:
    """A shape at its start: no deviation anywhere, every hour weighs 1."""
    window = Window.of(past, 24, groups)
    knots = window.knots()
    coordinates = Coordinates.of(knots, window.mass(knots))
    blocks = [
        CampaignBlock(
            cells,
            coordinates,
            window.rows_of_groups(cells.campaigns),
            np.zeros((len(cells), knots.count)),
            np.ones(cells.hours.shape),
        )
        for cells in window.blocks
    ]
    tree = Tree(coordinates, np.zeros(knots.count), np.zeros((len(window.groups), knots.count)))
    return Shape(coordinates, tree, blocks, priors)
