"""Which files a lake has, and what tells a changed one from what it was."""

import os

import pyarrow.parquet
import pytest

from app.datasets.parts import parts_of
from app.errors import CommandError
from app.lake.tasks import extra, partitions_of
from tests.lake.conftest import impressions


def test_a_changed_file_has_another_identity(log):
    before = partitions_of(str(log))
    os.utime(log / "part-1.parquet", ns=(1, 1))
    after = partitions_of(f"{log}/*.parquet")

    assert [part.name for part in before] == [str(log / f"part-{n}.parquet") for n in range(4)]
    same = [one.identity == other.identity for one, other in zip(before, after, strict=True)]
    assert same == [True, False, True, True]


def test_a_url_keeps_its_query_and_hides_its_password(log):
    (found,) = partitions_of(f"file://{log}/part-0.parquet")

    assert found.url == found.name == f"file://{log}/part-0.parquet"


@pytest.mark.parametrize("name", ["hour=2026-01-01 00%3A00", "a#b?c", "100%", "[w]"])
def test_a_folder_of_a_url_may_have_any_name(log, name):
    folder = log.rename(log.parent / name)
    found = partitions_of(folder.as_uri())

    assert [part.path for one in found for part in parts_of(one.url)] == [
        f"{folder}/part-{number}.parquet" for number in range(4)
    ]


@pytest.mark.slow
def test_tables_of_iceberg_are_their_files(log, tmp_path):
    """By the metadata file, without a catalog."""
    catalogs = pytest.importorskip(
        "pyiceberg.catalog.memory", reason="pip install 'pyiceberg[sql-sqlite]'"
    )
    catalog = catalogs.InMemoryCatalog("test", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("ads")
    rows = [impressions(50, seed) for seed in range(2)]
    table = catalog.create_table("ads.impressions", rows[0].schema)
    for some in rows:
        table.append(some)
    found = partitions_of(f"iceberg:{table.metadata_location}")

    assert len(found) == 2
    read = [pyarrow.parquet.read_table(part.url.removeprefix("file://")) for part in found]
    assert sum(len(some) for some in read) == 100
    assert found == partitions_of(f"iceberg:{table.metadata_location}")


def test_an_extra_that_is_missing_is_named():
    with pytest.raises(CommandError, match=r"pip install 'sirocco\[dask\]'"):
        extra("there_is_no_such_module", "dask", "--executor dask")
