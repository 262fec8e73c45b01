"""Table 1 of paper 001: how many papers used which kind of metric."""

from collections.abc import Iterator, Mapping

from evaluation.reproduction.check import Check, Erratum
from evaluation.reproduction.check_kinds import printed

Counts = tuple[int, ...]
KINDS = ("probability", "log likelihood", "PE", "NDCG", "IR", "misc", "online")
AREAS: Mapping[str, Counts] = {
    "recommendation": (1, 1, 2, 3, 3, 1, 0),
    "search": (1, 2, 0, 10, 16, 4, 1),
    "online advertising": (6, 1, 2, 0, 1, 6, 2),
    "CTR estimation": (0, 3, 1, 2, 0, 0, 1),
}
AREA_TOTALS = {
    "recommendation": "11",
    "search": "34",
    "online advertising": "18",
    "CTR estimation": "7",
}
PARTS_OF: Mapping[str, Mapping[str, Counts]] = {
    "search": {
        "ranking": (1, 1, 0, 8, 7, 1, 1),
        "personalized search": (0, 0, 0, 1, 4, 0, 0),
        "social search ranking": (0, 0, 0, 0, 0, 1, 0),
        "result clustering": (0, 0, 0, 0, 4, 1, 0),
        "query classification": (0, 0, 0, 0, 1, 1, 0),
        "topic assignment": (0, 1, 0, 0, 0, 0, 0),
        "distributed search": (0, 0, 0, 1, 0, 0, 0),
    },
    "online advertising": {
        "pricing/bid estimation": (1, 0, 1, 0, 0, 1, 1),
        "ad auction": (0, 0, 0, 0, 0, 2, 0),
        "bid agents": (0, 0, 1, 0, 0, 0, 1),
        "targeting": (3, 0, 0, 0, 0, 3, 0),
        "commerce": (2, 1, 0, 1, 2, 0, 0),
    },
}
TOTALS = ("8", "7", "5", "15", "20", "11", "4")
TOTAL = "70"


def survey_checks() -> Iterator[Check]:
    """Totals of rows and columns, and whether an area is the sum of its parts."""
    for area, text in AREA_TOTALS.items():
        yield printed(f"total of {area}", text, sum(AREAS[area]), part=PART)
    for place, (kind, text) in enumerate(zip(KINDS, TOTALS, strict=True)):
        yield printed(f"total of {kind}", text, _column(AREAS, place), part=PART)
    yield printed("total", TOTAL, sum(map(sum, AREAS.values())), part=PART)
    for area, parts in PARTS_OF.items():
        for place, kind in enumerate(KINDS):
            yield _sum_of_parts(area, parts, place, kind)


def _sum_of_parts(area: str, parts: Mapping[str, Counts], place: int, kind: str) -> Check:
    others = {name: counts for name, counts in AREAS.items() if name != area}
    by_total = int(TOTALS[place]) - _column(others, place)
    reason = f"The column's total less the other areas leaves {by_total}, as the area's row has it."
    return printed(
        f"{kind} of {area}, sum of its parts",
        str(_column(parts, place)),
        AREAS[area][place],
        part=PART,
        erratum=Erratum.exact(by_total, reason),
    )


def _column(rows: Mapping[str, Counts], place: int) -> int:
    return sum(counts[place] for counts in rows.values())


PART = "Table 1, counts of papers"
