"""Which pre-click features a click may carry."""

from collections.abc import Mapping
from typing import Final

from app.events.schema import Feature
from app.strict_json import BrokenRule

MOST_FEATURES: Final = 64
LONGEST_NAME: Final = 64
LONGEST_TEXT: Final = 256


def check_features(features: Mapping[str, Feature]) -> None:
    """BrokenRule unless all names, values and their number are within the limits."""
    if len(features) > MOST_FEATURES:
        rule = f"a click has at most {MOST_FEATURES} features"
        raise BrokenRule("features", rule, dict(features))
    for name, value in features.items():
        if not 0 < len(name) <= LONGEST_NAME:
            rule = f"the name of a feature must have 1 to {LONGEST_NAME} characters"
            raise BrokenRule("features", rule, name)
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            rule = f"must have at most {LONGEST_TEXT} characters"
            raise BrokenRule(f"features.{name}", rule, value)
