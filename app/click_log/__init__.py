"""The click log: closed clicks and their conversions of many days, in Parquet.

`log.py` is what others call. `store.py` keeps files in a folder on disk or in an object store
(`folder.py`); `parts.py` names them. `rows.py` is how a click is written, `reading.py` reads many
hours into the arrays of `clicks.py`. `maintenance.py` merges small files and finalises matured
labels.
"""

from app.click_log.clicks import LoggedClicks, LoggedConversions
from app.click_log.folder import ClickLogError, ClickLogUnavailable, OtherClickLog
from app.click_log.log import ClickLog, ClickReader, DatasetSize
from app.click_log.maintenance import UnattributedConversions
from app.click_log.rows import ClosedClick

__all__ = [
    "ClickLog",
    "ClickLogError",
    "ClickLogUnavailable",
    "ClickReader",
    "ClosedClick",
    "DatasetSize",
    "LoggedClicks",
    "LoggedConversions",
    "OtherClickLog",
    "UnattributedConversions",
]
