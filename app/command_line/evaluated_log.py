"""What `sirocco evaluate` found out about a log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from evaluation.compact import CutMetrics, LogMetrics
from evaluation.compact.slice_losses import pcoc_interval

Floats = NDArray[np.float64]
CHANCE = 0.05
"""Share of the intervals that do not hold the truth."""


@dataclass(frozen=True, eq=False)
class SliceTable:
    """The slices of one cut and their metrics.

    Attributes
    ----------
    names : of the slices, in order.
    columns : metrics by their JSON names, (slices,) each, nan where undefined.
    metrics : those of the cut as a whole.
    """

    names: Sequence[str]
    columns: Mapping[str, Floats]
    metrics: CutMetrics

    @classmethod
    def of(cls, names: Sequence[str], metrics: CutMetrics) -> "SliceTable":
        """The slices of a cut, by name."""
        order = sorted(range(len(names)), key=names.__getitem__)
        columns = {name: column[order] for name, column in metrics.columns.items()}
        return cls([names[i] for i in order], columns, metrics)

    def __len__(self) -> int:
        return len(self.names)

    def row(self, i: int) -> dict[str, float]:
        """The metrics of one slice."""
        return {name: float(column[i]) for name, column in self.columns.items()}

    @cached_property
    def beyond_chance(self) -> Floats:
        """How far the interval of PCOC is from 1, in logarithms, (slices,); 0 where it holds 1."""
        lower, upper = self.columns["pcoc_lower"], self.columns["pcoc_upper"]
        with np.errstate(divide="ignore", invalid="ignore"):
            too_high, too_low = np.log(np.maximum(lower, 1.0)), -np.log(np.minimum(upper, 1.0))
        return np.nan_to_num(np.maximum(too_high, too_low))

    @property
    def worst_first(self) -> list[int]:
        """The slices that chance explains least first; among others the largest first."""
        order: list[int] = np.lexsort((-self.columns["n"], -self.beyond_chance)).tolist()
        return order

    @property
    def off(self) -> int:
        """How many slices have a PCOC that chance does not explain."""
        return int(np.count_nonzero(self.beyond_chance))

    @property
    def off_by_chance(self) -> float:
        """How many would seem so if all were right: the intervals leave out so many."""
        return CHANCE * len(self)

    @property
    def more_than_chance(self) -> bool:
        """Whether more are off than chance explains, or one by more than it explains for any."""
        n, positives, expected = (self.columns[name] for name in ("n", "positives", "expected"))
        lower, upper = pcoc_interval(n, positives, expected, 1.0 - CHANCE / len(self))
        one_is = bool(((lower > 1.0) | (upper < 1.0)).any())
        return one_is or (self.off > 0 and bool(bdtrc(self.off - 1, len(self), CHANCE) < CHANCE))


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedLog:
    """A log and all its metrics.

    Attributes
    ----------
    name : of the file.
    metrics : of all rows and of all cuts.
    campaigns, hours : None where the log has no such column.
    by : the slices of further columns.
    campaign_numbers : the campaigns as `metrics` numbers them; one without a name where the log
        has no such column.
    epoch_hours : hours since 1970, in the order of `hours`.
    group : what GAUC and gcsAUC average over; None where the log has no such column.
    notes : what is undefined or left out, and why.
    """

    name: str
    metrics: LogMetrics
    campaigns: SliceTable | None
    hours: SliceTable | None
    by: Mapping[str, SliceTable]
    campaign_numbers: Sequence[str]
    epoch_hours: Sequence[int]
    group: str | None
    notes: Sequence[str]

    @property
    def overall(self) -> Mapping[str, float]:
        """Metrics of all rows, by their JSON names; nan where undefined."""
        return self.metrics.overall

    @property
    def fewest_cells(self) -> float | None:
        """Score cells of an octave in the coarsest cut; None where all scores are exact."""
        cells = [cut.cells_per_octave for cut in self.metrics.cuts.values()]
        return min((count for count in cells if count is not None), default=None)
