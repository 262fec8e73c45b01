"""The worker: folds events into bins, evaluates, refits, publishes, trains."""
