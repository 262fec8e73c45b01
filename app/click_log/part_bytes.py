"""The bytes of a part: Parquet, the same for the same rows."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.click_log.columns import (
    BEHAVIOUR,
    CATEGORY,
    CLICK_COLUMNS,
    CLICK_ID,
    CONVERSION_COLUMNS,
    TEXT,
    wrong_column,
)
from app.click_log.errors import DamagedPart, NewerPart
from app.click_log.partitions import CLICKS, CONVERSIONS

SCHEMA_VERSION = 1

_VERSION = b"sirocco.schema_version"
_REQUIRED: Mapping[str, Mapping[str, Any]] = {
    CLICKS: CLICK_COLUMNS,
    CONVERSIONS: CONVERSION_COLUMNS,
}

Wanted = Callable[[str], bool]


def everything(_: str) -> bool:
    """Wants every column."""
    return True


def encode_part(table: Any) -> bytes:
    """The table as Parquet, its categories as plain strings."""
    plain = _plain(table).replace_schema_metadata({_VERSION: str(SCHEMA_VERSION).encode()})
    categories = [
        field.name
        for field in plain.schema
        if field.type == TEXT or field.name.startswith(BEHAVIOUR)
    ]
    numbers = [name for name in plain.schema.names if name not in {*categories, CLICK_ID}]
    sink = pa.BufferOutputStream()
    pq.write_table(
        plain,
        sink,
        compression="zstd",
        use_dictionary=categories,
        use_byte_stream_split=numbers,
        row_group_size=max(1, len(plain)),
        write_statistics=False,
    )
    return bytes(sink.getvalue())


def decode_part(data: bytes, dataset: str, wanted: Wanted = everything) -> Any:
    """The wanted columns of a part; strings other than ids as categories.

    Raises DamagedPart, or NewerPart.
    """
    try:
        return _decoded(data, dataset, wanted)
    except (pa.ArrowException, OSError) as error:
        raise DamagedPart(f"not readable as Parquet: {error}") from error


def _decoded(data: bytes, dataset: str, wanted: Wanted) -> Any:
    source = pa.BufferReader(data)
    schema = pq.read_schema(source)
    _check_version((schema.metadata or {}).get(_VERSION, b""))
    if (name := wrong_column(schema, _REQUIRED[dataset])) is not None:
        raise DamagedPart(f"column {name!r} is missing, unknown or of another type")
    texts = [field.name for field in schema if field.type == TEXT]
    file = pq.ParquetFile(source, read_dictionary=texts)
    return file.read(columns=list(filter(wanted, schema.names)), use_threads=False)


def _check_version(version: bytes) -> None:
    if not version.isdigit():
        raise DamagedPart("no schema_version")
    if int(version) > SCHEMA_VERSION:
        raise NewerPart(version.decode(), SCHEMA_VERSION)


def _plain(table: Any) -> Any:
    fields = [
        (field.name, TEXT if field.type == CATEGORY else field.type) for field in table.schema
    ]
    return table.cast(pa.schema(fields)).combine_chunks()
