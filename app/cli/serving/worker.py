"""`sirocco worker`."""

from app.cli import options
from app.cli.serving.serve import log_to_stderr
from app.cli.serving.settings import settings_with
from app.cli.serving.store import opened_store
from app.worker.loop import run_worker


def worker(
    redis_url: options.RedisUrl = None,
    data_dir: options.DataDir = None,
    window: options.Window = None,
    bin_size: options.BinSize = None,
    calibrator: options.Calibrator = None,
    refit_every: options.RefitEvery = None,
    group: options.CampaignGroup = None,
    min_samples: options.MinSamples = None,
    min_positives: options.MinPositives = None,
) -> None:
    """Run one worker: each hour it judges the maps in force, fits new ones and publishes them.

    One worker at a time holds the job; a second one waits, and takes over when
    the first is gone.

    [bold]Examples[/bold]

      sirocco worker --redis-url redis://cache:6379/0
      sirocco worker --window 6h --bin-size 500
      sirocco worker --calibrator pooled --refit-every 5m --group '^([^/]+)/'
    """
    settings = settings_with(
        {
            "redis_url": redis_url,
            "data_dir": data_dir,
            "window_hours": window,
            "bin_size": bin_size,
            "calibrator": calibrator,
            "refit_minutes": refit_every,
            "campaign_group": group,
            "min_samples": min_samples,
            "min_positives": min_positives,
        }
    )
    log_to_stderr()
    with opened_store(settings) as store_url:
        run_worker(settings, store_url)
