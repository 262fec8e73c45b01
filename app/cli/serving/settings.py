"""Settings given as options, checked here and handed to children as environment variables; ports
and the addresses that a person opens.
"""

import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.cli.console import messages
from app.cli.options import OF_SETTINGS
from app.errors import CommandError
from app.settings import BadConfiguration, Settings, load_settings, variable_of
from app.settings import environment_of as variables_of


def settings_with(options: Mapping[str, Any]) -> Settings:
    """Settings of the environment under the options that were given (the others are None)."""
    try:
        return load_settings(**_given(options))
    except BadConfiguration as error:
        names = {variable_of(name): OF_SETTINGS.get(name) for name in _given(options)}
        said = re.sub(r"^\w+", lambda it: names.get(it[0]) or it[0], str(error), flags=re.MULTILINE)
        raise CommandError(said) from None


def environment_of(options: Mapping[str, Any]) -> dict[str, str]:
    """The options that were given, as the variables a child reads them from."""
    found: dict[str, str] = {}
    for field, value in _given(options).items():
        found |= variables_of(field, _text(value))
    return found


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in options.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, dict):
        return ",".join(f"{name}={number}" for name, number in value.items())
    return str(value.resolve() if isinstance(value, Path) else value)


def is_free(host: str, port: int) -> bool:
    """True when this machine can listen on `port` of `host` now."""
    try:
        with socket.create_server((host, port), family=_family(host)):
            return True
    except OSError:
        return False


def listener(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens there; raises OSError if this machine cannot."""
    return socket.create_server((host, port), family=_family(host), backlog=backlog)


def free_port(host: str) -> int:
    """A port of `host` that nobody listens on. On Linux it is kept, for whoever is to listen there
    may take its time: it stays bound until we end, and the kernel gives it to nobody by chance."""
    probe = socket.socket(_family(host))
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind((host, 0))
    port: int = probe.getsockname()[1]
    if sys.platform == "linux":
        probe.detach()
    else:  # pragma: no cover
        probe.close()
    return port


def url_of(host: str, port: int) -> str:
    """The address of a service that listens on `host` and `port`."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def addresses(url: str) -> dict[str, str]:
    """What is worth opening -> where."""
    return {
        "page": f"{url}/",
        "API": f"{url}/docs",
        "metrics": f"{url}/metrics",
        "campaigns": f"{url}/v1/campaigns",
    }


def show_addresses(url: str) -> None:
    """Say what to open in a browser."""
    for what, address in addresses(url).items():
        messages().print(f"  {what:<10} [link={address}]{address}[/link]", soft_wrap=True)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
