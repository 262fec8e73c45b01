"""What a stranger reads: help that teaches, errors of one sentence."""

import os
import signal
import subprocess
from typing import Any

import pytest
import typer

from app.cli.main import application
from app.cli.signals import Terminated, terminated_like_ctrl_c
from app.errors import typed_command
from tests.command_line.conftest import COMMAND

TRAFFIC = ("--campaigns", "10", "--events-per-second", "1")
PARTS = [("lake", part) for part in ("bins", "maps", "train", "labels")]
COMMANDS = sorted(typer.main.get_command(application).commands)  # type: ignore[attr-defined]


def test_help_lists_every_command(called):
    run = called("--help")

    assert run.returncode == 0
    assert all(f" {command} " in run.stdout for command in COMMANDS)
    assert "--parent" not in run.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_examples(called, command):
    run = called(command, "--help")

    assert "Examples" in run.stdout
    assert f"sirocco {command}" in run.stdout.partition("Examples")[2]


@pytest.mark.parametrize("command", [*map(str.split, COMMANDS), *PARTS])
def test_help_is_wrapped_for_80_columns(called, command):
    """Behind the first paragraph lines end where they are written."""
    said = called(*command, "--help", COLUMNS="200").stdout.partition("╭")[0]
    written = said.split("\n" + 200 * " " + "\n")[2:]

    assert max(len(line.rstrip()) for part in written for line in part.splitlines()) <= 79


def test_help_speaks_of_no_options_of_other_commands(called):
    said = called("replay", "--help").stdout
    assert "--delayed" in said
    assert "--compare" not in said


def test_the_version_is_printed(called):
    assert called("--version").stdout.startswith("sirocco ")


@pytest.mark.parametrize(
    ("name", "usual", "other"),
    [("OMP_WAIT_POLICY", "PASSIVE", "ACTIVE"), ("OPENBLAS_NUM_THREADS", "1", "2")],
)
def test_threads_that_wait_burn_no_core_unless_that_is_wanted(
    called, monkeypatch, name, usual, other
):
    """The processes that a command starts inherit it."""
    # Kept for the tests behind, whatever the command sets.
    monkeypatch.setenv(name, other)
    monkeypatch.delenv(name)
    called("--version")
    assert os.environ[name] == usual

    called("--version", **{name: other})
    assert os.environ[name] == other


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("replay", "none.parquet"), "none.parquet: there is no such file"),
        (("replay", "none.parquet", "--window", "6"), "--window '6': give whole hours or days"),
        (("replay", "none.parquet", "--picture", "x.bmp"), "x.bmp: a picture's name ends in"),
        (("replay", "none.parquet", "--calibrator", "bbq"), "--calibrator = bbq: must be"),
        (("retrain", "--url", "localhost:8080"), "give an address such as http://127.0.0.1:8080"),
        (("up", "--host", "no.such.host.invalid"), "cannot listen on port 8080"),
        (("up", "--refit-every", "7m"), "--refit-every '7m': give whole minutes that divide"),
        (("up", "--group", "("), "--group = (: must be a regular expression"),
        (("retrain", "--url", "http://me:secret@h"), "--url: must name a host, and no password"),
        (("retrain", "--url", "me:secret@h"), "--url 'h': give an address"),
        (("retrain", "--as-of", "nan"), "--as-of 'nan': the year must be from 2000"),
        (("retrain", "--as-of", "-5"), "--as-of '-5'"),
        (("retrain", "--as-of", "1767225600000"), "give seconds"),
        (("retrain", "--timeout", "inf"), "inf is no finite number"),
        (("simulate", "x.parquet", "--drift", "inf"), "less than or equal to"),
        (("simulate", "x.parquet", "--impressions", 10**30), "less than or equal to"),
        (("demo", "--campaigns", 10**12), "less than or equal to"),
        (("size", "--campaigns", 10**30, "--events-per-second", "1"), "less than or equal to"),
        (("auction", "--demo", "--pages", 10**14), "less than or equal to"),
        (("auction", "--demo", "--alphas", "1"), "--alphas goes with --sweep only"),
        (("auction", "--demo", "--mainline", "0", "--sidebar", "0"), "a page must have a slot"),
        (("auction", "--demo", "--sidebar", "1"), "--mainline 4, --sidebar 1: go with a log only"),
        (("retrain", "--cancel", "1", "--approve"), "--cancel ends one job"),
        (("retrain", "--cancel", "1", "--target", "click"), "--cancel ends one job"),
        (("retrain", "--cancel", "1", "--as-of", "2026-03-01T12:00:00Z"), "--cancel ends one job"),
        (("retrain", "--approve", "--target", "click"), "--target does not go with --approve"),
        (("lake", "bins", "x/", "--output", "y", "--target", ""), "--target: must name a target"),
        (("lake", "train", "x/", "--output", "y", "--target", ""), "must be a delayed target"),
        (("frobnicate",), "No such command"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(refused, arguments, expected):
    said = refused(*arguments)

    assert expected in said
    assert "secret" not in said


def test_all_that_is_wrong_with_the_environment_is_told_at_once(called):
    run = called("up", SIROCCO_BIN_SIZE="0", SIROCCO_WINDOW="6h")

    assert run.returncode == 2
    assert "SIROCCO_BIN_SIZE = 0" in run.stderr
    assert "SIROCCO_WINDOW: there is no such setting" in run.stderr


def test_a_service_that_is_not_there_is_an_error_of_one_line(called, sirocco):
    at = ("--url", "http://127.0.0.1:9")
    for run in (called("retrain", *at), sirocco("retrain", SIROCCO_PORT="9")):
        assert run.returncode == 1
        assert run.stderr.startswith("sirocco: http://127.0.0.1:9 does not answer")
        assert run.stderr.count("\n") == 1


def test_a_file_name_is_printed_as_it_is(called):
    """Square brackets are markup to the library that prints."""
    run = called("evaluate", "[bold]log.csv")

    assert "[bold]log.csv: there is no such file" in run.stderr


def test_a_terminal_of_ascii_is_written_to(sirocco):
    run = sirocco("size", "-h", PYTHONIOENCODING="ascii", COLUMNS="30", LC_ALL="C")

    assert (run.returncode, run.stderr) == (0, "")


def test_a_report_shows_no_login_of_a_store(monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["sirocco", "evaluate", "s3://key:sec/ret@bucket/log", "--json"]
    )

    assert typed_command() == "sirocco evaluate s3://bucket/log --json"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_exit_code_names_the_signal(number, called, monkeypatch):
    """And each ends the command in order: what it has begun is cleared away."""
    cleared = []

    def size() -> None:
        try:
            signal.raise_signal(number)
        finally:
            cleared.append(True)

    # The tests may run under nohup.
    before = signal.signal(number, signal.default_int_handler)
    monkeypatch.setattr("app.cli.run.size", size)

    run = called("size")
    signal.signal(number, before)

    assert (run.returncode, cleared) == (128 + number, [True])


def test_a_signal_that_comes_while_options_are_read_is_told_as_well(called, monkeypatch):
    """To load what their types need is a good part of the start of a service."""

    def end(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("app.cli.main.LazyGroup.parse_args", end)

    assert called("size").returncode == 128 + signal.SIGTERM


def test_a_second_sighup_does_not_cut_the_end_short():
    """A shell and the kernel may both tell of one end."""
    ended, before = [], signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def closed_twice() -> None:
        with terminated_like_ctrl_c():
            try:
                signal.raise_signal(signal.SIGHUP)
            finally:
                signal.raise_signal(signal.SIGHUP)
                ended.append(True)

    with pytest.raises(Terminated):
        closed_twice()
    signal.signal(signal.SIGHUP, before)

    assert ended == [True]


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_who_reads_no_further_is_no_failure(closed, tmp_path, environment):
    """`| head` and the like: the exit code that a shell gives whom SIGPIPE has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    arguments = {"stdout": ("size", *TRAFFIC), "stderr": ("audit", "--file", "x")}
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: writer}
    run = subprocess.run([*COMMAND, *arguments[closed]], cwd=tmp_path, env=environment, **streams)
    os.close(writer)

    assert (run.returncode, run.stdout or b"", run.stderr or b"") == (141, b"", b"")
