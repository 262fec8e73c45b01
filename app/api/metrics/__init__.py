"""Prometheus metrics: counters that processes share, and gauges read at scrape time."""
