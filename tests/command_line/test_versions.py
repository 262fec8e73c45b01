"""`sirocco versions`, `sirocco rollback` and `sirocco experiment` against a running API."""

import orjson
import pytest

from calibrators import Atlas, CalibrationMap
from tests.api.running_service import RunningService, eventually

ATLASES = [Atlas.build({"shoes": CalibrationMap.proportional(by)}) for by in (0.5, 0.25)]


@pytest.fixture(scope="module")
def published(service: RunningService) -> list[str]:
    """The older version and the newer one."""
    return [service.publish({"click": atlas}) for atlas in ATLASES]


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
    would = lines("versions", "freeze", "--target", "click", "--dry-run")
    assert would == (["would freeze: click"], "")
    assert lines("versions", "freeze", "--target", "click")[0] == ["freeze: done: click"]
    shoes = ("--target", "click", "--campaign", "shoes")
    killed, frozen = lines("rollback", "identity", *shoes)
    assert killed[0].endswith("serves, with the maps of none: click:shoes")
    by_name = "`sirocco versions unfreeze --target TARGET --campaign NAME`"
    assert f"frozen, until {by_name}: click:shoes" in frozen
    assert "own yet" not in frozen
    typo = ("--target", "click", "--campaign", "shose", "--dry-run")
    unknown = "without a map of its own yet (is the name right?): shose\n"
    assert lines("versions", "freeze", *typo) == (["would freeze: click:shose"], unknown)
    assert unknown in lines("rollback", "identity", *typo)[1]
    assert lines("versions", "unfreeze", *shoes)[0] == ["unfreeze: done: click:shoes"]
    note = "frozen, until `sirocco versions unfreeze`: click\n"
    assert lines("rollback", old, "--target", "click", "--refit")[1] == note
    lines("versions", "freeze", *shoes)
    assert f"frozen, until {by_name}: click:shoes\n" in lines("rollback", old)[1]
    nothing = ["nothing to freeze: it is so already"]
    assert lines("versions", "freeze", *shoes)[0] == nothing
    lines("versions", "unfreeze", *shoes)
    lines("versions", "unfreeze", "--target", "conversion")

    # What was rolled back is told by what is served.
    eventually(lambda: service.http.get("/v1/admin/versions").json()["rolled_back"]["to"] == old)
    found = orjson.loads("\n".join(lines("versions", "list", "--json")[0]))
    assert (list(found["frozen"]), found["rolled_back"]["to"]) == (["click"], old)
    lines("versions", "unfreeze")


@pytest.mark.usefixtures("published")
def test_a_version_that_is_not_kept_is_an_error_that_names_those_that_are(called, service):
    newest = called("versions", "list", "--url", service.url).stdout.split()[0]
    run = called("rollback", "000099-ab", "--url", service.url)

    assert run.returncode == 1
    assert "answered 404: version '000099-ab' is not kept; of" in run.stderr
    assert f"kept the newest: {newest}, 0" in run.stderr
    assert "`sirocco versions list` has all" in run.stderr


def test_an_experiment_is_started_shown_promoted_and_stopped(called, service):
    old, _ = (service.publish({"click": atlas}) for atlas in ATLASES)

    def line(*arguments):
        run = called("experiment", *arguments, "--url", service.url)
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines()

    start = ("start", "click", "--version", old, "--share", "0.05", "--raw", "0.01")
    running = f"version {old}, 5.00% challenger, 1.00% raw, running"
    assert line(*start, "--dry-run") == [f"click: would be: {running}"]
    assert line(*start) == [f"click: {running}"]
    assert line(*start) == ["click: nothing to start"]
    eventually(lambda: line("show")[:1] == [f"click: {running}"])
    assert line("show")[2] == "  challenger  log_loss -  pcoc -  gc_3 -  gc_3_floor -"
    ended = "click: no experiment, everybody gets the maps that were on trial"
    assert line("promote", "click") == [ended]
    eventually(lambda: line("show") == [])
    shown = called("experiment", "show", "--url", service.url)
    assert shown.stderr == "no experiment runs\n"
    assert called("versions", "unfreeze", "--url", service.url).returncode == 0
    assert line("stop", "click") == ["click: nothing to stop"]
    none = called("experiment", "promote", "click", "--url", service.url)
    assert none.stdout == "click: nothing to promote\n"
    assert "no experiment runs on click: `sirocco experiment start`" in none.stderr
    assert line("start", "click", "--method", "sir") == ["click: method sir, a shadow, running"]
    service.publish({"click": ATLASES[1], "click:challenger": ATLASES[0]})
    listed = called("versions", "list", "--url", service.url).stdout.splitlines()
    assert listed[0].endswith("click  serves")
    refused = called("experiment", "start", "click", "--url", service.url)
    assert "give --method or --version, and not both" in refused.stderr
