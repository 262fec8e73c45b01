"""Bins: the additive sufficient statistics that every calibrator is fitted from.

`grid.py` has the cells, `bins.py` the bins of one campaign, `table.py` those of many,
`packed_table.py` those of many that stay packed, `history.py` those of many hours.
`codecs.py` packs integers into bytes, `fixed_point.py` makes sums exact, and
`weighted_samples.py` is how calibrators read bins.
"""
