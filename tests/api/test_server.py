"""The server listens where it is told to, but in public only with API keys."""

import os
import subprocess
import sys

import pytest

from app.access.key_store import KeyStore
from app.access.key_watch import PublicAddressRefused
from app.access.keys import Scope
from app.api.server.server import THRESHOLD_VARIABLE, run_server, server_of
from app.settings import Settings

NOWHERE = "unix:///nowhere/redis.sock"
PUBLIC = ["0.0.0.0", "::", "192.168.1.7", "10.0.0.1", "example.com", "", "::ffff:1.2.3.4", "127.1"]
LOCAL = ["127.0.0.1", "127.0.0.2", "::1", "localhost"]


@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_address_is_refused_without_a_key(host, redis_url, tmp_path):
    settings = Settings(host=host, data_dir=tmp_path)

    with pytest.raises(PublicAddressRefused) as refused:
        run_server(settings, redis_url)

    assert str(refused.value) == (
        f"SIROCCO_HOST = {host}: other machines could reach it, and there is no API key; set "
        "SIROCCO_BOOTSTRAP_ADMIN_KEY, or make keys with `sirocco keys create` while the service "
        "listens on 127.0.0.1"
    )


@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_address_is_served_with_a_key(host, redis_client, redis_url, tmp_path):
    KeyStore(redis_client).make(frozenset(Scope))

    server = server_of(Settings(host=host, data_dir=tmp_path), redis_url)

    assert server.config.host == host


def test_while_the_store_is_away_nobody_gets_in_without_a_key(tmp_path):
    """It may be loading its file, keys included."""
    server = server_of(Settings(host="0.0.0.0", data_dir=tmp_path), NOWHERE)

    assert server.config.app.state.resources.key_watch.table.required


@pytest.mark.parametrize("host", LOCAL)
def test_a_loopback_address_needs_no_leave(host):
    assert not Settings(host=host).is_public
    assert server_of(Settings(host=host), NOWHERE).config.host == host


MAPPED_BLOCKS = """
import ctypes, os
from app.api.server.server import THRESHOLD_VARIABLE, give_large_blocks_back

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in "arena ordblks smblks hblks".split()]
    _fields_ += [(f"more_{number}", ctypes.c_int) for number in range(6)]

glibc = ctypes.CDLL(None)
glibc.mallinfo.restype = Info

def mapped_by_themselves():
    give_large_blocks_back()
    bytearray(16 << 20)  # Freed at once.
    before = glibc.mallinfo().hblks
    kept = bytearray(4 << 20)
    return glibc.mallinfo().hblks - before

told = mapped_by_themselves()
del os.environ[THRESHOLD_VARIABLE]
print(told, mapped_by_themselves())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_a_large_block_is_mapped_by_itself_also_after_a_larger_one_was_freed():
    """As long as nobody has told glibc otherwise."""
    command = [sys.executable, "-c", MAPPED_BLOCKS]
    environment = {**os.environ, THRESHOLD_VARIABLE: "33554432"}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["0", "1"]
