"""netcal's isotonic regression, looked up once per campaign of a batch."""

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import numpy as np

from benchmarks.figures import Cell, Figure
from benchmarks.peers.calibrator import PeerCalibrator, PeerFailed
from benchmarks.peers.environments import NotInstalled
from calibrators.samples import Floats

NETCAL_SEED, NETCAL_SAMPLES = 4, 5_000
ROUNDS = 3


class Netcal:
    """One fitted model in its own process; where there is none, the reason stands in the cells."""

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._peer: PeerCalibrator | None = None
        self._reason = ""

    def __enter__(self) -> Self:
        rng = np.random.default_rng(NETCAL_SEED)
        scores = rng.random(NETCAL_SAMPLES)
        outcomes = (rng.random(NETCAL_SAMPLES) < scores).astype(np.float64)
        try:
            self._peer = self._opened.enter_context(PeerCalibrator("netcal"))
            self._peer.fit("isotonic", scores, outcomes)
        except (NotInstalled, PeerFailed) as error:
            self._peer, self._reason = None, str(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()

    def nanoseconds(self, scores: Floats, counts: Sequence[int]) -> Cell:
        """CPU per value when the scores come in calls of so many."""
        if self._peer is None:
            return self._reason
        try:
            seconds = [self._peer.look_up(scores, counts)[0] for _ in range(ROUNDS)]
        except PeerFailed as failed:
            self._peer, self._reason = None, str(failed)
            return self._reason
        return Figure.of(seconds).times(1e9 / len(scores))
