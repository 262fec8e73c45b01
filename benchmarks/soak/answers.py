"""Whether the answers of a soak are right: to the last bit those of the version that they name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from app.storage.versions import Versions
from benchmarks.http.bodies import FORMS, Form, ScoresRequest
from benchmarks.soak.open_loop import Kind, Response
from benchmarks.store import Store
from calibrators import Atlas
from calibrators.samples import Floats

JSON_FORM, BINARY_FORM = "columns", "binary, names"


@dataclass(frozen=True)
class Calibration:
    """A kind of request, the questions of its messages, and the form they were asked in."""

    kind: Kind
    form: str
    questions: Sequence[ScoresRequest]


def wrong_answers(
    calibrations: Sequence[Calibration], answers: Iterable[Response], store: Store, target: str
) -> tuple[int, int]:
    """How many different answers are wrong, and how many versions they name.

    Answers of kinds behind the calibrations are those of events: all must have been accepted.
    """
    atlases = _Atlases(store, target)
    wrong = 0
    for answer in answers:
        if answer.kind < len(calibrations):
            wrong += not _is_right(calibrations[answer.kind], answer, atlases)
        else:
            told = orjson.loads(answer.body)
            wrong += bool(told["rejected"] or told["duplicates"])
    return wrong, len(atlases.known)


class _Atlases:
    """The versions that were named."""

    def __init__(self, store: Store, target: str) -> None:
        self.known: dict[str, Atlas] = {}
        self._versions = Versions(store.client, 1)
        self._target = target

    def of(self, version: str) -> Atlas:
        if version not in self.known:
            published = self._versions.load(version)
            self.known[version] = Atlas.from_bytes(published.atlases[self._target])
        return self.known[version]


def _is_right(calibration: Calibration, answer: Response, atlases: _Atlases) -> bool:
    form, question = FORMS[calibration.form], calibration.questions[answer.message]
    version = answer.version.decode() or orjson.loads(answer.body)["version"]
    expected = _expected(atlases.of(version), question)
    found = _probabilities(form, answer.body)
    return expected.shape == found.shape and bool(np.array_equal(expected, found))


def _expected(atlas: Atlas, question: ScoresRequest) -> Floats:
    found: Floats = atlas.look_up(atlas.rows(question.campaigns), question.scores)
    return found


def _probabilities(form: Form, body: bytes) -> Floats:
    return form.probabilities(body)
