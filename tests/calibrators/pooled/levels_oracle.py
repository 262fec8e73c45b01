"""The cascade of levels, literally: one campaign, hour and strength after the other."""

from math import exp, inf, log

STRENGTHS = [inf] + [2.0**power for power in range(14, -2, -1)]
HALF_LIVES = (24.0, 6.0, 1.5)
TARGET_HALF_LIVES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 24.0)
BOUND = log(3.0)

Table = list[list[float]]


def bounded(ratio: float) -> float:
    """Between a third and three."""
    return min(max(ratio, exp(-BOUND)), exp(BOUND))


def drawn(observed: float, expected: float, strength: float) -> float:
    """The ratio of a stage."""
    if strength == inf:
        return 1.0
    return bounded((strength + observed) / (strength + expected))


def capped(observed: Table, expected: Table) -> Table:
    """What counts of the observed."""
    return [
        [min(y, 3 * e + 3 * (3 * e) ** 0.5 + 3) for y, e in zip(*rows, strict=True)]
        for rows in zip(observed, expected, strict=True)
    ]


def discounted(values: list[float], ages: list[float], moment: float, half_life: float) -> float:
    """The sum of the hours that lie before the moment (as an age)."""
    return sum(
        value * 2 ** (-(age - moment) / half_life)
        for value, age in zip(values, ages, strict=True)
        if age >= moment
    )


def ratio_at(
    y: list[float], e: list[float], ages: list[float], moment: float, stages: list[tuple]
) -> float:
    """What the stages say of one row at a moment."""
    found = 1.0
    for half_life, strength in stages:
        seen = discounted(y, ages, moment, half_life)
        hoped = discounted(e, ages, moment, half_life)
        found = bounded(found * drawn(seen, hoped * found, strength))
    return found


def gain(observed: Table, expected: Table, ages: list[float], before: list[tuple], stage: tuple):
    """The Poisson log likelihood that a stage adds to those before it, over all rows and hours."""
    total = 0.0
    for y, e in zip(observed, expected, strict=True):
        for hour, age in enumerate(ages):
            begins = age + min(age, 0.5)
            base = ratio_at(y, e, ages, begins, before)
            seen = discounted(y, ages, begins, stage[0])
            hoped = discounted(e, ages, begins, stage[0])
            ratio = drawn(seen, hoped * base, stage[1])
            total += y[hour] * log(ratio) - e[hour] * base * (ratio - 1)
    return total


def best(observed: Table, expected: Table, ages: list[float], before: list[tuple], half_lives):
    """The stage of the largest gain."""
    stages = [(half_life, strength) for half_life in half_lives for strength in STRENGTHS]
    return max(stages, key=lambda stage: gain(observed, expected, ages, before, stage))


def levels(expected: Table, observed: Table, ages: list[float]) -> tuple[list[float], float]:
    """Shifts of the campaigns and the target; no groups, no weights, no outage."""
    counted = capped(observed, expected)
    y, e = [[sum(column) for column in zip(*rows, strict=True)] for rows in (counted, expected)]
    half_life, strength = best([y], [e], ages, [], TARGET_HALF_LIVES)
    now = ratio_at(y, e, ages, 0.0, [(half_life, strength)])
    course = [
        drawn(
            sum(a * 2 ** (-abs(s - t) / half_life) for a, s in zip(y, ages, strict=True)),
            sum(a * 2 ** (-abs(s - t) / half_life) for a, s in zip(e, ages, strict=True)),
            strength,
        )
        for t in ages
    ]
    freed = [[a * c for a, c in zip(row, course, strict=True)] for row in expected]
    kept = capped(observed, freed)
    stages: list[tuple] = []
    for own in HALF_LIVES:
        stages.append(best(kept, freed, ages, stages, [own]))
    ratios = [ratio_at(*rows, ages, 0.0, stages) for rows in zip(kept, freed, strict=True)]
    return [log(now * ratio) for ratio in ratios], log(now)
