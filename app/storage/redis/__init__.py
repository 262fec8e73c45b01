"""Redis itself: `client.py` opens connections, to the hosts that `addresses.py` reads from a URL:
one, a cluster, or the master that Sentinel names (`cluster.py`). `server.py` runs a private server
for a folder.
"""
