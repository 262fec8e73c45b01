"""The cascade of levels, literally: one campaign, hour, strength and dynamics after the other."""

from math import exp, expm1, inf, log

STRENGTHS = [inf] + [2.0**power for power in range(14, -2, -1)]
HALF_LIVES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 24.0)
BOUND = log(3.0)
WAYS = [(step, 0.0, 0.0) for step in (0.0, 2.5e-5, 1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2)]
WAYS += [(0.0, trend, left) for left in (0.9, 0.95) for trend in (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)]

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


def times(first: Table, second: Table) -> Table:
    """The products."""
    return [[a * b for a, b in zip(*rows, strict=True)] for rows in zip(first, second, strict=True)]


def discounted(values: list[float], ages: list[float], moment: float, half_life: float) -> float:
    """The sum of the hours that lie before the moment (as an age)."""
    return sum(
        value * 2 ** (-(age - moment) / half_life)
        for value, age in zip(values, ages, strict=True)
        if age >= moment
    )


def ratio_at(y: list[float], e: list[float], ages: list[float], moment: float, stage: tuple):
    """What a stage says of one row at a moment."""
    half_life, strength = stage
    seen, hoped = (discounted(values, ages, moment, half_life) for values in (y, e))
    return drawn(seen, hoped, strength)


def gain(y: list[float], e: list[float], ages: list[float], stage: tuple) -> float:
    """The Poisson log likelihood of all hours, each predicted from those before it."""
    ratios = [ratio_at(y, e, ages, age + min(age, 0.5), stage) for age in ages]
    return sum(y * log(r) - e * (r - 1) for y, e, r in zip(y, e, ratios, strict=True))


def track(
    y: list[float],
    e: list[float],
    jumps: list[float],
    variance: float,
    ages: list[float],
    moves: tuple,
):
    """A campaign's level half an hour after the moment, and the log likelihood of its hours."""
    step, trend, persistence = moves
    ordinary = trend / (1 - persistence**2)
    level, slope, a, b, d = 0.0, 0.0, variance, 0.0, ordinary
    gained = 0.0
    before = ages[0]
    hours = [*zip(y, e, jumps, ages, strict=True), (0.0, 0.0, 0.0, -0.5)]
    for seen, hoped, jump, age in hours:
        since, before = before - age, age
        level, slope = level + since * slope, persistence**since * slope
        a, b, d = (
            a + 2 * since * b + since**2 * d + since * step,
            persistence**since * (b + since * d),
            persistence ** (2 * since) * d + (1 - persistence ** (2 * since)) * ordinary,
        )
        a = (1 - jump) * (a + level**2) + jump * variance - ((1 - jump) * level) ** 2
        level, slope, b = (1 - jump) * level, (1 - jump) * slope, (1 - jump) * b
        gained += seen * level - hoped * expm1(level)
        if a > 0:
            mode = bisected(seen, hoped, level, a)
            share = hoped * exp(mode) / (1 + hoped * exp(mode) * a)
            level, slope = mode, slope + b / a * (mode - level)
            a, b, d = a - share * a * a, b - share * a * b, d - share * b * b
    return level, gained


def bisected(seen: float, hoped: float, mean: float, variance: float) -> float:
    """The likeliest level: where seen - hoped * e ** x = (x - mean) / variance."""
    low, high = -40.0, 40.0
    for _ in range(200):
        x = (low + high) / 2
        above = seen - hoped * exp(x) < (x - mean) / variance
        low, high = (low, x) if above else (x, high)
    return low


def moved(rows: list[tuple], ages: list[float]) -> list[float]:
    """The levels of campaigns, averaged over all ways to move."""
    found = [[track(*row, ages, way) for row in rows] for way in WAYS]
    gains = [sum(gained for _, gained in row) for row in found]
    gains = [gains[0], *(each - log(len(WAYS) - 1) for each in gains[1:])]
    beliefs = [exp(each - max(gains)) for each in gains]
    beliefs = [belief if belief > 1e-3 else 0.0 for belief in beliefs]
    return [
        sum(belief * row[place][0] for belief, row in zip(beliefs, found, strict=True))
        / sum(beliefs)
        for place in range(len(rows))
    ]


def levels(
    expected: Table,
    observed: Table,
    ages: list[float],
    weights: Table,
    begun: Table,
    fitted: list[float],
    variances: list[float],
) -> tuple[list[float], float]:
    """Shifts of the campaigns and the target; no groups, no outage."""
    counted = [times(capped(observed, expected), weights), times(expected, weights)]
    y, e = [[sum(column) for column in zip(*rows, strict=True)] for rows in counted]
    stages = [(half_life, strength) for half_life in HALF_LIVES for strength in STRENGTHS]
    half_life, strength = max(stages, key=lambda stage: gain(y, e, ages, stage))
    now = ratio_at(y, e, ages, 0.0, (half_life, strength))
    course = [
        drawn(
            sum(a * 2 ** (-abs(s - t) / half_life) for a, s in zip(y, ages, strict=True)),
            sum(a * 2 ** (-abs(s - t) / half_life) for a, s in zip(e, ages, strict=True)),
            strength,
        )
        for t in ages
    ]
    freed = [[a * c for a, c in zip(row, course, strict=True)] for row in expected]
    own = [[a * exp(-level) for a in row] for row, level in zip(freed, fitted, strict=True)]
    in_run = [
        [w / p for w, p in zip(*row, strict=True)] for row in zip(weights, begun, strict=True)
    ]
    jumps = [[1 - p / q for p, q in zip([row[0], *row], row, strict=False)] for row in begun]
    kept = times(capped(observed, freed), in_run)
    rows = list(zip(kept, times(own, in_run), jumps, variances, strict=True))
    moves = [level - of for level, of in zip(moved(rows, ages), fitted, strict=True)]
    return [log(now) + min(max(move, -BOUND), BOUND) for move in moves], log(now)
