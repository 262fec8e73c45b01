"""A table of effects, of a field, a pair of fields or a campaign's deviations, and its bytes."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np

from calibrators.bins.codecs import pack_names, unpack_names
from calibrators.fields.sums import OTHER
from calibrators.samples import Floats, Singles

LARGEST: Final = 1e4
"""Odds ratios lie between this and its inverse: the product of all terms is finite."""

_ROWS = struct.Struct("<I")


@dataclass(frozen=True, slots=True, eq=False)
class EffectTable:
    """Effects by row: names ascending, (v,), odds ratios, (v,), and the standard deviations of
    their logarithms, (v,)."""

    names: tuple[str, ...]
    odds_ratios: Floats
    deviations: Singles

    @classmethod
    def of(cls, log_odds: Mapping[str, float], deviations: Mapping[str, float]) -> Self:
        """By name, in log-odds; without a deviation it is 0."""
        names = tuple(sorted(log_odds))
        ratios = np.exp(np.array([log_odds[name] for name in names], np.float64))
        return cls(names, ratios, np.array([deviations.get(name, 0.0) for name in names], "f4"))

    def stepped(self, before: "EffectTable | None", step: float) -> "EffectTable":
        """The same, no odds ratio further than the step from the one before, 1 where none was."""
        known, found = ({} if table is None else table.by_name for table in (before, self))
        # What has no row counts as other.
        was, now = known.get(OTHER, 1.0), found.get(OTHER, 1.0)
        if OTHER in found:
            lost = (name for name, ratio in known.items() if not now / step < ratio < now * step)
            found |= {name: now for name in lost if name not in found}
        names = tuple(sorted(found))
        old = np.array([known.get(name, was) for name in names], np.float64)
        ratios = np.clip([found[name] for name in names], old / step, old * step)
        deviations = dict(zip(self.names, self.deviations, strict=True))
        least_known = self.deviations.max(initial=0.0)
        sds = np.array([deviations.get(name, least_known) for name in names], "f4")
        return EffectTable(names, np.clip(ratios, 1 / LARGEST, LARGEST), sds)

    @property
    def by_name(self) -> dict[str, float]:
        """Odds ratios."""
        return dict(zip(self.names, self.odds_ratios.tolist(), strict=True))

    def check(self, term: str) -> None:
        """Raises ValueError, with the name of the term, on what breaks a rule."""
        if any(second <= first for first, second in pairwise(self.names)):
            raise ValueError(f"effects of {term}: names must ascend")
        within = (self.odds_ratios >= 1 / LARGEST) & (self.odds_ratios <= LARGEST)
        if not within.all():
            raise ValueError(f"effects of {term}: odds ratios must be in [1e-4, 1e4]")
        if not ((self.deviations >= 0) & np.isfinite(self.deviations)).all():
            raise ValueError(f"effects of {term}: deviations must be finite and at least 0")

    def to_bytes(self) -> bytes:
        """Rows u4; names; odds ratios f8; deviations f4."""
        columns = (self.odds_ratios.astype("<f8"), self.deviations.astype("<f4"))
        packed = (_ROWS.pack(len(self.names)), pack_names(self.names))
        return b"".join((*packed, *(column.tobytes() for column in columns)))

    @classmethod
    def read(cls, data: bytes, offset: int) -> tuple[Self, int]:
        """What `to_bytes` wrote at the offset, and the offset behind it; ValueError on bad ones."""
        if len(data) < offset + _ROWS.size:
            raise ValueError("effects: the bytes end early")
        (rows,) = _ROWS.unpack_from(data, offset)
        names, offset = unpack_names(memoryview(data), offset + _ROWS.size, rows)
        end = offset + 12 * rows
        if len(data) < end:
            raise ValueError("effects: the bytes end early")
        ratios = np.frombuffer(data, "<f8", rows, offset)
        return cls(names, ratios, np.frombuffer(data, "<f4", rows, offset + 8 * rows)), end
