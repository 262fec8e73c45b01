"""The worker: folds events into bins, evaluates the hours that closed, refits, publishes.

`loop.py` is its loop, `schedule.py` when it refits and trains. `refit.py` is one refit:
`monitoring.py` evaluates, `fitting.py` fits the maps and has the guard check them, with the help of
other workers (`together.py`) where campaigns are very many. `experiments.py`
fits maps on trial, and aborts a canary. `products.py` evaluates products of targets.
`delayed_targets.py` closes clicks, labels them (`relabelling.py`) and trains (`training.py`).
`atlas_cache.py` and `model_cache.py` keep what is in force in memory; `model_trial.py` loads a
model in a child process first.
"""
