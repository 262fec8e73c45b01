"""A made-up leaderboard, with all that may be odd about one."""

from research.leaderboard.result_file import (
    CPU,
    EXCESS,
    GC_3,
    GC_3_TRUE,
    LOG_LOSS,
    NAN,
    PCOC,
    DriftCurves,
    Interval,
    Leaderboard,
    Origin,
    ResampledBlocks,
    TrafficResult,
)

MILLIONTHS = {
    "mixed": {
        "identity": 171.0,
        "isotonic": 337.0,
        "platt": 52.0,
        "sir": 70.0,
        "sir_published": 150.0,
        "lightgbm": 48.0,
        "pooled": 28.4,
    },
    "steps": {
        "identity": 657.0,
        "isotonic": 20_000.0,
        "platt": 98.0,
        "sir": 153.0,
        "sir_published": 848.0,
        "lightgbm": 50.0,
        "pooled": 48.0,
    },
    "calibrated": {
        "identity": 0.0,
        "isotonic": 90.0,
        "platt": 20.0,
        "sir": 40.0,
        "sir_published": 138.0,
        "lightgbm": 17.0,
        "pooled": 3.0,
    },
}
REASON = "no <environment> | of its own"


def traffic_result(name: str, *, truth_known: bool = True) -> TrafficResult:
    """One regime of the numbers above, or a log that has the same log losses."""
    losses = {who: 1e-6 * value for who, value in MILLIONTHS[name].items()}
    rows = {who: _row(loss, truth_known=truth_known) for who, loss in losses.items()}
    others = [who for who in rows if who != "pooled"]
    return TrafficResult(
        name=name if truth_known else "a log.parquet",
        about=f"200 campaigns, CTR 1 %: what is called {name}",
        truth_known=truth_known,
        seeds=[0, 1] if truth_known else [0],
        campaigns=200,
        hours=48,
        impressions=2e6,
        positives=2e4,
        rows=rows,
        by_seed={who: {metric: [v, v] for metric, v in row.items()} for who, row in rows.items()},
        missing={"mcgrad": REASON},
        differences={who: _differences(rows, who) for who in others},
        ratios={who: _ratios(rows, who) for who in others},
        blocks=ResampledBlocks(800, "campaign-days", 120.0, 1000),
    )


def _row(loss: float, *, truth_known: bool) -> dict[str, float]:
    seen = {GC_3: 0.05 + (loss / 5e-4) ** 0.5, LOG_LOSS: 0.05 + loss, PCOC: 1.01, CPU: 2.0}
    return {EXCESS: loss, GC_3_TRUE: (loss / 5e-4) ** 0.5, **seen} if truth_known else seen


def _differences(rows: dict[str, dict[str, float]], who: str) -> dict[str, Interval]:
    found = {metric: rows["pooled"][metric] - rows[who][metric] for metric in rows[who]}
    return {metric: Interval(v, v - 2e-6, v + 2e-6) for metric, v in found.items() if metric != CPU}


def _ratios(rows: dict[str, dict[str, float]], who: str) -> dict[str, Interval]:
    found = {m: rows["pooled"][m] / rows[who][m] if rows[who][m] else NAN for m in rows[who]}
    return {metric: Interval(v, 0.9 * v, 1.1 * v) for metric, v in found.items() if metric != CPU}


def result() -> Leaderboard:
    """Three regimes, a log and a jump."""
    hours = [float(hour) for hour in range(-4, 12)]
    curves = {
        f"pooled, {m} min": [3e-5 * (1 + m * (h >= 0) / (2 + abs(h))) for h in hours]
        for m in (60, 15, 5)
    }
    return Leaderboard(
        [*map(traffic_result, MILLIONTHS), traffic_result("mixed", truth_known=False)],
        [Origin("sirocco backtest --compare --seeds 2", "2026-11-22 06:00 UTC", "x86_64, 2 cores")],
        DriftCurves("everyone's level jumps", hours, curves, [0, 1]),
    )
