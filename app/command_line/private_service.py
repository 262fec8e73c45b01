"""A whole service for the length of one command: nothing shared, nothing left behind."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.command_line.addresses import free_port
from app.command_line.whole_service import WholeService, whole_service

HOST = "127.0.0.1"
# Whoever plays hours in a second waits for every new version.
_REFRESH_SECONDS = 0.05


@contextmanager
def private_service(
    target: str, fit: Mapping[str, Any], port: int | None = None
) -> Iterator[WholeService]:
    """A service in event time for one target, on loopback, with its data in a temporary folder.

    `fit` are the settings of the refits that were given.
    """
    with tempfile.TemporaryDirectory(prefix="sirocco-") as folder:
        options = {
            **fit,
            "clock": "event",
            "targets": (target,),
            "delayed_targets": (),
            "host": HOST,
            "port": port if port is not None else free_port(HOST),
            "data_dir": Path(folder) / "data",
            "redis_url": None,
            "refresh_seconds": _REFRESH_SECONDS,
        }
        with whole_service(options, Path(folder)) as service:
            yield service
