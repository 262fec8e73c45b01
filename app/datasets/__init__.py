"""Readers of logs: Parquet, CSV and TSV files as checked columns.

`tables.py` reads any of them in batches. `impressions.py`, `clicks.py`, `behaviours.py`,
`auctions.py` and `ab_test.py` are the kinds of logs; `evaluation_log.py` and `paired_logs.py` read
one or two of any length.
"""
