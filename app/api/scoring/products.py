"""Products of calibrated targets in calibrate requests: the scores of their factors, which are
checked here, and the product of what they were calibrated to.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import UNSET

from app.api.scoring.arms import CalibratedScores, TargetScores, merged
from app.api.scoring.requests import Row
from app.settings import Settings
from app.strict_json import ValidationError

Values = Sequence[float | None] | None
"""What a success of each of n events is worth, as far as that was said."""

FOR_PRODUCTS: Final = "is for products only"


def columns_by_factor(
    scores: Mapping[str, Sequence[float]], product: str, values: Values, settings: Settings
) -> dict[str, Sequence[float]]:
    """The columns in the order of the factors; ValidationError unless they are those of the product
    and as long as each other, and as the values."""
    factors = _factors("scores", scores, product, settings)
    first = f"scores.{factors[0]}"
    number = len(scores[factors[0]])
    columns = {f"scores.{name}": scores[name] for name in factors} | {"values": values}
    for field, column in columns.items():
        if column is not None and len(column) != number:
            found = f"has {len(column)} items beside {number} of {first}"
            raise ValidationError(field, f"{found}; the columns must be equally long")
    return {name: scores[name] for name in factors}


def rows_by_factor(
    rows: Sequence[Row], product: str, places: Sequence[int], settings: Settings
) -> tuple[Mapping[str, Sequence[float]], Values]:
    """The same of the rows at these places, which are of the product; and their values, None where
    none of them has any."""
    given: list[Mapping[str, float]] = []
    for place in places:
        scores = rows[place].scores
        if rows[place].score is not UNSET:
            raise ValidationError(f"rows[{place}].score", one_score_for(product, settings))
        if scores is UNSET:
            raise ValidationError(f"rows[{place}].scores", "is required: those of each factor")
        _factors(f"rows[{place}].scores", scores, product, settings)
        given.append(scores)
    columns = {name: [one[name] for one in given] for name in settings.products[product]}
    values = [rows[place].value for place in places]
    said = [None if value is UNSET else value for value in values]
    return columns, None if said.count(None) == len(said) else said


def _factors(
    field: str, given: Mapping[str, Any], product: str, settings: Settings
) -> tuple[str, ...]:
    """Those of the product, if they are what is given."""
    factors = settings.products[product]
    for name in given:
        if name not in factors:
            known = ", ".join(factors)
            raise ValidationError(f"{field}.{name}", f"is no factor of {product}: {known}")
    for name in factors:
        if name not in given:
            raise ValidationError(f"{field}.{name}", f"is required: it is a factor of {product}")
    return factors


def one_score_for(product: str, settings: Settings) -> str:
    """The rule that is broken by a score or a column of scores for a product."""
    factors = ", ".join(settings.products[product])
    return f"{product} is a product, which takes JSON with scores of each factor: {factors}"


def plain_row_error(row: Row, place: int) -> ValidationError:
    """What is wrong with the row of a target that is no product."""
    if row.score is UNSET:
        return ValidationError(f"rows[{place}].score", "is required")
    field = "value" if row.scores is UNSET else "scores"
    return ValidationError(f"rows[{place}].{field}", FOR_PRODUCTS)


class CalibratedFactor(NamedTuple):
    """What the scores of one target were calibrated to, cut by arm where there are units."""

    target: str
    cut: Sequence[TargetScores]
    parts: Sequence[CalibratedScores]

    def column(self, name: str) -> Any:
        """The `probabilities`, `levels`, `arms` or `effects` of its scores, in their order."""
        return merged(self.cut, self.parts, attrgetter(name))


class CalibratedProduct(NamedTuple):
    """A product of n events: what its factors were calibrated to, in their order."""

    factors: Sequence[CalibratedFactor]
    values: Values

    def column(self, name: str) -> Any:
        """The products of the `probabilities`, (n,); of anything else that of each factor: every
        target has maps and experiments of its own."""
        columns = [one.column(name) for one in self.factors]
        if name == "probabilities":
            return reduce(np.multiply, map(np.asarray, columns))
        names = [one.target for one in self.factors]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def expected_values(found: CalibratedFactor | CalibratedProduct) -> list[float | None]:
    """Probability times value of each; None where no value was given."""
    probabilities = np.asarray(found.column("probabilities")).tolist()
    values = found.values if isinstance(found, CalibratedProduct) else None
    pairs = zip(probabilities, values or [None] * len(probabilities), strict=True)
    return [None if value is None else probability * value for probability, value in pairs]
