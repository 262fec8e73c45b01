"""Closed clicks and conversions of many days, in Parquet."""

from app.click_log.closed_click import ClosedClick
from app.click_log.errors import ClickLogError, ClickLogUnavailable
from app.click_log.log import ClickLog, DatasetSize
from app.click_log.logged_clicks import LoggedClicks
from app.click_log.logged_conversions import LoggedConversions
from app.click_log.strays import Strays

__all__ = [
    "ClickLog",
    "ClickLogError",
    "ClickLogUnavailable",
    "ClosedClick",
    "DatasetSize",
    "LoggedClicks",
    "LoggedConversions",
    "Strays",
]
