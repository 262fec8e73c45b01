"""Bins: the additive sufficient statistics that every calibrator is fitted from.

`bins.py` has the grid of scores, the bins of one campaign and the weighted samples that calibrators
make of them; `table.py` the bins of many campaigns and of many hours, `packed_table.py` those that
stay packed. `codecs.py` makes sums exact, and packs integers and names into bytes.
"""
