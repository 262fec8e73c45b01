"""A process of our own: how it stands beside ours."""

import os

import pytest

from app.cli.serving.processes import Child


@pytest.mark.parametrize("gives_way", [False, True])
def test_a_child_that_gives_way_has_a_lower_priority_than_we_have(gives_way: bool) -> None:
    child = Child("help", ("--help",), {}, gives_way=gives_way)
    child.start()
    try:
        ours = os.getpriority(os.PRIO_PROCESS, 0)
        assert child.process_id is not None
        found = os.getpriority(os.PRIO_PROCESS, child.process_id)
        assert (found > ours) is (gives_way and ours < 19)
    finally:
        child.stop()
