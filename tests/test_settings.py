"""Settings: read from the environment, all errors of a bad configuration at once, immutable."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import BadConfiguration, Settings, groups_of, load_settings, variable_of


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(variable_of(name), raising=False)


@pytest.fixture
def environment(monkeypatch):
    """Sets variables of the environment."""

    def put(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return put


def test_the_defaults_serve_clicks_on_this_machine_only():
    settings = load_settings()

    assert (settings.host, settings.port, settings.is_public) == ("127.0.0.1", 8080, False)
    assert settings.known_targets == ("click", "conversion")
    assert (settings.clock, settings.calibrator, settings.redis_url) == ("wall", "pooled", None)


def test_every_setting_has_a_description():
    assert all(field.description for field in Settings.model_fields.values())


def test_variables_are_read_and_typed(environment):
    environment(
        SIROCCO_PORT="9000",
        SIROCCO_TARGETS="click, view,",
        SIROCCO_DELAYED_TARGETS="",
        SIROCCO_DATA_DIR="/tmp/x",
        SIROCCO_CLOCK="event",
        SIROCCO_GUARD="false",
        SIROCCO_MIN_SAMPLES="2.5",
    )

    settings = load_settings()

    assert (settings.port, settings.clock, settings.guard) == (9000, "event", False)
    assert (settings.targets, settings.delayed_targets) == (("click", "view"), ())
    assert (settings.data_dir, settings.min_samples) == (Path("/tmp/x"), 2.5)


def test_what_the_caller_says_beats_the_environment(environment):
    environment(SIROCCO_PORT="9000", SIROCCO_BIN_SIZE="7")

    settings = load_settings(port=0, targets=("view",))

    assert (settings.port, settings.bin_size, settings.targets) == (0, 7, ("view",))


def test_all_errors_are_listed_at_once_by_their_variable(environment):
    environment(
        SIROCCO_PORT="99999",
        SIROCCO_CLOCK="sundial",
        SIROCCO_CALIBRATOR="bbq",
        SIROCCO_TARGETS=",",
        SIROCCO_WINDOW_HOURS="x" * 1000,
        SIROCCO_WINDOWS="7",
        SIROCCO_PROT="8080",
    )

    with pytest.raises(BadConfiguration) as bad:
        load_settings()

    lines = dict(line.split(":", 1) for line in str(bad.value).splitlines())
    assert lines.keys() == {
        "SIROCCO_PORT = 99999",
        "SIROCCO_CLOCK = sundial",
        "SIROCCO_CALIBRATOR = bbq",
        "SIROCCO_TARGETS = ,",
        "SIROCCO_WINDOW_HOURS = " + "x" * 64,
        "SIROCCO_WINDOWS",
        "SIROCCO_PROT",
    }
    assert "monotone calibrator" in lines["SIROCCO_CALIBRATOR = bbq"]
    assert "sir" in lines["SIROCCO_CALIBRATOR = bbq"]
    assert lines["SIROCCO_TARGETS = ,"] == " at least one immediate target is needed"
    assert lines["SIROCCO_PROT"] == " there is no such setting"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SIROCCO_TARGETS", "Click"),
        ("SIROCCO_TARGETS", "cl:ick"),
        ("SIROCCO_TARGETS", "x" * 65),
        ("SIROCCO_DELAYED_TARGETS", "1st"),
        ("SIROCCO_REDIS_TIMEOUT_SECONDS", "0"),
        ("SIROCCO_REDIS_TIMEOUT_SECONDS", "nan"),
        ("SIROCCO_MIN_POSITIVES", "nan"),
        ("SIROCCO_WINDOW_HOURS", "0"),
        ("SIROCCO_WINDOW_HOURS", "1.5"),
        ("SIROCCO_BIN_SIZE", "-1"),
        ("SIROCCO_MAX_BODY_BYTES", "1e400"),
        ("SIROCCO_MIN_SAMPLES", "inf"),
        ("SIROCCO_FUTURE_SECONDS", "1e400"),
        ("SIROCCO_BIN_SIZE", "1" + 30 * "0"),
        ("SIROCCO_GUARD", "perhaps"),
        ("SIROCCO_CLICK_LOG_URL", "ftp://clicks"),
        ("SIROCCO_CLICK_LOG_URL", "s3:/clicks"),
        ("SIROCCO_CLICK_LOG_URL", "file://relative"),
        ("SIROCCO_ATTRIBUTION_HOURS", "conversion=24,conversion=48"),
        ("SIROCCO_OTLP_ENDPOINT", "collector:4318"),
        *(("SIROCCO_REFIT_MINUTES", minutes) for minutes in ("7", "0", "120")),
        *(("SIROCCO_ATTRIBUTION_HOURS", f"conversion{n}") for n in ("", "=0", "=2161", "=x")),
    ],
)
def test_a_value_out_of_its_bounds_is_an_error(environment, variable, value):
    environment(**{variable: value})

    with pytest.raises(BadConfiguration, match=f"^{variable} = "):
        load_settings()


NOT_MONOTONE = "SIROCCO_TARGET_CALIBRATORS = .*monotone calibrator.*sir"
TWICE = "SIROCCO_TARGETS and SIROCCO_DELAYED_TARGETS name view twice$"
NO_DELAYED = "SIROCCO_ATTRIBUTION_HOURS: click is no delayed target$"
BOTH_GROUPS = "SIROCCO_GROUP_FIELD, SIROCCO_CAMPAIGN_GROUP: both are given"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("PROT=8080", "SIROCCO_PROT: there is no such setting$"),
        ("TARGETS=click,view DELAYED_TARGETS=view,sale", TWICE),
        ("ATTRIBUTION_HOURS=click=24", NO_DELAYED),
        ("TARGET_CALIBRATORS=view=sir", "SIROCCO_TARGET_CALIBRATORS: view is no target$"),
        *((f"TARGET_CALIBRATORS=click={name}", NOT_MONOTONE) for name in ("bbq", "histogram", "")),
        ("CAMPAIGN_GROUP=(", "SIROCCO_CAMPAIGN_GROUP = .*: must be a regular expression"),
        ("CAMPAIGN_GROUP=^[^/]+/", "SIROCCO_CAMPAIGN_GROUP = .*: must have a group in parentheses"),
        ("PORT=9 ADMIN_PORT=9", "SIROCCO_ADMIN_PORT = 9: must be another than the API's$"),
        ("GROUP_FIELD=brand", "SIROCCO_GROUP_FIELD: brand is no field"),
        ("FIELDS=brand GROUP_FIELD=brand CAMPAIGN_GROUP=^(.)", BOTH_GROUPS),
    ],
)
def test_what_cannot_be_is_named_with_its_rule(environment, said, error):
    variables = dict(one.split("=", 1) for one in said.split())
    environment(**{f"SIROCCO_{name}": value for name, value in variables.items()})

    with pytest.raises(BadConfiguration, match=f"^{error}"):
        load_settings()


def test_attribution_windows_are_by_delayed_target(environment):
    environment(
        SIROCCO_DELAYED_TARGETS="conversion,install",
        SIROCCO_ATTRIBUTION_HOURS="install = 72,",
        SIROCCO_POST_CLICK_MINUTES="30",
    )

    settings = load_settings()

    assert settings.attribution_seconds("install") == 72 * 3600
    assert settings.attribution_seconds("conversion") == 7 * 24 * 3600
    assert settings.post_click_seconds == 1800


def test_an_attribution_window_lasts_as_long_as_behaviours_are_gathered(environment):
    environment(
        SIROCCO_DELAYED_TARGETS="conversion",
        SIROCCO_ATTRIBUTION_HOURS="conversion=2",
        SIROCCO_POST_CLICK_MINUTES="120",
    )
    assert load_settings().attribution_seconds("conversion") == 7200
    environment(SIROCCO_POST_CLICK_MINUTES="121")

    rule = "SIROCCO_ATTRIBUTION_HOURS: conversion has less than SIROCCO_POST_CLICK_MINUTES"
    with pytest.raises(BadConfiguration, match=f"^{rule} = 121$"):
        load_settings()


@pytest.mark.parametrize(
    ("variables", "least"),
    [
        ({"SIROCCO_TRAINING_DAYS": "14"}, 23),
        ({"SIROCCO_ATTRIBUTION_HOURS": "conversion=25"}, 18),
        ({"SIROCCO_DELAYED_TARGETS": "install", "SIROCCO_ATTRIBUTION_HOURS": "install=24"}, 17),
    ],
)
def test_the_click_log_must_cover_what_is_trained_on(environment, variables, least):
    """The days of training, until the last of their clicks is mature, and two to spare."""
    environment(**variables, SIROCCO_CLICK_LOG_DAYS=str(least))
    load_settings()
    environment(SIROCCO_CLICK_LOG_DAYS=str(least - 1))

    with pytest.raises(
        BadConfiguration, match=f"^SIROCCO_CLICK_LOG_DAYS = {least - 1}: must be at least {least}, "
    ):
        load_settings()


def test_no_training_waits_for_more_clicks_than_it_takes(environment):
    environment(SIROCCO_TRAINING_CLICKS="5000", SIROCCO_MIN_TRAINING_CLICKS="5000")
    load_settings()
    environment(SIROCCO_MIN_TRAINING_CLICKS="5001")

    rule = "SIROCCO_MIN_TRAINING_CLICKS = 5001: must be at most SIROCCO_TRAINING_CLICKS, 5000"
    with pytest.raises(BadConfiguration, match=f"^{rule}$"):
        load_settings()


def test_an_empty_data_directory_is_not_the_current_folder(environment):
    environment(SIROCCO_DATA_DIR="")

    assert load_settings().data_dir == Path("sirocco-data")


def test_without_delayed_targets_the_click_log_may_be_short(environment):
    environment(SIROCCO_DELAYED_TARGETS="", SIROCCO_CLICK_LOG_DAYS="2")

    assert load_settings().click_log_days == 2


def test_the_click_log_lies_in_the_data_directory_unless_said_otherwise(environment):
    environment(SIROCCO_DATA_DIR="/tmp/x")
    default = load_settings().click_log
    environment(SIROCCO_CLICK_LOG_URL="s3://bucket/clicks")

    assert (default, load_settings().click_log) == ("/tmp/x/click-log", "s3://bucket/clicks")


def test_a_secret_is_shown_nowhere(environment):
    """Neither that which is refused, nor that which is taken."""
    environment(SIROCCO_SIGNING_KEY="too-short-a-secret")
    with pytest.raises(BadConfiguration, match=r"^SIROCCO_SIGNING_KEY: .*32 characters") as bad:
        load_settings()
    with pytest.raises(ValidationError) as refused:
        Settings()
    environment(SIROCCO_SIGNING_KEY="a-secret-that-is-long-enough-to-sign")

    shown = f"{bad.value} {refused.value} {load_settings()!r}"
    assert "secret" not in shown.replace("SecretStr", "")
    assert load_settings().signing_key.get_secret_value().startswith("a-secret")


def test_a_store_of_another_kind_is_refused_before_anything_starts(environment):
    environment(SIROCCO_REDIS_URL="memcached://ops:secret@cache")

    with pytest.raises(BadConfiguration, match="must begin with redis://") as caught:
        load_settings()
    assert "secret" not in str(caught.value)


def test_a_secret_may_stand_in_a_file(environment, tmp_path, caplog):
    file = tmp_path / "secret"
    file.write_text("redis://a-secret-that-is-long-enough-to-sign\n")
    file.chmod(0o600)
    for name in ("SIGNING_KEY", "BOOTSTRAP_ADMIN_KEY", "REDIS_URL"):
        environment(**{f"SIROCCO_{name}_FILE": str(file)})
    environment(SIROCCO_API_KEY="of the command line, and no setting")

    settings = load_settings()

    secret = "redis://a-secret-that-is-long-enough-to-sign"
    assert settings.signing_key.get_secret_value() == secret
    assert settings.bootstrap_admin_key.get_secret_value() == secret
    assert settings.redis_url == secret
    assert load_settings(redis_url="redis://other").redis_url == "redis://other"
    assert secret not in repr(settings)
    assert caplog.text == ""
    file.chmod(0o644)
    load_settings()
    assert "others than its owner may read it: chmod 600" in caplog.text


def test_a_mounted_secret_belongs_to_root_and_is_read_by_our_group(
    environment, tmp_path, caplog, monkeypatch
):
    file = tmp_path / "secret"
    file.touch(0o440)
    environment(SIROCCO_BOOTSTRAP_ADMIN_KEY_FILE=str(file))

    assert load_settings().bootstrap_admin_key is None, "an empty file is no key"
    assert "chmod 600" in caplog.text
    caplog.clear()
    monkeypatch.setattr("os.geteuid", lambda: file.stat().st_uid + 1)
    load_settings()
    assert caplog.text == ""


def test_an_empty_file_names_no_store(environment, tmp_path):
    """Not a private server, as where nothing is given."""
    (tmp_path / "url").touch(0o600)
    environment(SIROCCO_REDIS_URL_FILE=str(tmp_path / "url"))

    with pytest.raises(BadConfiguration, match=r"^SIROCCO_REDIS_URL_FILE: the file is empty$"):
        load_settings()


def test_a_secret_that_is_no_file_or_stands_twice_is_refused(environment, tmp_path):
    environment(
        SIROCCO_SIGNING_KEY_FILE=str(tmp_path / "none"),
        SIROCCO_REDIS_URL="redis://:secret@a",
        SIROCCO_REDIS_URL_FILE="b",
        SIROCCO_PORT_FILE="c",
    )

    with pytest.raises(BadConfiguration) as bad:
        load_settings()

    assert str(bad.value).splitlines() == [
        "SIROCCO_PORT_FILE: there is no such setting",
        "SIROCCO_REDIS_URL, SIROCCO_REDIS_URL_FILE: both are given; give one",
        f"SIROCCO_SIGNING_KEY_FILE = {tmp_path}/none: No such file or directory",
    ]


def test_an_unknown_override_is_an_error():
    with pytest.raises(BadConfiguration, match="SIROCCO_PROT"):
        load_settings(prot=1)


def test_settings_are_immutable():
    with pytest.raises(ValidationError, match="frozen"):
        load_settings().port = 1


def test_bins_live_through_the_longest_window_and_grace():
    """And two hours more: the last hour is folded and refitted after they have passed."""
    hours = {"window_hours": 24, "grace_hours": 2}
    assert load_settings(**hours, history_hours=48).ttl_seconds == 52 * 3600
    assert load_settings(**hours, history_hours=5).ttl_seconds == 28 * 3600


def test_ids_of_events_live_no_longer_than_events_are_taken_in():
    """They are the larger part of the memory."""
    settings = load_settings(window_hours=24, grace_hours=2, history_hours=48)
    assert settings.event_ttl_seconds == 28 * 3600


def test_each_target_has_the_calibrator_that_is_said_for_it(environment):
    environment(
        SIROCCO_TARGETS="click,view",
        SIROCCO_CALIBRATOR="beta",
        SIROCCO_TARGET_CALIBRATORS="click = sir, conversion=pooled,",
    )

    settings = load_settings()

    assert settings.calibrator_of("click") == "sir"
    assert settings.calibrator_of("conversion") == "pooled"
    assert settings.calibrator_of("view") == "beta"


def test_campaigns_are_grouped_by_the_first_group_of_the_expression():
    group = groups_of(load_settings(campaign_group="^(?:x-)?([^/]+)/"))

    assert [group(name) for name in ("a/1", "x-a/2", "b/1", "alone")] == ["a", "a", "b", None]
    assert groups_of(load_settings()) is None
    of_field = groups_of(load_settings(fields=("brand",), group_field="brand"))
    assert (of_field.field, of_field("a/1")) == ("brand", None)
