"""Parts that are measured over HTTP, and the servers and the load for it."""
