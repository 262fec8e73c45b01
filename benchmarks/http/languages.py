"""What the language costs: one score over HTTP beside servers that do nothing with it.

`POST /v1/calibrate` of one score in columns, 16 connections from another core, microseconds of the
server's CPU and of wall time for each request, in turns. `sirocco` looks the score up; the echoes
are Python that sends the body back, behind sirocco's protocol and behind uvicorn's own; `nginx` is
C that reads the request and answers with a fixed text of the same length (Debian: nginx-light).

    python -m benchmarks.http.languages
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from app.cli.serving.settings import free_port
from benchmarks.core.traffic import random_maps
from benchmarks.figures import Table, middle, shown
from benchmarks.http import HOST
from benchmarks.http.bodies import FORMS, PATH, Ids, ScoresRequest
from benchmarks.http.calibrate_ratios import ECHOES
from benchmarks.http.load import Rounds, Way, post, take_turns
from benchmarks.http.servers import CORE, MAPS_SEED, Server, await_listening, started, stop
from benchmarks.machine import on_core
from benchmarks.store import private_store
from calibrators import Atlas

CAMPAIGNS, ROUNDS, BODIES, SEED = 10_000, 11, 16, 29
_CONFIGURATION = """
daemon off; worker_processes 1; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/bodies;
  server {{ listen {host}:{port}; location / {{ return 200 '{text}'; }} }}
}}
"""


@contextmanager
def nginx(text: str) -> Iterator[Server]:
    """One process that answers everything with a text; raises FileNotFoundError without it."""
    binary, port = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin"), free_port(HOST)
    if binary is None:
        raise FileNotFoundError("no nginx: install it (apt install nginx-light)")
    with TemporaryDirectory(prefix="sirocco-bench-") as folder:
        file, given = Path(folder) / "nginx.conf", {"folder": folder, "host": HOST, "port": port}
        file.write_text(_CONFIGURATION.format(text=text, **given))
        with on_core(CORE):
            process = subprocess.Popen([binary, "-p", folder, "-c", file])
        try:
            await_listening(process, port)
            yield Server(port, process.pid)
        finally:
            stop(process)


def measure(rounds: int = ROUNDS) -> Table:
    """A row for each server, with its CPU over that of sirocco."""
    maps, form = random_maps(CAMPAIGNS, MAPS_SEED), FORMS["columns"]
    rng = np.random.default_rng(SEED)
    names = rng.choice(list(maps), BODIES).tolist()
    ids = Ids(0, {})
    asked = [ScoresRequest([name], np.round(rng.beta(1, 30, 1), 6), ids) for name in names]
    messages = [post(PATH, form.body(one), form.content_type) for one in asked]
    with ExitStack() as opened:
        store = opened.enter_context(private_store())
        store.publish(Atlas.build(maps))
        kinds = {"sirocco": "sirocco", **ECHOES}
        servers = {name: opened.enter_context(started(kinds[name], store.url)) for name in kinds}
        ours = Way(servers["sirocco"], lambda _: b"", None, rounds).ask(messages[0]).decode()
        servers["nginx, fixed text"] = opened.enter_context(nginx(ours))
        ways = {name: Way(one, lambda _: b"", None, rounds) for name, one in servers.items()}
        with on_core(1):
            take_turns(ways, dict.fromkeys(ways, messages), Rounds(0.1, 4_000, 120.0))
    table = {name: way.cells("a score, us") for name, way in ways.items()}
    of_ours = middle(table["sirocco"]["a score, us"])
    return {
        name: {**row, "over sirocco": middle(row["a score, us"]) / of_ours}
        for name, row in table.items()
    }


if __name__ == "__main__":
    for title, cells in measure().items():
        found = {title: {name: shown(cell) for name, cell in cells.items()}}
        sys.stdout.write(json.dumps(found) + "\n")
