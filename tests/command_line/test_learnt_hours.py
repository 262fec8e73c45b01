"""What a table says of the hours that its maps have learnt from, and of who made them."""

import pytest

from app.cli.serving.playback import of_delayed, of_immediate
from app.cli.serving.settings import environment_of, settings_with
from app.results.backtest import learnt_hours
from app.settings import Settings


@pytest.mark.parametrize(("calibrator", "hours"), [("pooled", 72), ("sir", 6), ("platt", 6)])
def test_each_calibrator_looks_back_over_its_own_hours(calibrator: str, hours: int) -> None:
    assert learnt_hours(Settings(window_hours=6, history_hours=72), calibrator) == hours


@pytest.mark.parametrize("private", [of_immediate("click"), of_delayed("conversion", 168)])
def test_a_private_service_takes_calibrators_of_other_targets_for_none_of_its_own(
    private: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment may name targets that it does not have."""
    monkeypatch.setenv("SIROCCO_TARGETS", "click,view")
    monkeypatch.setenv("SIROCCO_TARGET_CALIBRATORS", "view=sir")

    for name, text in environment_of(private).items():
        monkeypatch.setenv(name, text)

    assert settings_with({}).target_calibrators == {}
