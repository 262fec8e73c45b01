"""How far intervals over drawn blocks can be trusted, in words."""

from evaluation.blocks import LEAST_BLOCKS

_FEW = LEAST_BLOCKS / 2


def block_warnings(blocks: int, unit: str, effective: float) -> list[str]:
    """What makes intervals over so many blocks less than they seem."""
    said = []
    if unit == "campaign-hours":
        said.append(
            f"There are fewer than {LEAST_BLOCKS} campaign-days, so campaign-hours were drawn:"
            " hours of one day share its luck, and the intervals are too narrow."
        )
    if blocks < LEAST_BLOCKS:
        said.append(
            f"Only {blocks} {unit}: the intervals cannot be trusted; it takes {LEAST_BLOCKS} at"
            " least."
        )
    elif effective < _FEW:
        said.append(
            f"A few of the {blocks} {unit} have most of the impressions (they vary as"
            f" {effective:.1f} of one size would): the intervals are rough."
        )
    return said


def drawn_how_often(blocks: int, unit: str, draws: int, few: int, which: str) -> str:
    """How the intervals were made, and how to read them; `which` are drawn fewer times."""
    fewer = f" ({which} {few:,} times)" if few != draws else ""
    return (
        f"95 % intervals over {blocks:,} {unit}, drawn {draws:,} times{fewer}. Without 0 inside, a"
        " difference is beyond chance on these campaigns; of 20 equal pairs, one shows it"
        " nevertheless."
    )
