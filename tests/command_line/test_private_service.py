"""A private service shares nothing with the service that the environment describes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.cli.serving.playback import of_delayed, of_immediate, private_service
from app.cli.serving.settings import environment_of, settings_with
from app.errors import CommandError
from app.results.backtest import after
from app.settings import Settings, load_settings


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options that services would have been started with."""
    options: list[dict[str, Any]] = []

    @contextmanager
    def start(given: Mapping[str, Any], logs: Path, *, nice_worker: bool) -> Iterator[None]:
        assert not nice_worker, "who plays a log waits for the worker"
        options.append({**given, "logs": logs})
        yield

    monkeypatch.setattr("app.cli.serving.playback.whole_service", start)
    monkeypatch.setenv("SIROCCO_REDIS_URL", "redis://shared:6379")
    monkeypatch.setenv("SIROCCO_CLICK_LOG_URL", "s3://shared/clicks")
    monkeypatch.setenv("SIROCCO_ATTRIBUTION_HOURS", "conversion=48")
    return options


@pytest.mark.parametrize("targets", [of_immediate("click"), of_delayed("install", 72)])
def test_its_data_are_its_own(started, targets):
    with private_service(targets):
        options = started[0]
        folder = options.pop("logs")
        settings = settings_with(options)

        assert not settings.redis_url
        assert Path(settings.click_log).parent == settings.data_dir.parent == folder
        assert settings.attribution_hours == targets["attribution_hours"]
    assert not folder.exists()


@pytest.mark.parametrize("hours", [{}, {"conversion": 48, "install": 72}])
def test_windows_reach_a_child_as_they_are(monkeypatch, hours):
    environment = environment_of(
        {"attribution_hours": hours, "delayed_targets": ("conversion", "install")}
    )
    for name, text in environment.items():
        monkeypatch.setenv(name, text)

    assert load_settings().attribution_hours == hours


@pytest.mark.parametrize(
    ("calibrators", "hours"),
    [("pooled", "72 h"), ("sir", "6 h"), ("platt", "6 h"), ("sir pooled", "6 h (pooled: 72 h)")],
)
def test_each_calibrator_looks_back_over_its_own_hours(calibrators, hours):
    title = after(Settings(window_hours=6, history_hours=72), calibrators.split())
    assert title == f"each hour evaluated with maps of the {hours} before it"


@pytest.mark.parametrize("private", [of_immediate("click"), of_delayed("conversion", 168)])
def test_a_private_service_takes_calibrators_of_other_targets_for_none_of_its_own(
    private, monkeypatch
):
    """The environment may name targets that it does not have."""
    monkeypatch.setenv("SIROCCO_TARGETS", "click,view")
    monkeypatch.setenv("SIROCCO_TARGET_CALIBRATORS", "view=sir")

    for name, text in environment_of(private).items():
        monkeypatch.setenv(name, text)

    assert settings_with({}).target_calibrators == {}


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("window_hours", 1000, "--window = 1000: must be less than or equal to 720"),
        ("calibrator", "a", "--calibrator = a: must be a monotone calibrator: "),
        ("refit_minutes", 7, "--refit-every = 7: must "),
        ("campaign_group", "(", "--group = (: must be a regular expression: "),
        ("redis_url", "a", "--redis-url: must begin with "),
        ("port", -1, "--port = -1: must be greater than or equal to 0"),
    ],
)
def test_what_is_wrong_with_a_setting_names_the_option_that_gave_it(
    monkeypatch, setting, value, said
):
    monkeypatch.setenv("SIROCCO_REFRESH_SECONDS", "-1")

    with pytest.raises(CommandError) as error:
        settings_with({setting: value})

    both = str(error.value).splitlines()
    assert any(line.startswith(said) for line in both)
    assert any(line.startswith("SIROCCO_REFRESH_SECONDS = -1: must be ") for line in both)
