"""Sums over time that are kept beside the bins."""
