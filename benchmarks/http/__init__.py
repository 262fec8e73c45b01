"""Parts that are measured over HTTP, and the servers and the load for it."""

HOST = "127.0.0.1"
TIMEOUT_SECONDS = 60.0
