"""Calibrators that fit each campaign on its own, and the refit that does so for all.

`calibrator.py` is what each can do; `smoothed_isotonic.py`, `isotonic.py`, `logistic.py` (Platt,
temperature, beta) and `bbq.py` are they. `equal_frequency.py` cuts samples into bins, `refit.py`
fits the campaigns of a target.
"""
