"""The partitions of a lake, files of a log or of an Iceberg table, and tasks: each makes one file
of a partition, named by the digest of what it was made of.

So a task that was done is not done again, by whoever and however often it is begun; a file is there
whole or not at all, and any number of workers may make the same at the same time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from time import process_time
from typing import Any, Final

import msgspec
import orjson

from app.click_log.folder import ClickLogUnavailable, Folder
from app.datasets.options import Reading
from app.datasets.parts import first_line, parts_of, shown
from app.errors import FAILED, CommandError
from app.object_stores import meaning, quoted

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
        if not part.is_empty
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
        scheme, mark, rest = path.rpartition("://")
        yield LakePartition(scheme + mark + (quoted(rest) if mark else rest), path, size, 0)


def _table(named: str) -> Any:
    if named.endswith(_METADATA):
        return extra("pyiceberg.table", "iceberg", "").StaticTable.from_metadata(named)
    catalog, _, table = named.partition(".")
    return extra("pyiceberg.catalog", "iceberg", "").load_catalog(catalog).load_table(table)


_VERSION: Final = 1
"""Of the results: a change of what tasks make is a new one, and old files are not read."""

_MAKERS: Final = {
    "bins": "app.lake.bins:made_bins",
    "clicks": "app.lake.clicks:made_clicks",
    "conversions": "app.lake.clicks:made_conversions",
    "labels": "app.lake.labels:made_labels",
    "training": "app.lake.labels:made_training",
}

_SUFFIXES: Final = {"training": "json"}

Maker = Callable[["PartitionTask"], tuple[bytes, dict[str, Any]]]
"""From a task to the bytes of the result, and what to tell: the rows that were read, and notes."""


class PartitionTask(msgspec.Struct, frozen=True):
    """What to make of a partition.

    kind : one of the table above.
    urls : where the files of the partition are, by the log that they are of.
    output : the folder or URL of all results.
    result : the path of this one in it.
    settings : what it is made with, of JSON.
    """

    kind: str
    urls: dict[str, list[str]]
    output: str
    result: str
    settings: dict[str, Any]

    @classmethod
    def of(
        cls,
        kind: str,
        urls: dict[str, list[str]],
        identity: Any,
        output: str,
        settings: dict[str, Any],
    ) -> "PartitionTask":
        """The task whose result is named by partition and settings."""
        made_of = orjson.dumps([_VERSION, kind, identity, settings], option=orjson.OPT_SORT_KEYS)
        suffix = _SUFFIXES.get(kind, "parquet")
        result = f"{kind}/{sha256(made_of).hexdigest()}.{suffix}"
        return cls(kind, urls, output, result, settings)

    def spec(self) -> str:
        """As JSON, for other processes and machines."""
        return msgspec.json.encode(self).decode()

    def belongs_to(self, index: int, of: int) -> bool:
        """Whether it is one of those of a pod: a number of the name decides, so that a file that
        comes while pods start leaves the others where they are."""
        number = int(self.result.rpartition("/")[2].partition(".")[0][:15], 16)
        return number % of == index


_READING: Final = ("delimiter", "time_unit", "time_zone", "percent", "skip_bad")


def reading_settings(reading: Reading) -> dict[str, Any]:
    """How a log is read, of JSON: `msgspec.convert` takes it back."""
    return {name: getattr(reading, name) for name in _READING}


def run_task(spec: str) -> str:
    """Make a result, and tell of it in JSON; what was made by somebody meanwhile is replaced by the
    same. CommandError says what is wrong with the partition."""
    task = msgspec.json.decode(spec, type=PartitionTask)
    module, _, name = _MAKERS[task.kind].partition(":")
    maker: Maker = getattr(import_module(module), name)
    started = process_time()
    try:
        data, told = maker(task)
        with reaching_output(task.output) as folder:
            folder.write(task.result, data)
    except CommandError as error:
        # Of subclasses only this much survives the way from another process.
        raise CommandError(str(error), error.exit_code) from None
    return orjson.dumps({**told, "cpu_seconds": process_time() - started}).decode()


@contextmanager
def reaching_output(output: str) -> Iterator[Folder]:
    """The folder of results; inside, what cannot be read or written there is a `CommandError`."""
    try:
        yield Folder.open(output)
    except ClickLogUnavailable as error:
        cause = error.__cause__
        said = meaning(cause) if isinstance(cause, OSError) else error
        raise CommandError(f"--output {shown(output)}: {said}", FAILED) from None


def not_done(tasks: Sequence[PartitionTask], output: str) -> list[PartitionTask]:
    """Those whose result is not there; a `CommandError` where nobody can look."""
    kinds = sorted({task.kind for task in tasks})
    with reaching_output(output) as folder:
        there = {entry.path for kind in kinds for entry in folder.entries(kind)}
    return [task for task in tasks if task.result not in there]
