"""What the measuring commands found: numbers, conclusions in sentences, and their formatting.

`evaluation.py`, `backtest.py`, `comparison.py` and `auction.py` are one command each,
`formatting.py` prints numbers; `capacity.py` is what `sirocco size` finds.
"""
