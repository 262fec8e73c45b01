"""`sirocco backtest --delayed`: which clicks are judged, and what came of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.command_line.backtest_methods import method_of
from app.command_line.click_files import ClickColumns, ClickFile, read_click_log
from app.command_line.console import note
from app.command_line.delayed_picture import draw_delayed
from app.command_line.delayed_tables import (
    ABOUT_ORACLE,
    HOW_TO_READ,
    print_delayed_json,
    show_delayed,
)
from app.command_line.errors import CommandError
from app.command_line.playback import SECONDS_PER_HOUR
from app.command_line.progress import progress
from app.settings import SECONDS_PER_DAY, Settings
from calibrators import Sufficiency
from evaluation import ClickPlatform, ClickWindows, DelayedBacktest, delayed_backtest
from pccem import LabelRules, TrainingRules

Span = tuple[float, float]
Read = Callable[[], ClickFile]

_SIMULATED_DAYS = 21


@dataclass(frozen=True, slots=True)
class DelayedRun:
    """How logs are backtested: as a service with these settings would treat the first delayed
    target, the last `judged_hours` of each log judged."""

    settings: Settings
    judged_hours: int

    def run(self, logs: Mapping[str, Read], *, picture: Path | None, as_json: bool) -> None:
        """Backtest each log and print what came of it; the picture is that of the first."""
        found: dict[str, DelayedBacktest] = {}
        for name, read in logs.items():
            file = read()
            found[name] = self.backtest(name, file, quiet=as_json)
            if picture is not None and len(found) == 1:
                draw_delayed(file.stream, found[name], self.windows.attribution, name, picture)
        cards = {name: backtest.scorecards for name, backtest in found.items()}
        if as_json:
            print_delayed_json(cards)
            return
        show_delayed(cards, _title(found))
        note(f"\n{HOW_TO_READ} {ABOUT_ORACLE}")
        for line in _remarks(found):
            note(line)

    @property
    def windows(self) -> ClickWindows:
        """Those of the first delayed target."""
        settings = self.settings
        if not settings.delayed_targets:
            raise CommandError("SIROCCO_DELAYED_TARGETS is empty: there is no delayed target")
        attribution = settings.attribution_seconds(settings.delayed_targets[0])
        return ClickWindows(settings.window_hours, settings.post_click_seconds, attribution)

    def judged(self, name: str, file: ClickFile) -> Span:
        """The last hours whose clicks have had their attribution window, as far back as asked for
        and as a first refit leaves room; a `CommandError` where there is none."""
        times = file.stream.clicks.clicked_at
        known = file.known_until - self.windows.attribution
        until = _whole(min(known, times[-1] + SECONDS_PER_HOUR))
        earliest = _whole(times[0] + self.windows.longest)
        first = max(until - self.judged_hours * SECONDS_PER_HOUR, earliest)
        if first >= until:
            least = (self.windows.longest + self.windows.attribution) / SECONDS_PER_DAY
            raise CommandError(
                f"{name}: no click is left to judge; clicks and their conversions must span more"
                f" than {least:g} days"
            )
        return first, until

    def backtest(self, name: str, file: ClickFile, *, quiet: bool) -> DelayedBacktest:
        """What each row would have served in the judged hours."""
        first, until = self.judged(name, file)
        hours = round((until - first) / SECONDS_PER_HOUR)
        settings = self.settings
        with progress(f"backtesting {name}", hours, "hours", shown=not quiet) as advance:
            return delayed_backtest(
                file.stream,
                method_of(settings.calibrator_of(settings.delayed_targets[0]), settings),
                judged_from=first,
                judged_until=until,
                windows=self.windows,
                pccem={
                    "pccem": LabelRules("paper", drift_correction=False),
                    "pccem_posterior": LabelRules("posterior", settings.drift_correction),
                },
                training=training_rules(settings),
                sufficiency=Sufficiency(settings.min_samples, settings.min_positives),
                progress=lambda done, of: advance(""),
            )


def _whole(moment: float) -> float:
    """The start of the hour of a moment."""
    return float(moment // SECONDS_PER_HOUR * SECONDS_PER_HOUR)


def training_rules(settings: Settings) -> TrainingRules:
    """How the service trains a post-click model."""
    return TrainingRules(
        days=settings.training_days,
        min_clicks=settings.min_training_clicks,
        min_conversions=settings.min_training_conversions,
        max_clicks=settings.training_clicks,
        num_threads=settings.training_threads,
    )


def files_of(paths: Sequence[Path], columns: ClickColumns) -> dict[str, Read]:
    """Logs in files, by name."""

    def reader(path: Path) -> Read:
        return lambda: read_click_log(path, columns)

    names = [path.name for path in paths]
    distinct = len({*names}) == len(names)
    return {path.name if distinct else str(path): reader(path) for path in paths}


def simulated(seeds: int) -> dict[str, Read]:
    """Logs of the synthetic platform, as `sirocco simulate` writes them."""

    def drawer(seed: int) -> Read:
        return lambda: _draw(ClickPlatform(seed=seed))

    return {f"seed {seed}": drawer(seed) for seed in range(seeds)}


def _draw(platform: ClickPlatform) -> ClickFile:
    stream = platform.hours(0, _SIMULATED_DAYS * 24).stream
    return ClickFile(stream, float("inf"))


def _title(found: Mapping[str, DelayedBacktest]) -> str:
    judged = sum(len(backtest.rows) for backtest in found.values())
    what = next(iter(found)) if len(found) == 1 else f"mean of {len(found)} logs"
    return f"{what}: {judged:,} clicks judged by their final conversions"


def _remarks(found: Mapping[str, DelayedBacktest]) -> Iterator[str]:
    for name, backtest in found.items():
        others = {s: hours for s, hours in backtest.sources.items() if s != "model"}
        for source, hours in others.items():
            yield f"{name}: {hours} h without a post-click model; labels came from: {source}."
        for day, reason in backtest.refusals.items():
            at = datetime.fromtimestamp(day * SECONDS_PER_DAY, UTC)
            yield f"{name}: no new model on {at:%Y-%m-%d}: {reason}."
