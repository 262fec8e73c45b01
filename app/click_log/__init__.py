"""Closed clicks and conversions of many days, in Parquet."""

from app.click_log.clicks import LoggedClicks, LoggedConversions
from app.click_log.errors import ClickLogError, ClickLogUnavailable
from app.click_log.log import ClickLog, DatasetSize
from app.click_log.maintenance import UnattributedConversions
from app.click_log.rows import ClosedClick

__all__ = [
    "ClickLog",
    "ClickLogError",
    "ClickLogUnavailable",
    "ClosedClick",
    "DatasetSize",
    "LoggedClicks",
    "LoggedConversions",
    "UnattributedConversions",
]
