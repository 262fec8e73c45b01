"""Forks, ends of processes, and a machine without the service: in processes of their own."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.clients.faulty_proxy import answers
from tests.clients.sent_events import stored

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent

ENDS_WITHOUT_CLOSING = """
import logging, sys, time
from sirocco_client import Buffering, Sirocco
logging.basicConfig()
events = Sirocco(sys.argv[1]).events(Buffering(exit_seconds=float(sys.argv[3])))
events.outcome("a", "click", 0.5, 1, occurred_at=float(sys.argv[2]))
"""

WITHOUT_THE_SERVICE = """
import sys
FORBIDDEN = {"app", "calibrators", "evaluation", "pccem", "fastapi", "redis", "msgspec", "scipy"}

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FORBIDDEN:
            raise ImportError(name + " is not installed here")

sys.meta_path.insert(0, Finder())
from sirocco_client import EdgeCalibrator, Sirocco
with Sirocco(sys.argv[1], timeout=20.0) as sirocco, EdgeCalibrator(sys.argv[1], "click") as edge:
    assert edge.wait(60)
    remote = sirocco.calibrate("click", ["hats"] * 40, [0.5] * 40, explain=True)
    assert remote.probabilities.tolist() == [edge.at("hats", 0.5)] * 40
    with sirocco.events() as events:
        events.outcome("hats", "click", 0.5, 1)
assert not FORBIDDEN & {name.partition(".")[0] for name in sys.modules}
print("works")
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=240, check=False
    )


def test_forked_children_begin_anew(service, version):
    """They calibrate, refresh and send on their own; what waits in the parent is sent once."""
    done = run(str(HERE / "fork_script.py"), service.url)

    assert done.stderr == ""
    acts = ("calibrates", "refreshes", "sends", "works_in_a_loop")
    assert done.stdout.splitlines() == [f"{act} True" for act in acts]
    hour = int(time.time() // 3600)
    tables = [service.bins("click", each) for each in (hour - 1, hour)]
    counted = {name: bins.total_count for table in tables for name, bins in table}
    assert counted == {"child": 2, "parent": 1}


def test_a_process_that_ends_sends_what_waits(service):
    """Although nobody closed the buffer."""
    done = run("-c", ENDS_WITHOUT_CLOSING, service.url, str(time.time()), "20")

    assert (done.returncode, done.stderr) == (0, "")
    assert stored(service) == 1


def test_a_process_that_ends_says_what_it_could_not_send(proxy):
    """In its log, and it does end."""
    proxy.always = answers(503)

    done = run("-c", ENDS_WITHOUT_CLOSING, proxy.url, str(time.time()), "0.1")

    assert done.returncode == 0
    assert "1 events could not be sent" in done.stderr


def test_it_works_without_the_service_installed(service, version):
    """Neither the service's packages nor what they need can be imported."""
    done = run("-c", WITHOUT_THE_SERVICE, service.url)

    assert (done.stdout, done.stderr) == ("works\n", "")
