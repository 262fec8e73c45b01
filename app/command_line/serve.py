"""`sirocco serve`."""

from app.command_line import options
from app.command_line.errors import CommandError
from app.command_line.logs import log_to_stderr
from app.command_line.service_settings import settings_with
from app.command_line.store import opened_store


def serve(
    host: options.Host = None,
    port: options.Port = None,
    redis_url: options.RedisUrl = None,
    data_dir: options.DataDir = None,
    allow_public: options.AllowPublic = None,
) -> None:
    """Run one API process: it answers /v1/calibrate and stores events.

    Run as many as you like on one Redis, beside at least one `sirocco worker`.

    [bold]Examples[/bold]

      sirocco serve --redis-url redis://cache:6379/0
      sirocco serve --port 8081
    """
    # Only the process that serves pays for importing the web framework.
    from app.api.server import PublicAddressRefused, run_server

    settings = settings_with(
        {
            "host": host,
            "port": port,
            "redis_url": redis_url,
            "data_dir": data_dir,
            "allow_public": allow_public,
        }
    )
    log_to_stderr()
    with opened_store(settings) as store_url:
        try:
            run_server(settings, store_url)
        except PublicAddressRefused as error:
            raise CommandError(str(error)) from None
