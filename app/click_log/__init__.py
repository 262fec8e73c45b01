"""The click log: closed clicks and their conversions of many days, in Parquet.

`log.py` is what others call: it also merges small files and finalises matured labels. `parts.py`
names files and keeps them in a folder on disk or in an object store (`folder.py`). `rows.py` is
how a click is written, `reading.py` reads many hours into the arrays of `clicks.py`.
"""
