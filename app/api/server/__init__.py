"""HTTP connections: uvicorn with bounds, a fast path and a drain."""
