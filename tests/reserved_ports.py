"""Ports for services in processes of their own, while other tests start services too."""

import socket


def reserved_port() -> int:
    """A port of 127.0.0.1 that goes to nobody by chance until the tests have ended.

    It is bound and never listened on. The kernel gives such a port to no one who asks for any,
    while a server that names it may listen there, as often as it is started.
    """
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    port: int = reserved.getsockname()[1]
    reserved.detach()
    return port
