"""What a post-click model is trained on."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class TrainingRules:
    """What a model is trained on, and how much there must be of it.

    Attributes
    ----------
    days : mature days before the moment of training, at least 2: the newest is held out.
    min_clicks, min_conversions : in these days; with fewer there is no model.
    max_clicks : more are thinned out to a uniform sample of this many.
    seed : of the sample and of the model.
    num_threads : 0 for all cores; the model does not depend on it.
    post_click : seconds; clicks that converted sooner are left out. They are decided before the
        model is asked, so it learns the probability of a later conversion. See `LabelRules`.

    Raises
    ------
    ValueError
        A value is below the least that makes sense; names it.
    """

    days: int = 14
    min_clicks: int = 1_000
    min_conversions: int = 100
    max_clicks: int = 2_000_000
    seed: int = 0
    num_threads: int = 0
    post_click: float = 0.0

    def __post_init__(self) -> None:
        least = {"days": 2, "min_clicks": 2, "min_conversions": 1, "max_clicks": 2}
        for field in fields(self):
            value, bound = getattr(self, field.name), least.get(field.name, 0)
            if not value >= bound:
                raise ValueError(f"{field.name} = {value}: must be at least {bound}")
