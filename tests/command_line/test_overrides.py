"""`sirocco overrides` against a running API."""

import orjson
import pytest

from app.settings import Settings
from app.storage.overrides import Overrides
from tests.api.running_service import RunningService, serving


@pytest.fixture
def service(service: RunningService) -> RunningService:
    service.store.flushall()
    return service


def test_what_is_set_is_listed_and_can_be_deleted(called, service):
    """A campaign may hold whatever a path may not."""
    of = ("--url", service.url)
    put = called("overrides", "set", "conversion", "a/b c?#%", "sir", *of)
    called("overrides", "set", "click", "[bold]shoes", "platt", *of)
    listed = called("overrides", "list", *of)
    gone = called("overrides", "delete", "conversion", "a/b c?#%", *of)

    assert (put.returncode, put.stdout) == (0, "conversion  a/b c?#%  sir\n")
    assert "in force from the next refit on" in put.stderr
    assert listed.stdout.splitlines() == ["click  [bold]shoes  platt", "conversion  a/b c?#%  sir"]
    assert gone.stdout == f"conversion  a/b c?#%  {service.settings.calibrator}\n"
    assert Overrides(service.store).read() == {"click": {"[bold]shoes": "platt"}}


@pytest.mark.parametrize(("clock", "told"), [("wall", " UTC"), ("event", "that is a job")])
def test_from_when_it_is_used_is_told(called, redis_url, clock, told):
    with serving(Settings(port=0, clock=clock), redis_url) as service:
        run = called("overrides", "set", "click", "shoes", "sir", "--url", service.url)

    assert told in run.stderr


def test_a_refit_can_be_asked_for_at_once(called, service):
    run = called("overrides", "set", "click", "shoes", "sir", "--retrain", "--url", service.url)

    assert "the refit is job 0" in run.stderr


def test_programs_get_json(called, service):
    of = ("--url", service.url, "--json")
    put = orjson.loads(called("overrides", "set", "click", "shoes", "sir", *of).stdout)
    listed = orjson.loads(called("overrides", "list", "--target", "click", *of).stdout)
    gone = orjson.loads(called("overrides", "delete", "click", "shoes", "--retrain", *of).stdout)

    assert (put["campaign"], put["calibrator"]) == ("shoes", "sir")
    row = {"target": "click", "campaign": "shoes", "calibrator": "sir"}
    assert listed == {"overrides": [row]}
    assert gone["job"]["request"] == {"target": "click", "campaigns": ["shoes"]}


def test_more_than_a_page_is_listed(called, service):
    names = {f"{number:05}" for number in range(1500)}
    service.store.hset("sirocco:{maps}:overrides", mapping={f"click:{n}": "sir" for n in names})

    run = called("overrides", "list", "--url", service.url)

    assert {line.split("  ")[1] for line in run.stdout.splitlines()} == names


def test_of_a_target_without_any_nothing_is_listed(called, service):
    run = called("overrides", "list", "--target", "conversion", "--url", service.url)

    assert (run.returncode, run.stdout) == (0, "")
    assert "no campaign has a calibrator of its own" in run.stderr


def test_one_of_a_former_target_can_be_deleted(called, service):
    Overrides(service.store).put("view", "shoes", "sir")

    run = called("overrides", "delete", "view", "shoes", "--url", service.url)

    assert "no such target any more" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("set", "click", "shoes", "nope"), 'calibrator = "nope": must be one of pooled'),
        (("set", "view", "shoes", "sir"), "unknown target; known are click"),
        (("delete", "click", "shoes"), "has no calibrator of its own"),
        (("list", "--target", "view"), "unknown target"),
    ],
)
def test_a_refusal_is_one_sentence(called, service, arguments, expected):
    run = called("overrides", *arguments, "--url", service.url)

    assert run.returncode == 1
    assert expected in run.stderr
    assert "Traceback" not in run.stderr
