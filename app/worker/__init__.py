"""The worker: folds events into bins, judges, refits, publishes."""
