"""Fields of a log that is read in batches: as rows are measured, and from cells in bounded
memory."""

import numpy as np
import pytest

from evaluation.fields.field_errors import FieldErrors, FieldSums
from evaluation.fields.field_log import CELLS, FieldCells, FieldLog
from evaluation.fields.multicalibration import multicalibration
from evaluation.fields.segments import FieldCodes, SegmentLimits, ValueColumn
from evaluation.metrics.predictions import Predictions
from tests.evaluation.fields.field_logs import field_log

NAMES = {"device": [*"abcde"], "place": [*"pqrstuv"]}
P, Y, _, FIELDS, _ = field_log(20_000)
ROWS = Predictions(P, Y, np.ones(len(P)))


def read(rows, limits=None, batch=3_000):
    """The metrics of the log, of which so many rows stay as they are."""
    log = FieldLog([*NAMES], NAMES.__getitem__, limits, rows)
    for first in range(0, len(P), batch):
        part = np.arange(len(P))[first : first + batch]
        batch_rows = Predictions(P[part], Y[part], np.ones(len(part)))
        log.add(batch_rows, {name: values[part] for name, values in FIELDS.items()})
    return log.measured()


def test_a_log_that_is_held_is_measured_as_rows_are():
    found = read(len(P))
    fields = {name: ValueColumn(NAMES[name], values) for name, values in FIELDS.items()}

    assert found.exact
    assert found.multicalibration == multicalibration(P, Y, fields)
    assert found.errors["device"] == FieldErrors.of(found.sums["device"])
    assert found.mf_rce == pytest.approx(sum(e.field_rce for e in found.errors.values()) / 2)


def test_a_longer_one_has_exact_sums_and_errors_within_two_percent():
    """The grid comes from the first 6,000 rows; every worst segment is among those of the rows."""
    exact, found = read(len(P)), read(5_000)
    sums, wanted = found.sums["place"], FieldSums.of_rows(ROWS, FIELDS["place"])
    order = [int(np.flatnonzero(np.array(NAMES["place"]) == name)[0]) for name in sums.names]
    named = {str(s.fields): s.sigmas for s in exact.multicalibration.worst}

    assert not found.exact
    assert sums.expected == pytest.approx(wanted.expected[order], rel=1e-12)
    assert sums.positives.tolist() == wanted.positives[order].tolist()
    assert found.multicalibration.segments == exact.multicalibration.segments
    assert found.multicalibration.worst[0].fields == exact.multicalibration.worst[0].fields
    for segment in found.multicalibration.worst[:10]:
        assert segment.sigmas == pytest.approx(named[str(segment.fields)], rel=0.02)


def test_cells_are_joined_where_there_are_many_segments_and_values_are_pooled():
    """Memory stays bounded as values come up; sums stay, and errors lose little."""
    columns = {name: ValueColumn(NAMES[name], values) for name, values in FIELDS.items()}
    exact = multicalibration(P, Y, columns)
    codes = FieldCodes(SegmentLimits(), {n: ValueColumn(NAMES[n], FIELDS[n][:0]) for n in NAMES})
    cells = FieldCells(codes, P, most=64 * 64)
    for part in np.array_split(np.arange(len(P)), 7):
        rows = Predictions(P[part], Y[part], np.ones(len(part)))
        cells.add(rows, {name: values[part] for name, values in FIELDS.items()})
    found = cells.families()[("device", "place")]
    pooled = read(5_000, SegmentLimits(values=4, values_of_pairs=2)).sums["place"]

    assert len(cells._differences[()]) == 64 < CELLS
    assert found.expected.sum() == pytest.approx(P.sum())
    assert found.sigmas.max() == pytest.approx(exact.sigmas, rel=0.1)
    assert len(pooled.names) == 4
    assert pooled.names[0] == "other"
    assert pooled.expected.sum() == pytest.approx(P.sum())
