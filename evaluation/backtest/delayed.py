"""The delayed backtest: what each way of labelling young clicks would have served, hour by hour."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from calibrators import Atlas, Calibrator, Sufficiency
from calibrators.methods.refit import Method
from calibrators.samples import Floats, Integers
from evaluation.backtest.backtest import Progress, Refits, method_of
from evaluation.backtest.click_history import (
    ClickStream,
    ClickWindows,
    PostClickHistory,
    labelled_history,
)
from evaluation.backtest.event_table import SECONDS_PER_HOUR
from evaluation.metrics.calibration import scorecard
from pccem import Clicks, LabelRules, TrainingRules

NONE, STC, LTC, ORACLE = "none", "stc", "ltc", "oracle"
PCCEM_ROWS: Mapping[str, LabelRules] = {
    "pccem": LabelRules("paper", drift_correction=False),
    "pccem_posterior": LabelRules("posterior", drift_correction=True),
}

Labelled = tuple[slice, Floats]
Labeller = Callable[[float], Labelled | None]
"""As of an hour: the clicks to learn from and what each counts; None where nobody knows."""


@dataclass(frozen=True, slots=True, eq=False)
class DelayedBacktest:
    """What a delayed backtest gives.

    rows : (k,) clicks evaluated, as indices into the stream.
    outcomes : (k,) 1 for those that converted inside the attribution window.
    probabilities : (k,) of each row of the table; "none" are the scores themselves.
    scorecards : `scorecard` of each, all evaluated hours pooled.
    refits : (h,) epoch seconds of the refits, one for each evaluated hour.
    expected : (h,) of each row of the table but "none": the sum of the labels that the refit learnt
        from; nan where it had none. That of "oracle" is what "stc" and the pccem rows aim at.
    sources : refits by what the pccem rows' labels came from, a `LabelSource`.
    refusals : why no new model came into force, by day since 1970.
    """

    rows: Integers
    outcomes: Floats
    probabilities: Mapping[str, Floats]
    scorecards: Mapping[str, Mapping[str, float]]
    refits: Floats
    expected: Mapping[str, Floats]
    sources: Mapping[str, int]
    refusals: Mapping[int, str]


def delayed_backtest(
    stream: ClickStream,
    calibrator: Calibrator | Method,
    *,
    evaluated_from: float,
    evaluated_until: float,
    windows: ClickWindows | None = None,
    pccem: Mapping[str, LabelRules] | None = None,
    training: TrainingRules | None = None,
    sufficiency: Sufficiency | None = None,
    sight: Callable[[Clicks], Clicks] | None = None,
    progress: Progress | None = None,
) -> DelayedBacktest:
    """Refit as of every hour t by each kind of labels, evaluate on the clicks of [t, t + 1 h).

    With the default windows:

    none : the scores as they are.
    stc : clicks of [t - 25 h, t - 1 h), converted within the hour after their click.
    ltc : clicks of [t - 8 d, t - 7 d), final outcomes.
    pccem rows : clicks as stc, `pccem.label` with what is known at t and the day's model.
    oracle : clicks as stc, final outcomes, which nobody has at t.

    Every fit is `calibrators.methods.refit` or the method's, every label of a pccem row
    `pccem.label`, every model `pccem.train`: the service's own. Its guard is left out. Rows are
    evaluated by final outcomes, all hours pooled.

    stream : the clicks; those before `evaluated_until` with all conversions of their window.
    calibrator : the same for every row; or a method, such as the pooled one, which learns from the
        labelled clicks by hour, of as many hours as it looks back, as of the newest one's, and
        carries its memory from hour to hour.
    evaluated_from, evaluated_until : epoch seconds; every hour that starts inside is evaluated.
    windows : the defaults of `ClickWindows` unless given.
    pccem : name to rules of the pccem rows; `PCCEM_ROWS` unless given.
    training : the defaults of `TrainingRules` unless given.
    sufficiency : what a campaign needs for a map of its own; the service's default unless given;
        a method has its own rule.
    sight : what the model sees of the clicks; all there is unless given.
    progress : called with (hours done, hours in all) after each evaluated hour.

    Raises ValueError when the stream does not reach a whole window back before `evaluated_from`, or
    no click is left to evaluate.

    Source: Deng et al. (paper 004), section 5.2 and Table 2. Which clicks are recent is not said
    there.

    >>> from calibrators import SmoothedIsotonic
    >>> from evaluation import ClickPlatform
    >>> platform = ClickPlatform(campaigns=1, clicks_per_hour=100, cvr=0.1, seed=1)
    >>> stream, day = platform.hours(0, 11 * 24).stream, 86_400.0
    >>> found = delayed_backtest(
    ...     stream,
    ...     SmoothedIsotonic(),
    ...     evaluated_from=platform.start + 10 * day,
    ...     evaluated_until=platform.start + 10.25 * day,
    ...     training=TrainingRules(num_threads=1),
    ... )
    >>> sorted(found.scorecards, key=lambda row: found.scorecards[row]["log_loss"])[-2:]
    ['stc', 'none']
    """
    windows = windows or ClickWindows()
    hours = _evaluated_hours(stream, evaluated_from, evaluated_until, windows)
    # A method looks back as far as it does in the service.
    of_method = 0 if isinstance(calibrator, Calibrator) else calibrator.hours
    learnt = max(windows.hours, of_method)
    rules, seen = training or TrainingRules(), sight or (lambda clicks: clicks)
    history = PostClickHistory(stream, windows, rules, seen, learnt)
    labellers = {
        **_baselines(stream, windows, learnt),
        **_pccem_rows(history, PCCEM_ROWS if pccem is None else pccem),
        ORACLE: _converted(stream, windows.attribution, partial(windows.recent, hours=learnt)),
    }
    # An hour more: where the windows end within an hour, so does the first of theirs.
    method = method_of(calibrator, sufficiency or Sufficiency(), windows.hours + 1)
    table_rows = {
        name: _Row(stream, labelled, Refits(method)) for name, labelled in labellers.items()
    }
    for done, (hour, clicks) in enumerate(hours, 1):
        for row in table_rows.values():
            row.play(hour, clicks)
        if progress is not None:
            progress(done, len(hours))
    return _found(stream, hours, table_rows, windows, history)


@dataclass(slots=True)
class _Row:
    """One row of the table: the map in force, and what it has served so far."""

    stream: ClickStream
    labelled: Labeller
    refits: Refits
    atlas: Atlas = field(default_factory=lambda: Atlas.build({}, None))
    served: list[Floats] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)

    def play(self, hour: float, evaluated: slice) -> None:
        """Refit as of the hour, then serve its clicks."""
        self.expected.append(np.nan)
        if (known := self.labelled(hour)) is not None:
            chosen, labels = known
            self.expected[-1] = float(labels.sum())
            history = labelled_history(self.stream.clicks.select(chosen), labels)
            self.atlas = self.refits.refit(history)
        clicks = self.stream.clicks.select(evaluated)
        rows = self.atlas.rows(clicks.campaigns)[clicks.rows]
        self.served.append(self.atlas.look_up(rows, clicks.scores))


def _baselines(stream: ClickStream, windows: ClickWindows, hours: int) -> dict[str, Labeller]:
    recent, mature = (partial(each, hours=hours) for each in (windows.recent, windows.mature))
    return {
        NONE: lambda hour: None,
        STC: _converted(stream, windows.post_click, recent),
        LTC: _converted(stream, windows.attribution, mature),
    }


def _converted(
    stream: ClickStream, within: float, window: Callable[[float], tuple[float, float]]
) -> Labeller:
    outcomes = stream.outcomes(within)

    def labelled(hour: float) -> Labelled:
        chosen = stream.between(*window(hour))
        return chosen, outcomes[chosen]

    return labelled


def _pccem_rows(history: PostClickHistory, rows: Mapping[str, LabelRules]) -> dict[str, Labeller]:
    taken = {NONE, STC, LTC, ORACLE} & rows.keys()
    if taken:
        raise ValueError(f"pccem: the name {min(taken)!r} stands for another row")
    return {name: partial(history.labels, rules=rules) for name, rules in rows.items()}


def _evaluated_hours(
    stream: ClickStream, evaluated_from: float, evaluated_until: float, windows: ClickWindows
) -> list[tuple[float, slice]]:
    """Starts of the hours that hold clicks to evaluate, and where these stand."""
    if not len(stream):
        raise ValueError("stream: there are no clicks")
    earliest = float(stream.clicks.clicked_at[0]) + windows.longest
    # The first click may come late in its hour.
    if evaluated_from < earliest - SECONDS_PER_HOUR:
        raise ValueError(
            f"evaluated_from = {evaluated_from}: the first refit reaches"
            f" {windows.longest:.0f} s back, and the first click came at"
            f" {earliest - windows.longest}"
        )
    first, behind = (
        int(np.ceil(at / SECONDS_PER_HOUR)) for at in (evaluated_from, evaluated_until)
    )
    starts = (hour * SECONDS_PER_HOUR for hour in range(first, behind))
    hours = [(start, stream.between(start, start + SECONDS_PER_HOUR)) for start in starts]
    evaluated = [(start, rows) for start, rows in hours if rows.start < rows.stop]
    if not evaluated:
        raise ValueError(f"no click from {evaluated_from} to {evaluated_until}")
    return evaluated


def _found(
    stream: ClickStream,
    hours: Sequence[tuple[float, slice]],
    table_rows: Mapping[str, _Row],
    windows: ClickWindows,
    history: PostClickHistory,
) -> DelayedBacktest:
    evaluated = np.concatenate([np.arange(rows.start, rows.stop) for _, rows in hours])
    outcomes = stream.outcomes(windows.attribution)[evaluated]
    campaigns = stream.clicks.rows[evaluated]
    probabilities = {name: np.concatenate(row.served) for name, row in table_rows.items()}
    return DelayedBacktest(
        rows=evaluated,
        outcomes=outcomes,
        probabilities=probabilities,
        scorecards={n: scorecard(p, outcomes, campaigns) for n, p in probabilities.items()},
        refits=np.array([hour for hour, _ in hours]),
        expected={n: np.array(row.expected) for n, row in table_rows.items() if n != NONE},
        sources=Counter(history.day_of(hour).source for hour, _ in hours),
        refusals={
            number: day.training.refused
            for number, day in history.days().items()
            if day.training.refused is not None
        },
    )
