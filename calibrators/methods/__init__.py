"""The calibrators by name, and the refit that fits a map for every campaign."""
