"""What the measuring commands found: numbers, conclusions in sentences, and their formatting.

`evaluation.py`, `backtest.py`, `comparison.py` and `auction.py` are one command each. `overview.py`
explains the metrics, `significance.py` says what is beyond chance, `formatting.py` prints numbers,
`scored_events.py` pairs predictions with outcomes.
"""
