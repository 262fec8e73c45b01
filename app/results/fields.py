"""What `sirocco evaluate --fields` found out about the fields of a log."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import numpy as np

from app.results.formatting import percent, records, shortened, shown
from calibrators.samples import Floats
from evaluation.fields.field_errors import FieldSums
from evaluation.fields.field_log import FieldMetrics
from evaluation.fields.multicalibration import SegmentError
from evaluation.metrics.predictions import quotients, ratio
from evaluation.streaming.log_metrics import pcoc_interval

FALSE_ALARMS: Final = 0.01
"""A field is said to be wrong where chance alone says so in at most 1 of 100 logs."""
_CONFIDENCE: Final = 0.95
_LONGEST_NAME: Final = 40


def off_by(ratio: float) -> str:
    """A PCOC in words, such as `14 % too few`."""
    if np.isinf(ratio):
        return "nothing came of what was predicted"
    if ratio >= 2.0:
        return f"{shown(ratio, '.3g' if ratio < 100.0 else ',.0f')} times too many"
    return f"{percent(abs(ratio - 1.0))} too {'many' if ratio > 1.0 else 'few'}"


def ratios_of_values(sums: FieldSums) -> dict[str, Floats]:
    """What is shown of each value, (k,): n, positives, expected, pcoc and where it may lie by
    chance, sigmas and p_value."""
    lower, upper = pcoc_interval(sums.samples, sums.positives, sums.expected, _CONFIDENCE)
    return {
        "n": sums.samples,
        "positives": sums.positives,
        "expected": sums.expected,
        "pcoc": quotients(sums.expected, sums.positives),
        "pcoc_lower": lower,
        "pcoc_upper": upper,
        "sigmas": sums.sigmas,
        "p_value": sums.p_values,
    }


def segment_name(fields: Mapping[str, str]) -> str:
    """A segment, such as `device = ios, placement = top`."""
    values = (f"{field} = {shortened(value, _LONGEST_NAME)}" for field, value in fields.items())
    return ", ".join(values) or "all rows"


def field_conclusions(found: FieldMetrics) -> Iterator[str]:
    """Sentences: each field, then the worst segment."""
    for field, errors in found.errors.items():
        worst = errors.worst
        beside = (
            f"Field-RCE by {field} is {shown(errors.field_rce, '.3f')};"
            f" chance explains {shown(errors.field_rce_floor, '.3f')}"
        )
        if worst is None or worst.p_value_corrected >= FALSE_ALARMS:
            yield f"{beside}. No value of {field} is off by more than chance."
        else:
            name = shortened(worst.name, _LONGEST_NAME)
            yield f"{beside}. {name} is off most: {off_by(worst.pcoc)}."
    yield _segments(found)


def _segments(found: FieldMetrics) -> str:
    mce = found.multicalibration
    if not mce.worst:
        return "No segment of the fields has enough positives to be looked at."
    worst = mce.worst[0]
    said = f"{segment_name(worst.fields)}, at {shown(mce.sigmas, '.1f')} sigmas"
    if mce.p_value_corrected >= FALSE_ALARMS:
        return (
            f"No more than chance is wrong inside {mce.segments:,} segments of fields and pairs;"
            f" the worst is {said}."
        )
    return f"Of {mce.segments:,} segments of fields and pairs the worst is {said}."


def segment_row(segment: SegmentError) -> Sequence[str]:
    """A segment and its numbers as text, under `SEGMENT_HEADINGS`."""
    return (
        segment_name(segment.fields),
        shown(segment.samples, ",.0f"),
        shown(segment.positives, ",.0f"),
        shown(ratio(segment.expected, segment.positives), ".3f"),
        shown(segment.sigmas, ".1f"),
    )


SEGMENT_HEADINGS: Final = ("segment", "rows", "positives", "PCOC", "sigmas")
FIELD_HEADINGS: Final = ("field", "values", "RCE", "by chance", "ECE", "by chance", "worst", "PCOC")


def field_row(field: str, found: FieldMetrics) -> Sequence[str]:
    """A field and its numbers as text, under `FIELD_HEADINGS`."""
    errors = found.errors[field]
    worst = ("-", np.nan) if errors.worst is None else (errors.worst.name, errors.worst.pcoc)
    return (
        field,
        f"{errors.values:,}",
        shown(errors.field_rce, ".3f"),
        shown(errors.field_rce_floor, ".3f"),
        shown(errors.field_ece, ".5f"),
        shown(errors.field_ece_floor, ".5f"),
        worst[0],
        shown(worst[1], ".3f"),
    )


def mean_line(found: FieldMetrics) -> str:
    """MF-RCE and what errors the log can show."""
    mce = found.multicalibration
    end = "." if found.exact else "; sigmas are those of cells, for the log is long."
    return (
        f"MF-RCE {shown(found.mf_rce, '.3f')}, by chance {shown(found.mf_rce_floor, '.3f')}. An"
        f" error of {shown(mce.detectable, '.2g')} in the probability of all rows would show{end}"
    )


def fields_json(found: FieldMetrics) -> dict[str, Any]:
    """All of it as values of JSON."""
    by_field = {
        field: asdict(found.errors[field])
        | {"by_value": dict(zip(sums.names, records(ratios_of_values(sums)), strict=True))}
        for field, sums in found.sums.items()
    }
    return {
        "mf_rce": found.mf_rce,
        "mf_rce_floor": found.mf_rce_floor,
        "mce": asdict(found.multicalibration),
        "exact": found.exact,
        "by_field": by_field,
    }
