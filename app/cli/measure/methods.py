"""The methods that a backtest compares: calibrators by name, and the pooled method."""

from collections.abc import Mapping
from typing import Final

from app.errors import CommandError
from app.settings import Settings, groups_of
from calibrators import CALIBRATORS, Calibrator, Method, make_calibrator
from calibrators.registry import POOLED, make_method

NAMES: Final = (POOLED, *CALIBRATORS)
# The identity is the row `raw`.
COMPARED: Final = ",".join(name for name in NAMES if name != "identity")

Methods = Mapping[str, Calibrator | Method]


def chosen_methods(names: str | None, settings: Settings, *, raw_samples: bool) -> Methods:
    """The methods of a list with commas, None for all; on raw samples those that can learn from
    them."""
    wanted = [name.strip() for name in (names or COMPARED).split(",") if name.strip()]
    if not wanted or not set(wanted) <= set(NAMES):
        raise CommandError(
            f"--calibrators {names!r}: give some of {', '.join(NAMES)}, comma-separated"
        )
    if raw_samples and names is None:
        wanted.remove(POOLED)
    if raw_samples and POOLED in wanted:
        raise CommandError(f"--raw-samples: {POOLED} learns from bins of all campaigns")
    return {name: method_of(name, settings) for name in wanted}


def method_of(name: str, settings: Settings) -> Calibrator | Method:
    """The method of this name, as a service with these settings would run it."""
    if name != POOLED:
        return make_calibrator(name, settings.bin_size, settings.prior_strength)
    groups = groups_of(settings)
    return make_method(POOLED, history_hours=settings.history_hours, groups=groups)
