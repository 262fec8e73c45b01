"""Which cuts a log is measured by, and what the metrics of the whole log need of them."""

from collections.abc import Mapping
from dataclasses import dataclass

OVERALL = "overall"


@dataclass(frozen=True, slots=True)
class LogCuts:
    """The cuts of a log and their numbers of slices.

    Attributes
    ----------
    sizes : the number of slices of each cut; `OVERALL`, with one slice, is always there.
    campaigns : the cut that GC-N averages over, or None.
    groups : the cut that GAUC and gcsAUC average over, or None.
    mainline : the cut whose only slice is the mainline, or None.
    """

    sizes: Mapping[str, int]
    campaigns: str | None = None
    groups: str | None = None
    mainline: str | None = None
