"""Redis itself: `client.py` opens connections, `server.py` runs a private one for a folder."""
