"""What the metrics of a log say, in a few sentences."""

import math
from collections.abc import Iterator

from app.command_line.evaluated_log import EvaluatedLog, SliceTable
from app.command_line.tables import shown
from app.reports.labels import shortened

_BEYOND_FLOOR = 1.5
"""Cal-N of so many times its floor is more than chance."""
_LONGEST_NAME = 40


def verdict(log: EvaluatedLog) -> list[str]:
    """Sentences, the most important first."""
    return [*_total(log), *_bins(log), *_information(log), *_slices(log)]


def summary(log: EvaluatedLog) -> str:
    """How large the log is."""
    n, positives = log.overall["n"], log.overall["positives"]
    parts = [
        f"{n:,.0f} impressions",
        f"{positives:,.0f} positives ({shown(100.0 * positives / n, '.3g')} %)",
    ]
    for table, one in ((log.campaigns, "campaign"), (log.hours, "hour")):
        if table is not None:
            parts.append(f"{len(table):,} {one}{'' if len(table) == 1 else 's'}")
    return ", ".join(parts)


def off_by(ratio: float) -> str:
    """A PCOC in words, such as `14 % too few`."""
    if ratio >= 2.0:
        return f"{ratio:.3g} times too many"
    return f"{100.0 * abs(ratio - 1.0):.2g} % too {'many' if ratio > 1.0 else 'few'}"


def _total(log: EvaluatedLog) -> Iterator[str]:
    numbers = log.overall
    lower, upper = numbers["pcoc_lower"], numbers["pcoc_upper"]
    interval = f"by chance {shown(lower, '.3f')} to {shown(upper, '.3f')}"
    if math.isnan(numbers["pcoc"]):
        promised = shown(numbers["expected"], ",.4g")
        yield f"No positive came, and {promised} were promised."
    elif lower <= 1.0 <= upper:
        yield f"In total, promises come true within chance: PCOC {numbers['pcoc']:.3f}, {interval}."
    else:
        yield (
            f"In total, {off_by(numbers['pcoc'])} positives are promised:"
            f" PCOC {numbers['pcoc']:.3f}, {interval}."
        )


def _bins(log: EvaluatedLog) -> Iterator[str]:
    value, floor = log.overall["cal_5"], log.overall["cal_5_floor"]
    if not (math.isfinite(value) and math.isfinite(floor)):
        return
    if value > _BEYOND_FLOOR * floor:
        yield (
            f"By score, they are off by {_percent(value)} in a typical fifth of the rows;"
            f" chance explains {_percent(floor)}."
        )
    else:
        yield f"By score, fifths of the rows show no more error than chance: {_percent(value)}."


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 1.0 else f"{100.0 * share:,.0f} %"


def _information(log: EvaluatedLog) -> Iterator[str]:
    rig = log.overall["rig"]
    if rig < 0.0:
        yield f"Giving every row the mean rate would cost less: RIG {rig:.3f}."
    elif not math.isnan(rig):
        yield f"The scores take away {_percent(rig)} of the uncertainty about outcomes (RIG)."


def _slices(log: EvaluatedLog) -> Iterator[str]:
    tables = {"campaigns": log.campaigns, "hours": log.hours}
    tables |= {f"values of {column}": table for column, table in log.by.items()}
    for what, table in tables.items():
        if table is not None and len(table) > 1:
            yield _off(what, table)


def _off(what: str, table: SliceTable) -> str:
    said = f"{table.off:,} of {len(table):,} {what} are off by more than chance"
    if not table.more_than_chance:
        return f"{said}, no more than would be if all were right."
    worst = table.worst_first[0]
    lower, upper = (float(table.columns[f"pcoc_{end}"][worst]) for end in ("lower", "upper"))
    name = shortened(table.names[worst], _LONGEST_NAME)
    return f"{said}; {name} most: at least {off_by(max(lower, min(upper, 1.0)))}."
