"""Block bootstrap: how far chance alone moves a metric.

`blocks.py` has the blocks and their resamples, `paired.py` the comparison of two models. `sums.py`
resamples metrics that are sums, `ranking.py` those that need an order, from the `cells.py`.
"""
