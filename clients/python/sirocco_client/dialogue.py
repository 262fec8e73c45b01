"""What is said to the service to calibrate, apart from how it travels.

A dialogue yields each request and is sent its answer, so that threads and asyncio share it.
"""

from collections.abc import Generator
from typing import Final

from sirocco_client.calibrated import Calibrated, read_answer, refusal
from sirocco_client.columns import pack_question
from sirocco_client.errors import BadInput, Unavailable
from sirocco_client.messages import COLUMNS, JSON, Asked, Reply
from sirocco_client.question import Question

Talk = Generator[Asked, Reply, Calibrated]

# Measured: from here on, columns cost both sides together less than JSON.
FEWEST_FOR_COLUMNS: Final = 32
_PATH: Final = "/v1/calibrate"
_MOST_ROUNDS: Final = 3
_UNSUPPORTED: Final = 415


class Dialogue:
    """Words every question as JSON or as columns, and reads the answers."""

    def __init__(self, binary: bool | None, max_scores: int) -> None:
        if max_scores < 1:
            raise BadInput("max_scores", "must be at least 1", max_scores)
        self._binary = binary
        self._max_scores = max_scores
        self._columns_refused = False

    def about(self, question: Question, explain: bool) -> Talk:
        """The whole answer, all of one version; raises Refused or Unavailable."""
        for _ in range(_MOST_ROUNDS):
            answers = []
            for part in question.parts(self._max_scores):
                answer = yield from self._about_part(part, explain)
                answers.append(answer)
            if len({answer.version for answer in answers}) == 1:
                return Calibrated.joined(answers)
        raise Unavailable("every time another version came between the parts", _MOST_ROUNDS)

    def _about_part(self, part: Question, explain: bool) -> Talk:
        if self._takes_columns(part):
            reply = yield _asked(COLUMNS, pack_question(part, explain), explain=False)
            if reply.status != _UNSUPPORTED:
                return read_answer(reply, len(part), explain)
            if self._binary:
                raise refusal(reply)
            # An older service: it is asked in JSON from now on.
            self._columns_refused = True
        reply = yield _asked(JSON, part.as_json(), explain)
        return read_answer(reply, len(part), explain)

    def _takes_columns(self, part: Question) -> bool:
        if self._binary is not None:
            return self._binary
        return len(part) >= FEWEST_FOR_COLUMNS and not self._columns_refused


def _asked(media_type: str, body: bytes, explain: bool) -> Asked:
    path = f"{_PATH}?explain=true" if explain else _PATH
    return Asked("POST", path, body, {"Content-Type": media_type})
