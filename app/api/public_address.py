"""Whether other machines may reach the address that the API listens on."""

from ipaddress import ip_address
from typing import Final

from app.settings import Settings, variable_of

_LOCAL_NAMES: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


class PublicAddressRefused(ValueError):
    """The address is open to other machines, and that was not allowed."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{variable_of('host')} = {host}: other machines could reach it, and there are no API "
            f"keys yet; set {variable_of('allow_public')}=true if that is meant"
        )


def refuse_public_address(settings: Settings) -> None:
    """Raises PublicAddressRefused unless the address is local or a public one is allowed."""
    if not settings.allow_public and not is_loopback(settings.host):
        raise PublicAddressRefused(settings.host)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    if host in _LOCAL_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
