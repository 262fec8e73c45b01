"""`sirocco evaluate --fields`: errors by field, and the worst segment of fields and pairs."""

import pytest

from app.cli.measure import evaluate
from evaluation.fields.field_errors import field_ece, field_rce, mf_rce
from evaluation.fields.multicalibration import multicalibration
from evaluation.fields.segments import SegmentLimits
from tests.command_line.logs import write
from tests.evaluation.fields.field_logs import field_log

P, Y, _, FIELDS, _ = field_log(6_000)
NAMES = {field: [f"{field[0]}{i}" for i in values] for field, values in FIELDS.items()}
LOG = {"score": P, "outcome": Y, **NAMES}


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.jsonl"])
def test_json_has_what_the_functions_give(tmp_path, answered, name):
    log = write(tmp_path / name, LOG)

    found = answered("evaluate", log, "--fields", "device,place")["fields"]

    device, mce = found["by_field"]["device"], found["mce"]
    exact = multicalibration(P, Y, NAMES, limits=SegmentLimits(variance=5.0))
    assert device["field_rce"] == pytest.approx(field_rce(P, Y, NAMES["device"]))
    assert device["field_ece"] == pytest.approx(field_ece(P, Y, NAMES["device"]))
    assert 0.0 < device["field_rce_floor"] < 0.2
    assert found["mf_rce"] == pytest.approx(mf_rce(P, Y, NAMES))
    assert mce["sigmas"] == pytest.approx(exact.sigmas)
    assert mce["worst"][0]["fields"] == {"device": "d1", "place": "p3"}
    assert mce["segments"] == exact.segments
    assert set(device["by_value"]) == {"d0", "d1", "d2", "d3", "d4"}
    assert device["by_value"]["d1"]["pcoc_lower"] < device["by_value"]["d1"]["pcoc"]


def test_a_long_log_is_measured_from_cells(tmp_path, answered, monkeypatch):
    """In bounded memory: sums are exact, the worst segment within 2 %."""
    write(tmp_path / "log.parquet", LOG)
    monkeypatch.setattr(evaluate, "FIELD_ROWS", 1_000)
    monkeypatch.setattr(evaluate, "BATCH_ROWS", 500)
    found = answered("evaluate", "log.parquet", "--fields", "device,place")

    exact = multicalibration(P, Y, NAMES, limits=SegmentLimits(variance=5.0))
    assert not found["fields"]["exact"]
    assert found["fields"]["mf_rce"] == pytest.approx(mf_rce(P, Y, NAMES))
    assert found["fields"]["mce"]["sigmas"] == pytest.approx(exact.sigmas, rel=0.02)


def test_words_and_report_name_the_worst(tmp_path, called):
    write(tmp_path / "log.parquet", LOG)
    run = called("evaluate", "log.parquet", "--fields", " device, place", "--report", "log.html")

    page = (tmp_path / "log.html").read_text()
    assert run.returncode == 0, run.stderr
    assert "Field-RCE by device is" in run.stdout
    assert "device = d1, place = p3, at" in run.stdout
    assert "MF-RCE" in run.stdout
    assert "Predicted over actual, by place" in page
    assert "device = d1, place = p3" in page


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("device,,place", "--fields 'device,,place': must be names of at most 20 columns"),
        ("device,county", "no column 'county'"),
        (",".join(map(str, range(21))), "must be names of at most 20 columns"),
    ],
)
def test_fields_that_cannot_be(tmp_path, refused, fields, said):
    write(tmp_path / "log.parquet", LOG)

    assert said in refused("evaluate", "log.parquet", "--fields", fields)
