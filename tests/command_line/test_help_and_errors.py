"""What a stranger reads: help that teaches, errors of one sentence."""

import pytest
import typer

from app.cli.main import application
from app.errors import typed_command
from tests.command_line.conftest import Sirocco

COMMANDS = sorted(typer.main.get_command(application).commands)  # type: ignore[attr-defined]


def test_help_lists_every_command(called: Sirocco) -> None:
    run = called("--help")

    assert run.returncode == 0
    assert all(f" {command} " in run.stdout for command in COMMANDS)
    assert "--parent" not in run.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_examples(called: Sirocco, command: str) -> None:
    run = called(command, "--help")

    assert "Examples" in run.stdout
    assert f"sirocco {command}" in run.stdout.partition("Examples")[2]


def test_the_version_is_printed(called: Sirocco) -> None:
    assert called("--version").stdout.startswith("sirocco ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("replay", "none.parquet"), "none.parquet: there is no such file"),
        (("replay", "none.parquet", "--window", "6"), "--window '6': give whole hours or days"),
        (("replay", "none.parquet", "--picture", "x.bmp"), "x.bmp: a picture's name ends in"),
        (("replay", "none.parquet", "--calibrator", "bbq"), "SIROCCO_CALIBRATOR = bbq: must be"),
        (("retrain", "--url", "localhost:8080"), "give an address such as http://127.0.0.1:8080"),
        (("up", "--host", "no.such.host.invalid"), "cannot listen on port 8080"),
        (("up", "--refit-every", "7m"), "--refit-every '7m': give whole minutes that divide"),
        (("up", "--group", "("), "SIROCCO_CAMPAIGN_GROUP = (: must be a regular expression"),
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
def test_bad_input_is_one_sentence_and_exit_code_2(
    called: Sirocco, arguments: tuple[str, ...], expected: str
) -> None:
    run = called(*arguments)

    assert run.returncode == 2
    assert expected in run.stderr
    assert "Traceback" not in run.stderr
    assert "secret" not in run.stderr
    assert run.stdout == ""


def test_all_that_is_wrong_with_the_environment_is_told_at_once(called: Sirocco) -> None:
    run = called("up", SIROCCO_BIN_SIZE="0", SIROCCO_WINDOW="6h")

    assert run.returncode == 2
    assert "SIROCCO_BIN_SIZE = 0" in run.stderr
    assert "SIROCCO_WINDOW: there is no such setting" in run.stderr


def test_a_service_that_is_not_there_is_an_error_of_one_line(called: Sirocco) -> None:
    run = called("retrain", "--url", "http://127.0.0.1:9")

    assert run.returncode == 1
    assert run.stderr.startswith("sirocco: http://127.0.0.1:9 does not answer")
    assert run.stderr.count("\n") == 1


def test_a_file_name_is_printed_as_it_is(called: Sirocco) -> None:
    """Square brackets are markup to the library that prints."""
    run = called("evaluate", "[bold]log.csv")

    assert "[bold]log.csv: there is no such file" in run.stderr


def test_a_terminal_of_ascii_is_written_to(sirocco: Sirocco) -> None:
    run = sirocco("size", "-h", PYTHONIOENCODING="ascii", COLUMNS="30", LC_ALL="C")

    assert (run.returncode, run.stderr) == (0, "")


def test_a_report_shows_no_login_of_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.argv", ["sirocco", "evaluate", "s3://key:sec/ret@bucket/log", "--json"]
    )

    assert typed_command() == "sirocco evaluate s3://bucket/log --json"
