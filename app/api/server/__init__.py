"""The HTTP server: uvicorn with limits on connections, and without a task for the busy route.

`protocol.py` handles one connection, `connections.py` counts them and closes those that are too
slow, `server.py` starts, drains and stops.
"""
