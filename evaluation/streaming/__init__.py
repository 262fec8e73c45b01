"""Streaming evaluation: every metric of a log of any length, in bounded memory.

`log.py` takes the batches of `rows.py`, keeps them as they are (`in_memory.py`) or added up, and
`log_metrics.py` measures all of it and each group.
"""
