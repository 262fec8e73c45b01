"""Requests to services on this machine."""

# By no proxy, and without the authorities of the whole world: to read them takes 30 ms, which is
# most of the time of who asks again and again whether a service is ready.
LOOPBACK = {"trust_env": False, "verify": False}
