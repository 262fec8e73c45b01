"""Calibration by field: device, placement, or whatever else describes an impression.

`field_errors.py` has Field-RCE, Field-ECE and MF-RCE with their floors, `multicalibration.py` the
worst cumulative calibration error over all segments, `segments.py` which segments there are, and
`field_log.py` both for a log of any length. All of them also work from sums.
"""

from evaluation.fields.field_errors import (
    FieldErrors,
    FieldSums,
    WorstValue,
    field_ece,
    field_errors,
    field_rce,
    mf_rce,
)
from evaluation.fields.multicalibration import (
    Multicalibration,
    SegmentError,
    SegmentSums,
    kuiper_chance,
    multicalibration,
)
from evaluation.fields.segments import SegmentLimits, ValueColumn

__all__ = [
    "FieldErrors",
    "FieldSums",
    "Multicalibration",
    "SegmentError",
    "SegmentLimits",
    "SegmentSums",
    "ValueColumn",
    "WorstValue",
    "field_ece",
    "field_errors",
    "field_rce",
    "kuiper_chance",
    "mf_rce",
    "multicalibration",
]
