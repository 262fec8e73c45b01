"""`multicalibration` beside the package mcgrad on the same rows.

    python -m tests.evaluation.fields.against_mcgrad

It needs mcgrad, which brings torch along, in an environment of its own; what it prints is recorded
in `test_multicalibration.py`, so that the tests need neither.
"""

import sys

import numpy as np

from evaluation.fields.multicalibration import multicalibration
from evaluation.fields.segments import MISSING, SegmentLimits, ValueColumn
from tests.evaluation.fields.field_logs import field_log


def numeric_field(numbers, most):
    """A number of each row, (n,), as a field of at most so many ranges with about as many rows, as
    mcgrad cuts its numerical columns; fewer numbers than that stay as they are, NaN is by itself.
    """
    known = numbers[~np.isnan(numbers)]
    distinct = np.unique(known)
    if len(distinct) <= most:
        names, codes = map(str, distinct.tolist()), np.searchsorted(distinct, numbers)
    else:
        edges = np.unique(np.quantile(known, np.linspace(0.0, 1.0, most + 1)))
        names, codes = map(str, edges[:-1].tolist()), np.searchsorted(edges[1:-1], numbers)
    names = (*names, MISSING)
    return ValueColumn(names, np.where(np.isnan(numbers), len(names) - 1, codes))


def as_mcgrad(digits, weighted, values):
    p, y, weights, fields, age = field_log(digits=digits)
    return multicalibration(
        p,
        y,
        {**fields, "age": numeric_field(age, values)},
        limits=SegmentLimits(2, values, values, 20),
        ties="apart",
        weights_are="importance",
        sample_weight=weights if weighted else None,
    )


def of_mcgrad(digits, weighted, values):
    """Segments, and mce_sigma, mce_pvalue, mce, mce_relative and mde."""
    import pandas as pd
    from mcgrad.metrics import MulticalibrationError

    p, y, weights, fields, age = field_log(digits=digits)
    names = {name: values.astype(str) for name, values in fields.items()}
    found = MulticalibrationError(
        pd.DataFrame({"p": p, "y": y, "w": weights, "age": age, **names}),
        "y",
        "p",
        "w" if weighted else None,
        [*names],
        ["age"],
        max_depth=2,
        max_values_per_segment_feature=values,
        min_samples_per_segment=20,
        max_n_segments=None,
        precision_dtype="float64",
    )
    numbers = (found.mce_sigma, found.mce_pvalue, found.mce, found.mce_relative, found.mde)
    return found.total_number_segments, *map(float, numbers)


if __name__ == "__main__":
    for digits, weighted in ((None, False), (None, True), (2, True)):
        for values in (3, 10):
            ours = as_mcgrad(digits, weighted, values)
            found = (ours.segments, ours.sigmas, ours.p_value, ours.error, ours.detectable)
            for row in (of_mcgrad(digits, weighted, values), found):
                sys.stdout.write(f"{(digits, weighted, values)} {row}\n")
