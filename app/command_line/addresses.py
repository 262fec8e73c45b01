"""Ports to listen on and the addresses a person opens."""

import socket

from app.command_line.console import messages


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
    """A port of `host` that nobody listens on."""
    with socket.create_server((host, 0), family=_family(host)) as probe:
        port: int = probe.getsockname()[1]
        return port


def url_of(host: str, port: int) -> str:
    """The address of a service that listens on `host` and `port`."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def addresses(url: str) -> dict[str, str]:
    """What is worth opening -> where."""
    return {
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
