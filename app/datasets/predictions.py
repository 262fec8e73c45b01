"""What a backtest predicted, as a file: a row for each row of the log that was evaluated and each
method.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from app.datasets.reading import require_parquet
from app.whole_files import check_new, whole_file
from calibrators.samples import Floats, Integers

SCHEMA = pa.schema(
    {
        "row": pa.int64(),
        "method": pa.dictionary(pa.int8(), pa.string()),
        "probability": pa.float64(),
    }
)
_GROUP_ROWS = 1 << 20


def check_output(path: Path, *, force: bool) -> None:
    """A `CommandError`, before any work is done, when the file cannot be written or is there."""
    require_parquet(path, "--output")
    check_new(path, "--output", force=force)


class PredictionFile:
    """Takes the probabilities of one hour after the other; `numbers` are the rows of the log that
    the events are, counted from 0."""

    def __init__(self, writer: pyarrow.parquet.ParquetWriter, numbers: NDArray[np.int64]) -> None:
        self._writer, self._numbers = writer, numbers
        self._held: list[pa.Table] = []
        self._rows = 0

    def add(self, rows: Integers, probabilities: Mapping[str, Floats]) -> None:
        """What each method gave the events `rows`, (k,)."""
        for code, served in enumerate(probabilities.values()):
            codes = pa.array(np.full(len(rows), code, np.int8))
            methods = pa.DictionaryArray.from_arrays(codes, [*probabilities])
            columns = [self._numbers[rows], methods, served]
            self._held.append(pa.table(columns, schema=SCHEMA))
            self._rows += len(rows)
            if self._rows >= _GROUP_ROWS:
                self.flush()

    def flush(self) -> None:
        """Write what is held as row groups."""
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held), row_group_size=_GROUP_ROWS)
        self._held, self._rows = [], 0


@contextmanager
def prediction_file(path: Path, numbers: NDArray[np.int64]) -> Iterator[PredictionFile]:
    """The file, which stands there when the block has ended well."""
    with (
        whole_file(path) as unfinished,
        pyarrow.parquet.ParquetWriter(unfinished, SCHEMA) as writer,
    ):
        file = PredictionFile(writer, numbers)
        yield file
        file.flush()
