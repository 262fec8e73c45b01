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
# A service has an immediate target, though nothing here is sent for it.
_CLICK, _OTHER = "click", "impression"
_MOST_FEATURES = 1_000


def of_immediate(target: str) -> dict[str, Any]:
    """The settings of a service for one immediate target."""
    return {
        "targets": (target,),
        "delayed_targets": (),
        "attribution_hours": {},
        "target_calibrators": {},
    }


def of_delayed(target: str, attribution_hours: int) -> dict[str, Any]:
    """The settings of a service for one delayed target, and whatever features a log has."""
    return {
        "targets": (_OTHER if target == _CLICK else _CLICK,),
        "delayed_targets": (target,),
        "attribution_hours": {target: attribution_hours},
        "target_calibrators": {},
        "max_features": _MOST_FEATURES,
    }


@contextmanager
def private_service(settings: Mapping[str, Any], port: int | None = None) -> Iterator[WholeService]:
    """A service in event time on loopback, with its data in a temporary folder.

    `settings` are its targets, and what was given of its other settings.
    """
    with tempfile.TemporaryDirectory(prefix="sirocco-") as folder:
        options = {
            **settings,
            "clock": "event",
            "host": HOST,
            "port": port if port is not None else free_port(HOST),
            "data_dir": Path(folder) / "data",
            # Not None, which would leave it to the environment.
            "redis_url": "",
            "click_log_url": str(Path(folder) / "click-log"),
            "refresh_seconds": _REFRESH_SECONDS,
        }
        with whole_service(options, Path(folder)) as service:
            yield service
