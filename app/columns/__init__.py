"""Binary columns: bodies as little-endian arrays, read in place; the layout is docs/columns.md."""

from app.columns.campaigns import CampaignIds, UnknownDictionary

__all__ = ["CampaignIds", "UnknownDictionary"]
