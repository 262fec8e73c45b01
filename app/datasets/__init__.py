"""Readers of logs: checked columns of Parquet, CSV and JSON lines.

`parts.py` finds the files of a log, `formats.py` reads one in batches, `tables.py` makes numbers,
names and times of its columns, and `reading.py` puts them together, by the `options.py` of the
user. `impressions.py`, `clicks.py`, `behaviours.py`, `auctions.py` and `ab_test.py` are the kinds
of logs; `evaluation_log.py` and `paired_logs.py` read one or two of any length; `predictions.py`
writes what a backtest predicted.
"""
