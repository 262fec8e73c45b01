"""`sirocco replay --delayed`: which clicks are judged, and how the service is set up for them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from app.command_line.click_files import ClickColumns, read_click_log
from app.command_line.delayed_playback import DelayedPlayback, PlayedHour
from app.command_line.delayed_run import DelayedRun
from app.command_line.judged import Floats, Judged
from app.command_line.judged_hours import RAW
from app.command_line.playback import SECONDS_PER_HOUR
from app.command_line.private_service import of_delayed, private_service
from app.command_line.progress import Advance, progress
from app.command_line.service_client import ServiceClient
from app.command_line.service_settings import settings_with
from app.settings import Settings
from evaluation import ClickStream, EventTable
from evaluation.delayed_backtest import PCCEM_ROWS

_CALIBRATED = "calibrated"
_BEHAVIOUR = "behaviour."


@dataclass(frozen=True, slots=True)
class DelayedReplay:
    """A click log played through a service for one delayed target.

    `given` are the settings that were given; `judged_hours` of the log's end are judged. Without a
    `url` the service is one of its own.
    """

    target: str | None
    given: Mapping[str, Any]
    judged_hours: int
    url: str | None = None

    def run(self, path: Path, columns: ClickColumns, *, quiet: bool) -> Judged:
        """Play the log, and judge by its final conversions the raw scores and the probabilities
        that the service gave: under the backtest's name for them where the service is our own."""
        file = read_click_log(path, columns)
        options, settings = self._settings(file.stream)
        target = settings.delayed_targets[0]
        first, until = DelayedRun(settings, self.judged_hours).judged(path.name, file)
        start = file.stream.clicks.clicked_at[0] // SECONDS_PER_HOUR
        total = int(until // SECONDS_PER_HOUR - start)
        with (
            self._running(options, settings) as (service, name),
            progress("replaying", total, "hours", shown=not quiet) as advance,
        ):
            played = DelayedPlayback(service, target).play(file.stream, until)
            kept = [*_judged(played, first, advance)]
        return _found(file.stream, settings.attribution_seconds(target), kept, name)

    @contextmanager
    def _running(
        self, options: Mapping[str, Any], settings: Settings
    ) -> Iterator[tuple[ServiceClient, str]]:
        """The service to play through, and what its probabilities are called."""
        if self.url is not None:
            with ServiceClient(self.url) as client:
                yield client, _CALIBRATED
            return
        name = next(row for row, rules in PCCEM_ROWS.items() if rules.mode == settings.labels)
        with private_service(options) as service, ServiceClient(service.url) as client:
            yield client, name

    def _settings(self, stream: ClickStream) -> tuple[dict[str, Any], Settings]:
        ours = settings_with(self.given)
        target = self.target or next(iter(ours.delayed_targets), "conversion")
        hours = round(ours.attribution_seconds(target) / SECONDS_PER_HOUR)
        options = {
            **self.given,
            **of_delayed(target, hours),
            "calibrator": self.given.get("calibrator") or ours.calibrator_of(target),
            "behaviours": _behaviours(stream),
            # The row of the backtest is the paper's, which has none.
            "drift_correction": ours.drift_correction and ours.labels != "paper",
        }
        return options, settings_with(options)


def _behaviours(stream: ClickStream) -> tuple[str, ...]:
    names = stream.clicks.features.columns
    return tuple(n.removeprefix(_BEHAVIOUR) for n in names if n.startswith(_BEHAVIOUR))


def _judged(played: Iterator[PlayedHour], first: float, advance: Advance) -> Iterator[PlayedHour]:
    for hour in played:
        if hour.number * SECONDS_PER_HOUR >= first:
            yield hour
        advance("")


def _found(stream: ClickStream, window: float, hours: Sequence[PlayedHour], name: str) -> Judged:
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
    return Judged(events, {RAW: clicks.scores, name: served})
