"""`sirocco versions` and `sirocco rollback` against a running API."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest

from app.settings import Settings
from app.storage.redis.server import EmbeddedRedis
from calibrators import Atlas, CalibrationMap
from tests.api.running_service import RunningService, eventually, serving


@pytest.fixture(scope="module")
def service() -> Iterator[RunningService]:
    with (
        TemporaryDirectory(prefix="sirocco-test-") as folder,
        EmbeddedRedis(Path(folder)) as server,
        serving(Settings(port=0), server.url) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def published(service: RunningService) -> list[str]:
    """The older version and the newer one."""
    maps = [{"shoes": CalibrationMap.proportional(factor)} for factor in (0.5, 0.25)]
    return [service.publish({"click": Atlas.build(each)}) for each in maps]


@pytest.mark.slow
def test_there_and_back(called, service, published):
    old, new = published
    at = ("--url", service.url)

    def lines(*arguments):
        run = called(*arguments, *at)
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines(), run.stderr

    listed, _ = lines("versions", "list")
    assert [line.split()[0] for line in listed] == [new, old]
    assert listed[0].endswith("click  serves")
    assert lines("versions", "diff", old)[0] == [
        "click: 1 of 1 campaigns move",
        "  everybody else                 as now",
        "  shoes                          score 0.9      0.225 -> 0.45",
    ]
    assert lines("rollback", old, "--dry-run")[0] == [
        f"the maps of {old} would serve: click, conversion"
    ]
    back, frozen = lines("rollback", old, "--target", "click")
    assert back[0].endswith(f"serves, with the maps of {old}: click")
    assert "frozen, until `sirocco versions unfreeze`: click" in frozen
    assert lines("rollback", old)[0] == [f"the maps of {old} serve already: click, conversion"]
    assert lines("versions", "unfreeze", "--dry-run")[0] == ["would unfreeze: click, conversion"]
    assert lines("versions", "unfreeze")[0] == ["unfreeze: done: click, conversion"]
    assert lines("versions", "freeze", "--target", "click")[0] == ["freeze: done: click"]
    shoes = ("--target", "click", "--campaign", "shoes")
    killed, frozen = lines("rollback", "identity", *shoes)
    assert killed[0].endswith("serves, with the maps of none: click:shoes")
    assert "frozen, until `sirocco versions unfreeze`: click:shoes" in frozen
    assert lines("versions", "unfreeze", *shoes)[0] == ["unfreeze: done: click:shoes"]
    assert lines("rollback", old, "--target", "click", "--refit")[1] == ""

    def told():
        found = orjson.loads("\n".join(lines("versions", "list", "--json")[0]))
        return list(found["frozen"]), found["rolled_back"]["to"]

    # What was rolled back is told by what is served.
    eventually(lambda: told() == (["click"], old))


@pytest.mark.usefixtures("published")
def test_a_version_that_is_not_kept_is_an_error(called, service):
    run = called("rollback", "000099-ab", "--url", service.url)

    assert run.returncode == 1
    assert "answered 404: version '000099-ab' is not kept" in run.stderr
