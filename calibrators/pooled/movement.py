"""How campaigns move, as their own past tells it, and where that leads each of them."""

from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple, Self

import numpy as np

from calibrators.pooled.dynamics import EVERY, Dynamics
from calibrators.pooled.tracks import AHEAD, Tracks
from calibrators.samples import Floats

_NEGLIGIBLE = 1e-3
"""Dynamics with less of the belief than this share of the likeliest are left out."""

_MOST = 1_024
"""Campaigns, those with the most positives, of which the dynamics are learnt: all others together
have little to say of an hour's movement."""


class Courses(NamedTuple):
    """What is known of c campaigns in h hours: positives observed and expected before any level of
    their own, and the chance that each hour began after a jump, (c, h) each; and the variances of
    the levels, (c,)."""

    observed: Floats
    expected: Floats
    jumps: Floats
    variances: Floats

    def with_more(self, other: "Courses") -> "Courses":
        """The campaigns of both with the most positives, so many as dynamics are learnt of."""
        both = Courses(*map(np.concatenate, zip(self, other, strict=True)))
        order = np.argsort(-both.observed.sum(axis=1), kind="stable")[:_MOST]
        return Courses(*(column[order] for column in both))


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """Dynamics, and the belief in each, (n,), their sum 1.

    Each of `EVERY` predicts every hour from those before it (Dawid's prequential principle, JRSS A
    147, 1984). Belief goes with the Poisson likelihood of all hours so predicted; before there are
    any, half of it is that levels stay. The levels of all dynamics are averaged by it (Hoeting et
    al., Statistical Science 14, 1999).
    """

    dynamics: Dynamics
    belief: Floats

    @classmethod
    def of(cls, courses: Courses, ages: Floats) -> Self:
        """What these campaigns tell; ages: (h,), of the hours' middles."""
        found = _gains(courses, ages)
        found[1:] -= log(len(found) - 1)
        belief = np.exp(found - found.max())
        kept = np.flatnonzero(belief > _NEGLIGIBLE)
        return cls(EVERY.chosen(kept), belief[kept] / belief[kept].sum())

    def levels(self, courses: Courses, ages: Floats) -> Floats:
        """Levels to expect in the hour that is served, (c,)."""
        tracks = Tracks.before(self.dynamics, courses.variances)
        for hour, since in enumerate(_since(ages)):
            tracks.pass_time(since)
            tracks.jump(courses.jumps[:, hour], courses.variances)
            tracks.learn(courses.observed[:, hour], courses.expected[:, hour])
        tracks.pass_time(AHEAD + float(ages[-1:].sum()))
        levels: Floats = self.belief @ tracks.levels
        return levels

    def strengths(self) -> dict[str, float]:
        """The likeliest dynamics, in standard deviations; nothing if levels stay."""
        step, trend, persistence = (
            float(column[np.argmax(self.belief), 0]) for column in self.dynamics
        )
        if trend:
            return {"campaign_trend": sqrt(trend), "campaign_persistence": persistence}
        return {"campaign_step": sqrt(step)} if step else {}


def _gains(courses: Courses, ages: Floats) -> Floats:
    """The Poisson log likelihood of each dynamics, (n,), against levels of 0."""
    tracks = Tracks.before(EVERY, courses.variances)
    gains = np.zeros(len(EVERY.steps))
    for hour, since in enumerate(_since(ages)):
        observed, expected = courses.observed[:, hour], courses.expected[:, hour]
        tracks.pass_time(since)
        tracks.jump(courses.jumps[:, hour], courses.variances)
        gains += tracks.levels @ observed - np.expm1(tracks.levels) @ expected
        tracks.learn(observed, expected)
    return gains


def _since(ages: Floats) -> list[float]:
    """Hours from the one before to each, none to the first."""
    between: list[float] = (-np.diff(ages, prepend=ages[:1])).tolist()
    return between
