"""Replies of Redis as the type we need: its client types every string as bytes or str."""


def as_bytes(reply: bytes | str) -> bytes:
    """The reply as bytes."""
    return reply if isinstance(reply, bytes) else reply.encode()


def as_text(reply: bytes | str) -> str:
    """The reply as text."""
    return reply if isinstance(reply, str) else reply.decode()
