"""Prometheus metrics, summed over the API processes that share a port.

`counters.py` counts requests, scores and events in shared memory. `workers.py` is what each process
says of itself. `reports.py` has the gauges of the last refit and of delayed targets.
"""
