"""Products of calibrated targets in calibrate requests: the scores of their factors, which are
checked here, and the product of what they were calibrated to.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from msgspec import UNSET, Meta, UnsetType
from numpy.typing import NDArray

from app.settings import Settings
from app.storage.blocks import LARGEST_WEIGHT
from app.strict_json import ValidationError

Value = Annotated[
    float, Meta(ge=0, le=LARGEST_WEIGHT, description="Of a product: what a success is worth.")
]
Values = Sequence[float | None] | None
"""What a success of each of n events is worth, as far as that was said."""

T = TypeVar("T")

_VALUE_RULE: Final = f"must be a number from 0 to {LARGEST_WEIGHT:.0f}"
FOR_PRODUCTS: Final = "is for products only"
PRODUCT_RULES: Final = {
    "scores{}": "must be a number in [0, 1], in columns an array of such",
    "scores{}[]": "must be a number in [0, 1]",
    "values": "must be an array of numbers",
    "values[]": _VALUE_RULE,
    "value": _VALUE_RULE,
}


class Scored(Protocol):
    """What a row of a request says of scores."""

    @property
    def score(self) -> float | UnsetType: ...
    @property
    def scores(self) -> dict[str, float] | UnsetType: ...
    @property
    def value(self) -> float | UnsetType: ...


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
    rows: Sequence[Scored], product: str, places: Sequence[int], settings: Settings
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
    return f"is a product, which takes JSON with scores of each factor: {factors}"


def plain_row_error(row: Scored, place: int) -> ValidationError:
    """What is wrong with the row of a target that is no product."""
    if row.score is UNSET:
        return ValidationError(f"rows[{place}].score", "is required")
    field = "value" if row.scores is UNSET else "scores"
    return ValidationError(f"rows[{place}].{field}", FOR_PRODUCTS)


class CalibratedFactor(Protocol):
    """Calibrated probabilities of a target, and the level of map and the arm behind each."""

    @property
    def target(self) -> str: ...
    @property
    def probabilities(self) -> Sequence[float] | NDArray[np.float64]: ...
    @property
    def levels(self) -> list[str]: ...
    @property
    def arms(self) -> list[str]: ...
    @property
    def effects(self) -> list[dict[str, float]]: ...


class CalibratedProduct(NamedTuple):
    """A product of n events: what its factors were calibrated to, in their order."""

    factors: Sequence[CalibratedFactor]
    values: Values

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The products, (n,)."""
        found: NDArray[np.float64] = reduce(
            np.multiply, (np.asarray(one.probabilities) for one in self.factors)
        )
        return found

    @property
    def levels(self) -> list[dict[str, str]]:
        """The level of map behind each factor of each."""
        return self._by_factor([one.levels for one in self.factors])

    @property
    def arms(self) -> list[dict[str, str]]:
        """The arm of each factor of each: every target has experiments of its own."""
        return self._by_factor([one.arms for one in self.factors])

    @property
    def effects(self) -> list[dict[str, dict[str, float]]]:
        """What the fields of each did to each of its factors."""
        return self._by_factor([one.effects for one in self.factors])

    def _by_factor(self, columns: Sequence[list[T]]) -> list[dict[str, T]]:
        names = [one.target for one in self.factors]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def expected_values(found: CalibratedFactor | CalibratedProduct) -> list[float | None]:
    """Probability times value of each; None where no value was given."""
    probabilities = np.asarray(found.probabilities).tolist()
    values = found.values if isinstance(found, CalibratedProduct) else None
    pairs = zip(probabilities, values or [None] * len(probabilities), strict=True)
    return [None if value is None else probability * value for probability, value in pairs]
