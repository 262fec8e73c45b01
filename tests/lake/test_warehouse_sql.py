"""The SQL of docs/lake.md gives the very bins of `sirocco lake bins`."""

import sys

import pyarrow.parquet
import pytest

from research.warehouse_sql import digest_of_engine, digest_of_lake, impressions, statement


@pytest.mark.slow
def test_duckdb_gives_the_digest_of_the_lake(tmp_path):
    """Scores at the edges of cells too, 0 and 1."""
    pytest.importorskip("duckdb", reason="pip install duckdb")
    pyarrow.parquet.write_table(impressions(20_000, 3), tmp_path / "impressions.parquet")

    assert digest_of_engine("duckdb", sys.executable, tmp_path) == digest_of_lake(tmp_path)


def test_the_page_has_a_statement_for_each_dialect():
    for dialect in ("DuckDB", "ClickHouse", "Spark", "BigQuery", "Snowflake", "Flink"):
        assert "AS score_sum" in statement(dialect)
