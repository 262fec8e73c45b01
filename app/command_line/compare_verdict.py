"""Which of two models is better, in words that need no statistics."""

from math import isfinite, isnan
from typing import Final

from app.command_line.compared import Compared
from app.command_line.interval_text import interval_text, value_text
from evaluation.model_comparison import A, B, ModelComparison

_PLAIN: Final = "log_loss"
_CALIBRATED: Final = "calibrated_log_loss"
_OTHER: Final = {A: B, B: A}
_MOST_TIMES: Final = 100.0


def compare_verdict(compared: Compared) -> str:
    """The verdict, without intervals only what can be said without."""
    found = compared.found
    if compared.log.identical:
        return _identical(compared)
    if not found.draws[0]:
        return _without_draws(found)
    if isnan(found.differences[_PLAIN].lower):
        return "There is too little to compare: an interval takes two blocks at least."
    return " ".join([*_main(found), *_ranking(found), *_calibration(found)])


def _identical(compared: Compared) -> str:
    if compared.names[A] == compared.names[B]:
        return (
            "A and B are the same column of the same file: every difference is zero by"
            " construction."
        )
    return "A and B give every impression the same score: every difference is zero."


def _without_draws(found: ModelComparison) -> str:
    leader = found.leads(_PLAIN)
    return (
        f"{leader} has the lower log loss; whether by chance, nobody can tell without intervals"
        " (--draws)."
    )


def _main(found: ModelComparison) -> list[str]:
    """What the log losses say, as they are and with the overall bias taken out."""
    plain, calibrated = found.better(_PLAIN), found.better(_CALIBRATED)
    if plain is None:
        said = f"A and B cannot be told apart on this log: log loss {_span(found, _PLAIN)}."
        return [said, _needed(found) if calibrated is None else _if_calibrated(found, calibrated)]
    said = f"{plain} is better: log loss {_span(found, _PLAIN)}."
    if isnan(found.differences[_CALIBRATED].value):
        return [said]
    if calibrated == plain:
        return [said, f"It stays better once the overall bias of both is taken out{_cal(found)}."]
    if calibrated is None:
        return [said, _level(found, plain)]
    return [
        said.replace("is better", "is better as it is"),
        f"But only its level is: with the overall bias of both taken out {calibrated} is"
        f" better{_cal(found)}. Calibrate {calibrated}, and it wins.",
    ]


def _level(found: ModelComparison, plain: str) -> str:
    why = f": what {_OTHER[plain]} lacks is its level" if found.better("cal_1") == plain else ""
    return (
        f"Once the overall bias of both is taken out, they cannot be told apart{_cal(found)}{why}."
    )


def _if_calibrated(found: ModelComparison, winner: str) -> str:
    return (
        f"With the overall bias of both taken out {winner} is better{_cal(found)}. Calibrate"
        f" {winner}, and it wins."
    )


def _cal(found: ModelComparison) -> str:
    return f", calibrated log loss {_span(found, _CALIBRATED)}"


def _span(found: ModelComparison, metric: str) -> str:
    difference = found.differences[metric]
    return f"A less B {value_text(difference)} ({interval_text(difference)})"


def _needed(found: ModelComparison) -> str:
    blocks = found.blocks
    needed = found.differences[_PLAIN].blocks_for(blocks.count)
    if not isfinite(needed) or needed > _MOST_TIMES * blocks.count:
        return (
            f"If the true difference is as small, it would take more than {_MOST_TIMES:.0f} times"
            f" as many {blocks.unit} to see it."
        )
    more = needed - blocks.count
    if more < 1.0:
        return f"It is close: a few more {blocks.unit} may tell."
    return (
        f"If the true difference is the one seen, roughly {_rounded(more)} more {blocks.unit}"
        " would be needed to see it four times in five."
    )


def _rounded(number: float) -> str:
    """Two digits that count: no more is known."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _ranking(found: ModelComparison) -> list[str]:
    """By AUC and, where there are bids, in money."""
    said: dict[str, list[str]] = {A: [], B: []}
    for metric, name in (("auc", "AUC"), ("cs_auc", "csAUC, in money")):
        better = found.better(metric) if metric in found.differences else None
        if better is not None:
            value, other = (found.metrics[side][metric] for side in (better, _OTHER[better]))
            said[better].append(f"{value:.4f} against {other:.4f} ({name})")
    sentences = [f"{side} ranks better: {', '.join(said[side])}." for side in said if said[side]]
    return sentences or ["Neither ranks better beyond chance."]


def _calibration(found: ModelComparison) -> list[str]:
    """Calibrated losses do not see a model that is better calibrated, so PCOC stands beside."""
    better = found.better("cal_1")
    nearer = f"; {better} promises nearer to what comes true" if better else ""
    ratios = (f"{found.metrics[side]['pcoc']:.3f} of {side}" for side in (A, B))
    return [f"PCOC {' and '.join(ratios)}{nearer}."]
