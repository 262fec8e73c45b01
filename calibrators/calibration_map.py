"""A calibration map: the piecewise-linear function from score to probability."""

import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from calibrators.samples import Floats, as_vector, check_equal_lengths, check_unit_interval
from calibrators.segments import segment_slopes

SCHEMA_VERSION = 1
_HEADER = struct.Struct("<4sHI")
_MAGIC = b"SMAP"


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationMap:
    """Knots and values, shape (k,) each, k >= 2; linear between knots.

    Knots increase strictly from 0.0 to 1.0 and values lie in [0, 1], so every score has exactly
    one finite probability. Raises ValueError otherwise. Immutable. `monotone` tells whether no
    larger score gets a smaller probability, to the last bit.

    >>> halved = CalibrationMap([0.0, 1.0], [0.0, 0.5])
    >>> halved([0.1, 0.8])
    array([0.05, 0.4 ])
    """

    knots: Floats
    values: Floats
    slopes: Floats = field(init=False, repr=False)

    def __init__(self, knots: ArrayLike, values: ArrayLike) -> None:
        checked_knots = check_unit_interval("knots", knots) + 0.0
        checked_values = check_unit_interval("values", values) + 0.0
        check_equal_lengths(knots=checked_knots, values=checked_values)
        _check_knots(checked_knots)
        slopes = segment_slopes(checked_knots, checked_values)
        for name, array in zip(
            ("knots", "values", "slopes"), (checked_knots, checked_values, slopes), strict=True
        ):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def identity(cls) -> Self:
        """The map that changes nothing."""
        return cls([0.0, 1.0], [0.0, 1.0])

    @classmethod
    def proportional(cls, ratio: float) -> Self:
        """score * ratio, at most 1: one ratio of outcomes to scores for the whole range."""
        if not 0.0 <= ratio < np.inf:
            raise ValueError(f"ratio = {ratio}: must be finite and at least 0")
        if ratio <= 1.0:
            return cls([0.0, 1.0], [0.0, ratio])
        return cls([0.0, 1.0 / ratio, 1.0], [0.0, 1.0, 1.0])

    def __call__(self, scores: ArrayLike) -> Floats:
        """Probabilities of scores in [0, 1], shape (n,); ValueError on any other score."""
        checked = check_unit_interval("scores", scores)
        segment = np.searchsorted(self.knots, checked, side="right") - 1
        return self.values[segment] + self.slopes[segment] * (checked - self.knots[segment])

    def at(self, score: float) -> float:
        """Probability of one score in [0, 1]; ValueError on any other."""
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"score = {score}: must be in [0, 1]")
        segment = bisect_right(self.knots, score) - 1
        knot, value = float(self.knots[segment]), float(self.values[segment])
        return value + float(self.slopes[segment]) * (score - knot)

    @property
    def monotone(self) -> bool:
        """Whether probabilities never fall as scores rise."""
        return bool(np.all(np.diff(self.values) >= 0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CalibrationMap) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def to_json(self) -> dict[str, Any]:
        """`{"schema_version": 1, "knots": [...], "values": [...]}`; floats round-trip exactly."""
        return {
            "schema_version": SCHEMA_VERSION,
            "knots": self.knots.tolist(),
            "values": self.values.tolist(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The map that `to_json` wrote; ValueError on an unknown schema_version or bad knots."""
        check_schema(data.get("schema_version"))
        missing = {"knots", "values"} - data.keys()
        if missing:
            raise ValueError(f"a calibration map needs {' and '.join(sorted(missing))}")
        return cls(as_vector("knots", data["knots"]), as_vector("values", data["values"]))

    def to_bytes(self) -> bytes:
        """Little-endian bytes: magic "SMAP", schema_version u2, k u4, k knots f8, k values f8."""
        header = _HEADER.pack(_MAGIC, SCHEMA_VERSION, len(self.knots))
        return header + self.knots.astype("<f8").tobytes() + self.values.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The map that `to_bytes` wrote; ValueError on any other bytes."""
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise ValueError("these are not the bytes of a calibration map")
        _, version, count = _HEADER.unpack_from(data)
        check_schema(version)
        if len(data) != _HEADER.size + 16 * count:
            raise ValueError(f"a map of {count} knots has {_HEADER.size + 16 * count} bytes")
        columns = np.frombuffer(data, "<f8", 2 * count, _HEADER.size)
        return cls(columns[:count], columns[count:])


def check_schema(version: object) -> None:
    """Raises ValueError unless maps of this schema_version can be read here."""
    if version != SCHEMA_VERSION:
        raise ValueError(f"calibration map: schema_version {version}, this reads {SCHEMA_VERSION}")


def _check_knots(knots: Floats) -> None:
    if len(knots) < 2 or knots[0] != 0.0 or knots[-1] != 1.0:
        raise ValueError("knots: at least two, the first 0.0, the last 1.0")
    steps = np.diff(knots)
    if not (steps > 0).all():
        first = int(np.argmin(steps > 0))
        raise ValueError(f"knots[{first + 1}] = {knots[first + 1]}: knots must increase strictly")
