"""What the service writes on stderr: a line for each record, as text or as JSON for machines.

A line of JSON has `time` (RFC 3339, UTC), `level`, `logger`, `message`, the fields of `FIELDS` that
are known, and `exception` where one was met. Nothing else of a record is shown: no body, no key, no
score.
"""

import logging
import os
import sys
import threading
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from io import TextIOBase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from app.settings import Settings

FIELDS: Final = ("request_id", "trace_id", "job", "target", "version", "seconds")
_TEXT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""A terminal would obey them, and a name may have them."""
_OURS: Final = "app"
_PRIVATE: Final = 0o077
_known: ContextVar[MappingProxyType[str, Any]] = ContextVar(
    "log_fields", default=MappingProxyType({})
)
_log = logging.getLogger(_OURS)


def set_log_fields(**fields: Any) -> None:
    """From now on every record of this task or thread has these fields, too."""
    _known.set(MappingProxyType({**_known.get(), **fields}))


class JsonLines(logging.Formatter):
    """Makes a line of JSON of a record."""

    def format(self, record: logging.LogRecord) -> str:
        """See the module."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            # A file's name may be no UTF-8.
            "message": record.getMessage().encode(errors="backslashreplace").decode(),
        }
        fields = {**_known.get(), **record.__dict__}
        line |= {name: fields[name] for name in FIELDS if fields.get(name) is not None}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class TextLines(logging.Formatter):
    """Makes a line of text of a record; its time is UTC, as all that is shown, and says so."""

    converter = staticmethod(time.gmtime)
    default_msec_format = "%s.%03dZ"

    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line, whatever a name in it has."""
        return super().formatMessage(record).translate(CONTROLS)


class LoggedOutput(TextIOBase):
    """A file whose lines become records: what a command tells a person, where machines read."""

    def write(self, text: str) -> int:
        """Log every line that is not empty."""
        for line in filter(str.strip, text.splitlines()):
            _log.info("%s", line.rstrip())
        return len(text)


def log_to_stderr(settings: "Settings") -> None:
    """Write records of the settings' level, and warnings of libraries, which may show more than is
    for a log with less; files are for our user alone from now on."""
    os.umask(_PRIVATE)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines(_TEXT))
    level = settings.log_level.upper()
    logging.basicConfig(level=max(logging.WARNING, logging.getLevelName(level)), handlers=[handler])
    _log.setLevel(level)
    logging.captureWarnings(True)
    if settings.log_format == "json":
        sys.excepthook = lambda *error: _log.critical("ended by an error", exc_info=error)
        threading.excepthook = lambda of: _log.critical(
            "a thread ended by an error", exc_info=of.exc_value
        )


def is_json() -> bool:
    """Whether records become lines of JSON."""
    return any(isinstance(each.formatter, JsonLines) for each in logging.getLogger().handlers)
