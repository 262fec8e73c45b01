"""Hours and the folders that stand for them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.click_log.parts import Partition, partitions_between


@given(st.sampled_from(["clicks", "conversions"]), st.integers(0, 1_000_000))
def test_a_path_leads_back_to_its_partition(dataset, hour):
    partition = Partition(dataset, hour)

    for path in (partition.path, f"{partition.path}/x.parquet", f"quarantine/{partition.path}/x"):
        assert Partition.of_path(path) == partition


def test_paths_are_in_utc():
    partition = Partition.at("clicks", 1_800_000_000.0)

    assert partition == Partition("clicks", 500_000)
    assert partition.path == "clicks/date=2027-01-15/hour=08"
    assert (partition.begins, partition.ends) == (1_800_000_000.0, 1_800_003_600.0)
    assert partition.day_ends == 1_800_057_600.0


@pytest.mark.parametrize(
    "path",
    [
        "clicks",
        "clicks/date=2027-01-15",
        "clicks/date=2027-01-15/hour=24",
        "clicks/date=2027-02-30/hour=01",
        "clicks/date=2027-01-15/hour=080",
        "views/date=2027-01-15/hour=08",
        "clicks/other/date=2027-01-15/hour=08",
    ],
)
def test_other_paths_lead_into_no_partition(path):
    assert Partition.of_path(path) is None


@pytest.mark.parametrize(
    ("first", "behind", "hours"),
    [
        (0.0, 0.0, []),
        (0.0, 1.0, [0]),
        (0.0, 3600.0, [0]),
        (3599.0, 3601.0, [0, 1]),
        (7200.0, 3600.0, []),
    ],
)
def test_a_span_needs_the_hours_it_touches(first, behind, hours):
    assert [one.hour for one in partitions_between("clicks", first, behind)] == hours
