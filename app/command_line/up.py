"""`sirocco up`."""

import orjson

from app.command_line import options
from app.command_line.addresses import addresses, show_addresses
from app.command_line.console import note, results
from app.command_line.hang_ups import Reload, hang_ups
from app.command_line.whole_service import WholeService, whole_service


def up(
    host: options.Host = None,
    port: options.Port = None,
    redis_url: options.RedisUrl = None,
    data_dir: options.DataDir = None,
    allow_public: options.AllowPublic = None,
    workers: options.Workers = None,
    window: options.Window = None,
    bin_size: options.BinSize = None,
    calibrator: options.Calibrator = None,
    refit_every: options.RefitEvery = None,
    group: options.CampaignGroup = None,
    min_samples: options.MinSamples = None,
    min_positives: options.MinPositives = None,
    json: options.Json = False,
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
    given = {
        "host": host,
        "port": port,
        "redis_url": redis_url,
        "data_dir": data_dir,
        "allow_public": allow_public,
        "workers": workers,
        "window_hours": window,
        "bin_size": bin_size,
        "calibrator": calibrator,
        "refit_minutes": refit_every,
        "campaign_group": group,
        "min_samples": min_samples,
        "min_positives": min_positives,
    }
    reload = Reload()
    try:
        with hang_ups(reload.ask), whole_service(given) as service:
            _announce(service.url, as_json=json)
            _tend(service, reload)
    except KeyboardInterrupt:
        note("sirocco is down")


def _tend(service: WholeService, reload: Reload) -> None:
    while True:
        service.supervision.look()
        if reload.taken():
            service.reload()


def _announce(url: str, *, as_json: bool) -> None:
    if as_json:
        results().out(orjson.dumps(addresses(url)).decode(), highlight=False)
        return
    note("sirocco is up; Ctrl-C ends it")
    show_addresses(url)
