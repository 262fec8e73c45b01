"""How old the maps behind an answer are."""

import time
from typing import Final

from app.api.snapshot import Snapshot

AGE_HEADER: Final = b"sirocco-map-age"


def age_headers(snapshot: Snapshot) -> list[tuple[bytes, bytes]]:
    """The header that says the age in whole seconds; none before the first version."""
    age = snapshot.age(time.time())
    return [] if age is None else [(AGE_HEADER, b"%d" % age)]
