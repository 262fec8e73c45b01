"""Scores to calibrate: checked before they travel, and put into words."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sirocco_client.errors import BadInput

Floats = NDArray[np.float64]
Campaigns = str | Sequence[str]

SCORE_RULE: Final = "must be a number in [0, 1]"
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Question:
    """n scores of one target; a campaign for each, or one for all."""

    target: str
    campaigns: Campaigns
    scores: Floats

    @classmethod
    def of(cls, target: str, campaigns: Campaigns, scores: ArrayLike) -> Self:
        """The checked question; raises BadInput."""
        column = checked_scores(scores)
        if not len(column):
            raise BadInput("scores", "has 0 items; must have at least 1")
        if not isinstance(campaigns, str):
            _check_campaigns(campaigns, len(column))
        return cls(target, campaigns, column)

    def __len__(self) -> int:
        return len(self.scores)

    def parts(self, most: int) -> Iterator["Question"]:
        """The question in parts of at most so many scores, in order."""
        if len(self) <= most:
            yield self
            return
        for start in range(0, len(self), most):
            part = slice(start, start + most)
            campaigns = self.campaigns if isinstance(self.campaigns, str) else self.campaigns[part]
            yield Question(self.target, campaigns, self.scores[part])

    def as_json(self) -> bytes:
        """The body of `POST /v1/calibrate` in JSON; floats keep every bit."""
        one = isinstance(self.campaigns, str)
        campaigns = self.campaigns if one else list(self.campaigns)
        content = {
            "target": self.target,
            "campaign" if one else "campaigns": campaigns,
            "scores": self.scores.tolist(),
        }
        return encoded("campaigns", _encode(content))


def checked_scores(scores: ArrayLike) -> Floats:
    """The scores as float64, shape (n,); raises BadInput that names the first bad one."""
    given = np.asarray(scores)
    if given.ndim != 1:
        raise BadInput("scores", f"must have one dimension, not {given.ndim}")
    if given.dtype.kind not in "fiu" and given.size:
        raise BadInput("scores", f"must be numbers, not {given.dtype}")
    column = given.astype(np.float64, copy=False)
    # NaN makes both comparisons false.
    if column.size and not (column.min() >= 0.0 and column.max() <= 1.0):
        place = int(np.argmin((column >= 0.0) & (column <= 1.0)))
        raise BadInput(f"scores[{place}]", SCORE_RULE, float(column[place]))
    return column


def encoded(field: str, text: str) -> bytes:
    """UTF-8; raises BadInput on halves of surrogate pairs, which have none."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInput(field, "must be text that UTF-8 can hold") from None


def _check_campaigns(campaigns: Sequence[str], scores: int) -> None:
    if len(campaigns) != scores:
        raise BadInput("campaigns", f"has {len(campaigns)} items beside {scores} scores")
    if set(map(type, campaigns)) == {str}:
        return
    for place, campaign in enumerate(campaigns):
        if not isinstance(campaign, str):
            raise BadInput(f"campaigns[{place}]", "must be a string", campaign)
