"""Binary bodies: columns of little-endian numbers, read in place. docs/columns.md has the layout.

`layout.py` is the header, `scores.py` a calibrate request, `events.py` a request of events,
`campaigns.py` their campaigns, as names or interned ids, and their fields.
"""
