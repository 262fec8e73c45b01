"""Faults on purpose: services that are killed at any moment, and the matrix of faults with what
proves each row."""
