"""Why a connection was closed that its caller had not agreed to close."""

from enum import StrEnum


class Reason(StrEnum):
    """The label `reason` of `sirocco_connections_closed_total`."""

    IDLE = "idle"
    SLOW_REQUEST = "slow_request"
    SLOW_READER = "slow_reader"
    LARGE_HEAD = "large_head"
    MALFORMED = "malformed"
    PIPELINED = "pipelined"
    TOO_MANY = "too_many"
