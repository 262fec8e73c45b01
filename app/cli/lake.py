"""`sirocco lake`: bins of logs of any length, labels and models of delayed targets, by partition
tasks that an executor runs; and maps of bins.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli import options
from app.cli.bins import load_summary, loaded_bins
from app.cli.console import note, percent_bar, print_json, print_line
from app.cli.operate import service_at
from app.cli.signals import end_with
from app.errors import CommandError

if TYPE_CHECKING:
    from app.lake.labels import DelayedJob
    from app.lake.tasks import PartitionTask
    from app.settings import Settings

lake = typer.Typer(no_args_is_help=True)

LOCAL, DASK, KUBERNETES = "local", "dask", "kubernetes"
_EXECUTORS: Final = (LOCAL, DASK, KUBERNETES)
_Source = Annotated[str, options.log_argument("Impressions", "SOURCE")]
_run = partial(options.option, rich_help_panel="Who runs it", show_default=False)
_pod = partial(options.option, rich_help_panel="Pods of Kubernetes", show_default=True)


@lake.callback()
def _about() -> None:
    """Make bins of logs in a lake, labels of delayed targets, and maps of bins.

    The work is cut into partitions, a file each. What is done is kept in
    --output, and is not done again where a job is begun a second time.

    [bold]Examples[/bold]

      sirocco lake bins log/ --output lake/
      sirocco lake bins 's3://b/log/*.pq' --output s3://b/lake --executor dask
      sirocco lake bins iceberg:prod.ads.impressions --output lake/ --load
      sirocco lake train clicks/ --output lake/ --processes 8
      sirocco lake labels clicks/ --output lake/ --processes 8
      sirocco lake maps lake/bins.parquet --output lake/
    """


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Where results go, and who makes them."""

    output: str = options.option(..., "Folder, or URL of an object store, of all results.")
    executor: str = _run("local", "local, dask or kubernetes.", show_default=True)
    processes: int = _run(
        1, "Processes of this machine, or workers of a Dask of one's own.", min=1, show_default=True
    )
    dask_address: str | None = _run(
        None, "Scheduler of Dask, such as tls://scheduler:8786.", metavar="URL"
    )
    index: int | None = _run(
        None, "Make only the results of a share of the partitions: this one.", min=0
    )
    of: int | None = _run(None, "Of so many shares.", min=1)
    json: options.Json = False

    @property
    def place(self) -> str:
        """The output as any process of this machine, in whatever folder it is, finds it."""
        return self.output if "://" in self.output else os.path.abspath(self.output)


@dataclass(frozen=True, slots=True)
class PodSettings:
    """What --executor kubernetes writes."""

    name: str = _pod("sirocco-lake", "Name of the Job.")
    image: str = _pod("sirocco", "Image, with its tag or digest.")
    secret: str | None = _pod(None, "Secret with credentials of the store, as variables.")
    pods: int = _pod(16, "Shares of the partitions.", min=1)
    parallelism: int = _pod(16, "Pods that run at a time.", min=1)
    cpu: str = _pod("1", "CPUs of a pod.")
    memory: str = _pod("2Gi", "Memory of a pod.")


class LakeRun:
    """Runs tasks as the options say: to the end, a share of them, or not at all but for a Job that
    would."""

    def __init__(self, given: RunOptions, pods: PodSettings) -> None:
        if given.executor not in _EXECUTORS:
            raise CommandError(
                f"--executor {given.executor!r}: must be one of {', '.join(_EXECUTORS)}"
            )
        if (given.index is None) != (given.of is None) or (given.index or 0) >= (given.of or 1):
            raise CommandError("--index and --of go together, and the index is below the other")
        options.refuse(
            {"--dask-address": given.dask_address if given.executor != DASK else None},
            "goes with --executor dask only",
        )
        self._given, self._pods = given, pods
        self.notes: list[str] = []
        self.rows, self.cpu_seconds = 0, 0.0

    def is_written(self, afterwards: Mapping[str, object]) -> bool:
        """Print the Job, and True, where pods are to run the tasks; then options that only count
        `afterwards` are refused, so that no key gets into a manifest."""
        if self._given.executor != KUBERNETES:
            return False
        options.refuse(afterwards, _TOGETHER)
        from app.lake.executors import PodOptions, indexed_job
        from app.lake.labels import DECIDING
        from app.settings import variable_of

        hours = ("history_hours", "calibrator", "target_calibrators")
        deciding = map(variable_of, ("delayed_targets", "attribution_hours", *hours, *DECIDING))
        arguments, pods = _arguments_of_pods(), PodOptions(**asdict(self._pods))
        if any(_PASSWORD(each) for each in arguments):
            raise CommandError(
                "a Job must not hold a password: leave it out of the URL; --secret names a Secret"
                " with the credentials of the store"
            )
        variables = {name: os.environ[name] for name in deciding if name in os.environ}
        print_json(indexed_job(arguments, pods, variables))
        note("Save it, `kubectl apply -f` it, and at its end run the command without --executor.")
        return True

    def made(self, tasks: Sequence["PartitionTask"], what: str) -> dict[str, int] | None:
        """Make what is not there yet; how many partitions there are, and how many were made now.
        None where only a share was asked for."""
        from app.lake.tasks import not_done

        given = self._given
        chosen = tasks
        if given.index is not None and given.of is not None:
            chosen = [task for task in tasks if task.belongs_to(given.index, given.of)]
        missing = not_done(chosen, given.place)
        with percent_bar(what, shown=not given.json) as reached:
            for done, told in enumerate(self._run(missing), 1):
                self.rows += told["rows"]
                self.cpu_seconds += told["cpu_seconds"]
                self.notes += told["notes"]
                reached(done / len(missing))
        counts = {"partitions": len(tasks), "made": len(missing)}
        if given.index is None:
            return counts
        self.show({**counts, "share": len(chosen)}, f"{len(missing)} of {len(chosen)} made")
        return None

    def show(self, found: Mapping[str, Any], *lines: str) -> None:
        """Print what came of it, and what was skipped."""
        if self._given.json:
            print_json({**found, "notes": [*dict.fromkeys(self.notes)]})
            return
        for line in lines:
            print_line(line)
        for text in dict.fromkeys(self.notes):
            note(text)

    def _run(self, tasks: Sequence["PartitionTask"]) -> Iterator[dict[str, Any]]:
        from app.lake.executors import run_here, run_in_processes, run_on_dask

        given = self._given
        if given.executor == DASK:
            return run_on_dask(tasks, given.dask_address, given.processes)
        if given.processes == 1:
            return run_here(tasks)
        return run_in_processes(tasks, given.processes, partial(end_with, os.getpid()))


_TOGETHER: Final = "goes with the command that adds up what pods have made"
_PASSWORD: Final = re.compile(r"://[^@]*:[^@]*@").search


def _arguments_of_pods() -> list[str]:
    """The command as it was typed, without what is of this machine."""
    typed, kept = iter(sys.argv[1:]), []
    for argument in typed:
        if argument == "--executor":
            next(typed, None)
        elif not argument.startswith("--executor="):
            kept.append(argument)
    return kept


_Load = Annotated[
    bool, typer.Option("--load", help="Put the bins into the running service at --url.")
]


@lake.command("bins")
@options.grouped
def _bins(
    source: _Source,
    target: Annotated[str, typer.Option("--target", help="What the outcome is.")] = "click",
    fields: Annotated[
        str | None,
        typer.Option(help="Columns of fields, such as device,placement.", show_default="none"),
    ] = None,
    load: _Load = False,
    url: options.RunningUrl = options.LOCAL_URL,
    api_key: options.ApiKeyOption = None,
    *,
    run: RunOptions,
    pods: PodSettings,
    columns: options.LogColumnOptions,
    reading: options.ReadingOptions,
) -> None:
    """Sum impressions by hour, campaign, fields and cell of the score.

    Writes bins.parquet into --output: the table that `sirocco bins load` reads.
    Its digest is the same however the work was cut and whoever did it.

    [bold]Examples[/bold]

      sirocco lake bins log/ --output lake/ --processes 8
      sirocco lake bins log/ --output lake/ --load
    """
    runner = LakeRun(run, pods)
    if runner.is_written({"--load": load or None, "--api-key": api_key}):
        return
    from app.datasets.bin_tables import fields_of_table
    from app.datasets.impressions import LogColumns
    from app.datasets.parts import place_below, refuse_inside, shown
    from app.lake.bins import MERGED, BinsSettings, MergedBins
    from app.lake.tasks import ICEBERG, partitions_of

    options.refuse({"--load": (load or None) if run.index is not None else None}, _TOGETHER)
    names = fields_of_table(options.names(fields))
    of_log = replace(LogColumns.of(columns, reading), fields=names, bid="")
    if not target:
        raise CommandError("--target: must name a target")
    for name in (MERGED, f"bins/{MERGED}"):
        refuse_inside([source], {"--output": place_below(run.place, name)})
    settings = BinsSettings(target, of_log, reading.reading())
    partitions = partitions_of(source, reading.delimiter)
    tasks = [settings.task(partition, run.place) for partition in partitions]
    counts = runner.made(tasks, f"summing {len(tasks)} partitions")
    if counts is None:
        return
    merged = MergedBins(run.place, [task.result for task in tasks], names)
    digest = merged.write(MERGED)
    found: dict[str, Any] = {**counts, "rows": runner.rows, "digest": digest}
    found["cpu_seconds"] = round(runner.cpu_seconds, 3)
    lines = [f"{counts['made']} of {len(tasks)} partitions summed; digest {digest}"]
    if load:
        elsewhere = "://" in source or source.startswith(ICEBERG)
        place = source.rstrip("/") if elsewhere else os.path.abspath(source)
        with service_at(url, api_key) as client:
            loaded = loaded_bins(client, merged, ("lake", shown(place)), shown_if=not run.json)
        found["load"] = loaded
        lines.append(load_summary(loaded))
    runner.show(found, *lines)


@lake.command("maps")
@options.grouped
def _maps(
    table: Annotated[str, options.log_argument("Tables of bins", "BINS")],
    output: Annotated[str, typer.Option(help="Folder, or URL of an object store, of the maps.")],
    json: options.Json = False,
    *,
    fit: options.FitOptions,
) -> None:
    """Fit maps of bins, as the refit of a new service at the end of their newest hour would.

    Writes maps/<target>.atlas into --output: what GET /v1/atlas/<target> answers.
    Settings are those of a worker, such as SIROCCO_CALIBRATOR and SIROCCO_FIELDS.

    [bold]Examples[/bold]

      sirocco lake maps lake/bins.parquet --output lake/
      sirocco lake maps 'sums/*.parquet' --output lake/ --calibrator sir
    """
    from app.cli.serving.settings import settings_with
    from app.datasets.bin_tables import read_bins
    from app.datasets.parts import place_below, refuse_inside
    from app.lake.maps import fitted_maps
    from app.lake.tasks import reaching_output

    settings = settings_with(asdict(fit))
    refuse_inside([table], {"--output": place_below(output, "maps/click.atlas")})
    found: dict[str, Any] = {}
    for maps in fitted_maps(read_bins(table, settings.fields), settings):
        if "/" in maps.target or maps.target.startswith("."):
            raise CommandError(f"target {maps.target!r}: a file cannot have this name")
        with reaching_output(output) as folder:
            folder.write(f"maps/{maps.target}.atlas", maps.atlas.to_bytes())
        found[maps.target] = maps.report()
        if not json:
            number = len(maps.atlas)
            print_line(f"{maps.target}: {number:,} map{'s' * (number != 1)} by {maps.calibrator}")
    if json:
        print_json({"targets": found})


_LOGS: Final = (
    "Folder, or URL of an object store, with the folders clicks, conversions and, where there are"
    " any, behaviours, of files of Parquet."
)
_ClickLake = Annotated[str, typer.Argument(metavar="SOURCE", help=_LOGS, show_default=False)]
_KNOWN = "What is known then: RFC 3339, or seconds since 1970."
_NEWEST = "the end of the newest hour of the logs"
_AsOf = Annotated[str | None, options.flag("--as-of", _KNOWN, _NEWEST, metavar="TIME")]
_DelayedTarget = Annotated[
    str | None,
    typer.Option("--target", help="A delayed target.", show_default="the first of the settings"),
]
_event = partial(options.option, rich_help_panel="Columns of the logs")


@dataclass(frozen=True, slots=True)
class ClickEventOptions:
    """The columns of logs of clicks, behaviours and conversions; features are `feature.*`."""

    click_id: str = _event("click_id", "Id of the click, in all three.")
    time: str = _event("time", "Timestamp or seconds since 1970, in all three.")
    campaign: str = _event("campaign", "Campaign of a click.")
    score: str = _event("score", "Raw probability of a click, in [0, 1].")
    behaviour_name: str = _event("name", "Name of a behaviour.")
    value: str = _event("value", "Value of a behaviour.")
    target_column: str = _event("target", "Target of a conversion, where the log has several.")


def _delayed_job(
    source: str,
    moment: str | None,
    target: str | None,
    fields: tuple[str, ...],
    settings: "Settings",
    run: RunOptions,
    columns: ClickEventOptions,
    reading: options.ReadingOptions,
) -> "DelayedJob":
    """The job of a lake, whose files are looked at."""
    from app.datasets.click_events import ClickEventColumns
    from app.datasets.parts import refuse_inside
    from app.lake.clicks import ClickLake
    from app.lake.labels import DelayedJob

    chosen = next(iter(settings.delayed_targets), None) if target is None else target
    if chosen not in settings.delayed_targets:
        raise CommandError(
            f"--target {chosen}: must be a delayed target; SIROCCO_DELAYED_TARGETS has"
            f" {', '.join(settings.delayed_targets) or 'none'}"
        )
    refuse_inside([source], {"--output": run.place})
    named = asdict(columns)
    named |= {"name": named.pop("behaviour_name"), "target": named.pop("target_column")}
    log = ClickEventColumns(**named, fields=fields)
    post_click = settings.post_click_seconds
    lake_of_clicks = ClickLake(source, chosen, log, reading.reading(), post_click)
    as_of = lake_of_clicks.known_until if moment is None else options.moment(moment, "--as-of")
    return DelayedJob(lake_of_clicks, settings, as_of, run.place)


@lake.command("train")
@options.grouped
def _train(
    source: _ClickLake,
    as_of: _AsOf = None,
    target: _DelayedTarget = None,
    *,
    run: RunOptions,
    pods: PodSettings,
    columns: ClickEventOptions,
    reading: options.ReadingOptions,
) -> None:
    """Train the post-click model of a delayed target, and learn how late conversions come.

    Writes models/<target>.json into --output, which `sirocco lake labels` reads.
    It is what a worker would learn from the same clicks with the same settings,
    such as SIROCCO_ATTRIBUTION_HOURS and SIROCCO_TRAINING_DAYS.

    [bold]Examples[/bold]

      sirocco lake train clicks/ --output lake/ --processes 8
      sirocco lake train clicks/ --output lake/ --as-of 2026-03-01T00:00:00Z
    """
    runner = LakeRun(run, pods)
    if runner.is_written({}):
        return
    from app.cli.serving.settings import settings_with
    from app.lake.labels import kept_training, training_digest

    job = _delayed_job(source, as_of, target, (), settings_with({}), run, columns, reading)
    hours = job.training_hours()
    counts = runner.made(hours.all, f"joining {len(hours.all)} hours")
    if counts is None:
        return
    task = job.training(hours)
    runner.made([task], "training")
    trained = kept_training(task)
    digest = training_digest(trained)
    found = {**counts, "target": trained.target, "as_of": trained.as_of, "source": trained.source}
    found |= {"digest": digest, "report": trained.report["training"]}
    found["cpu_seconds"] = round(runner.cpu_seconds, 3)
    clicks = trained.report["training"]["clicks"]
    line = f"{trained.target}: {trained.source} of {clicks:,} clicks; digest {digest}"
    runner.show(found, line)


@lake.command("labels")
@options.grouped
def _labels(
    source: _ClickLake,
    as_of: _AsOf = None,
    target: _DelayedTarget = None,
    hours: Annotated[
        int | None,
        typer.Option(min=1, help="Hours of clicks.", show_default="those that a refit looks at"),
    ] = None,
    fields: Annotated[
        str | None, typer.Option(help="Columns of fields of clicks.", show_default="none")
    ] = None,
    *,
    run: RunOptions,
    pods: PodSettings,
    fit: options.FitOptions,
    columns: ClickEventOptions,
    reading: options.ReadingOptions,
) -> None:
    """Put clicks of a delayed target into bins, with the conversions each is expected to bring.

    Writes labels-<target>.parquet into --output: bins for `sirocco lake maps`,
    which are those that a worker would refit from as of that moment.

    [bold]Examples[/bold]

      sirocco lake labels clicks/ --output lake/ --processes 8
      sirocco lake maps lake/labels-conversion.parquet --output lake/
    """
    runner = LakeRun(run, pods)
    if runner.is_written({}):
        return
    from app.cli.serving.settings import settings_with
    from app.datasets.bin_tables import fields_of_table
    from app.lake.bins import MergedBins
    from app.lake.labels import ModelFile
    from app.worker.fitting import Fitting, Methods

    settings, names = settings_with(asdict(fit)), fields_of_table(options.names(fields))
    job = _delayed_job(source, as_of, target, names, settings, run, columns, reading)
    chosen = job.lake.target
    number = hours or max(
        settings.window_hours, Fitting(settings, Methods(settings)).hours(chosen, {})
    )
    model, joined = ModelFile.of(run.place, chosen), job.label_hours(number)
    counts = runner.made(joined.all, f"joining {len(joined.all)} hours")
    if counts is None:
        return
    tasks = job.labels(joined, number, model, names)
    runner.made(tasks, f"labelling {number} hours of {chosen}")
    merged = MergedBins(run.place, [task.result for task in tasks], names)
    digest = merged.write(f"labels-{chosen}.parquet")
    found = {**counts, "target": chosen, "as_of": job.as_of, "hours": number, "digest": digest}
    found |= {"rows": runner.rows, "cpu_seconds": round(runner.cpu_seconds, 3)}
    runner.show(found, f"{number} hours of {chosen} labelled; digest {digest}")
