"""Partition tasks: each makes one file, named by the digest of what it was made of.

So a task that was done is not done again, by whoever and however often it is begun; a file is there
whole or not at all, and any number of workers may make the same at the same time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from time import process_time
from typing import Any, Final

import msgspec
import orjson

from app.click_log.errors import ClickLogUnavailable
from app.click_log.folder import Folder
from app.datasets.parts import shown
from app.errors import FAILED, CommandError

_VERSION: Final = 1
"""Of the results: a change of what tasks make is a new one, and old files are not read."""

_MAKERS: Final = {
    "bins": "app.lake.bins:made_bins",
}

Maker = Callable[[str, Mapping[str, Any]], tuple[bytes, dict[str, Any]]]
"""From the URL of a partition and the settings to the bytes of the result, and what to tell."""


class PartitionTask(msgspec.Struct, frozen=True):
    """What to make of a partition.

    kind : one of the table above.
    url : where the partition is.
    output : the folder or URL of all results.
    result : the path of this one in it.
    settings : what it is made with, of JSON.
    """

    kind: str
    url: str
    output: str
    result: str
    settings: dict[str, Any]

    @classmethod
    def of(
        cls, kind: str, url: str, identity: Any, output: str, settings: dict[str, Any]
    ) -> "PartitionTask":
        """The task whose result is named by partition and settings."""
        made_of = orjson.dumps([_VERSION, kind, identity, settings], option=orjson.OPT_SORT_KEYS)
        return cls(kind, url, output, f"{kind}/{sha256(made_of).hexdigest()}.parquet", settings)

    def spec(self) -> str:
        """As JSON, for other processes and machines."""
        return msgspec.json.encode(self).decode()

    def belongs_to(self, index: int, of: int) -> bool:
        """Whether it is one of those of a pod: a number of the name decides, so that a file that
        comes while pods start leaves the others where they are."""
        number = int(self.result.rpartition("/")[2].partition(".")[0][:15], 16)
        return number % of == index


def run_task(spec: str) -> str:
    """Make a result, and tell of it in JSON; what was made by somebody meanwhile is replaced by the
    same. CommandError says what is wrong with the partition."""
    task = msgspec.json.decode(spec, type=PartitionTask)
    module, _, name = _MAKERS[task.kind].partition(":")
    maker: Maker = getattr(import_module(module), name)
    started = process_time()
    try:
        data, told = maker(task.url, task.settings)
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
        raise CommandError(
            f"--output {shown(output)}: {error.__cause__ or error}", FAILED
        ) from None


def not_done(tasks: Sequence[PartitionTask], output: str) -> list[PartitionTask]:
    """Those whose result is not there; a `CommandError` where nobody can look."""
    kinds = sorted({task.kind for task in tasks})
    with reaching_output(output) as folder:
        there = {entry.path for kind in kinds for entry in folder.entries(kind)}
    return [task for task in tasks if task.result not in there]
