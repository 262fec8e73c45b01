"""Trained models as the worker needs them: signature checked, loaded elsewhere first, kept.

The key that they are signed with is a setting, or a file of the data directory.
"""

import logging
import math
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp
from typing import Any

from app.settings import Settings, variable_of
from app.storage.errors import CorruptVersion, UnknownVersion
from app.storage.models import Models, Trained
from app.worker.model_trial import try_model
from pccem import DelayDistribution, PostClickModel, unseal

_log = logging.getLogger(__name__)
_HELD = 8


@dataclass(frozen=True, slots=True, eq=False)
class CachedModel:
    """One training's outcome, unpacked; `refused` says why its model could not be."""

    version: str
    trained: Trained
    model: PostClickModel | None
    delays: DelayDistribution | None
    refused: str | None = None

    @property
    def post_click(self) -> float:
        """Seconds after a click whose conversions the model has not been trained on; 0 without."""
        about = self.trained.report.get("model") or {}
        return float(about.get("post_click", 0.0))


class ModelCache:
    """Loads a version once, in a process of its own before this one; holds the last few.

    What cannot be loaded is refused once, counted in `refused`, and an older one stands in.
    """

    def __init__(
        self, models: Models, key: Callable[[], bytes], trial: Callable[[bytes], None] = try_model
    ) -> None:
        self._models = models
        self._key = key
        self._trial = trial
        self._held: OrderedDict[tuple[str, str], CachedModel | None] = OrderedDict()
        self.refused = 0

    def newest(self, target: str, window: float, as_of: float) -> CachedModel | None:
        """The newest training for this attribution window that has not seen beyond a moment.

        One whose model is refused stands back behind older ones, and gives its delay distribution
        only when there are none.
        """
        fallback = None
        for cached in self._readable(target, window, as_of):
            if cached.refused is None:
                return cached
            fallback = fallback or cached
        return fallback

    def last_as_of(self, target: str, window: float, until: float = math.inf) -> float | None:
        """As of when, up to a moment, the target was trained last for this window; None before
        the first."""
        moments = [manifest["as_of"] for manifest in self._of_window(target, window)]
        return max((as_of for as_of in moments if as_of <= until), default=None)

    def _readable(self, target: str, window: float, as_of: float) -> Iterator[CachedModel]:
        manifests = self._of_window(target, window)
        # Stable: of two trainings as of one moment, the later comes first.
        for manifest in sorted(manifests, key=lambda kept: kept["as_of"], reverse=True):
            if manifest["as_of"] <= as_of:
                cached = self._take(target, manifest["version"])
                if cached is not None:
                    yield cached

    def _of_window(self, target: str, window: float) -> list[dict[str, Any]]:
        kept = self._models.history(target)
        return [manifest for manifest in kept if manifest["window"] == window]

    def _take(self, target: str, version: str) -> CachedModel | None:
        place = (target, version)
        if place not in self._held:
            self._held[place] = self._load(target, version)
            while len(self._held) > _HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(place)
        return self._held[place]

    def _load(self, target: str, version: str) -> CachedModel | None:
        try:
            trained = self._models.load(target, version)
            packed = trained.delays
            delays = None if packed is None else DelayDistribution.from_dict(packed)
        except (CorruptVersion, UnknownVersion, ValueError) as error:
            self._refuse(target, version, error)
            return None
        try:
            model = None if trained.model is None else self._unpack(trained.model)
        except ValueError as error:
            self._refuse(target, version, error)
            return CachedModel(version, trained, None, delays, str(error))
        return CachedModel(version, trained, model, delays)

    def _unpack(self, sealed: bytes) -> PostClickModel:
        data = unseal(sealed, self._key())
        self._trial(data)
        model = PostClickModel.from_bytes(data)
        model.check_probes()
        return model

    def _refuse(self, target: str, version: str, error: Exception) -> None:
        self.refused += 1
        _log.error("model %s of %s is refused: %s", version, target, error)


FILE = "signing.key"
_BYTES = 32


class UnusableKey(ValueError):
    """The key's file holds something else; the text names the file and never what it holds."""

    def __init__(self, path: Path) -> None:
        setting = variable_of("signing_key")
        super().__init__(
            f"{path}: must hold at least {_BYTES} bytes; remove it to get a new key (models signed"
            f" with the old one are trained again), or set {setting}"
        )


def signing_key(settings: Settings) -> bytes:
    """The key, made on first use; raises UnusableKey on a file that was cut short."""
    if settings.signing_key is not None:
        return settings.signing_key.get_secret_value().encode()
    path = settings.data_dir / FILE
    if not path.exists():
        _make(path)
    key = path.read_bytes().strip()
    if len(key) < _BYTES:
        raise UnusableKey(path)
    return key


def _make(path: Path) -> None:
    """Write a new key that only its owner can read; one that another process made first stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = mkstemp(prefix=f".{FILE}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(_BYTES).encode())
            file.flush()
            os.fsync(file.fileno())
        # A link appears whole or not at all, and never in the place of another.
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        Path(draft).unlink()
