"""What a simulation says in words, and when it must say nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan

from evaluation.auction.relative_change import RelativeChange
from evaluation.auction.simulation import Simulation

MOST_UNSEEN = 0.2
"""Share of slots at level 3 above which a simulation is a guess."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Whether a simulation may be believed, and what it says.

    Attributes
    ----------
    conclusive : False when nothing may be concluded.
    sentence : the conclusion, or why there is none.
    """

    conclusive: bool
    sentence: str


def conclusion(
    baseline: Simulation,
    candidate: Simulation,
    changes: Mapping[str, RelativeChange],
    most_unseen: float = MOST_UNSEEN,
) -> Conclusion:
    """What the changes from baseline to candidate mean.

    Nothing, when more than `most_unseen` of the slots of either are filled from level 3: there the
    log never showed the ad for the query, and its rate is a guess that flatters.
    """
    unseen = max(baseline.level_shares[2], candidate.level_shares[2])
    if unseen > most_unseen:
        return Conclusion(
            False,
            f"Do not conclude: in {unseen:.0%} of the simulated slots stands an ad that the log"
            f" never showed for the query, more than {most_unseen:.0%}. Its clicks are a guess."
            " Let the candidate choose on a small share of pages first, and simulate on their log.",
        )
    clicks = changes["click_yield"]
    if isnan(clicks.value):
        return Conclusion(False, "Do not conclude: the baseline has no clicks to compare with.")
    return Conclusion(True, f"{_what(clicks)}: {_listed(changes)}.")


def _what(clicks: RelativeChange) -> str:
    if not clicks.is_clear:
        return "No clear difference in clicks"
    return "More clicks" if clicks.value > 0.0 else "Fewer clicks"


def _listed(changes: Mapping[str, RelativeChange]) -> str:
    names = {
        "click_yield": "per page",
        "mainline_click_yield": "in the mainline",
        "revenue_per_mille": "revenue",
    }
    return ", ".join(f"{text} {_shown(changes[name])}" for name, text in names.items())


def _shown(change: RelativeChange) -> str:
    if isnan(change.value):
        return "-"
    return f"{change.value:+.1%} ({change.lower:+.1%} to {change.upper:+.1%})"
