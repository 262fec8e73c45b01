"""What operators have set: calibrators of single campaigns, which win over that of their target;
and targets, and single campaigns, whose maps no refit may replace.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Collection, Mapping

import redis

from app.storage import keys
from app.storage.errors import TooManyFrozen, TooManyOverrides
from app.storage.integrity.damage import Damage, Damaged
from app.storage.keys import seal, unseal
from app.storage.redis.client import as_bytes, as_text, lua, reaching_the_store

MOST = 10_000
"""Each refit reads all of them, and fits what they name on its own."""

_FORMER = re.compile(r"[a-z0-9_-]{1,64}")
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
    """Since when each is frozen, in epoch seconds: targets, and campaigns as `frozen_name` has
    them. `publish_version.lua` looks at them, too, so that a refit that began before does not
    replace their maps either."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._freeze = client.register_script(lua("freeze_maps"))

    def read(self) -> Mapping[str, float]:
        """All of them, by name; where the time is damaged it is 0."""
        return self.counted()[0]

    @reaching_the_store()
    def counted(self) -> tuple[Mapping[str, float], str]:
        """The same, and how often something was frozen: `Versions.publish` takes that, and
        publishes nothing after one more."""
        pipeline = self._client.pipeline()
        pipeline.hgetall(keys.FROZEN)
        pipeline.get(keys.FREEZES)
        stored, freezes = pipeline.execute()
        names = {as_text(name): as_bytes(at) for name, at in stored.items()}
        frozen = {name: _moment(name, at) for name, at in names.items()}
        return frozen, as_text(freezes or "0")

    @reaching_the_store()
    def holds(self, *names: str) -> bool:
        """Whether any of them is frozen."""
        return any(self._client.hmget(keys.FROZEN, names))

    @reaching_the_store()
    def freeze(self, names: Collection[str], now: float, most: int = MOST) -> None:
        """Freeze targets or campaigns; one that is frozen already keeps its time. Raises
        TooManyFrozen, and freezes none, beyond `most` campaigns of all targets together."""
        each = (text for name in names for text in (name, seal(f"{now:.3f}", name)))
        if not self._freeze(keys=[keys.FROZEN, keys.FREEZES], args=[most, *each]):
            raise TooManyFrozen(most)

    @reaching_the_store()
    def release(self, names: Collection[str]) -> None:
        """Let refits replace these maps again."""
        if names:
            self._client.hdel(keys.FROZEN, *names)


def frozen_name(target: str, campaign: str) -> str:
    """How a campaign is named beside targets, none of which has a colon."""
    return f"{target}:{campaign}"


def frozen_campaigns(names: Collection[str], target: str) -> list[str]:
    """Which campaigns of the target these names hold."""
    prefix = frozen_name(target, "")
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def _moment(target: str, sealed: bytes) -> float:
    """Damage thaws nothing: who froze it had a reason."""
    try:
        return float(unseal(sealed, target))
    except ValueError as error:
        _log.error("since when %s is frozen: %s", target, error)
        return 0.0
