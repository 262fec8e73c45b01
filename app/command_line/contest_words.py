"""What a contest says of its targets."""

from collections.abc import Sequence
from math import isnan
from typing import Final

from app.command_line.block_words import block_warnings
from app.command_line.contest_result import Contested, ContestResult, Ends
from app.command_line.contest_targets import NO_WORSE, Verdict
from app.command_line.tables import shown
from evaluation.contest import REGIMES

MILLION: Final = 1e6
MET: Final = {True: "met", False: "missed", None: "unknown"}


def verdict_texts(verdict: Verdict) -> tuple[str, str, str]:
    """Value, limit and interval."""
    ends = (verdict.value, verdict.limit, verdict.lower, verdict.upper)
    if verdict.target == NO_WORSE:
        texts = [shown(MILLION * end, "+.1f" if end else ".0f") for end in ends]
        return texts[0], texts[1], f"{texts[2]} to {texts[3]}"
    texts = [shown(end, ".2f") for end in ends]
    if texts[0] == texts[1]:
        # Else a value just above its limit would be missed for no reason that is seen.
        texts[0] = shown(verdict.value, ".4f")
    return texts[0], texts[1], f"{texts[2]}-{texts[3]}" if verdict.upper > 0 else "no interval"


def verdict_words(verdicts: Sequence[Verdict]) -> str:
    """How many targets are met, and what is missed or unknown."""
    met = sum(verdict.met is True for verdict in verdicts)
    said = [f"{met} of {len(verdicts)} targets are met."]
    for verdict in verdicts:
        if verdict.met is False:
            value, limit, interval = verdict_texts(verdict)
            than = "not below" if verdict.limit == 1.0 else "above"
            said.append(
                f"Missed in {verdict.regime}: {verdict.target} ({verdict.against}): {value}"
                f" ({interval}) is {than} {limit}."
            )
    unknown = sum(verdict.met is None for verdict in verdicts)
    said += [f"{unknown} cannot be told: nobody to compare with ran."] if unknown else []
    absent = sorted({name for verdict in verdicts for name in verdict.absent})
    said += [f"{' and '.join(absent)} did not run: targets are judged without."] if absent else []
    return " ".join(said)


def difference_text(ends: Ends | None) -> tuple[str, str]:
    """A difference in log loss x 10^6, and its interval."""
    if ends is None:
        return "", ""
    value, lower, upper = (MILLION * end for end in (ends.value, ends.lower, ends.upper))
    interval = f"({shown(lower, ',.0f')} to {shown(upper, ',.0f')})"
    return shown(value, "+,.0f"), "" if isnan(lower) else interval


def block_notes(found: Contested) -> list[str]:
    """What makes the intervals of a log less than they seem."""
    blocks = found.blocks
    return block_warnings(blocks.count, blocks.unit, blocks.effective)


def short_notes(result: ContestResult) -> list[str]:
    """That regimes were not judged for as long as they are meant to be."""
    short = [
        found.name
        for found in result.contested
        if found.name in REGIMES and found.hours < REGIMES[found.name].judged_hours
    ]
    if not short:
        return []
    return [f"A short run: not all hours of {', '.join(short)} were judged. Figures will move."]
