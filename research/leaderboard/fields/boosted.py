"""LightGBM and MCGrad with the fields, on the rows of the past day."""

from collections.abc import Sequence
from typing import Any, Final

import lightgbm
import numpy as np
from scipy.special import expit

from calibrators.samples import Floats
from evaluation.metrics.calibration import sample_losses
from research.leaderboard.boosted_maps import HOURS, PARAMETERS, ROUNDS
from research.leaderboard.fields.method import Rows, Window
from research.leaderboard.fields.platform import FieldHour
from research.leaderboard.mcgrad_maps import COMMAND, ROOT, Child

REFIT_HOURS: Final = 6
MCGRAD_REFIT_HOURS: Final = 12
"""Its fits take half a minute of CPU."""


class BoostedFields:
    """LightGBM on the log-odds of the score, the campaign and the fields, from the scores' own
    log-odds on.

    Its settings, and how it chooses its number of rounds by the hours after each training, are
    those of `boosted_maps.BoostedMaps`; first of all it chooses by the six hours before the first
    refit. A campaign or value that it has not seen is to LightGBM a missing one.
    """

    def __init__(self) -> None:
        self._window = Window(HOURS + REFIT_HOURS)
        self._booster: lightgbm.Booster | None = None
        self._fitted_at = 0
        self._losses = np.zeros(len(ROUNDS))
        self._rounds = ROUNDS[0]

    def observe(self, hour: FieldHour, /) -> None:
        """See `FieldMethod`."""
        self._window.add(hour)

    def predict(self, hour: FieldHour, /) -> Floats:
        """See `FieldMethod`."""
        if self._booster is None:
            self._train(self._window.rows(behind=hour.number - REFIT_HOURS))
            self._fitted_at = hour.number - REFIT_HOURS
        if hour.number >= self._fitted_at + REFIT_HOURS:
            self._choose(self._window.rows(self._fitted_at))
            self._train(self._window.rows(hour.number - HOURS))
            self._fitted_at = hour.number
        return self._served(Rows.of([hour]), self._rounds)

    def _train(self, rows: Rows) -> None:
        data = lightgbm.Dataset(
            _features(rows),
            label=rows.outcomes,
            init_score=rows.odds,
            categorical_feature=list(range(1, 1 + len(rows.codes))),
            params={"verbosity": -1, "num_threads": 1, "min_data_in_bin": 1, "max_bin": 255},
        )
        self._booster = lightgbm.train(dict(PARAMETERS), data, ROUNDS[-1])

    def _choose(self, rows: Rows) -> None:
        for place, rounds in enumerate(ROUNDS):
            p = self._served(rows, rounds)
            self._losses[place] += sample_losses(p, rows.outcomes, np.ones(len(p))).sum()
        self._rounds = ROUNDS[int(self._losses.argmin())]

    def _served(self, rows: Rows, rounds: int) -> Floats:
        assert self._booster is not None
        moved = self._booster.predict(_features(rows), raw_score=True, num_iteration=rounds)
        probabilities: Floats = expit(rows.odds + np.asarray(moved))
        return probabilities


def _features(rows: Rows) -> Floats:
    return np.column_stack((rows.odds, *rows.codes.values()))


_READY_SECONDS, _FIT_SECONDS, _SERVE_SECONDS = 1800.0, 3600.0, 600.0


class McGradFields:
    """MCGrad on the log-odds of the score, the campaign and the fields, with its package's own
    settings, in an environment of its own.

    Source: Tax et al., MCGrad: Multicalibration at Web Scale (KDD 2026).

    Parameters: command of the child; see `mcgrad_maps.Child`.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = command
        self._window = Window(HOURS)
        self._child: Child | None = None
        self._fitted_at = -MCGRAD_REFIT_HOURS

    def observe(self, hour: FieldHour, /) -> None:
        """See `FieldMethod`."""
        self._window.add(hour)

    def predict(self, hour: FieldHour, /) -> Floats:
        """See `FieldMethod`."""
        if self._child is None:
            self._child = Child(self._command, ROOT, _READY_SECONDS)
        if hour.number >= self._fitted_at + MCGRAD_REFIT_HOURS:
            self._request("fit", self._window.rows(), _FIT_SECONDS, outcomes=True)
            self._fitted_at = hour.number
        answer = self._request("serve", Rows.of([hour]), _SERVE_SECONDS)
        probabilities: Floats = np.load(answer["probabilities"])
        return probabilities

    def _request(
        self, what: str, rows: Rows, seconds: float, *, outcomes: bool = False
    ) -> dict[str, Any]:
        assert self._child is not None
        codes = {name: codes.astype(np.float64) for name, codes in rows.codes.items()}
        columns = {"rows": codes.pop("campaign"), "scores": expit(rows.odds), **codes}
        if outcomes:
            columns |= {"outcomes": rows.outcomes, "weights": np.ones(len(rows.outcomes))}
        return self._child.request({what: self._child.stored(**columns)}, seconds)
