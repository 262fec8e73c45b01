"""Every way to damage stored bytes a little, and what reading them may do about it."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import TypeVar

Read = TypeVar("Read")

MEMORY = 32 * 2**20


def damaged(data: bytes) -> Iterator[bytes]:
    """Each truncation; each byte with its lowest, its highest and all bits flipped, and set to 0;
    0xFF over each two and each eight bytes."""
    yield data + b"\x00"
    for place in range(len(data)):
        yield data[:place]
        for changed in {data[place] ^ flipped for flipped in (1, 128, 255)} | {0}:
            yield data[:place] + bytes([changed]) + data[place + 1 :]
        yield data[:place] + b"\xff\xff" + data[place + 2 :]
        yield data[:place] + b"\xff" * 8 + data[place + 8 :]


def assert_refused_or_sound(
    read: Callable[[bytes], Read], data: bytes, check: Callable[[Read], None]
) -> int:
    """Reads every damaged form: a ValueError or a sound object, in little memory; how many of each.

    Any other exception fails the test by itself.
    """
    refused = 0
    for form in damaged(data):
        # Only while it is read: all that follows would take three times as long.
        tracemalloc.start()
        try:
            value = read(form)
        except ValueError:
            refused += 1
            continue
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < MEMORY
        check(value)
    return refused
