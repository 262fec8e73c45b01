"""No half of a wide screen stays empty beside a chart."""

import pytest

from app.reports.page import Chart, Table, layout

LOW = Chart("low", "", '<svg viewBox="0 0 440 320">')
TALL = Chart("tall", "", '<svg viewBox="0 0 440 700">')
TABLE = Table(["a"], [])


@pytest.mark.parametrize(
    ("parts", "classes"),
    [
        ([], []),
        ([LOW], ["alone"]),
        ([TALL], ["alone"]),
        ([LOW, LOW], ["", ""]),
        ([LOW, LOW, LOW], ["", "", "alone"]),
        ([LOW, TALL, LOW], ["", "tall", ""]),
        ([LOW, TALL], ["", ""]),
        ([TALL, TALL], ["tall", "tall"]),
        ([TALL, LOW, LOW, LOW], ["tall", "", "", "alone"]),
        ([LOW, TABLE, LOW, LOW], ["alone", "wide", "", ""]),
    ],
)
def test_charts_are_paired(parts: list[Chart | Table], classes: list[str]) -> None:
    assert layout(parts) == classes
