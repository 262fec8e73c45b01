"""Every metric, on predictions that `predictions.py` has checked.

Calibration: `calibration.py` (PCOC), `cal_n.py`, `gc_n.py`, `reliability.py`. Loss: `loss.py`,
`calibrated_loss.py`. Ranking: `auc.py`, on the order of `ranks.py`. Revenue: `revenue_auc.py`.
`scorecard.py` is the row that commands print, `sums.py` adds by group.
"""
