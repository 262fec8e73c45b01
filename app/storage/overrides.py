"""What operators have set: calibrators of single campaigns, which win over that of their target;
and targets whose maps no refit may replace.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Collection, Mapping

import redis

from app.storage import keys
from app.storage.errors import TooManyOverrides
from app.storage.integrity.damage import Damage, Damaged
from app.storage.keys import seal, unseal
from app.storage.redis.client import as_bytes, as_text, lua, reaching_the_store

MOST = 10_000
"""Each refit reads all of them, and fits what they name on its own."""

_FORMER = re.compile(r"[a-z0-9_-]{1,64}")
_NO_FORMER = re.compile("(?!)")
_log = logging.getLogger(__name__)


class Overrides:
    """A calibrator's name by target and campaign; in force from the next refit on."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._damage = Damage(client)
        self._put = client.register_script(lua("put_override"))

    @reaching_the_store()
    def read(self) -> Mapping[str, Mapping[str, str]]:
        """All of them, by target and then by campaign; a target without any is not named. One that
        cannot be read is set aside."""
        found: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for name, calibrator in self._client.hgetall(keys.OVERRIDES).items():
            try:
                # No target has a colon, and a campaign may.
                target, _, campaign = as_text(name).partition(":")
                found[target][campaign] = unseal(calibrator, as_text(name), _FORMER)
            except ValueError as error:
                _log.error("the calibrator of %r: %s", name, error)
                self._client.hdel(keys.OVERRIDES, name)
                self._damage.keep(Damaged.OVERRIDE, 0, as_bytes(name) + b" " + as_bytes(calibrator))
        return dict(found)

    @reaching_the_store()
    def put(self, target: str, campaign: str, calibrator: str, most: int = MOST) -> None:
        """Set one, in the place of an older one; raises TooManyOverrides beyond `most` of all
        targets together. The caller has checked the names."""
        name = f"{target}:{campaign}"
        arguments: list[str | int] = [name, seal(calibrator, name), most]
        if not self._put(keys=[keys.OVERRIDES], args=arguments):
            raise TooManyOverrides(most)

    @reaching_the_store()
    def delete(self, target: str, campaign: str) -> bool:
        """Leave the campaign to its target's calibrator; False if it was already."""
        return bool(self._client.hdel(keys.OVERRIDES, f"{target}:{campaign}"))


class FrozenTargets:
    """Since when each is frozen, in epoch seconds. `publish_version.lua` looks at them, too, so
    that a refit that began before a target was frozen does not replace its maps either."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    @reaching_the_store()
    def read(self) -> Mapping[str, float]:
        """All of them, by name; where the time is damaged it is 0."""
        stored = self._client.hgetall(keys.FROZEN)
        return {as_text(name): _moment(as_text(name), as_bytes(at)) for name, at in stored.items()}

    @reaching_the_store()
    def freeze(self, targets: Collection[str], now: float) -> None:
        """Freeze targets; one that is frozen already keeps its time."""
        for target in targets:
            self._client.hsetnx(keys.FROZEN, target, seal(f"{now:.3f}", target))

    @reaching_the_store()
    def release(self, targets: Collection[str]) -> None:
        """Let refits replace the maps of targets again."""
        if targets:
            self._client.hdel(keys.FROZEN, *targets)


def _moment(target: str, sealed: bytes) -> float:
    """Damage thaws nothing: who froze it had a reason."""
    try:
        return float(unseal(sealed, target, _NO_FORMER))
    except ValueError as error:
        _log.error("since when %s is frozen: %s", target, error)
        return 0.0
