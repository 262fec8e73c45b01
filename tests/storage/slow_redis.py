"""A Redis that takes its time over each command of its file, as over a file of many gigabytes."""

import os
from pathlib import Path

import redis

KEYS = 5_000


def slow_redis(folder: Path, binary: Path) -> Path:
    """A server that starts slowly once there is a file `slow` beside it."""
    folder.mkdir()
    slow = folder / "redis-server"
    delay = f'$(test -e "{folder}/slow" && echo --key-load-delay 300)'
    slow.write_text(f'#!/bin/sh\nexec "{binary}" "$@" {delay}\n')
    slow.chmod(0o755)
    return slow


def fill(client: redis.Redis) -> None:
    """So many commands that a slow start takes some seconds."""
    with client.pipeline(transaction=False) as pipeline:
        for number in range(KEYS):
            pipeline.set(f"key-{number}", os.urandom(8), ex=3600)
        pipeline.execute()
