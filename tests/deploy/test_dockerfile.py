"""The Dockerfile: hadolint's rules, and those of ours that it does not know."""

import json
import re
import subprocess
import sys
from importlib.metadata import version

from deploy.replay_image import context, instructions
from tests.deploy.files import ROOT, tool

TEXT = (ROOT / "Dockerfile").read_text()
STEPS = instructions(TEXT)


def test_hadolint_finds_nothing():
    hadolint = [tool("hadolint"), "-"]
    assert subprocess.run(hadolint, input=TEXT.encode(), check=False).returncode == 0

    for worse in (TEXT.replace(" --no-cache-dir", ""), TEXT.replace("COPY . .", "ADD . .")):
        found = subprocess.run(hadolint, input=worse.encode(), capture_output=True, check=False)
        assert found.returncode == 1, found.stdout


def test_it_runs_as_nobody_from_what_the_lock_names():
    last = max(place for place, step in enumerate(STEPS) if step.name == "FROM")
    final = dict(STEPS[last:])
    installs = [rest for name, rest in STEPS if name == "RUN" and "pip " in rest]

    assert final["USER"] == "10001:10001"
    assert json.loads(final["ENTRYPOINT"]) == ["sirocco"]
    assert json.loads(final["CMD"]) == ["serve"]
    assert "HEALTHCHECK" in final
    assert "io.cyclonedx.sbom" in final["LABEL"]
    assert all("--require-hashes" in rest or "--no-index" in rest for rest in installs)
    # They may be pinned: --build-arg BASE=...@sha256:...
    assert [rest.split()[0] for name, rest in STEPS if name == "FROM"] == [
        "${BUILD_BASE}",
        "${BASE}",
    ]


def test_the_lock_of_the_image_is_a_part_of_the_whole_lock():
    pinned = re.compile(r"^\S+==\S+|sha256:\w+", re.MULTILINE)
    whole = set(pinned.findall((ROOT / "requirements.lock").read_text()))
    runtime = (ROOT / "requirements-runtime.lock").read_text()

    assert set(pinned.findall(runtime)) <= whole
    assert "pytest" not in runtime
    assert "lightgbm==" in runtime


def test_the_build_is_given_the_product_alone():
    given = {path.parts[0] for path in context()}

    assert {"app", "calibrators", "evaluation", "pccem", "pyproject.toml", "deploy"} <= given
    assert not {"tests", "research", "benchmarks", ".git", ".venv"} & given
    assert not [path for path in context() if "__pycache__" in path.parts]


def test_the_bill_of_materials_has_what_is_installed():
    printed = subprocess.check_output([sys.executable, ROOT / "deploy/sbom.py"], text=True)
    found = {each["purl"] for each in json.loads(printed)["components"]}

    assert f"pkg:pypi/numpy@{version('numpy')}" in found
