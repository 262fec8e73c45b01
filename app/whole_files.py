"""Files that stand there whole or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from app.errors import BAD_INPUT, CommandError


@contextmanager
def whole_file(path: Path, exit_code: int = BAD_INPUT) -> Iterator[Path]:
    """Where to write the file `path`: it is replaced in one step when the block has ended well.

    Raises `CommandError`, which ends the command with `exit_code`, where it cannot be written.
    """
    unfinished = path.absolute().with_name(f".{path.stem}-{uuid4().hex}{path.suffix}")
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", exit_code) from error
    finally:
        unfinished.unlink(missing_ok=True)
