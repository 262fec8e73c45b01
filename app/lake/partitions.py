"""The partitions of a lake: files of a log, or of an Iceberg table."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from app.datasets.parts import first_line, parts_of, shown
from app.errors import FAILED, CommandError

ICEBERG: Final = "iceberg:"
_METADATA: Final = ".metadata.json"


@dataclass(frozen=True, slots=True)
class LakePartition:
    """One file.

    url : where any process finds it; may hold credentials.
    name : the same without them.
    size, modified : bytes, and nanoseconds since 1970 of its last change; another content has
        others. 0 for files of Iceberg, which never change.
    """

    url: str
    name: str
    size: int
    modified: int

    @property
    def identity(self) -> list[Any]:
        """What tells its content from that of any other."""
        return [self.name, self.size, self.modified]


def partitions_of(source: str, delimiter: str | None = None) -> list[LakePartition]:
    """The files of a folder, pattern or URL as `sirocco evaluate` reads them, or of
    `iceberg:<catalog>.<table>` or `iceberg:<path of a metadata.json>`, by name.

    A `CommandError` says what cannot be read, or which extra is missing.
    """
    if source.startswith(ICEBERG):
        return sorted(_of_iceberg(source), key=lambda found: found.name)
    return [
        LakePartition(part.url, shown(part.url), part.size, part.modified)
        for part in parts_of(source, delimiter)
    ]


def extra(module: str, name: str, what: str) -> Any:
    """A module of an extra of sirocco; a `CommandError` says which to install for what."""
    try:
        return import_module(module)
    except ImportError as error:
        raise CommandError(
            f"{what} needs {module.partition('.')[0]}: pip install 'sirocco[{name}]'"
        ) from error


def _of_iceberg(source: str) -> Iterator[LakePartition]:
    named = source.removeprefix(ICEBERG)
    errors = extra("pyiceberg.exceptions", "iceberg", "an Iceberg table")
    try:
        files = list(_table(named).scan().plan_files())
    except (errors.NoSuchTableError, errors.ValidationError, OSError, ValueError) as error:
        raise CommandError(f"{source}: {first_line(error)}", FAILED) from error
    for task in files:
        if task.delete_files:
            raise CommandError(
                f"{source}: {task.file.file_path} has rows that were deleted beside it; compact the"
                " table first, so that its files are what they say"
            )
        path, size = str(task.file.file_path), int(task.file.file_size_in_bytes)
        yield LakePartition(path, path, size, 0)


def _table(named: str) -> Any:
    if named.endswith(_METADATA):
        return extra("pyiceberg.table", "iceberg", "").StaticTable.from_metadata(named)
    catalog, _, table = named.partition(".")
    return extra("pyiceberg.catalog", "iceberg", "").load_catalog(catalog).load_table(table)
