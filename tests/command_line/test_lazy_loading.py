"""A process that serves imports what serving needs; the commands that measure are for others."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from app.cli.main import LazyCommands, application

UNNEEDED = {
    "evaluation",
    "httpx",
    "lightgbm",
    "matplotlib",
    "pandas",
    "pccem",
    "pyarrow",
    "rich",
    "scipy",
    "sklearn",
}
SERVING = """
import json, sys
from tempfile import TemporaryDirectory
from typer.main import get_command
from app.cli.main import application
get_command(application).commands["serve"]
from app.api.server.server import server_of
from app.settings import Settings
server = server_of(Settings(), "redis://127.0.0.1:1")
server.config.load()
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.slow
def test_serving_imports_nothing_that_only_fits_and_evaluations_need():
    """Imports are most of a start: what `serve` would not need costs it as much again."""
    done = subprocess.run([sys.executable, "-c", SERVING], capture_output=True, check=True)
    imported = set(json.loads(done.stdout))

    assert {"numpy", "fastapi", "redis", "app"} <= imported
    assert imported & UNNEEDED == set()


def test_every_command_is_the_function_of_its_module():
    for name, command in LazyCommands().items():
        assert command.name == name
        assert command.callback is not None


def test_the_help_lists_what_the_docstrings_say():
    listed = CliRunner().invoke(application, ["--help"], env={"COLUMNS": "200"}).stdout

    for command in LazyCommands().values():
        assert command.help is not None
        assert " ".join(command.help.split("\n\n")[0].split()) in listed


HELP = """
import sys
from app.cli.main import main
sys.argv = ["sirocco", *sys.argv[1:]]
try:
    main()
except SystemExit:
    print("imported:", *sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["backtest", "--help"], ["evaluate", "--bogus"]])
def test_help_and_option_errors_import_nothing_that_computes(arguments):
    command = [sys.executable, "-c", HELP, *arguments]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    imported = set(done.stdout.rpartition("imported: ")[2].split())

    assert "typer" in imported
    assert not imported & (UNNEEDED - {"rich"} | {"numpy", "redis", "fastapi"})


def test_a_name_that_is_no_command_is_none():
    with pytest.raises(KeyError):
        LazyCommands()["frobnicate"]
    assert len(LazyCommands()) == len(list(LazyCommands()))
