"""Attribution: which clicks have converted, as far as is known at a moment."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pccem.arrays import Flags, Floats, Integers, check_equal_lengths, check_finite

Ids = NDArray[np.generic]


@dataclass(frozen=True, slots=True, eq=False)
class Attribution:
    """What is known of n clicks at a moment, and what became of the conversions known by then.

    converted : (n,) whether the click has a conversion inside the attribution window.
    delay : (n,) seconds from the click to its first conversion; nan where there is none.
    age : (n,) seconds from the click to the moment; negative for a click of the future.
    mature : (n,) whether the attribution window is over: nothing can change any more.
    window : the attribution window in seconds.
    orphans : conversions whose click is not among the clicks.
    early : conversions that precede their click.
    late : conversions at or after the end of their click's attribution window.
    repeats : further conversions of a click inside its window.
    """

    converted: Flags
    delay: Floats
    age: Floats
    mature: Flags
    window: float
    orphans: int
    early: int
    late: int
    repeats: int

    def __len__(self) -> int:
        return len(self.converted)


def attribute(
    click_ids: ArrayLike,
    clicked_at: ArrayLike,
    conversion_click_ids: ArrayLike,
    converted_at: ArrayLike,
    *,
    window: float,
    as_of: float,
) -> Attribution:
    """Join conversions to their clicks, knowing only what had happened at a moment.

    A conversion counts for its click when 0 <= converted_at - clicked_at < window; of several, the
    first. Conversions after `as_of` are not known yet: they are neither used nor counted. Neither
    the order of the clicks nor that of the conversions matters. O((n + m) log n).

    click_ids : (n,) distinct integers (fastest) or strings.
    clicked_at : (n,) seconds since an epoch, finite.
    conversion_click_ids : (m,) of the same kind as `click_ids`.
    converted_at : (m,) seconds since the same epoch, finite.
    window : attribution window in seconds, above 0.
    as_of : the moment, seconds since the same epoch.

    Returns one entry per click, in the order of `click_ids`.

    Raises ValueError when a click id stands twice, the ids are of two kinds, the columns differ in
    length, or a time is not finite.

    Source: Deng et al. (paper 004), section 3.3: y_D is a conversion within 7 days of the click.

    >>> known = attribute([7, 8, 9], [0.0, 0.0, 50.0], [8, 8, 5], [30.0, 20.0, 1.0],
    ...                   window=60.0, as_of=100.0)
    >>> known.converted.tolist(), known.delay.tolist(), known.mature.tolist()
    ([False, True, False], [nan, 20.0, nan], [True, True, False])
    >>> known.orphans, known.repeats
    (1, 1)
    """
    clicks, conversions = _ids_of_one_kind(np.asarray(click_ids), np.asarray(conversion_click_ids))
    clicked, converted = (
        check_finite("clicked_at", clicked_at),
        check_finite("converted_at", converted_at),
    )
    check_equal_lengths(click_ids=len(clicks), clicked_at=len(clicked))
    check_equal_lengths(conversion_click_ids=len(conversions), converted_at=len(converted))
    if not 0.0 < window < np.inf:
        raise ValueError(f"window = {window}: must be finite and above 0 seconds")
    if not np.isfinite(as_of):
        raise ValueError(f"as_of = {as_of}: must be finite")
    known = converted <= as_of
    places = _places(clicks, conversions[known])
    return _attribution(clicked, converted[known], places, window, as_of)


def _attribution(
    clicked: Floats, converted: Floats, places: Integers, window: float, as_of: float
) -> Attribution:
    met = places >= 0
    delays = converted[met] - clicked[places[met]]
    counts = (delays >= 0.0) & (delays < window)
    first = np.full(len(clicked), np.inf)
    np.minimum.at(first, places[met][counts], delays[counts])
    found = first < np.inf
    age = as_of - clicked
    return Attribution(
        converted=found,
        delay=np.where(found, first, np.nan),
        age=age,
        mature=age >= window,
        window=window,
        orphans=int(np.count_nonzero(~met)),
        early=int(np.count_nonzero(delays < 0.0)),
        late=int(np.count_nonzero(delays >= window)),
        repeats=int(np.count_nonzero(counts) - np.count_nonzero(found)),
    )


def _ids_of_one_kind(clicks: Ids, conversions: Ids) -> tuple[Ids, Ids]:
    """Both as arrays that compare exactly: int64, uint64 or strings."""
    for name, ids in (("click_ids", clicks), ("conversion_click_ids", conversions)):
        if ids.ndim != 1:
            raise ValueError(f"{name} must have one dimension, not {ids.ndim}")
    if not (clicks.size and conversions.size):
        empty: Ids = np.zeros(0, np.int64)
        return clicks if clicks.size else empty, conversions if conversions.size else empty
    # An int64 beside a uint64 would be compared as float64, which merges neighbouring ids.
    if (kind := _kind(clicks)) == "other" or kind != _kind(conversions):
        raise ValueError(
            "click_ids and conversion_click_ids must be integers of one kind or strings, not "
            f"{clicks.dtype} and {conversions.dtype}"
        )
    return clicks, conversions


def _kind(ids: Ids) -> str:
    if ids.dtype.kind == "O":
        return "strings" if all(isinstance(value, str) for value in ids) else "other"
    kinds = {"i": "integers", "u": "unsigned integers", "U": "strings"}
    return kinds.get(ids.dtype.kind, "other")


def _places(clicks: Ids, conversions: Ids) -> Integers:
    """Index into the clicks of each conversion's click, -1 where it is not among them."""
    order = np.argsort(clicks, kind="stable")
    ordered = clicks[order]
    if (twice := ordered[1:] == ordered[:-1]).any():
        raise ValueError(f"click_ids: {ordered[twice.argmax()]!s} stands twice")
    if not (len(clicks) and len(conversions)):
        return np.full(len(conversions), -1)
    nearest = np.minimum(np.searchsorted(ordered, conversions), len(clicks) - 1)
    return np.where(ordered[nearest] == conversions, order[nearest], -1)
