"""Where the time of a run goes, by the methods it calls one after the other."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from time import perf_counter
from types import ModuleType
from typing import Any
from unittest.mock import patch

Stages = Mapping[str, tuple[type | ModuleType, str]]


@contextmanager
def stage_seconds(stages: Stages) -> Iterator[dict[str, float]]:
    """Wall seconds inside each stage's (class or module, name), summed while the block runs."""
    seconds = dict.fromkeys(stages, 0.0)
    with ExitStack() as opened:
        for stage, (owner, name) in stages.items():
            timed = _timed(getattr(owner, name), seconds, stage)
            opened.enter_context(patch.object(owner, name, timed))
        yield seconds


def _timed(method: Callable[..., Any], seconds: dict[str, float], stage: str) -> Callable[..., Any]:
    @wraps(method)
    def timed(*arguments: Any, **named: Any) -> Any:
        started = perf_counter()
        try:
            return method(*arguments, **named)
        finally:
            seconds[stage] += perf_counter() - started

    return timed
