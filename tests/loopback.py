"""Services on this machine, and requests to them."""

import socket
from typing import Any

# Of every service that a test starts. It may not refuse because its loop is behind, which may share
# an interpreter with the caller and the tracer, nor because a busy disk holds the store up: what a
# caller would meet by sending again is an error here.
PATIENT = {"SIROCCO_SHED_LAG_SECONDS": "60", "SIROCCO_REDIS_TIMEOUT_SECONDS": "20"}
# By no proxy, and without the authorities of the whole world: to read them takes 30 ms, which is
# most of the time of who asks again and again whether a service is ready. And patiently: a machine
# may give a service no processor for longer than the five seconds that are usual.
LOOPBACK: dict[str, Any] = {"trust_env": False, "verify": False, "timeout": 60}


def refuses(port: int) -> bool:
    """Whether nobody listens there any more."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False
