"""The delayed backtest: what each way of labelling young clicks would have served, hour by hour."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calibrators import Atlas, BinsTable, Calibrator, Sufficiency, refit
from calibrators.methods.refit import Method
from calibrators.samples import Floats, Integers
from evaluation.backtest.click_history import (
    ClickStream,
    ClickWindows,
    PostClickHistory,
    labelled_history,
)
from evaluation.backtest.event_table import SECONDS_PER_HOUR
from evaluation.metrics.scorecard import scorecard
from pccem import Clicks, LabelRules, TrainingRules

NONE, STC, LTC, ORACLE = "none", "stc", "ltc", "oracle"
PCCEM_ROWS: Mapping[str, LabelRules] = {
    "pccem": LabelRules("paper", drift_correction=False),
    "pccem_posterior": LabelRules("posterior", drift_correction=True),
}

Progress = Callable[[int, int], None]
Labelled = tuple[slice, Floats]
Labeller = Callable[[float], Labelled | None]
"""As of an hour: the clicks to learn from and what each counts; None where nobody knows."""


@dataclass(frozen=True, slots=True, eq=False)
class DelayedBacktest:
    """What a delayed backtest found.

    Attributes
    ----------
    rows : (k,) clicks judged, as indices into the stream.
    outcomes : (k,) 1 for those that converted inside the attribution window.
    probabilities : (k,) of each row of the table; "none" are the scores themselves.
    scorecards : `scorecard` of each, all judged hours pooled.
    refits : (h,) epoch seconds of the refits, one for each judged hour.
    expected : (h,) of each row of the table but "none": the sum of the labels that the refit learnt
        from; nan where it had none. That of "oracle" is what "stc" and the pccem rows aim at.
    sources : refits by what the pccem rows' labels came from, see `post_click_history.LabelSource`.
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
    judged_from: float,
    judged_until: float,
    windows: ClickWindows | None = None,
    pccem: Mapping[str, LabelRules] | None = None,
    training: TrainingRules | None = None,
    sufficiency: Sufficiency | None = None,
    sight: Callable[[Clicks], Clicks] | None = None,
    progress: Progress | None = None,
) -> DelayedBacktest:
    """Refit as of every hour t by each kind of labels, judge on the clicks of [t, t + 1 h).

    With the default windows:

    none : the scores as they are.
    stc : clicks of [t - 25 h, t - 1 h), converted within the hour after their click.
    ltc : clicks of [t - 8 d, t - 7 d), final outcomes.
    pccem rows : clicks as stc, `pccem.label` with what is known at t and the day's model.
    oracle : clicks as stc, final outcomes, which nobody has at t.

    Every fit is `calibrators.methods.refit` or the method's, every label of a pccem row
    `pccem.label`, every model `pccem.train`: the service's own. Judged is by final outcomes, all
    judged hours pooled.

    Parameters
    ----------
    stream : the clicks; those before `judged_until` with all conversions of their window.
    calibrator : the same for every row; or a method, such as the pooled one, which learns from the
        labelled clicks by hour, as of the newest one's, and carries its memory from hour to hour.
    judged_from, judged_until : epoch seconds; every hour that starts inside is judged.
    windows : the defaults of `ClickWindows` unless given.
    pccem : name to rules of the pccem rows; `PCCEM_ROWS` unless given.
    training : the defaults of `TrainingRules` unless given.
    sufficiency : what a campaign needs for a map of its own; the service's default unless given;
        a method has its own rule.
    sight : what the model sees of the clicks; all there is unless given.
    progress : called with (hours done, hours in all) after each judged hour.

    Raises
    ------
    ValueError
        When the stream does not reach a whole window back before `judged_from`, or no click is
        left to judge.

    References
    ----------
    Deng et al. (paper 004), section 5.2 and Table 2. Which clicks are recent is not said there.

    Examples
    --------
    >>> from calibrators import SmoothedIsotonic
    >>> from evaluation import ClickPlatform
    >>> platform = ClickPlatform(campaigns=1, clicks_per_hour=100, cvr=0.1, seed=1)
    >>> stream, day = platform.hours(0, 11 * 24).stream, 86_400.0
    >>> found = delayed_backtest(
    ...     stream,
    ...     SmoothedIsotonic(),
    ...     judged_from=platform.start + 10 * day,
    ...     judged_until=platform.start + 10.25 * day,
    ...     training=TrainingRules(num_threads=1),
    ... )
    >>> sorted(found.scorecards, key=lambda row: found.scorecards[row]["log_loss"])[-2:]
    ['stc', 'none']
    """
    windows = windows or ClickWindows()
    hours = _judged_hours(stream, judged_from, judged_until, windows)
    history = PostClickHistory(stream, windows, training or TrainingRules(), sight or _all_of)
    labellers = {
        **_baselines(stream, windows),
        **_pccem_rows(history, PCCEM_ROWS if pccem is None else pccem),
        ORACLE: _final(stream, windows, windows.recent),
    }
    lines = {
        name: _Line(stream, labelled, _Fit(calibrator, sufficiency or Sufficiency()))
        for name, labelled in labellers.items()
    }
    for done, (hour, judged) in enumerate(hours, 1):
        for line in lines.values():
            line.play(hour, judged)
        if progress is not None:
            progress(done, len(hours))
    return _found(stream, hours, lines, windows, history)


@dataclass(slots=True)
class _Fit:
    """The refits of one row of the table."""

    calibrator: Calibrator | Method
    sufficiency: Sufficiency
    memory: object = None

    def __call__(self, clicks: Clicks, labels: Floats) -> Atlas:
        if not isinstance(self.calibrator, Calibrator):
            history = labelled_history(clicks, labels)
            fitted = self.calibrator.refit(history, memory=self.memory)
            self.memory = fitted.memory
            return fitted.atlas
        owners = clicks.rows.astype(np.int64)
        counts = np.ones(len(clicks))
        bins = BinsTable.from_columns(clicks.campaigns, owners, clicks.scores, counts, labels)
        return refit(bins, self.calibrator, self.sufficiency).atlas


@dataclass(slots=True)
class _Line:
    """One row of the table: the map in force, and what it has served so far."""

    stream: ClickStream
    labelled: Labeller
    fit: _Fit
    atlas: Atlas = field(default_factory=lambda: Atlas.build({}, None))
    served: list[Floats] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)

    def play(self, hour: float, judged: slice) -> None:
        """Refit as of the hour, then serve its clicks."""
        self.expected.append(np.nan)
        if (known := self.labelled(hour)) is not None:
            chosen, labels = known
            self.expected[-1] = float(labels.sum())
            self.atlas = self.fit(self.stream.clicks.select(chosen), labels)
        clicks = self.stream.clicks.select(judged)
        rows = self.atlas.rows(clicks.campaigns)[clicks.rows]
        self.served.append(self.atlas.look_up(rows, clicks.scores))


def _all_of(clicks: Clicks) -> Clicks:
    return clicks


def _baselines(stream: ClickStream, windows: ClickWindows) -> dict[str, Labeller]:
    converted_soon = stream.outcomes(windows.post_click)

    def short_term(hour: float) -> Labelled:
        chosen = stream.between(*windows.recent(hour))
        return chosen, converted_soon[chosen]

    return {
        NONE: lambda hour: None,
        STC: short_term,
        LTC: _final(stream, windows, windows.mature),
    }


def _final(
    stream: ClickStream, windows: ClickWindows, window: Callable[[float], tuple[float, float]]
) -> Labeller:
    outcomes = stream.outcomes(windows.attribution)

    def final(hour: float) -> Labelled:
        chosen = stream.between(*window(hour))
        return chosen, outcomes[chosen]

    return final


def _pccem_rows(history: PostClickHistory, rows: Mapping[str, LabelRules]) -> dict[str, Labeller]:
    taken = {NONE, STC, LTC, ORACLE} & rows.keys()
    if taken:
        raise ValueError(f"pccem: the name {min(taken)!r} stands for another row")
    return {name: _by_rules(history, rules) for name, rules in rows.items()}


def _by_rules(history: PostClickHistory, rules: LabelRules) -> Labeller:
    return lambda hour: history.labels(hour, rules)


def _judged_hours(
    stream: ClickStream, judged_from: float, judged_until: float, windows: ClickWindows
) -> list[tuple[float, slice]]:
    """Starts of the hours that hold clicks to judge, and where these stand."""
    if not len(stream):
        raise ValueError("stream: there are no clicks")
    earliest = float(stream.clicks.clicked_at[0]) + windows.longest
    # The first click may come late in its hour.
    if judged_from < earliest - SECONDS_PER_HOUR:
        raise ValueError(
            f"judged_from = {judged_from}: the first refit reaches {windows.longest:.0f} s back,"
            f" and the first click came at {earliest - windows.longest}"
        )
    first, behind = (int(np.ceil(at / SECONDS_PER_HOUR)) for at in (judged_from, judged_until))
    starts = (hour * SECONDS_PER_HOUR for hour in range(first, behind))
    hours = [(start, stream.between(start, start + SECONDS_PER_HOUR)) for start in starts]
    judged = [(start, rows) for start, rows in hours if rows.start < rows.stop]
    if not judged:
        raise ValueError(f"no click from {judged_from} to {judged_until}: nothing to judge")
    return judged


def _found(
    stream: ClickStream,
    hours: Sequence[tuple[float, slice]],
    lines: Mapping[str, _Line],
    windows: ClickWindows,
    history: PostClickHistory,
) -> DelayedBacktest:
    judged = np.concatenate([np.arange(rows.start, rows.stop) for _, rows in hours])
    outcomes = stream.outcomes(windows.attribution)[judged]
    campaigns = stream.clicks.rows[judged]
    probabilities = {name: np.concatenate(line.served) for name, line in lines.items()}
    return DelayedBacktest(
        rows=judged,
        outcomes=outcomes,
        probabilities=probabilities,
        scorecards={n: scorecard(p, outcomes, campaigns) for n, p in probabilities.items()},
        refits=np.array([hour for hour, _ in hours]),
        expected={n: np.array(line.expected) for n, line in lines.items() if n != NONE},
        sources=Counter(history.day_of(hour).source for hour, _ in hours),
        refusals={
            number: day.training.refused
            for number, day in history.days().items()
            if day.training.refused is not None
        },
    )
