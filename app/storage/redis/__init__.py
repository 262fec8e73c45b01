"""The Redis server that sirocco starts for itself, and the one place that opens connections."""
