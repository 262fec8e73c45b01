"""Clicks of one target: when, of which campaign, with what score and features."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pccem.arrays import (
    Floats,
    Index,
    Integers,
    Rows,
    check_equal_lengths,
    check_finite,
    check_rows,
    check_unit_interval,
)
from pccem.features import Categorical, Column, Features

CAMPAIGN, SCORE = "campaign", "score"
PREFIXES = ("behaviour.", "feature.")


@dataclass(frozen=True, slots=True, eq=False)
class Clicks:
    """n clicks of one target, in any order.

    clicked_at : (n,) epoch seconds.
    campaigns : names; may list some that no click belongs to.
    rows : (n,) place of each click's campaign in `campaigns`.
    scores : (n,) the target's score before the click, in [0, 1].
    features : n rows of `behaviour.*` (after the click) and `feature.*` (known before it).

    Raises ValueError, which names the field, the first offending value and the rule.
    """

    clicked_at: Floats
    campaigns: tuple[str, ...]
    rows: Rows
    scores: Floats
    features: Features

    def __post_init__(self) -> None:
        checked = (
            ("clicked_at", check_finite("clicked_at", self.clicked_at)),
            ("campaigns", Categorical(np.empty(0, np.int32), self.campaigns).categories),
            ("rows", check_rows("rows", self.rows, 0, len(self.campaigns))),
            ("scores", check_unit_interval("scores", self.scores)),
        )
        for field, value in checked:
            object.__setattr__(self, field, value)
        check_equal_lengths(
            clicked_at=len(self.clicked_at),
            rows=len(self.rows),
            scores=len(self.scores),
            features=len(self.features),
        )
        for name in self.features.columns:
            if not name.startswith(PREFIXES):
                raise ValueError(f"feature {name!r}: a name starts with {' or '.join(PREFIXES)}")

    def __len__(self) -> int:
        return len(self.clicked_at)

    def select(self, index: Index) -> "Clicks":
        """The clicks that a mask, (n,), indices or a slice choose, in that order."""
        return Clicks(
            self.clicked_at[index],
            self.campaigns,
            self.rows[index],
            self.scores[index],
            self.features.select(index),
        )

    @classmethod
    def concatenate(cls, parts: Iterable["Clicks"]) -> Self:
        """The clicks of all parts, one after the other; campaigns and features are the union."""
        listed = list(parts)
        union = tuple(dict.fromkeys(name for part in listed for name in part.campaigns))
        rows = [part._campaign.codes_among(union) for part in listed]
        return cls(
            np.concatenate([np.empty(0), *(part.clicked_at for part in listed)]),
            union,
            np.concatenate([np.empty(0, np.int32), *rows]),
            np.concatenate([np.empty(0), *(part.scores for part in listed)]),
            Features.concatenate(part.features for part in listed),
        )

    @property
    def _campaign(self) -> Categorical:
        return Categorical(self.rows, self.campaigns)

    def model_features(self) -> Features:
        """All that `PostClickModel` may learn from: the features, `campaign` and `score`."""
        own: dict[str, Column] = {CAMPAIGN: self._campaign, SCORE: self.scores}
        return Features({**self.features.columns, **own}, len(self))


def canonical_order(clicks: Clicks, outcomes: Floats) -> Integers:
    """Indices, (n,), that sort clicks by time, campaign, score, each feature by name, and outcome.

    Categories are compared by name. Clicks that are equal in all of that stay as they come: it
    makes no difference. So a sum, a sample or a model over the clicks in this order does not depend
    on the order they came in.
    """
    order = np.argsort(clicks.clicked_at, kind="stable")
    if not len(clicks):
        return order
    times = clicks.clicked_at[order]
    same = times[1:] == times[:-1]
    tied = np.append(same, False) | np.append(False, same)
    # Only clicks of one moment need the other keys, and sorting by all keys costs many passes.
    places = order[tied]
    order[tied] = places[_order_by_all(clicks.select(places), outcomes[places])]
    return order


def _order_by_all(clicks: Clicks, outcomes: Floats) -> Integers:
    columns = [column for _, column in sorted(clicks.features.columns.items())]
    campaign = Categorical(clicks.rows, clicks.campaigns)
    keys = [clicks.clicked_at, campaign, clicks.scores, *columns, outcomes]
    return np.lexsort([_ranked(key) for key in reversed(keys)])


def _ranked(column: Column) -> NDArray[np.generic]:
    """What sorts as the column's values do; missing categories first."""
    if not isinstance(column, Categorical):
        return column
    return column.codes_among(sorted(column.categories))
