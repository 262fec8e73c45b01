"""What only a checkout has: an installed product says so, and its help leaves it out."""

import subprocess
import sys
import zipfile

import pytest

import app.cli.checkout
from app.cli.checkout import ROOT

SAYS = "runs in a checkout of sirocco's repository only"


@pytest.mark.parametrize("arguments", [("reproduce",), ("backtest", "--compare")])
def test_without_research_a_command_says_where_it_runs(arguments, called, tmp_path, monkeypatch):
    monkeypatch.setattr(app.cli.checkout, "ROOT", tmp_path)
    run = called(*arguments)
    assert run.returncode == 2
    assert SAYS in " ".join(run.stderr.split())
    assert "reproduce" not in called("--help").stdout


@pytest.mark.slow
@pytest.mark.parametrize("module", ["research.reproduction", "research.leaderboard"])
def test_each_has_a_module_that_runs_it(module):
    run = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "Usage: " in run.stdout


@pytest.mark.slow
def test_the_wheel_has_the_product_and_nothing_else(tmp_path):
    """Built from a copy, so that nothing of the build stays in the checkout."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    source, built = tmp_path / "source", tmp_path / "built"
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            copy = source / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--no-index", "-w", built, source], check=True, cwd=tmp_path)
    (wheel,) = built.glob("sirocco-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    folders = {"app", "calibrators", "evaluation", "pccem"}
    assert folders < tops
    assert all(top in folders or top.endswith(".dist-info") for top in tops), tops
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    run = subprocess.run(
        [sys.executable, "-m", "app.cli", "reproduce"],
        cwd=installed,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"},
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert SAYS in " ".join(run.stderr.split())
