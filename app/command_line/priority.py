"""Which processes come first where several share a core."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_STEP: Final = 10
_LOWEST: Final = 19


def give_way(process_id: int) -> None:
    """Have the process, which leads a session, give way to ours: it gets a tenth of what others do.

    What it starts from then on inherits that. Nothing is lost where the machine has nothing else to
    do.
    """
    lower = min(_LOWEST, os.getpriority(os.PRIO_PROCESS, 0) + _STEP)
    # It may have ended already.
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process_id, lower)
        # Where Linux groups processes by session, only the group's priority counts between them.
        Path(f"/proc/{process_id}/autogroup").write_text(str(lower))
