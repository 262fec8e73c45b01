from dataclasses import replace

import numpy as np
import pytest

from pccem import Categorical, Clicks, Features
from tests.pccem.sample_clicks import sample_clicks


def two_clicks() -> Clicks:
    return Clicks(
        np.array([10.0, 20.0]),
        ("north", "south"),
        np.array([1, 0]),
        np.array([0.1, 0.2]),
        Features({"behaviour.pages": np.array([1.0, np.nan])}, 2),
    )


def test_a_model_sees_the_features_the_campaign_and_the_score():
    features = two_clicks().model_features()

    campaign = features.columns["campaign"]
    assert isinstance(campaign, Categorical)
    assert campaign.values() == ["south", "north"]
    assert list(features.columns) == ["behaviour.pages", "campaign", "score"]
    assert features.columns["score"].tolist() == [0.1, 0.2]  # type: ignore[union-attr]


def test_concatenated_clicks_keep_their_campaigns():
    other = replace(two_clicks(), campaigns=("east", "north"))

    joined = Clicks.concatenate([two_clicks(), other])

    assert joined.campaigns == ("north", "south", "east")
    assert [joined.campaigns[row] for row in joined.rows] == ["south", "north", "north", "east"]
    assert joined.clicked_at.tolist() == [10.0, 20.0, 10.0, 20.0]
    assert len(Clicks.concatenate([])) == 0


def test_parts_put_together_again_are_the_whole():
    clicks = sample_clicks(50)

    whole = Clicks.concatenate([clicks.select(slice(0, 20)), clicks.select(np.arange(20, 50))])

    assert np.array_equal(whole.clicked_at, clicks.clicked_at)
    assert np.array_equal(whole.rows, clicks.rows)
    assert np.array_equal(whole.scores, clicks.scores)
    assert whole.features.kinds == clicks.features.kinds


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("clicked_at", np.array([1.0, np.nan]), r"clicked_at\[1\] = nan: every value must be"),
        ("clicked_at", np.array([1.0]), "equal lengths: clicked_at has 1, rows has 2"),
        ("campaigns", ("north", "north"), "category 'north' stands twice"),
        ("rows", np.array([0, 2]), r"rows\[1\] = 2: every value must be in \[0, 2\)"),
        ("rows", np.array([0, -1]), r"rows\[1\] = -1"),
        ("scores", np.array([0.5, 1.5]), r"scores\[1\] = 1.5: every value must be in \[0, 1\]"),
        ("features", Features({"score": np.zeros(2)}, 2), r"feature 'score': a name starts with"),
        ("features", Features({}, 3), "features has 3"),
    ],
)
def test_a_bad_field_is_named(field, value, message):
    with pytest.raises(ValueError, match=message):
        replace(two_clicks(), **{field: value})
