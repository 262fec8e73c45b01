"""A process of our own: how it stands beside ours."""

import os

import pytest

from app.cli.serving.processes import Child


@pytest.mark.parametrize("nice", [False, True])
def test_a_child_that_nice_has_a_lower_priority_than_we_have(nice: bool) -> None:
    child = Child("help", ("--help",), {}, nice=nice)
    child.start()
    try:
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        assert child.process_id is not None
        found = os.getpriority(os.PRIO_PROCESS, child.process_id)
        assert (found > ours) is (nice and ours < 19)
    finally:
        child.stop()
