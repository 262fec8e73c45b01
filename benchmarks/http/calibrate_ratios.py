"""What the figures of calibration over HTTP mean: ours over the ceiling, others over ours."""

from collections.abc import Sequence

from benchmarks.figures import Cell, Table, middle
from benchmarks.http.bodies import FORMS

BATCH = "batch of "
_COLUMNS = "sirocco, columns"
ECHO = "raw ASGI echo"
PLAIN_ECHO = "raw ASGI echo on uvicorn alone"
"""Without sirocco's bounds on connections, and with uvicorn's timer per request."""
ECHOES = {ECHO: "echo", PLAIN_ECHO: "uvicorn-echo"}
NAIVE = {"naive, numpy.interp": "naive-interpolation", "naive, scikit-learn": "naive-scikit-learn"}
KEY_AND_ID, INTERVAL, QUANTILE, FIELDS = "key and id", "interval", "quantile", "3 fields"
OPTIONS = (KEY_AND_ID, INTERVAL, QUANTILE, FIELDS)
"""What a request may say besides, and which costs more."""
FRAMEWORKS = ("BentoML", "MLServer", "LitServe", "Ray Serve")
ADDED = ("MLServer and httptools",)
"""With a package that its documentation does not ask for."""


def ratios(rows: Table) -> Table:
    """CPU per request of ours over the echo's, of others over ours; predictions of one core."""
    columns = [name for name in rows["sirocco, columns"] if not name.endswith("wall")]
    found: Table = {
        **{
            f"sirocco over {kind}, {form}": _over(
                rows, columns, (f"sirocco, {form}",), f"{echo}, {form}"
            )
            for echo, kind in ECHOES.items()
            for form in FORMS
        },
        **{f"{name} over sirocco": _over(rows, columns, (name,), _COLUMNS) for name in NAIVE},
        **{
            f"{name} over sirocco, its best setting": _over(
                rows, columns, _settings(rows, name), "sirocco, one campaign"
            )
            for name in FRAMEWORKS + ADDED
        },
        **{f"predictions/s of a core, {form}": _rates(rows, columns, form) for form in FORMS},
    }
    found |= {
        f"columns with {option} over columns": _over(
            rows, columns, (f"{_COLUMNS}, {option}",), _COLUMNS
        )
        for option in OPTIONS
    }
    return {name: row for name, row in found.items() if row}


def column_of(size: int) -> str:
    """The column of a size of batch."""
    return f"{BATCH}{size:,}"


def size_of(column: str) -> int:
    """The size of batch of a column."""
    return int(column.removeprefix(BATCH).replace(",", ""))


def _settings(rows: Table, framework: str) -> list[str]:
    return [name for name in rows if name.partition(",")[0] == framework]


def _over(rows: Table, columns: Sequence[str], above: Sequence[str], below: str) -> dict[str, Cell]:
    """The least of several, over one, in each column where there are figures."""
    found: dict[str, Cell] = {}
    for column in columns:
        cells = [rows[name].get(column, "") for name in above]
        measured = [middle(cell) for cell in cells if not isinstance(cell, str)]
        if measured:
            found[column] = min(measured) / middle(rows[below][column])
    return found


def _rates(rows: Table, columns: Sequence[str], form: str) -> dict[str, Cell]:
    row = rows[f"sirocco, {form}"]
    return {column: size_of(column) / middle(row[column]) * 1e6 for column in columns}
