"""`sirocco bins`: bins that any engine has summed, put into a running service."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

import orjson
import typer

from app.cli import options
from app.cli.console import note, print_json, print_line
from app.cli.operate import service_at
from app.errors import CommandError

if TYPE_CHECKING:
    from app.cli.serving.client import ServiceClient
    from app.datasets.bin_tables import TargetBins

bins = typer.Typer(no_args_is_help=True)

_LARGEST: Final = 4 * 1024 * 1024
"""Bytes of a request at most: half of what a service takes unless told otherwise."""


@bins.callback()
def _about_bins() -> None:
    """Put bins that any engine has summed into a running service.

    The table has the columns hour, target, campaign, cell, count, score_sum and
    positives, and one for each field; docs/lake.md has the SQL that makes it.

    [bold]Examples[/bold]

      sirocco bins load lake/bins.parquet
      sirocco bins load 'sums/2026-03-*.csv' --source warehouse --fields device
    """


@bins.command("load")
def _load(
    tables: Annotated[list[str], options.log_argument("Tables of bins", "FILE...")],
    source: Annotated[str, typer.Option(help="Who has summed them.")] = "bins",
    partition: Annotated[
        str | None,
        typer.Option(help="What they are of, where it is one file.", show_default="its name"),
    ] = None,
    fields: Annotated[
        str | None, typer.Option(help="Columns of fields.", show_default="none")
    ] = None,
    url: options.RunningUrl = options.LOCAL_URL,
    api_key: options.ApiKeyOption = None,
    json: options.Json = False,
) -> None:
    """Add bins to the history of a running service, each hour of a source and partition once.

    A repeat adds nothing. Other bins of the same hour, source and partition are refused.
    """
    from app.datasets.bin_tables import fields_of_table, read_bins
    from app.datasets.parts import name_of, parts_of

    names = fields_of_table(options.names(fields))
    parts = [(part, table) for table in tables for part in parts_of(table)]
    if partition is not None and len(parts) > 1:
        raise CommandError(f"--partition names one file, and there are {len(parts)}")
    # However the folder was named, its files are what they were.
    called = [
        partition or part.name.removeprefix(f"{name_of(os.path.abspath(table))}/")
        for part, table in parts
    ]
    for name, files in Counter(called).items():
        if files > 1:
            raise CommandError(f"{files} files are called {name}: load each with its --partition")
    counts: Counter[str] = Counter()
    with service_at(url, api_key) as client:
        for (part, _), name in zip(parts, called, strict=True):
            found = read_bins(part.url, names)
            counts.update(loaded_bins(client, found, (source, name), shown_if=not json))
    if json:
        print_json(counts)
        return
    print_line(load_summary(counts))


def load_summary(counts: Mapping[str, int]) -> str:
    """What came of hours that were loaded."""
    loaded, there, old = (counts.get(name, 0) for name in ("loaded", "duplicates", "too_old"))
    told = f"{loaded:,} hours loaded, {there:,} were there already"
    return f"{told}, {old:,} are older than what is kept"


def loaded_bins(
    client: "ServiceClient", hours: Iterable["TargetBins"], name: tuple[str, str], *, shown_if: bool
) -> dict[str, int]:
    """Send bins in requests of a few megabytes; what the service has made of them."""
    counts: Counter[str] = Counter()
    for part, rows in _requests(hours):
        source, partition = name
        counts.update(client.load_bins(source, f"{partition}#{part}" if part else partition, rows))
        if shown_if:
            note(f"{partition}: {counts['rows']:,} rows sent")
    return dict(counts)


def _requests(hours: Iterable["TargetBins"]) -> Iterator[tuple[int, bytes]]:
    """Lines of whole hours; of an hour that is too long for one request, part after part."""
    waiting: list[bytes] = []
    for found in hours:
        first, *others = _pieces(found)
        if sum(map(len, waiting)) + len(first) > _LARGEST:
            yield 0, b"\n".join(waiting)
            waiting = []
        waiting.append(first)
        yield from enumerate(others, 1)
    if waiting:
        yield 0, b"\n".join(waiting)


def _pieces(found: "TargetBins") -> list[bytes]:
    """The rows of an hour as lines of JSON, cut where they are too long for a request."""
    pieces: list[list[bytes]] = [[]]
    size = 0
    for row in found.as_json():
        line = orjson.dumps(row)
        if size + len(line) > _LARGEST:
            pieces.append([])
            size = 0
        pieces[-1].append(line)
        size += len(line) + 1
    return [b"\n".join(lines) for lines in pieces]
