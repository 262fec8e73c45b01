"""`sirocco up`, `sirocco serve` and `sirocco worker`: their options."""

from dataclasses import asdict
from typing import Annotated

import typer

from app.cli import options

# How a parent tells a worker: numbers of its socket, its file, the file's rows and the row.
_AsWorker = Annotated[str | None, typer.Option("--as-worker", hidden=True)]


@options.grouped
def up(
    service: options.ServeOptions, fit: options.RefitOptions, json: options.Json = False
) -> None:
    """Run the whole service: Redis, API and worker, until Ctrl-C.

    Without --redis-url it brings its own Redis, whose data survive a restart.
    A process that dies is started again. SIGHUP replaces the API's processes as
    `sirocco serve --workers` does, and starts the worker again. Every setting is
    also an environment variable, such as SIROCCO_PORT.

    [bold]Examples[/bold]

      sirocco up
      sirocco up --port 9000 --window 6h --bin-size 500
      sirocco up --calibrator pooled --refit-every 5m
      sirocco up --redis-url redis://cache:6379/0 --workers 4 --json
    """
    from app.cli.serving.whole_service import run_until_ctrl_c

    run_until_ctrl_c({**asdict(service), **asdict(fit)}, as_json=json)


@options.grouped
def serve(service: options.ServeOptions, as_worker: _AsWorker = None) -> None:
    """Run the API: it answers /v1/calibrate and stores events.

    Run as many as you like on one Redis, beside at least one `sirocco worker`.
    With --workers, a parent starts so many processes that share the port, and
    starts again what dies. SIGHUP to the parent replaces one after the other
    without refusing a connection; one process alone goes on as it is. SIGTERM
    ends all when they have answered.

    [bold]Examples[/bold]

      sirocco serve --redis-url redis://cache:6379/0
      sirocco serve --port 8081 --workers 4
    """
    from app.cli.serving.serve import run_api

    run_api(asdict(service), as_worker)


@options.grouped
def worker(store: options.StoreOptions, fit: options.RefitOptions) -> None:
    """Run one worker: each hour it evaluates the maps in force, fits new ones and publishes them.

    One worker at a time holds the job; a second one waits, and takes over when
    the first is gone.

    [bold]Examples[/bold]

      sirocco worker --redis-url redis://cache:6379/0
      sirocco worker --window 6h --bin-size 500
      sirocco worker --calibrator pooled --refit-every 5m --group '^([^/]+)/'
    """
    from app.cli.serving.serve import run_worker_process

    run_worker_process({**asdict(store), **asdict(fit)})
