"""What the files of deploy/ set is what docs/deploy.md says, and everything else the default."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml

from app.settings import SECRETS, Settings, variable_of
from tests.deploy.files import CHART, DEPLOY, ROOT, compose, objects, pods, unit
from tests.docs.pages import table_below, text_of
from tests.docs.settings_table import rows

HEADER = "| setting | value | where | why |"
FILES = {f"{variable_of(name)}_FILE" for name in (*SECRETS, "api_key")}
PORT = Settings.model_fields["port"].default
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SIROCCO = re.compile(r"(SIROCCO_\w+)=(\S+)")
Named = tuple[str, str, str]


def named() -> Iterator[Named]:
    """Every setting that a file gives a value: name, value, kind of deployment."""
    yield from ((*found, "image") for found in SIROCCO.findall(DOCKERFILE))
    for service in compose()["services"].values():
        yield from ((name, value, "compose") for name, value in environment(service))
    for pod in pods(objects()).values():
        for variable in pod["containers"][0].get("env", []):
            source = variable.get("valueFrom", {}).get("resourceFieldRef", {})
            yield variable["name"], variable.get("value") or source["resource"], "chart"
    lines = [value for name in ("api", "worker") for option, value in unit(name)]
    given = (DEPLOY / "systemd/sirocco.env").read_text().splitlines()
    for line in [*lines, *given]:
        yield from ((*found, "systemd") for found in SIROCCO.findall(line) if line[0] != "#")


def environment(service: dict[str, Any]) -> list[tuple[str, str]]:
    return [pair for pair in service.get("environment", {}).items() if pair[0][:3] == "SIR"]


def test_each_setting_that_is_no_default_is_on_the_page():
    """And each row of the page is what some file says."""
    defaults = dict(re.findall(r"^\| `(\w+)` \| `?([^`|]*)`? \|", "\n".join(rows()), re.MULTILINE))
    said = {
        (cells[0].strip("`"), value, kind)
        for cells in table_below(text_of("docs/deploy.md"), HEADER)
        for value in re.findall(r"`([^`]+)`", cells[1])
        for kind in cells[2].split(", ")
    }
    found = set(named())

    assert {name for name, _, _ in found} <= defaults.keys() | FILES
    assert not [each for each in found if defaults.get(each[0]) == each[1]]
    assert {each for each in found if each[0] not in FILES} == said


def test_what_is_commented_out_is_the_default():
    lines = [row.split(" | ") for row in rows()]
    defaults = {f"#{cells[0].strip('| `')}={cells[1].strip('`')}" for cells in lines}
    given = (DEPLOY / "systemd/sirocco.env").read_text().splitlines()
    shown = [line for line in given if line.startswith("#SIROCCO")]

    assert len(shown) > 5
    assert set(shown) <= defaults


def test_all_speak_of_one_port_one_version_one_user_and_one_redis():
    services, values = compose()["services"], yaml.safe_load((CHART / "values.yaml").read_text())
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    scraped = yaml.safe_load((DEPLOY / "prometheus/prometheus.yaml").read_text())
    api = pods(objects())["api"]
    user = api["securityContext"]["runAsUser"]

    assert f"EXPOSE {PORT}\n" in DOCKERFILE
    assert services["api"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert api["containers"][0]["ports"] == [{"name": "http", "containerPort": PORT}]
    assert scraped["scrape_configs"][0]["dns_sd_configs"][0]["port"] == PORT
    assert chart["version"] == chart["appVersion"] == version
    assert services["api"]["image"] == api["containers"][0]["image"] == f"sirocco:{version}"
    assert f"ARG VERSION={version}\n" in DOCKERFILE
    assert f"USER {user}:{user}\n" in DOCKERFILE
    assert f"chown 0:{user}" in (DEPLOY / "secrets.sh").read_text()
    assert services["redis"]["image"] == values["redis"]["image"]
    assert values["redis"]["maxmemory"] in services["redis"]["command"]


def test_each_has_time_for_the_drain():
    """docs/operations.md: the drain and 30 seconds; and a drain of two periods of readiness."""
    api = compose()["services"]["api"]
    drain = int(api["environment"]["SIROCCO_DRAIN_SECONDS"])
    assert api["stop_grace_period"] == f"{drain + 30}s"
    given = (DEPLOY / "systemd/sirocco.env").read_text()
    drain = int(dict(SIROCCO.findall(given.replace("#", "# ")))["SIROCCO_DRAIN_SECONDS"])
    assert int(dict(unit("api"))["TimeoutStopSec"]) == drain + 30
    for seconds in (10, 45):
        pod = pods(objects(api={"drainSeconds": seconds}))["api"]
        assert pod["terminationGracePeriodSeconds"] == seconds + 30
        assert pod["containers"][0]["readinessProbe"]["periodSeconds"] * 2 <= seconds
