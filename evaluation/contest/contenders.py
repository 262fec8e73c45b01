"""Every contender by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from calibrators.per_campaign import PerCampaign
from calibrators.pooled import Pooled
from calibrators.registry import make_calibrator
from evaluation.contest.boosted_maps import BoostedMaps
from evaluation.contest.contender import Contender, MethodContender
from evaluation.contest.mcgrad_maps import McGradMaps
from evaluation.contest.published_sir import BIN_SIZE, PublishedSir
from evaluation.contest.seldom import Seldom

PER_CAMPAIGN: Final = ("isotonic", "platt", "temperature", "beta", "bbq", "sir", "sir_published")
"""The contenders that fit each campaign by itself."""

_SHARED_NOTE = "a campaign without enough data in 24 h gets the target's map, which favours it"


def _identity() -> Contender:
    calibrator = make_calibrator("identity", BIN_SIZE)
    return MethodContender("identity", PerCampaign(calibrator))


def _per_campaign(name: str) -> Callable[[], Contender]:
    def make() -> Contender:
        method = PerCampaign(make_calibrator(name, BIN_SIZE))
        return MethodContender(name, method, _SHARED_NOTE)

    return make


def _bbq() -> Contender:
    return Seldom(_per_campaign("bbq")(), 3)


def _mcgrad() -> Contender:
    return Seldom(McGradMaps(), 6)


def _published_sir() -> Contender:
    note = "Algorithm 1 to the letter; the identity where it gives no map"
    return MethodContender("sir_published", PublishedSir(), note)


def _pooled() -> Contender:
    note = "with the guard's delay of an hour for shapes, without its choices"
    return MethodContender("pooled", Pooled(), note, trial=True)


CONTENDERS: Mapping[str, Callable[[], Contender]] = MappingProxyType(
    {
        "identity": _identity,
        **{name: _per_campaign(name) for name in PER_CAMPAIGN[:-1]},
        "bbq": _bbq,
        "sir_published": _published_sir,
        "lightgbm": BoostedMaps,
        "mcgrad": _mcgrad,
        "pooled": _pooled,
    }
)
"""How each contender is made; one for every play."""
