"""Synthetic ad platforms whose true probabilities are known."""
