"""The methods of the leaderboard by name: the service's own as they are served, their rivals, and
SIR to the letter of its paper.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from types import MappingProxyType
from typing import Final

import numpy as np

from calibrators.bins.codecs import SCALE
from calibrators.bins.table import BinsTable, History
from calibrators.maps.calibration_map import Tails
from calibrators.methods.refit import BegunRefit, Fitted, PerCampaign, Sufficiency
from calibrators.methods.smoothed_isotonic import SmoothedIsotonic
from calibrators.pooled import Pooled
from calibrators.registry import make_calibrator
from calibrators.samples import Integers
from research.leaderboard.boosted_maps import BoostedMaps
from research.leaderboard.mcgrad_maps import McGradMaps
from research.leaderboard.method import LeaderboardMethod, Predictor, ServiceMethod

BIN_SIZE: Final = 1000


@dataclass(slots=True)
class RefitInterval:
    """A method that is refitted every `hours_between` hours and predicts by what it learnt last."""

    method: LeaderboardMethod
    hours_between: float
    _predictor: Predictor | None = None
    _refitted_at: float = -np.inf

    @property
    def name(self) -> str:
        """The method's."""
        return self.method.name

    @property
    def note(self) -> str:
        """See `LeaderboardMethod`."""
        mine = f"refitted every {self.hours_between:g} h only, because it takes so long"
        return f"{mine}; {self.method.note}" if self.method.note else mine

    def refit(self, history: History, campaigns: tuple[str, ...], /) -> Predictor:
        """See `LeaderboardMethod`."""
        if self._predictor is None or history.as_of >= self._refitted_at + self.hours_between:
            self._predictor = self.method.refit(history, campaigns)
            self._refitted_at = history.as_of
        return self._predictor


@dataclass(frozen=True, slots=True)
class PublishedSir:
    """Algorithm 1 on each campaign's own window, the identity where it gives no map.

    Source: Deng et al., Calibrating User Response Predictions in Online Advertising, section 5.1.
    floor(N / n) bins of exactly n samples; the rest, which are the largest scores, is dropped; bins
    are anchored at the middle of their range; no prior, no parent. Gaps closed: the loop of the
    pooling stops at an empty list, and beyond the outermost anchors, where the paper defines
    nothing, `tails` hold: lines to (0, 0) and (1, 1), the best for it of the four on thin traffic
    by far, and within a tenth of the best elsewhere.
    From bins, not samples: a cell that a cut falls into, .8 % wide at most, is split in proportion.

    Parameters: bin_size, n; hours of the window; tails, see
    `calibrators.maps.calibration_map.Tails`.
    """

    bin_size: int = BIN_SIZE
    hours: int = 24
    tails: Tails = "unit"
    name: str = field(default="sir_published", init=False)

    def refit(self, history: History, *, memory: object = None, trial: bool = False) -> Fitted:
        """See `Method`; the trial is the refit of an hour before."""
        behind = ceil(history.as_of)
        before = self._of(history, behind - 1).atlas if trial else None
        return Fitted(self._of(history, behind).atlas, before)

    def _of(self, history: History, behind: int) -> Fitted:
        calibrator = SmoothedIsotonic(self.bin_size, "midpoint", self.tails, prior_strength=0.0)
        windows = history.windows(behind - self.hours, behind)
        begun = BegunRefit(calibrator, Sufficiency(1.0, 0.0))
        for window in windows:
            begun.add(whole_bins(window, self.bin_size))
        # Below no target's map, so who has no bin gets the identity.
        found = begun.finish_below(None)
        return Fitted(found.atlas, None, found.skipped)


def whole_bins(table: BinsTable, bin_size: int) -> BinsTable:
    """The lowest floor(N / n) n samples of each campaign, N its samples: what full bins hold."""
    scores, outcomes, weights, rows = table.samples()
    units = np.rint(weights * SCALE).astype(np.int64)
    reached, before = _reached(units, rows)
    totals = np.bincount(rows, weights, len(table))
    kept_units = (np.floor(totals / bin_size) * bin_size * SCALE).astype(np.int64)
    kept = np.clip(kept_units[rows] - before, 0, reached - before) / SCALE
    held = kept > 0
    counts, positives = kept[held], (kept * outcomes)[held]
    return BinsTable.from_columns(table.campaigns, rows[held], scores[held], counts, positives)


def _reached(units: Integers, rows: Integers) -> tuple[Integers, Integers]:
    """Samples of a campaign up to and before each of its cells, (k,), in fixed point."""
    running = np.cumsum(units)
    firsts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])[: len(rows)])
    opens = np.repeat(running[firsts] - units[firsts], np.diff(np.append(firsts, len(rows))))
    return running - opens, running - opens - units


PER_CAMPAIGN: Final = ("isotonic", "platt", "temperature", "beta", "bbq", "sir", "sir_published")
"""The methods that fit each campaign by itself."""

_SHARED_NOTE = "a campaign without enough data in 24 h gets the target's map, which favours it"


def _identity() -> LeaderboardMethod:
    calibrator = make_calibrator("identity", BIN_SIZE)
    return ServiceMethod("identity", PerCampaign(calibrator))


def _per_campaign(name: str) -> Callable[[], LeaderboardMethod]:
    def make() -> LeaderboardMethod:
        method = PerCampaign(make_calibrator(name, BIN_SIZE))
        return ServiceMethod(name, method, _SHARED_NOTE)

    return make


def _bbq() -> LeaderboardMethod:
    return RefitInterval(_per_campaign("bbq")(), 3)


def _mcgrad() -> LeaderboardMethod:
    return RefitInterval(McGradMaps(), 6)


def _published_sir() -> LeaderboardMethod:
    note = "Algorithm 1 to the letter; the identity where it gives no map"
    return ServiceMethod("sir_published", PublishedSir(), note)


def _pooled() -> LeaderboardMethod:
    note = "with the guard's delay of an hour for shapes, without its choices"
    return ServiceMethod("pooled", Pooled(), note, trial=True)


METHODS: Mapping[str, Callable[[], LeaderboardMethod]] = MappingProxyType(
    {
        "identity": _identity,
        **{name: _per_campaign(name) for name in PER_CAMPAIGN[:-1]},
        "bbq": _bbq,
        "sir_published": _published_sir,
        "lightgbm": BoostedMaps,
        "mcgrad": _mcgrad,
        "pooled": _pooled,
    }
)
"""How each method is made; one for every run."""
