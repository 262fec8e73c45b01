"""Whether what is served is off, found hour by hour without false alarms by repeated looks: an
e-detector of each campaign's positives against the positives that its probabilities predicted.

Hours of a calibrated campaign are counts with a mean within MARGIN of the predicted one and the
noise of chance and of drift: negative binomial at most, with HOURLY_SD as the standard deviation of
the hour's level. Against each of a few alternatives the likelihood ratio of an hour has a mean of 1
at most, so M <- (M + 1) * ratio (Shiryaev-Roberts) grows by 1 an hour at most on average, and
exceeds a bound B within t hours with a probability of t / B at most, however often one looks and
whenever a fault began. Source: Shin, Ramdas and Rinaldo, "E-detectors" (2022). The rules and what
they find: docs/decisions/0017-sequential-bounds.md.
"""

import struct
from dataclasses import dataclass
from math import log
from typing import Final, Self

import numpy as np

from calibrators.bins.codecs import merged_rows, pack_names, unpack_names
from calibrators.samples import Floats

MARGIN: Final = 0.05
"""A level that is off by less is not material."""
HOURLY_SD: Final = 0.1
MONTH_HOURS: Final = 30 * 24
FORGOTTEN_HOURS: Final = 7 * 24
"""Without traffic for so long, a campaign is let go, and begins anew."""

DIRECTIONS: Final = ("over", "under")
"""Predicted too much, and too little: PCOC above 1, and below."""

ESTIMATE_ROOM: Final = log(64)
"""Maps are off by the error of their own estimate, for hours on end where there are few clicks:
without this room about seven campaigns a month of 10,000 are found, for nobody's fault."""
_SHAPE: Final = HOURLY_SD**-2
_RATES: Final = np.array([1 / 1.15, 1 / 1.3, 1 / 2, 1.15, 1.3, 2.0])[:, np.newaxis]
_RATES_EACH: Final = len(_RATES) // len(DIRECTIONS)
_EDGES: Final = np.repeat([1 / (1 + MARGIN), 1 + MARGIN], _RATES_EACH)[:, np.newaxis]
# So that evidence of a long fault is gone soon after its end.
_MOST: Final = 30.0
# Sums lose half of their weight in a day.
_KEPT: Final = 0.5 ** (1 / 24)
_CONFIDENCE: Final = 0.95

SUMS: Final = ("seen", "predicted", "positives", "variance", "lower", "upper")
"""The first rows of `values`: the hour of the last traffic; predicted and true positives and their
variance, whose weight halves in 24 hours; where PCOC lies by them. Then ln M of each rate."""
ROWS: Final = len(SUMS) + len(_RATES)
_HEAD: Final = struct.Struct("<II")


def bound_of(campaigns: int) -> float:
    """The evidence beyond which a campaign is off, so that out of so many calibrated ones and their
    target less than one a month exceeds it by chance."""
    return log(len(DIRECTIONS) * MONTH_HOURS * (campaigns + 1)) + ESTIMATE_ROOM


@dataclass(frozen=True, slots=True, eq=False)
class PcocEvidence:
    """What the hours below `until` said of campaigns, which ascend, (c,); `values` are (ROWS, c),
    see SUMS."""

    until: int
    campaigns: tuple[str, ...]
    values: Floats

    @classmethod
    def empty(cls, until: int = 0) -> Self:
        """Of no campaigns."""
        return cls(until, (), np.empty((ROWS, 0)))

    def to_bytes(self) -> bytes:
        """Little-endian: `until` u4, number of campaigns u4, their names
        (`calibrators.bins.codecs`), values f8 (ROWS, c)."""
        head = _HEAD.pack(self.until, len(self.campaigns))
        return head + pack_names(self.campaigns) + self.values.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The inverse; ValueError on bytes that are cut short, or go on."""
        if len(data) < _HEAD.size:
            raise ValueError(f"evidence needs {_HEAD.size} bytes of header, got {len(data)}")
        until, count = _HEAD.unpack_from(data)
        names, end = unpack_names(memoryview(data), _HEAD.size, count)
        if len(data) != end + 8 * ROWS * count:
            raise ValueError(f"evidence: values of {count} campaigns need {8 * ROWS * count} bytes")
        return cls(until, names, np.frombuffer(data, "<f8", offset=end).reshape(ROWS, count))

    def after(
        self, hour: int, campaigns: tuple[str, ...], predicted: Floats, positives: Floats
    ) -> "PcocEvidence":
        """With one more hour: the campaigns that had traffic, ascending, (k,), and the predicted
        and true positives of each."""
        names, (before, now) = merged_rows((self.campaigns, campaigns))
        values = np.zeros((ROWS, len(names)))
        values[len(SUMS) :] = -np.inf
        values[:, before] = self.values
        kept_of = _KEPT ** (hour + 1 - self.until)
        values[1:4] *= np.array([[kept_of], [kept_of], [kept_of**2]])
        values[0, now] = hour
        values[1:4, now] += (predicted, positives, positives + positives**2 / _SHAPE)
        values[4:6] = _interval(*values[1:4])
        values[len(SUMS) :, now] = _advanced(values[len(SUMS) :, now], predicted, positives)
        kept = values[0] > hour - FORGOTTEN_HOURS
        held = tuple(name for name, keep in zip(names, kept.tolist(), strict=True) if keep)
        return PcocEvidence(hour + 1, held, values[:, kept])

    @property
    def directions(self) -> Floats:
        """ln M of each direction, (2, c), to compare with `bound_of`; -inf before an hour."""
        logs = self.values[len(SUMS) :].reshape(len(DIRECTIONS), _RATES_EACH, len(self.campaigns))
        return np.asarray(np.logaddexp.reduce(logs, axis=1) - log(_RATES_EACH))


def _advanced(logs: Floats, predicted: Floats, positives: Floats) -> Floats:
    """ln M after the hour, of each rate, (6, k): log of (M + 1) times the likelihood ratio of
    negative binomial counts with the rate's mean and with the margin's."""
    grown = np.log((_RATES * predicted + _SHAPE) / (_EDGES * predicted + _SHAPE))
    ratio = positives * np.log(_RATES / _EDGES) - (positives + _SHAPE) * grown
    return np.asarray(np.minimum(np.logaddexp(logs, 0.0) + ratio, _MOST))


def _interval(predicted: Floats, positives: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Where PCOC lies, of single campaigns at one moment: the interval of a weighted sum of counts
    by Fay and Feuer (1997). The upper end is inf without positives."""
    from scipy.special import gammaincinv  # as `calibrators.samples.expit` does

    chance = (1 - _CONFIDENCE) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(positives > 0, variance / positives, 1.0)
        least = np.where(positives > 0, gammaincinv(positives / scale, chance) * scale, 0.0)
        more, wider = positives + 1.0, (variance + 1.0) / (positives + 1.0)
        return predicted / (gammaincinv(more / wider, 1 - chance) * wider), predicted / least
