"""Calibrators of single campaigns, which win over that of their target."""

import logging
import re
from collections import defaultdict
from collections.abc import Mapping

import redis

from app.storage import keys
from app.storage.errors import TooManyOverrides
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
