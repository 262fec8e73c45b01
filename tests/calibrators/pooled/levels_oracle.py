"""The cascade of levels, literally: one campaign, hour, strength and dynamics after the other."""

from math import cos, exp, expm1, inf, log, pi, sin

import numpy as np

from calibrators.pooled.change_points import drift_rates, likelihood_ratio_prefilter, run_lengths

STRENGTHS = [inf] + [2.0**power for power in range(14, -2, -1)]
HALF_LIVES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 24.0)
BOUND = log(3.0)
WAYS = [(step, 0.0, 0.0, 0.0) for step in (0.0, 2.5e-5, 1e-4, 4e-4, 1.6e-3, 6.4e-3, 2.56e-2)]
TRENDS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4)
WAYS += [(0.0, trend, left, 0.0) for left in (0.9, 0.95) for trend in TRENDS]
WAYS += [(step, 0.0, 0.0, c) for c in (0.01, 0.04, 0.16) for step in (0.0, 1e-4, 1.6e-3, 6.4e-3)]
PRIOR = [0.25, *[0.25 / 16] * 16, *[0.25 / 3 if way[0] == 0 else 0.25 / 9 for way in WAYS[17:]]]

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


def wave_at(age: float, harmonics: int) -> list[float]:
    """What level, trend, and cosine and sine of each harmonic count at an hour."""
    angles = [2 * pi * age / 24 * number for number in range(1, harmonics + 1)]
    return [1.0, 0.0, *(part(angle) for angle in angles for part in (cos, sin))]


def dot(first: list[float], second: list[float]) -> float:
    """The sum of the products."""
    return sum(a * b for a, b in zip(first, second, strict=True))


def track(
    y: list[float],
    e: list[float],
    jumps: list[float],
    variance: float,
    ages: list[float],
    moves: tuple,
    harmonics: int = 2,
):
    """A campaign's log ratio half an hour after the moment, the log likelihood of its hours, and
    the amplitudes of its cycle."""
    step, trend, persistence, cycle = moves
    ordinary = trend / (1 - persistence**2)
    states = 2 + 2 * harmonics
    mean = [0.0] * states
    cov = [[0.0] * states for _ in range(states)]
    cov[0][0], cov[1][1] = variance, ordinary
    for state in range(2, states):
        cov[state][state] = cycle / (state // 2) ** 2
    gained, before = 0.0, ages[0]
    hours = [*zip(y, e, jumps, ages, strict=True), (0.0, 0.0, 0.0, -0.5)]
    for seen, hoped, jump, age in hours:
        since, before = before - age, age
        left = persistence**since
        turn = [[float(i == j) for j in range(states)] for i in range(states)]
        turn[0][1], turn[1][1] = since, left
        mean = [dot(row, mean) for row in turn]
        half = [[dot(row, [c[j] for c in cov]) for j in range(states)] for row in turn]
        cov = [[dot(half[i], turn[j]) for j in range(states)] for i in range(states)]
        cov[0][0] += since * step
        cov[1][1] += (1 - left**2) * ordinary
        level, own = mean[0], cov[0][0]
        fresh = max(variance, 0.5 * jump)
        spread = (1 - jump) * (own + level**2) + jump * fresh - ((1 - jump) * level) ** 2
        mean[:2] = [(1 - jump) * mean[0], (1 - jump) * mean[1]]
        for other in range(1, states):
            cov[0][other] = cov[other][0] = (1 - jump) * cov[0][other]
        cov[0][0] = spread
        wave = wave_at(age, harmonics)
        at, ties = dot(wave, mean), [dot(wave, row) for row in cov]
        a = dot(wave, ties)
        gained += seen * at - hoped * expm1(at)
        if a > 0:
            mode = bisected(seen, hoped, at, a)
            share = hoped * exp(mode) / (1 + hoped * exp(mode) * a)
            mean = [m + t / a * (mode - at) for m, t in zip(mean, ties, strict=True)]
            cov = [
                [c - share * t * u for c, u in zip(row, ties, strict=True)]
                for row, t in zip(cov, ties, strict=True)
            ]
    return dot(wave_at(-0.5, harmonics), mean), gained, mean[2:]


def bisected(seen: float, hoped: float, mean: float, variance: float) -> float:
    """The likeliest level: where seen - hoped * e ** x = (x - mean) / variance."""
    low, high = -40.0, 40.0
    for _ in range(200):
        x = (low + high) / 2
        above = seen - hoped * exp(x) < (x - mean) / variance
        low, high = (low, x) if above else (x, high)
    return low


def believed(gains: list[float], ages: list[float], waves: int = 1) -> list[float]:
    """What each way to move is believed, their sum 1, those with a cycle once for each number of
    waves; cycles in a day and a half or more."""
    short = not ages or ages[0] - ages[-1] < 36
    ways = [*zip(PRIOR, WAYS, strict=True)]
    ways = ways[:17] + [(prior / waves, way) for _ in range(waves) for prior, way in ways[17:]]
    logs = [
        -inf if short and way[3] else gain + log(prior)
        for gain, (prior, way) in zip(gains, ways, strict=True)
    ]
    beliefs = [exp(each - max(logs)) for each in logs]
    beliefs = [belief if belief > 1e-3 else 0.0 for belief in beliefs]
    return [belief / sum(beliefs) for belief in beliefs]


def moved(rows: list[tuple], ages: list[float]) -> list[float]:
    """The levels of campaigns, averaged over all ways to move."""
    found = [[track(*row, ages, way) for row in rows] for way in WAYS]
    seen = [age for place, age in enumerate(ages) if any(row[1][place] for row in rows)]
    beliefs = believed([sum(gained for _, gained, _ in row) for row in found], seen)
    return [
        sum(belief * row[place][0] for belief, row in zip(beliefs, found, strict=True))
        for place in range(len(rows))
    ]


def cycle_of(y: list[float], e: list[float], ages: list[float]) -> list[float]:
    """The ratios of the target's daily cycle in each hour, and half an hour after the moment: of
    three waves or six, as likely as each makes the hours."""
    seen = [age for age, expected in zip(ages, e, strict=True) if expected]
    ways = [(3, way) for way in WAYS] + [(6, way) for way in WAYS[17:]]
    found = [track(y, e, [0.0] * len(y), 0.1, ages, way, waves) for waves, way in ways]
    beliefs = believed([gained for _, gained, _ in found], seen, waves=2)
    logs = [
        [dot(wave_at(age, waves)[2:], amplitudes) for age in [*ages, -0.5]]
        for (waves, _), (_, _, amplitudes) in zip(ways, found, strict=True)
    ]
    return [exp(dot(beliefs, column)) for column in zip(*logs, strict=True)]


def jumped(y: list[float], e: list[float]) -> list[float]:
    """The ratios that a jump of the target makes in each hour, run by run."""
    ratio = (sum(y) + 1) / (sum(e) + 1)
    usual, seen = np.array([e]) * ratio, np.array([y])
    if not likelihood_ratio_prefilter(usual, seen)[0]:
        return [1.0] * len(y)
    runs = run_lengths(usual, seen, drift_rates(usual, seen), 1 / 720, 1 / 720)
    logs = [0.0] * len(y)
    for begin, chance, odd in zip(runs.begins[0], runs.chances[0], runs.odd[0], strict=True):
        for part in (range(begin), range(begin, len(y))) if begin else ():
            had = sum((1 - odd[hour]) * e[hour] for hour in part)
            found = log((sum((1 - odd[hour]) * y[hour] for hour in part) + 2) / (had + 2))
            for hour in part:
                logs[hour] += chance * found
    return [bounded(exp(each)) for each in logs]


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
    *cycle, served = cycle_of(y, e, ages)
    jumps = jumped(y, [a * ratio for a, ratio in zip(e, cycle, strict=True)])
    served *= jumps[-1]
    cycle = [a * b for a, b in zip(cycle, jumps, strict=True)]
    e = [a * ratio for a, ratio in zip(e, cycle, strict=True)]
    stages = [(half_life, strength) for half_life in HALF_LIVES for strength in STRENGTHS]
    half_life, strength = max(stages, key=lambda stage: gain(y, e, ages, stage))
    now = bounded(served * ratio_at(y, e, ages, 0.0, (half_life, strength)))
    course = [
        drawn(
            sum(a * 2 ** (-abs(s - t) / half_life) for a, s in zip(y, ages, strict=True)),
            sum(a * 2 ** (-abs(s - t) / half_life) for a, s in zip(e, ages, strict=True)),
            strength,
        )
        * ratio
        for t, ratio in zip(ages, cycle, strict=True)
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
