"""Serves the application over HTTP until it is told to stop."""

from ipaddress import ip_address
from typing import Final

import uvicorn

from app.api.application import create_app
from app.settings import Settings, variable_of

_KEEP_ALIVE_SECONDS: Final = 65
_SHUTDOWN_SECONDS: Final = 10
_LOCAL_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class PublicAddressRefused(ValueError):
    """The address is open to other machines, and that was not allowed."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{variable_of('host')} = {host}: other machines could reach it, and there are no API "
            f"keys yet; set {variable_of('allow_public')}=true if that is meant"
        )


def run_server(settings: Settings, redis_url: str) -> None:
    """Serve until SIGINT or SIGTERM; raises PublicAddressRefused before anything is opened."""
    server_of(settings, redis_url).run()


def server_of(settings: Settings, redis_url: str) -> uvicorn.Server:
    """The server, not yet running."""
    if not settings.allow_public and not is_loopback(settings.host):
        raise PublicAddressRefused(settings.host)
    return uvicorn.Server(
        uvicorn.Config(
            create_app(settings, redis_url),
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="on",
            access_log=False,
            log_level="warning",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    if host in _LOCAL_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
