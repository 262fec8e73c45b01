"""The systemd units: as systemd itself reads them, and how far they open the machine."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, unit

NAMES = ("api", "worker")
MOST_EXPOSED = 1.5


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """Copies that start a program which is on this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt-get install systemd")
    for name in NAMES:
        text = (DEPLOY / f"systemd/sirocco-{name}.service").read_text()
        start = re.sub(r"(ExecStart=)\S+", r"\1/bin/true", text)
        (tmp_path / f"sirocco-{name}.service").write_text(start)
    return sorted(tmp_path.iterdir())


def said(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )


def test_systemd_takes_them(units):
    verify = ("verify", "--recursive-errors=no", "--man=no")
    found = said(*verify, *units)
    assert (found.returncode, found.stderr) == (0, "")

    units[0].write_text(units[0].read_text().replace("Restart=always", "Restart=often"))
    assert "often" in said(*verify, units[0]).stderr


def test_they_open_little(units):
    """By systemd's own score: 10 is a service without any option, 1.5 has what a server needs."""
    for path in units:
        found = said("security", "--offline=true", "--no-pager", path).stdout
        level = float(re.findall(r"exposure level for \S+: ([\d.]+)", found)[0])
        assert level <= MOST_EXPOSED, found


def test_secrets_are_credentials_and_data_are_kept():
    for name in NAMES:
        options = unit(name)
        loaded = {
            value.partition(":")[0] for option, value in options if option == "LoadCredential"
        }
        files = [
            value for option, value in options if option == "Environment" and "_FILE=" in value
        ]
        assert {value.partition("%d/")[2] for value in files} == loaded, name
        folder = dict(options)["StateDirectory"]
        assert ("Environment", f"SIROCCO_DATA_DIR=%S/{folder}") in options, name
        assert dict(options)["Restart"] == "always", name
        # What these have started ends with them, in its turn.
        assert dict(options)["KillMode"] == "mixed", name
