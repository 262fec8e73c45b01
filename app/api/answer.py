"""An answer on the hot path: what the server needs to send, and nothing else."""

from typing import NamedTuple

from fastapi.responses import Response

JSON_TYPE = (b"content-type", b"application/json")


class Answer(NamedTuple):
    """Status, headers in lower case without the length, and the whole body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @classmethod
    def of(cls, response: Response) -> "Answer":
        """The framework's response as an answer."""
        headers = [pair for pair in response.raw_headers if pair[0] != b"content-length"]
        return cls(response.status_code, headers, bytes(response.body))
