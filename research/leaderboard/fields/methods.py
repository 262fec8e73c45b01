"""The methods of the worlds with fields, by name. A new one is a line here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from research.leaderboard.fields.boosted import BoostedFields, McGradFields
from research.leaderboard.fields.hierarchical_logistic import HierarchicalLogistic
from research.leaderboard.fields.method import FieldMethod, PooledFields, PooledMaps, Raw, Shape
from research.leaderboard.fields.published import ConfCalib, OnlinePlatt, VennAbers

KEYED: Final = ("device", "placement")
"""Fields of the composite key; with more of them there would be more keys than impressions."""

METHODS: Final[Mapping[str, Callable[[Shape], FieldMethod]]] = MappingProxyType(
    {
        "raw": lambda shape: Raw(),
        "pooled": PooledMaps,
        "pooled_fields": PooledFields,
        "pooled_groups": lambda shape: PooledFields(shape, grouped=True),
        "composite": lambda shape: PooledMaps(shape, KEYED),
        "lightgbm": lambda shape: BoostedFields(),
        "mcgrad": lambda shape: McGradFields(),
        "hierarchical": HierarchicalLogistic,
        "confcalib": ConfCalib,
        "online_platt": lambda shape: OnlinePlatt(),
        "venn_abers": lambda shape: VennAbers(),
    }
)
"""How each is made; one for every run."""
