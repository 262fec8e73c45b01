"""Methods by name."""

import pytest

from calibrators import (
    CALIBRATORS,
    METHODS,
    PerCampaign,
    SmoothedIsotonic,
    Sufficiency,
    make_method,
)
from calibrators.pooled import Pooled


def test_every_method_that_may_serve_is_made_by_its_name():
    """And says that name."""
    assert [make_method(name).name for name in METHODS] == list(METHODS)


def test_only_monotone_calibrators_may_serve():
    """The pooled method and the calibrators that keep the order of scores."""
    serving = {name for name, calibrator in CALIBRATORS.items() if calibrator.monotone}

    assert set(METHODS) == {"pooled", *serving}


def test_settings_go_where_they_belong():
    """Hours and sufficiency to the calibrators, history and groups to the pooled method."""
    wanted = Sufficiency(5, 1)
    sir = make_method("sir", hours=12, history_hours=72, bin_size=50, sufficiency=wanted)
    pooled = make_method("pooled", hours=12, history_hours=72, groups=str.upper)

    assert isinstance(sir, PerCampaign)
    assert (sir.hours, sir.sufficiency, sir.calibrator.bin_size) == (12, wanted, 50)  # type: ignore[attr-defined]
    assert pooled == Pooled(72, str.upper)


@pytest.mark.parametrize("name", ["bbq", "histogram", "", "Pooled"])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    """Calibrators that reorder scores are unknown here too."""
    with pytest.raises(ValueError, match=f"calibrator = '{name}': must be one of pooled, "):
        make_method(name)


def test_the_published_sir_has_no_pseudo_samples():
    published = make_method("sir", prior_strength=0)

    assert isinstance(published, PerCampaign)
    assert published.calibrator == SmoothedIsotonic(prior_strength=0)
