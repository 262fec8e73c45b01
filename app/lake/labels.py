"""Delayed targets of a lake: the training of the post-click model, and clicks as bins with the
conversions that each is expected to bring, by the rules of a worker.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from io import BytesIO
from math import inf, nextafter
from time import time
from typing import Any, Final, Self

import orjson

from app.click_log.log import ClickReader
from app.datasets.bin_tables import TargetBins, write_bins
from app.datasets.parts import shown
from app.errors import FAILED, CommandError
from app.lake.clicks import ClickLake, HourTasks, JoinedHours, Span
from app.lake.tasks import PartitionTask, reaching_output
from app.settings import SECONDS_PER_HOUR, Settings
from app.storage.models import Trained
from app.worker.model_cache import CachedModel, signing_key
from app.worker.relabelling import KnownClicks, last_hour, spans
from app.worker.training import (
    EarlierTrainings,
    Lesson,
    NothingToTrain,
    TrainingTask,
    training_span,
)
from calibrators.fields.bin_rows import BinRows
from pccem import DelayDistribution, PostClickModel, unseal

_SCHEMA_VERSION: Final = 1
DECIDING: Final = (
    "post_click_minutes", "window_hours", "click_log_days", "labels",
    "drift_correction", "training_days", "training_clicks", "min_training_clicks",
    "min_training_conversions",
)  # fmt: skip
"""The settings that results depend on."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What `sirocco lake train` has written: its path in the output, and the digest of it."""

    path: str
    digest: str

    @classmethod
    def of(cls, output: str, target: str) -> Self:
        """The newest of a target; a `CommandError` where there is none."""
        path = model_path(target)
        with reaching_output(output) as folder:
            data = folder.read(path)
        if data is None:
            raise CommandError(
                f"{shown(output)} has no {path}: `sirocco lake train` makes it from older clicks"
            )
        return cls(path, sha256(data).hexdigest())

    def loaded(self, output: str, settings: Settings) -> CachedModel:
        """The model; a `CommandError` where it is another by now, or signed with another key."""
        with reaching_output(output) as folder:
            data = folder.read(self.path) or b""
        if sha256(data).hexdigest() != self.digest:
            raise CommandError(f"{shown(output)}/{self.path} has changed: begin the job again")
        try:
            return _cached(unpacked(data), settings)
        except ValueError as error:
            raise CommandError(
                f"{shown(output)}/{self.path}: {error}; it must be signed with SIROCCO_SIGNING_KEY,"
                " the same wherever the job runs",
                FAILED,
            ) from error


def model_path(target: str) -> str:
    """Where a target's newest training is in the output."""
    return f"models/{target}.json"


def kept_training(task: PartitionTask) -> Trained:
    """The result of a training, which is the newest of its target from here on."""
    with reaching_output(task.output) as folder:
        data = folder.read(task.result) or b""
        folder.write(model_path(task.settings["target"]), data)
    return unpacked(data)


@dataclass(frozen=True, slots=True)
class DelayedJob:
    """What is made of a lake as of a moment, epoch seconds, by the settings of a worker."""

    lake: ClickLake
    settings: Settings
    as_of: float
    output: str

    def training_hours(self) -> HourTasks:
        """The hours that a training reads."""
        return self.lake.tasks(*self._training_spans(), self.output)

    def training(self, hours: HourTasks) -> PartitionTask:
        """The training on these hours."""
        return self._task("training", hours=hours.results(*self._training_spans()))

    def label_hours(self, number: int) -> HourTasks:
        """The hours that the labels of so many hours of clicks read."""
        return self.lake.tasks(*self._label_spans(self._spans(number)), self.output)

    def labels(
        self, hours: HourTasks, number: int, model: ModelFile, fields: tuple[str, ...]
    ) -> list[PartitionTask]:
        """The labels of so many hours of clicks: one task for each window of them."""
        chosen = self._spans(number)
        own = {"model": asdict(model), "fields": fields, "end": chosen[0][1]}
        read = [hours.results(*self._label_spans([span])) for span in chosen]
        tasks = zip(chosen, read, strict=True)
        return [self._task("labels", **own, span=span, hours=found) for span, found in tasks]

    def _task(self, kind: str, **own: Any) -> PartitionTask:
        given = {name: getattr(self.settings, name) for name in DECIDING}
        given["attribution_hours"] = {self.lake.target: round(self._window / SECONDS_PER_HOUR)}
        own |= {"target": self.lake.target, "as_of": self.as_of, "settings": given}
        return PartitionTask.of(kind, {}, [], self.output, own)

    @property
    def _window(self) -> float:
        return self.settings.attribution_seconds(self.lake.target)

    @property
    def _behind(self) -> float:
        """What comes at the very moment is known."""
        return nextafter(self.as_of, inf)

    def _spans(self, hours: int) -> list[Span]:
        return spans(self.settings, self.as_of, hours)

    def _training_spans(self) -> tuple[Span, Span]:
        order = TrainingTask(self.lake.target, self._window, self.as_of)
        first, _ = training_span(order, self.settings)
        return (first, self.as_of - self.settings.post_click_seconds), (first, self._behind)

    def _label_spans(self, chosen: list[Span]) -> tuple[Span, Span]:
        first, behind = chosen[-1][0], chosen[0][1]
        return (first, behind), (first, min(behind + self._window, self._behind))


def made_training(task: PartitionTask) -> tuple[bytes, dict[str, Any]]:
    """The training of a target from nothing that one before has left, as JSON; a `CommandError`
    says what there is too little of."""
    settings, target = _settings_of(task), task.settings["target"]
    order = TrainingTask(target, settings.attribution_seconds(target), task.settings["as_of"])
    lesson = Lesson(settings, lambda: signing_key(settings))
    try:
        trained = lesson.trained(_log_of(task), order, EarlierTrainings(), time)
    except NothingToTrain as error:
        raise CommandError(f"target {target}: {error}", FAILED) from error
    return packed(trained), {"rows": trained.report["training"]["clicks"], "notes": []}


def made_labels(task: PartitionTask) -> tuple[bytes, dict[str, Any]]:
    """The bins of a window of clicks, by the hours of a refit; tells how many clicks."""
    given, settings = task.settings, _settings_of(task)
    target, as_of, fields = given["target"], given["as_of"], given["fields"]
    span = tuple(given["span"])
    cached = ModelFile(**given["model"]).loaded(task.output, settings)
    if cached.trained.as_of > as_of:
        raise CommandError(
            f"the model of {target} was trained as of {cached.trained.as_of:.0f}, and knows what"
            f" nobody knew at --as-of {as_of:.0f}"
        )
    found = KnownClicks(_log_of(task), cached, target, as_of, settings).relabelled(span)
    tables = {} if found is None else found.by_hour(last_hour(span, given["end"]), fields)
    rows = ((hour, BinRows.of_table(table, fields)) for hour, table in sorted(tables.items()))
    with BytesIO() as file:
        write_bins(file, (TargetBins(target, *each) for each in rows), fields)
        return file.getvalue(), {"rows": 0 if found is None else len(found.labels), "notes": []}


def _settings_of(task: PartitionTask) -> Settings:
    own: Mapping[str, Any] = task.settings["settings"]
    target = task.settings["target"]
    others: dict[str, Any] = {"products": {}, "target_calibrators": {}}
    # What else the environment has must not contradict the one target.
    others["targets"] = ("click" if target != "click" else "impression",)
    return Settings(**own, **others, delayed_targets=(target,))


def _log_of(task: PartitionTask) -> ClickReader:
    return ClickReader(JoinedHours(task.output, task.settings["hours"]))


def packed(trained: Trained) -> bytes:
    """A training as JSON."""
    model = None if trained.model is None else b64encode(trained.model).decode()
    found = {"schema_version": _SCHEMA_VERSION, **asdict(replace(trained, model=None))}
    return orjson.dumps({**found, "model": model}, option=orjson.OPT_SERIALIZE_NUMPY)


def unpacked(data: bytes) -> Trained:
    """The inverse; ValueError on any other bytes."""
    found = orjson.loads(data)
    if not isinstance(found, dict) or found.pop("schema_version", None) != _SCHEMA_VERSION:
        raise ValueError(f"no training of schema_version {_SCHEMA_VERSION}")
    model = found.pop("model")
    return Trained(**found, model=None if model is None else b64decode(model))


def _cached(trained: Trained, settings: Settings) -> CachedModel:
    delays = None if trained.delays is None else DelayDistribution.from_dict(trained.delays)
    model = None
    if trained.model is not None:
        model = PostClickModel.from_bytes(unseal(trained.model, signing_key(settings)))
        model.check_probes()
    return CachedModel("lake", trained, model, delays)


def training_digest(trained: Trained) -> str:
    """Of all that labels depend on: the signed model, and how conversions are spread in time."""
    told = [trained.target, trained.window, trained.as_of, trained.delays, trained.features]
    spread = orjson.dumps(told, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    return sha256(spread + (trained.model or b"")).hexdigest()
