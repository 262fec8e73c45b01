"""Calibration in the caller's own process, by an atlas that is kept current: `EdgeCalibrator` looks
for a new one at the service, and keeps what it has when that fails; optionally in a file, so that a
process has maps before it has reached the service.

With the atlas it holds the experiment of the same version: who is in which arm, and the maps on
trial. Both are part of a version, so they are fetched together or not at all.

Layout of the file, little-endian: magic "SEDG", schema_version u2, two zero bytes, length of the
label u4, 32 bytes SHA-256 of what follows, the label (JSON), and the bytes of the atlas as they
came.
"""

import json
import logging
import os
import random
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from ssl import SSLContext
from tempfile import NamedTemporaryFile
from typing import Any, Final, Literal, NamedTuple, NoReturn, Self, SupportsFloat, cast

import httpx
import numpy as np
from numpy.typing import ArrayLike

from sirocco_client.arms import ARMS, CHALLENGER, CHAMPION, Units, UnitSplit
from sirocco_client.atlas import EdgeAtlas
from sirocco_client.calibrate import NO_VERSION, VERSION_HEADER, Calibrated, map_age, summary_of
from sirocco_client.connections import Address, Connections, Deadline, begins_anew_after_fork
from sirocco_client.errors import BadAtlas, BadInput, NoAtlas, SiroccoError
from sirocco_client.fields import Fields, cut, cut_fields
from sirocco_client.intervals import WantedIntervals
from sirocco_client.requests import (
    CalibrateInput,
    Campaigns,
    Floats,
    HttpRequest,
    HttpResponse,
    of_version,
)

_HEADER: Final = struct.Struct("<4sHHI32s")
_MAGIC: Final = b"SEDG"
_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Label:
    """Which atlas it is; times are epoch seconds."""

    target: str
    version: str = "none"
    etag: str = ""
    published_at: float | None = None
    confirmed_at: float | None = None
    label: str = CHAMPION
    """Whose maps: the `champion`'s, or the `challenger`'s."""


def write_atlas_file(path: Path, label: Label, data: bytes) -> None:
    """Replace the file in one step: a reader finds the old one or the new one, whole."""
    text = json.dumps(asdict(label)).encode()
    content = text + data
    header = _HEADER.pack(_MAGIC, _SCHEMA_VERSION, 0, len(text), sha256(content).digest())
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(header + content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def read_atlas_file(path: Path, target: str, whose: str = CHAMPION) -> tuple[Label, bytes]:
    """What was written for the target and label; raises BadAtlas on damage, FileNotFoundError
    without it."""
    stored = path.read_bytes()
    if len(stored) < _HEADER.size or stored[:4] != _MAGIC:
        raise BadAtlas(f"{path}: not the file of an atlas")
    _, version, _, size, digest = _HEADER.unpack_from(stored)
    content = stored[_HEADER.size :]
    if version != _SCHEMA_VERSION or sha256(content).digest() != digest:
        raise BadAtlas(f"{path}: damaged, or of schema_version {version}")
    label = Label(**json.loads(content[:size]))
    if (label.target, label.label) != (target, whose):
        found = f"{label.label} of {label.target!r}"
        raise BadAtlas(f"{path}: the atlas of the {found}, not of the {whose} of {target!r}")
    return label, content[size:]


logger = logging.getLogger(__name__)

_BREATH_SECONDS: Final = 0.0005
_JOIN_SECONDS: Final = 1.0
_MOST_DOUBLINGS: Final = 4
_MOST_ROUNDS: Final = 3
_NO_FIELDS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class EdgeCounts:
    """How the looks for a new atlas went: one was taken, the one held was confirmed, or the look
    failed; of the failed, `refused` brought an atlas that could not be read."""

    taken: int = 0
    confirmed: int = 0
    failed: int = 0
    refused: int = 0


class _MissingAtlas:
    """Stands where an atlas will be: whatever it is used for raises NoAtlas."""

    def __call__(self, campaigns: Campaigns, scores: ArrayLike, fields: Fields) -> NoReturn:
        raise NoAtlas("no atlas has come yet")

    def __getattr__(self, name: str) -> NoReturn:
        raise NoAtlas("no atlas has come yet")


class _Held(NamedTuple):
    """What serves, all of one version, replaced by one assignment; without a split everybody gets
    the atlas. `whole` is false where it came from a file, which has no experiment."""

    label: Label
    atlas: EdgeAtlas | _MissingAtlas
    split: UnitSplit | None = None
    challenger: EdgeAtlas | None = None
    whole: bool = True

    def by_arm(self, given: CalibrateInput) -> tuple[Floats, tuple[str, ...], dict[str, Any]]:
        """Probability and arm of each score, and columns of quantiles; what is served raw, or by
        maps on trial without spreads, has no width."""
        levels, numbers = given.wanted.levels, np.zeros(len(given), np.uint8)
        if self.split is not None and given.units is not None:
            numbers = self.split.numbers(given.units, len(given))
        # Those that are served raw stay as they are.
        probabilities = given.scores.copy()
        columns = {name: given.scores.copy() for name in levels}
        for arm, atlas in ((CHAMPION, self.atlas), (CHALLENGER, self.challenger)):
            places = np.flatnonzero(numbers == ARMS.index(arm))
            if len(places) and atlas is not None:
                campaigns = cut(given.campaigns, places.tolist())
                scores = given.scores[places]
                fields = cut_fields(given.fields or {}, places.tolist())
                found = probabilities[places] = atlas(campaigns, scores, fields)
                if levels:
                    wanted = (campaigns, scores, found, tuple(levels.values()), fields)
                    of_levels = atlas.quantiles(*wanted, on_trial=arm == CHALLENGER)
                    for column, some in zip(columns.values(), of_levels, strict=True):
                        column[places] = some
        return probabilities, tuple(ARMS[number] for number in numbers.tolist()), columns


class EdgeCalibrator:
    """Holds the atlas of one target and looks up locally; a thread polls for changes.

    It polls every `refresh_seconds`, give or take half, by ETag: an atlas travels only when it has
    changed. When the service is away, has no version yet, or sends what cannot be read, the last
    atlas stays, and its age tells. Before the first atlas a look-up raises NoAtlas, or with
    `before_first="identity"` changes nothing. With `keep_in`, the atlas is kept in that file and a
    new process starts from it. `api_key` needs the scope `read`, and to be bound to no campaigns.
    `label="challenger"` holds the maps on trial instead, which everybody gets then. Any number of
    threads may look up; in a forked child the thread begins anew.
    """

    def __init__(
        self,
        url: str,
        target: str,
        *,
        refresh_seconds: float = 5.0,
        stale_seconds: float = 60.0,
        label: Literal["champion", "challenger"] = "champion",
        before_first: Literal["raise", "identity"] = "raise",
        keep_in: Path | str | None = None,
        timeout: float = 10.0,
        headers: Mapping[str, str] | None = None,
        verify: bool | SSLContext = True,
        api_key: str | None = None,
    ) -> None:
        if not refresh_seconds > 0:
            raise BadInput("refresh_seconds", "must be more than 0", refresh_seconds)
        if before_first not in ("raise", "identity"):
            raise BadInput("before_first", "must be raise or identity", before_first)
        if label not in (CHAMPION, CHALLENGER):
            raise BadInput("label", f"must be {CHAMPION} or {CHALLENGER}", label)
        self._refresh_seconds, self._stale_seconds = refresh_seconds, stale_seconds
        self._address, self._timeout = Address(url, 1, headers or {}, verify, api_key), timeout
        self._file = None if keep_in is None else Path(keep_in)
        first = _MissingAtlas() if before_first == "raise" else EdgeAtlas.identity()
        self._held = _Held(Label(target, label=label), first)
        self._counts = EdgeCounts()
        self._refused_in_a_row = 0
        self._failure = ""
        self._read_file()
        self._begin()
        begins_anew_after_fork(self)

    def at(
        self,
        campaign: str,
        score: SupportsFloat,
        fields: Mapping[str, str] = _NO_FIELDS,
        model_version: str | None = None,
    ) -> float:
        """Probability of one score in [0, 1]; raises BadInput on another, or NoAtlas. Fields that
        are not said count as other; `model_version` is as in `Sirocco.calibrate`."""
        if model_version is not None:
            campaign = cast(str, of_version(campaign, model_version))
        return self._held.atlas.at(campaign, score, fields)

    def __call__(
        self,
        campaigns: Campaigns,
        scores: ArrayLike,
        *,
        fields: Fields = _NO_FIELDS,
        model_version: str | None = None,
    ) -> Floats:
        """Probabilities, shape (n,), of n scores with a campaign each or one for all, and values
        of fields; raises BadInput on scores outside [0, 1] or on unequal lengths, or NoAtlas."""
        return self._held.atlas(of_version(campaigns, model_version), scores, fields)

    def calibrate(
        self,
        campaigns: Campaigns,
        scores: ArrayLike,
        *,
        units: Units | None = None,
        fields: Fields | None = None,
        interval: SupportsFloat | None = None,
        quantile: SupportsFloat | None = None,
        model_version: str | None = None,
    ) -> Calibrated:
        """What `Sirocco.calibrate` gives: with `units` experiments apply, and `arms` tells the arm
        of each; `interval` and `quantile` as there. All of it is of one version."""
        held = self._held
        wanted = WantedIntervals.of(interval, quantile)
        said = of_version(campaigns, model_version), scores, units, fields, wanted
        given = CalibrateInput.of(held.label.target, *said)
        if given.factors is not None:
            raise BadInput("scores", "must be of one target: the service multiplies, not the edge")
        probabilities, arms, columns = held.by_arm(given)
        label = held.label
        return Calibrated(
            probabilities,
            label.version,
            _since(label.published_at),
            arms=None if units is None else arms,
            label=label.label,
            **columns,
        )

    def level(self, campaign: str) -> str:
        """Which map serves the campaign: `campaign`, `group`, `target` or `identity`; raises
        NoAtlas."""
        return self._held.atlas.level(campaign)

    @property
    def version(self) -> str:
        """The version held; `none` before the first."""
        return self._label.version

    @property
    def label(self) -> str:
        """Whose maps it follows: the `champion`'s, or the `challenger`'s."""
        return self._label.label

    @property
    def age(self) -> float | None:
        """Seconds since the version held was published; None before the first."""
        return _since(self._label.published_at)

    @property
    def unconfirmed_seconds(self) -> float | None:
        """Seconds since the service last said that the version held is the one in force; None
        before the first."""
        return _since(self._label.confirmed_at)

    @property
    def stale(self) -> bool:
        """Whether the service has not confirmed the atlas for longer than `stale_seconds`."""
        unconfirmed = self.unconfirmed_seconds
        return unconfirmed is None or unconfirmed > self._stale_seconds

    @property
    def counts(self) -> EdgeCounts:
        """How the looks for a new atlas went so far."""
        return self._counts

    def wait(self, timeout: float) -> bool:
        """Wait for the first atlas; False if none has come within so many seconds."""
        return self._has_come.wait(timeout)

    def refresh(self) -> bool:
        """Look now; whether the service sent or confirmed an atlas. Raises nothing."""
        with self._refreshing:
            try:
                self._refresh()
            except Exception as error:
                # The last atlas must outlive whatever a response does here.
                self._count_failure(error)
                return False
            self._failure = ""
            return True

    def close(self) -> None:
        """Ends the refreshing; what is held still serves."""
        self._stopping.set()
        self._thread.join(_JOIN_SECONDS)

    def begin_anew(self) -> None:
        """In a forked child: the atlas is shared, thread and connection are not."""
        if self._stopping.is_set():
            self._connect()
        else:
            self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _label(self) -> Label:
        return self._held.label

    def _connect(self) -> None:
        self._has_come = threading.Event()
        if self._label.confirmed_at is not None:
            self._has_come.set()
        self._refreshing = threading.Lock()
        self._connections = Connections(self._address)

    def _begin(self) -> None:
        self._connect()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sirocco-edge", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.refresh()
        while not self._stopping.wait(self._pause()):
            self.refresh()
        self._connections.close()

    def _pause(self) -> float:
        # What was refused comes whole again each time: not as often.
        slower = 2.0 ** min(self._refused_in_a_row, _MOST_DOUBLINGS)
        return self._refresh_seconds * slower * random.uniform(0.5, 1.5)

    def _refresh(self) -> None:
        for _ in range(_MOST_ROUNDS):
            response = self._atlas_of(self._label.label, self._label.etag)
            if response.status not in (200, 304):
                raise NoAtlas(summary_of(response))
            if self._take(response) if response.status == 200 else self._confirm():
                return
        raise NoAtlas("every time another version came between the maps and their experiment")

    def _atlas_of(self, label: str, etag: str = "") -> HttpResponse:
        query = "" if label == CHAMPION else f"?label={label}"
        held = {"If-None-Match": etag} if etag else {}
        return self._get(f"/v1/atlas/{self._label.target}{query}", held)

    def _get(self, path: str, headers: Mapping[str, str]) -> HttpResponse:
        return self._connections.ask(
            HttpRequest("GET", path, headers=headers), Deadline(self._timeout)
        )

    def _confirm(self) -> bool:
        held, label = self._held, replace(self._label, confirmed_at=time.time())
        if not held.whole:
            experiment = self._experiment(label.version)
            if experiment is None:
                return False
            held = _Held(label, held.atlas, *experiment)
        self._held = held._replace(label=label)
        self._counts = replace(self._counts, confirmed=self._counts.confirmed + 1)
        return True

    def _take(self, response: HttpResponse) -> bool:
        """Hold what it has, with the experiment of the same version; False where that is of
        another."""
        version = response.headers.get(VERSION_HEADER, NO_VERSION)
        if version == NO_VERSION != self._label.version:
            # It has just started, without its store: what we hold is better than nothing.
            raise NoAtlas("the service has no version yet")
        atlas = self._read(response.body, self._held.atlas)
        experiment = self._experiment(version)
        if experiment is None:
            return False
        now, age = time.time(), map_age(response)
        label = replace(
            self._label,
            version=version,
            etag=response.headers.get("etag", ""),
            published_at=None if age is None else now - age,
            confirmed_at=now,
        )
        self._held = _Held(label, atlas, *experiment)
        self._counts = replace(self._counts, taken=self._counts.taken + 1)
        self._has_come.set()
        self._write_file(response.body)
        return True

    def _experiment(self, version: str) -> tuple[UnitSplit | None, EdgeAtlas | None] | None:
        """The split of the version's experiment and the maps on trial, as far as there are any;
        None where the service has another version by now. Older services have none."""
        if self._label.label != CHAMPION:
            return None, None
        response = self._get("/v1/experiments", {})
        if response.status == 404:
            return None, None
        of_version, split = read_split(response, self._label.target)
        if of_version != version:
            return None
        if split is None or not split.shares.get(CHALLENGER):
            return split, None
        found = self._atlas_of(CHALLENGER)
        if found.status == 404:
            # Not there: everybody gets the champion.
            return None, None
        if found.status != 200:
            raise NoAtlas(summary_of(found))
        if found.headers.get(VERSION_HEADER) != version:
            return None
        return split, self._read(found.body, self._held.challenger)

    def _read(self, data: bytes, before: object) -> EdgeAtlas:
        known = before if isinstance(before, EdgeAtlas) else None
        try:
            atlas = EdgeAtlas.from_bytes(data, known, lambda: time.sleep(_BREATH_SECONDS))
        except BadAtlas:
            self._refused_in_a_row += 1
            self._counts = replace(self._counts, refused=self._counts.refused + 1)
            raise
        self._refused_in_a_row = 0
        return atlas

    def _count_failure(self, error: Exception) -> None:
        self._counts = replace(self._counts, failed=self._counts.failed + 1)
        expected = isinstance(error, (httpx.TransportError, SiroccoError))
        if str(error) != self._failure or not expected:
            logger.warning(
                "no new atlas, still serving %s: %s",
                self._label.version,
                error,
                exc_info=not expected,
            )
        self._failure = str(error)

    def _read_file(self) -> None:
        if self._file is None:
            return
        try:
            label, data = read_atlas_file(self._file, self._label.target, self._label.label)
            self._held = _Held(label, EdgeAtlas.from_bytes(data), whole=False)
        except FileNotFoundError:
            pass
        except (OSError, BadAtlas) as error:
            self._counts = replace(self._counts, refused=self._counts.refused + 1)
            logger.error("began without the kept atlas: %s", error)

    def _write_file(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            write_atlas_file(self._file, self._label, data)
        except OSError as error:
            logger.error("the atlas of version %s is not kept: %s", self._label.version, error)


def read_split(response: HttpResponse, target: str) -> tuple[str, UnitSplit | None]:
    """The version, and how by `GET /v1/experiments` it deals the units of a target out; None where
    no experiment runs or its maps are not ready. Raises NoAtlas on any other answer."""
    if response.status != 200:
        raise NoAtlas(f"the service answered {response.status} about experiments")
    try:
        content = json.loads(response.body)
        version, found = str(content["version"]), content["experiments"].get(target)
        if found is None or found["state"] != "running" or not found["ready"]:
            return version, None
        return version, UnitSplit(found["salt"], found["shares"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoAtlas(f"the answer about experiments cannot be read: {error!r}") from None


def _since(at: float | None) -> float | None:
    return None if at is None else max(0.0, time.time() - at)
