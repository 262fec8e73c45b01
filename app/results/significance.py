"""Which calibrators differ beyond chance, in words and as JSON."""

from dataclasses import asdict
from typing import Any, Final

from app.results.formatting import block_warnings, drawn_how_often
from evaluation.comparison.significance import Significance

HEADINGS: Final = {"log_loss": "log loss", "gc_3": "GC-3", "auc": "AUC"}
WORDS: Final = {1: "better", 0: "", -1: "worse"}


def compared_with(found: Significance, reference: str) -> list[str]:
    """The names that were compared with `reference`."""
    return [a for a, b in found.differences if b == reference]


def references(found: Significance) -> list[str]:
    """The names that others were compared with."""
    return list(dict.fromkeys(b for _, b in found.differences))


def about(found: Significance) -> str:
    """How the intervals were made, and how to read them."""
    draws = found.draws
    return drawn_how_often(
        found.blocks, found.unit, draws["log_loss"], draws["gc_3"], "GC-3 and AUC"
    )


def warnings(found: Significance) -> list[str]:
    """What makes the intervals less than they seem."""
    return block_warnings(found.blocks, found.unit, found.effective)


def differences_json(found: Significance, verdict: str) -> dict[str, Any]:
    """The differences for programs: `against` -> reference -> name -> metric -> numbers."""
    against: dict[str, dict[str, Any]] = {reference: {} for reference in references(found)}
    for (name, reference), metrics in found.differences.items():
        against[reference][name] = {
            metric: {**asdict(difference), "verdict": word(found, (name, reference), metric)}
            for metric, difference in metrics.items()
        }
    return {
        "verdict": verdict,
        "warnings": warnings(found),
        "unit": found.unit,
        "blocks": found.blocks,
        "effective_blocks": found.effective,
        "draws": dict(found.draws),
        "seed": found.seed,
        "confidence": 0.95,
        "against": against,
    }


def word(found: Significance, pair: tuple[str, str], metric: str) -> str:
    """better, worse, or unclear."""
    return WORDS[found.better(pair, metric)] or "unclear"
