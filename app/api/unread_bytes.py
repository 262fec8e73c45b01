"""How much of what was written has not reached the other side."""

from asyncio import Transport
from fcntl import ioctl
from struct import unpack
from termios import TIOCOUTQ


def unread_bytes(transport: Transport) -> int:
    """Bytes of a connection that its caller's machine has not acknowledged.

    The transport's own buffer alone moves in steps of a megabyte: only when the kernel's has room.
    """
    return transport.get_write_buffer_size() + _in_kernel(transport)


def _in_kernel(transport: Transport) -> int:
    socket = transport.get_extra_info("socket")
    if socket is None:
        # So says uvloop of a closed one whose socket nobody asked for before.
        return 0
    try:
        return int(unpack("i", ioctl(socket.fileno(), TIOCOUTQ, bytes(4)))[0])
    except (OSError, ValueError):
        # Closed meanwhile, or no socket of the kind that tells.
        return 0
