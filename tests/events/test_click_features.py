"""The limits of pre-click features."""

import pytest

from app.events.schema import check_features
from app.strict_json import ValidationError


@pytest.mark.parametrize(
    "features",
    [
        {},
        {"a": 1.0, "é" * 64: "x" * 256, "b": ""},
        {f"f{number}": 0.0 for number in range(64)},
    ],
)
def test_features_within_the_limits_pass(features):
    check_features(features)


@pytest.mark.parametrize(
    ("features", "error"),
    [
        ({"": 1.0}, 'features = "": the name of a feature must have 1 to 64 characters'),
        ({"x" * 65: 1.0}, f'features = "{"x" * 60}...: the name of a feature must have 1 to 64'),
        ({"a": 1.0, "b": "x" * 257}, f'features.b = "{"x" * 60}...: must have at most 256'),
        (
            {f"f{number}": 0.0 for number in range(65)},
            "features = an object of 65: a click has at most 64 features",
        ),
    ],
)
def test_features_beyond_them_are_refused(features, error):
    with pytest.raises(ValidationError) as refused:
        check_features(features)

    assert str(refused.value).startswith(error)
