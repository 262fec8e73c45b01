"""The service: HTTP, Redis, worker, Prometheus, command line; all that knows clock and socket."""
