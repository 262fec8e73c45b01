"""`sirocco replay`: impressions, or clicks with late conversions, through a running service."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.console import note_skipped, progress
from app.cli.measure.delayed_backtest import DelayedRun, report_delayed
from app.cli.measure.scorecards import report_scorecards
from app.cli.options import (
    WEEK_HOURS,
    AnyLogColumnOptions,
    FitOptions,
    ReadingOptions,
    names,
    refuse,
)
from app.cli.serving.client import ServiceClient
from app.cli.serving.playback import (
    Message,
    Playback,
    calibrated,
    fields_of,
    hours_of,
    of_delayed,
    of_immediate,
    outcomes,
    play_and_score,
    private_service,
    refit,
)
from app.cli.serving.settings import settings_with
from app.cli.simulations import ReplayOptions
from app.datasets.clicks import ClickColumns, ClickFile, read_click_log
from app.datasets.impressions import LogColumns, read_log
from app.datasets.options import Reading
from app.datasets.parts import Where, name_of, refuse_inside
from app.errors import Advance, CommandError
from app.reports.pictures import check_picture
from app.results.backtest import RAW, ScoredEvents, after, first_evaluated_hour
from app.settings import SECONDS_PER_HOUR, Settings
from calibrators.fields.columns import FieldColumns
from calibrators.fields.columns import chosen as chosen_of
from calibrators.samples import Floats, Integers
from evaluation import ClickStream, EventTable
from evaluation.backtest.delayed import PCCEM_ROWS
from pccem import Categorical, Column

_BEHAVIOUR, _FEATURE = "behaviour.", "feature."
# After the click, and inside every post-click window that can be set.
_SECONDS_AFTER = 5.0


@dataclass(frozen=True)
class ClickMessages:
    """The events of a stream for one target.

    A click's id is its number in the stream, padded so that ids sort as clicks do. Missing values
    are not sent.
    """

    stream: ClickStream
    target: str
    fields: FieldColumns = field(default_factory=dict)

    def between(self, first: float, behind: float) -> Iterator[Message]:
        """What becomes known in [first, behind): clicks, what was done after them, conversions.

        A click comes with its behaviours, though some were done a little after `behind`.
        """
        chosen = self.stream.between(first, behind)
        yield from self._clicks(chosen)
        yield from self._behaviours(chosen)
        start, end = np.searchsorted(self._converted_at, (first, behind))
        for number, at in zip(
            self._converting[start:end].tolist(),
            self._converted_at[start:end].tolist(),
            strict=True,
        ):
            yield {
                "type": "conversion",
                "click_id": self._id(number),
                "occurred_at": at,
                "target": self.target,
            }

    def _clicks(self, chosen: slice) -> Iterator[Message]:
        clicks = self.stream.clicks
        known = self._values(_FEATURE, chosen)
        given = fields_of(chosen_of(self.fields, chosen), chosen.stop - chosen.start)
        rows = zip(
            clicks.clicked_at[chosen].tolist(),
            clicks.rows[chosen].tolist(),
            clicks.scores[chosen].tolist(),
            strict=True,
        )
        for place, (at, row, score) in enumerate(rows):
            yield {
                "type": "click",
                "click_id": self._id(chosen.start + place),
                "campaign": clicks.campaigns[row],
                "occurred_at": at,
                "impression_at": at,
                "scores": {self.target: score},
                "features": {
                    name: values[place]
                    for name, values in known.items()
                    if values[place] is not None
                },
                **given[place],
            }

    def _behaviours(self, chosen: slice) -> Iterator[Message]:
        times = self.stream.clicks.clicked_at[chosen].tolist()
        for name, values in self._values(_BEHAVIOUR, chosen).items():
            for place, value in enumerate(values):
                if value is not None:
                    yield {
                        "type": "behaviour",
                        "click_id": self._id(chosen.start + place),
                        "occurred_at": times[place] + _SECONDS_AFTER,
                        "name": name,
                        "value": value,
                    }

    def _values(self, prefix: str, chosen: slice) -> dict[str, list[float | str | None]]:
        columns = self.stream.clicks.features.columns.items()
        return {
            name.removeprefix(prefix): _known(column, chosen)
            for name, column in columns
            if name.startswith(prefix)
        }

    def _id(self, number: int) -> str:
        return str(number).zfill(len(str(len(self.stream))))

    @cached_property
    def _converting(self) -> Integers:
        """Numbers of the clicks that convert, in order of the conversions' times."""
        delay = self.stream.delay
        numbers = np.flatnonzero(~np.isnan(delay))
        return numbers[np.argsort(self.stream.clicks.clicked_at[numbers] + delay[numbers])]

    @cached_property
    def _converted_at(self) -> Floats:
        """Their times, ascending."""
        numbers = self._converting
        return self.stream.clicks.clicked_at[numbers] + self.stream.delay[numbers]


def _known(column: Column, chosen: slice) -> list[float | str | None]:
    if isinstance(column, Categorical):
        return [*Categorical(column.codes[chosen], column.categories).values()]
    return [None if value != value else value for value in column[chosen].tolist()]


_HOURS_PER_DAY = 24
_TRAINING_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class PlayedHour:
    """The hour `number`, counted since 1970: its clicks' places in the stream, and for each the
    probability that the service gave it, (n,)."""

    number: int
    chosen: slice
    probabilities: Floats


@dataclass(frozen=True, slots=True)
class DelayedPlayback:
    """How the clicks of one delayed target are played through a service.

    `batch` is how many scores, and how many events, go into one request.
    """

    service: ServiceClient
    target: str
    batch: int = 5_000
    fields: FieldColumns = field(default_factory=dict)

    def play(self, stream: ClickStream, behind: float) -> Iterator[PlayedHour]:
        """Each hour that starts before `behind`, silent ones too, beginning with the first click's.

        As of its start a model is trained, if that is a midnight (UTC), and maps are fitted. Then
        its clicks are calibrated, before anything of the hour is known, and all that becomes known
        in the hour is posted.
        """
        messages = ClickMessages(stream, self.target, self.fields)
        first = int(stream.clicks.clicked_at[0] // SECONDS_PER_HOUR)
        for number in range(first, int(np.ceil(behind / SECONDS_PER_HOUR))):
            start, end = number * SECONDS_PER_HOUR, (number + 1) * SECONDS_PER_HOUR
            if number > first:
                self._learn(number)
            chosen = stream.between(start, end)
            yield PlayedHour(number, chosen, self._calibrate(stream, chosen))
            events = messages.between(start, end)
            while batch := [*islice(events, self.batch)]:
                self.service.post_events(batch)

    def _learn(self, number: int) -> None:
        request = {"target": self.target, "as_of": number * SECONDS_PER_HOUR}
        if number % _HOURS_PER_DAY == 0:
            self.service.finished(
                self.service.change("pccem", "train", request=request), _TRAINING_SECONDS
            )
        refit(self.service, request)

    def _calibrate(self, stream: ClickStream, chosen: slice) -> Floats:
        clicks = stream.clicks.select(chosen)
        campaigns = [clicks.campaigns[row] for row in clicks.rows.tolist()]
        asked = (clicks.scores, self.batch, chosen_of(self.fields, chosen))
        return calibrated(self.service, self.target, campaigns, *asked)


@dataclass(frozen=True, slots=True)
class DelayedReplay:
    """A click log played through a service for one delayed target.

    `given` are the settings that were given; the last `scored_hours` of the log are evaluated.
    Without a `url` the service is one of its own.
    """

    target: str | None
    given: Mapping[str, Any]
    scored_hours: int
    url: str | None = None

    def run(
        self, log: Where, columns: ClickColumns, reading: Reading | None = None, *, quiet: bool
    ) -> ScoredEvents:
        """Play the log; gives the raw scores and the probabilities of the service, under the
        backtest's name for them where the service is our own, beside the final conversions."""
        reading = reading or Reading()
        file = read_click_log(log, columns, reading)
        note_skipped(reading)
        options, settings = self._settings(file)
        target = settings.delayed_targets[0]
        first, until = DelayedRun(settings, self.scored_hours).evaluated_span(name_of(log), file)
        start = file.stream.clicks.clicked_at[0] // SECONDS_PER_HOUR
        total = int(until // SECONDS_PER_HOUR - start)
        with (
            _running(self.url, options, _row_of(settings)) as (service, name),
            progress("replaying", total, "hours", shown=not quiet) as advance,
        ):
            playback = DelayedPlayback(service, target, fields=file.fields)
            played = playback.play(file.stream, until)
            kept = [*_scored(played, first, advance)]
        return _found(file.stream, settings.attribution_seconds(target), kept, name)

    def _settings(self, file: ClickFile) -> tuple[dict[str, Any], Settings]:
        ours = settings_with(self.given)
        target = self.target or next(iter(ours.delayed_targets), "conversion")
        hours = round(ours.attribution_seconds(target) / SECONDS_PER_HOUR)
        options = {
            **self.given,
            **of_delayed(target, hours),
            "calibrator": self.given.get("calibrator") or ours.calibrator_of(target),
            "behaviours": _behaviours(file.stream),
            **_declared(file.fields),
            # The row of the backtest is the paper's, which has none.
            "drift_correction": ours.drift_correction and ours.labels != "paper",
        }
        return options, settings_with(options)


def _declared(fields: FieldColumns) -> dict[str, Any]:
    """The setting of a service that takes these fields; that of the environment without any."""
    return {"fields": tuple(fields)} if fields else {}


def _row_of(settings: Settings) -> str:
    """The backtest's name for the probabilities of a service with these settings."""
    return next(row for row, rules in PCCEM_ROWS.items() if rules.mode == settings.labels)


def _behaviours(stream: ClickStream) -> tuple[str, ...]:
    names = stream.clicks.features.columns
    return tuple(n.removeprefix(_BEHAVIOUR) for n in names if n.startswith(_BEHAVIOUR))


def _scored(played: Iterator[PlayedHour], first: float, advance: Advance) -> Iterator[PlayedHour]:
    for hour in played:
        if hour.number * SECONDS_PER_HOUR >= first:
            yield hour
        advance("")


def _found(
    stream: ClickStream, window: float, hours: Sequence[PlayedHour], name: str
) -> ScoredEvents:
    chosen = slice(hours[0].chosen.start, hours[-1].chosen.stop)
    clicks = stream.clicks.select(chosen)
    events = EventTable(
        clicks.clicked_at,
        clicks.campaigns,
        clicks.rows,
        clicks.scores,
        stream.outcomes(window)[chosen],
    )
    served: Floats = np.concatenate([hour.probabilities for hour in hours])
    return ScoredEvents(events, {RAW: clicks.scores, name: served})


_CALIBRATED, _CLICK = "calibrated", "click"


def run_replay(
    log: str,
    given: ReplayOptions,
    fit: FitOptions,
    columns: AnyLogColumnOptions,
    reading: ReadingOptions,
) -> None:
    """Replay the log through a service, and print and draw what came of it."""
    columns.refuse_others(delayed=given.delayed)
    fitted = asdict(fit)
    how = reading.reading("does not go with a replay: every impression is an event by itself")
    settings = settings_with(fitted)
    picture = None if given.no_picture else given.picture
    check_picture(picture)
    refuse_inside([log], {"--picture": picture})
    if given.url is not None:
        _refuse_foreign(given.url, fitted)
    if given.delayed:
        _replay_delayed(log, given, fitted, columns, how, picture)
        return
    refuse({"--judged": given.scored_hours}, "goes with --delayed only")
    events = read_log(
        log, replace(LogColumns.of(columns, reading), fields=names(given.fields)), how
    )
    note_skipped(how)
    first = first_evaluated_hour(events, settings.window_hours)
    target = given.target or _CLICK
    fitted["calibrator"] = name = fit.calibrator or settings.calibrator_of(target)
    scored = _replay(events, first, target, given.url, fitted, quiet=given.json)
    how_fitted = after(settings, [name] if given.url is None else [])
    report_scorecards(scored, name_of(log), how_fitted, picture=picture, as_json=given.json)


def _replay_delayed(
    log: str,
    given: ReplayOptions,
    fit: Mapping[str, Any],
    columns: AnyLogColumnOptions,
    reading: Reading,
    picture: Path | None,
) -> None:
    run = DelayedReplay(given.target, fit, given.scored_hours or WEEK_HOURS, given.url)
    named = (columns.time, columns.campaign, columns.score, columns.converted)
    of_log = ClickColumns(*named, fields=names(given.fields))
    scored = run.run(log, of_log, reading, quiet=given.json)
    report_delayed(scored, name_of(log), picture=picture, as_json=given.json)


def _replay(
    events: EventTable,
    first: int,
    target: str,
    url: str | None,
    fit: Mapping[str, Any],
    *,
    quiet: bool,
) -> ScoredEvents:
    hours = hours_of(events)
    options = {**fit, **of_immediate(target), **_declared(events.fields or {})}
    with (
        _running(url, options, fit["calibrator"]) as (service, name),
        progress("replaying", len(hours), "hours", shown=not quiet) as advance,
    ):
        return play_and_score(Playback(service, target, outcomes), hours, first, name, advance)


@contextmanager
def _running(
    url: str | None, options: Mapping[str, Any], name: str
) -> Iterator[tuple[ServiceClient, str]]:
    """The service to play through, and what its probabilities are called: one of our own with
    these options, and by this name, without a `url`."""
    if url is not None:
        with ServiceClient(url) as client:
            yield client, _CALIBRATED
        return
    with private_service(options) as service, ServiceClient(service.url) as client:
        yield client, name


def _refuse_foreign(url: str, fit: Mapping[str, Any]) -> None:
    """The window is also ours: it says which hours are evaluated."""
    given = [field for field, value in fit.items() if value is not None and field != "window_hours"]
    if given:
        option = given[0].replace("_", "-")
        raise CommandError(f"--{option} is a setting of the service at {url}: set it there")
