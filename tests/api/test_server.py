"""The server listens where it is told to, but not in public unless that is meant."""

import pytest

from app.api.server.server import PublicAddressRefused, is_loopback, run_server, server_of
from app.settings import Settings

NOWHERE = "unix:///nowhere/redis.sock"
PUBLIC = ["0.0.0.0", "::", "192.168.1.7", "10.0.0.1", "example.com", "", "::ffff:1.2.3.4", "127.1"]
LOCAL = ["127.0.0.1", "127.0.0.2", "::1", "localhost"]


@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_address_is_refused_before_anything_opens(host):
    settings = Settings(host=host)

    with pytest.raises(PublicAddressRefused) as refused:
        run_server(settings, NOWHERE)

    assert str(refused.value) == (
        f"SIROCCO_HOST = {host}: other machines could reach it, and there are no API keys yet; "
        "set SIROCCO_ALLOW_PUBLIC=true if that is meant"
    )


@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_address_can_be_allowed(host):
    server = server_of(Settings(host=host, allow_public=True), NOWHERE)

    assert server.config.host == host


@pytest.mark.parametrize("host", LOCAL)
def test_a_loopback_address_needs_no_leave(host):
    assert is_loopback(host)
    assert server_of(Settings(host=host), NOWHERE).config.host == host
