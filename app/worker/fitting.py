"""Fitting as the settings say: the same for immediate and delayed targets."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.settings import Settings
from calibrators import (
    Atlas,
    Bins,
    BinsTable,
    Calibrator,
    Refit,
    Sufficiency,
    make_calibrator,
    refit_campaigns,
)
from calibrators.refit import refit_blocks


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
    return fit_blocks(settings, [window], window.total(), campaigns, in_force)


def fit_blocks(
    settings: Settings,
    blocks: Iterable[BinsTable],
    total: Bins,
    campaigns: Sequence[str] | None,
    in_force: Atlas | None,
) -> Refit:
    """`fit_window` of a window that comes in blocks, none with a campaign of another's, and whose
    bins of all campaigns together are `total`."""
    calibrator = configured_calibrator(settings)
    sufficiency = Sufficiency(settings.min_samples, settings.min_positives)
    if campaigns is None:
        return refit_blocks(blocks, total, calibrator, sufficiency)
    atlas = in_force or Atlas.empty()
    return refit_campaigns(atlas, blocks, campaigns, calibrator, sufficiency)


def fit_report(fitted: Refit) -> dict[str, Any]:
    """How many campaigns got maps of their own, and how many did not, by reason."""
    reasons = list(fitted.skipped.values())
    skipped = {reason: reasons.count(reason) for reason in sorted(set(reasons))}
    return {"fitted": len(fitted.atlas), "skipped": skipped}
