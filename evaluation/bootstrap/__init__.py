"""Block bootstrap: how far chance alone moves a metric.

`blocks.py` has the blocks, their resamples, and metrics that are sums over blocks, `ranking.py` has
those that need an order, `paired.py` the comparison of two models.
"""
