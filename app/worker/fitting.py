"""Fitting as the settings say: the same for immediate and delayed targets."""

from collections.abc import Sequence
from typing import Any

from app.settings import Settings
from calibrators import (
    Atlas,
    BinsTable,
    Calibrator,
    Refit,
    Sufficiency,
    make_calibrator,
    refit,
    refit_campaigns,
)


def configured_calibrator(settings: Settings) -> Calibrator:
    """The calibrator that the settings name, with their bin size."""
    return make_calibrator(settings.calibrator, settings.bin_size)


def fit_window(
    settings: Settings,
    window: BinsTable,
    campaigns: Sequence[str] | None,
    in_force: Atlas | None,
) -> Refit:
    """Maps of all campaigns, or of those named with every other one as it is in force."""
    calibrator = configured_calibrator(settings)
    sufficiency = Sufficiency(settings.min_samples, settings.min_positives)
    if campaigns is None:
        return refit(window, calibrator, sufficiency)
    atlas = in_force or Atlas.empty()
    return refit_campaigns(atlas, window, campaigns, calibrator, sufficiency)


def fit_report(fitted: Refit) -> dict[str, Any]:
    """How many campaigns got maps of their own, and how many did not, by reason."""
    reasons = list(fitted.skipped.values())
    skipped = {reason: reasons.count(reason) for reason in sorted(set(reasons))}
    return {"fitted": len(fitted.atlas), "skipped": skipped}
