"""`sirocco experiment` against a running API."""

from calibrators import Atlas, CalibrationMap
from tests.api.running_service import eventually
from tests.command_line.test_versions import service  # noqa: F401


def test_start_show_promote_stop(called, service):  # noqa: F811
    maps = [{"shoes": CalibrationMap.proportional(factor)} for factor in (0.5, 0.25)]
    old, _ = (service.publish({"click": Atlas.build(each)}) for each in maps)

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
    assert line("promote", "click") == ["click: no experiment"]
    assert line("stop", "click") == ["click: nothing to stop"]
    assert line("start", "click", "--method", "sir") == ["click: method sir, a shadow, running"]
    service.publish({"click": Atlas.build(maps[1]), "click:challenger": Atlas.build(maps[0])})
    listed = called("versions", "list", "--url", service.url).stdout.splitlines()
    assert listed[0].endswith("click  serves")
    refused = called("experiment", "start", "click", "--url", service.url)
    assert "give --method or --version, and not both" in refused.stderr
