"""The SQL of docs/lake.md on engines that run here: is the digest that of `sirocco lake bins`?

    python -m research.warehouse_sql duckdb
    python -m research.warehouse_sql chdb --python .peers/chdb/bin/python
    python -m research.warehouse_sql spark --python .peers/pyspark/bin/python

Each engine is run by an interpreter that has it, which writes bins.parquet of impressions.parquet.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from app.datasets.bin_tables import BinsDigest, read_bins
from app.datasets.impressions import LogColumns
from app.datasets.options import Reading
from app.lake.bins import BinsSettings, MergedBins
from app.lake.executors import run_here
from app.lake.tasks import partitions_of

_PAGE: Final = Path(__file__).parents[1] / "docs/lake.md"
_DIALECTS: Final = {"duckdb": "DuckDB", "chdb": "ClickHouse", "spark": "Spark"}
_PROGRAMS: Final = {
    "duckdb": """
import duckdb
print("duckdb", duckdb.__version__)
duckdb.execute("CREATE VIEW impressions AS FROM 'impressions.parquet'")
duckdb.execute(f"COPY ({sql}) TO 'bins.parquet'")
""",
    "chdb": """
import chdb
print("chdb", chdb.__version__)
sql = sql.replace("FROM impressions", "FROM file('impressions.parquet')")
chdb.query(f"{sql} INTO OUTFILE 'bins.parquet' FORMAT Parquet")
""",
    "spark": """
import pyspark, glob, shutil
from pyspark.sql import SparkSession
print("pyspark", pyspark.__version__)
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
session.read.parquet("impressions.parquet").createOrReplaceTempView("impressions")
session.sql(sql).coalesce(1).write.parquet("found")
shutil.move(glob.glob("found/*.parquet")[0], "bins.parquet")
""",
}


def statement(dialect: str) -> str:
    """The SQL of a dialect, as the page has it."""
    blocks = re.findall(r"```sql\n-- (.*)\n([^`]*)```", _PAGE.read_text(encoding="utf-8"))
    found: dict[str, str] = {name: sql for names, sql in blocks for name in names.split(", ")}
    return found[dialect]


def impressions(rows: int = 200_000, seed: int = 0) -> Any:
    """Scores of all sizes; a third of them at an edge of a cell, or a bit beside it."""
    rng = np.random.default_rng(seed)
    edges = (128 + rng.integers(0, 128, rows)) / 128 * 2.0 ** -rng.integers(1, 27, rows)
    scores = np.where(rng.random(rows) < 0.66, rng.random(rows) ** 4, edges)
    beside = np.nextafter(scores, rng.integers(0, 2, rows))
    scores = np.where(rng.random(rows) < 0.2, beside, scores)
    scores[:4] = 0.0, 1.0, -0.0, np.nextafter(1.0, 0.0)
    return pa.table(
        {
            "time": 1_767_225_600.0 + 86_400.0 * rng.random(rows),
            "campaign": [f"campaign-{number}" for number in rng.zipf(1.5, rows) % 100],
            "score": scores,
            "outcome": (rng.random(rows) < scores).astype(np.float64),
        }
    )


def digest_of_engine(engine: str, python: str, folder: Path) -> str:
    """Of what the engine makes of impressions.parquet in the folder."""
    program = f"sql = {statement(_DIALECTS[engine])!r}\n{_PROGRAMS[engine]}"
    subprocess.run([python, "-c", program], cwd=folder, check=True)
    digest = BinsDigest()
    for found in read_bins(folder / "bins.parquet"):
        digest.add(found.target, found.hour, found.rows.table())
    return digest.hex


def digest_of_lake(folder: Path) -> str:
    """Of what `sirocco lake bins` makes of it."""
    output = str(folder / "lake")
    settings = BinsSettings("click", LogColumns(), Reading())
    (partition,) = partitions_of(str(folder / "impressions.parquet"))
    task = settings.task(partition, output)
    list(run_here([task]))
    return MergedBins(output, [task.result]).write("bins.parquet")


def main() -> int:
    """Print both digests; 1 where they differ."""
    parser = argparse.ArgumentParser(prog="python -m research.warehouse_sql")
    parser.add_argument("engine", choices=_DIALECTS)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has it")
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        pyarrow.parquet.write_table(impressions(), folder / "impressions.parquet")
        ours, theirs = digest_of_lake(folder), digest_of_engine(given.engine, given.python, folder)
    sys.stdout.write(f"sirocco {ours}\n{given.engine} {theirs}\n")
    return int(ours != theirs)


if __name__ == "__main__":
    sys.exit(main())
