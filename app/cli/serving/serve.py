"""`sirocco serve` with one process, or a parent and N that accept from its one socket."""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from socket import socket
from typing import Any, NamedTuple

from app.access.audit import appending
from app.access.key_watch import PublicAddressRefused, refuse_public_address
from app.api.metrics.counters import LayoutsDiffer
from app.api.metrics.workers import WorkerSlot, WorkerTable, new_file
from app.cli.console import note
from app.cli.serving.processes import STOP_SECONDS, Child, Supervision
from app.cli.serving.settings import environment_of, listener, settings_with
from app.cli.serving.store import embedded_store, external_store, opened_store
from app.cli.signals import Reload, reloaded_by_sighup
from app.errors import FAILED, CommandError
from app.log_lines import log_to_stderr
from app.settings import BadConfiguration, Settings, variable_of

_log = logging.getLogger(__name__)


def run_api(given: Mapping[str, Any], as_worker: str | None) -> None:
    """Serve until Ctrl-C or SIGTERM with the settings that were given, in one process or, for more
    `workers`, as the parent of several; `as_worker` is what such a parent passes on."""
    settings = settings_with(given)
    log_to_stderr(settings)
    _require_folder("snapshot_dir" if settings.snapshot_dir else "data_dir", settings.last_good_dir)
    _require_audit_file(settings.audit_log)
    with _ended_in_order():
        if as_worker is not None:
            _serve_as_worker(settings, *map(int, as_worker.split(",")))
        elif settings.workers > 1:
            serve_workers(settings, given)
        else:
            _serve_alone(settings)


def run_worker_process(given: Mapping[str, Any], *, adopt_click_log: bool) -> None:
    """Work until Ctrl-C or SIGTERM with the settings that were given."""
    from app.worker.loop import run_worker

    settings = settings_with(given)
    log_to_stderr(settings)
    if settings.delayed_targets:
        _require_folder("data_dir", settings.data_dir)
    with _ended_in_order(), opened_store(settings) as store_url:
        run_worker(settings, store_url, adopt_click_log=adopt_click_log)


def _require_folder(field: str, folder: Path | None) -> None:
    """CommandError where it cannot be made: without it nobody's key may be known."""
    if folder is None:
        return
    found = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not (found.is_dir() and os.access(found, os.W_OK | os.X_OK)):
        raise CommandError(f"{variable_of(field)}: {found} is no folder that can be written")


def _require_audit_file(path: Path | None) -> None:
    """CommandError where it cannot be written: else the first change would be refused."""
    try:
        if path is not None:
            appending(path).close()
    except OSError as error:
        advice = ": make its folder first" * isinstance(error, FileNotFoundError)
        told = f"{variable_of('audit_log')} = {path}: {error.strerror}{advice}"
        raise CommandError(told) from None


def _serve_alone(settings: Settings) -> None:
    from app.api.server.server import run_server

    told = "SIGHUP replaces no process that is alone: its port would close"
    with reloaded_by_sighup(lambda: _log.warning(told)), _listening_for_admins(settings) as admin:
        # Said before everything is loaded: uvicorn, which listens by itself, says it after.
        with _listening(settings, settings.port):
            pass
        with opened_store(settings) as store_url:
            run_server(settings, store_url, admin)


def _serve_as_worker(
    settings: Settings, listening: int, file: int, rows: int, row: int, admin: int | None = None
) -> None:
    from app.api.server.server import run_server

    place = WorkerSlot.shared(file, rows, row)
    try:
        with (
            socket(fileno=listening) as listener,
            nullcontext() if admin is None else socket(fileno=admin) as for_admins,
        ):
            run_server(settings, settings.redis_url or "", for_admins, place, listener)
    except LayoutsDiffer as error:
        raise CommandError(str(error), FAILED) from None


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the command well, once everything has been answered."""
    try:
        yield
    except (BadConfiguration, PublicAddressRefused) as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        return


# As each worker asks for again when it begins to accept.
_BACKLOG = 2048
_READY_SECONDS = 60.0
# Whoever waits for the parent waits longer than the parent for its children.
_WORKER_SECONDS = STOP_SECONDS + 5.0
_PARENT_SECONDS = STOP_SECONDS + 10.0


class ApiWorker(NamedTuple):
    """A process and the row of counts that is its own."""

    child: Child
    row: int


class ApiWorkers:
    """Some processes in as many rows and a spare one.

    A successor starts in the row that no one writes, before its predecessor ends: two processes
    that add to one number would lose counts.
    """

    def __init__(
        self,
        supervision: Supervision,
        number: int,
        listening: socket,
        environment: Mapping[str, str],
        admin: socket | None = None,
    ) -> None:
        self._supervision = supervision
        self._listening = [listening] if admin is None else [listening, admin]
        self._environment = environment
        self._file = new_file(number + 1)
        self._records = WorkerTable.shared(self._file, number + 1)
        self._workers = [self._worker(row) for row in range(number)]
        self._spare = number
        for worker in self._workers:
            supervision.add(worker.child)

    def look(self) -> None:
        """Start again what has died, and forget what it last said."""
        self._supervision.look()
        for child, row in self._workers:
            if child.exit_code is not None:
                self._records.clear(row)

    def replace_all(self) -> None:
        """One after the other: start a successor, wait until it serves, end the old one.

        A successor that does not come to serve ends the attempt: what runs goes on.
        """
        for place, old in enumerate(self._workers):
            new = self._successor()
            if new is None:
                return
            self._workers[place] = new
            self._supervision.replace(old.child, new.child)
            self._end(old)
            self._spare = old.row
        note("every API worker has been replaced")

    def drain(self, seconds: float) -> None:
        """Say that the end is near, and go on for so long."""
        self._records.drain()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()

    def end(self) -> None:
        """No connection any more; all workers finish what they have begun, at the same time."""
        for listening in self._listening:
            listening.close()
        os.close(self._file)
        for worker in self._workers:
            worker.child.ask_to_end()

    def _worker(self, row: int) -> ApiWorker:
        listening, *admin = (each.fileno() for each in self._listening)
        inherited = (listening, self._file, *admin)
        given = ",".join(map(str, (listening, self._file, self._records.rows, row, *admin)))
        command = ("serve", "--as-worker", given)
        name = f"API worker {row}"
        child = Child(
            name, command, self._environment, inherited=inherited, stop_seconds=_WORKER_SECONDS
        )
        return ApiWorker(child, row)

    def _successor(self) -> ApiWorker | None:
        new = self._worker(self._spare)
        new.child.start()
        try:
            if self._comes_to_serve(new):
                return new
        except BaseException:
            new.child.stop()
            raise
        note(f"the new {new.child.name} does not come to serve: the old ones go on")
        self._end(new)
        return None

    def _comes_to_serve(self, new: ApiWorker) -> bool:
        end = time.monotonic() + _READY_SECONDS
        while new.child.exit_code is None and time.monotonic() < end:
            record = self._records.read(new.row)
            if record is not None and record.serving and record.process == new.child.process_id:
                return True
            self.look()
        return False

    def _end(self, worker: ApiWorker) -> None:
        """The others are looked after while it finishes what it has begun."""
        worker.child.ask_to_end()
        end = time.monotonic() + _WORKER_SECONDS
        try:
            while worker.child.exit_code is None and time.monotonic() < end:
                self.look()
        finally:
            worker.child.stop()
            self._records.clear(worker.row)


def serve_workers(settings: Settings, options: Mapping[str, Any]) -> None:
    """Serve with `settings.workers` processes until Ctrl-C or SIGTERM; SIGHUP replaces them.

    `options` are the fields of `settings` that did not come from the environment. Raises
    PublicAddressRefused before anybody is answered.
    """
    reload = Reload()
    with (
        reloaded_by_sighup(reload.request),
        _listening(settings, settings.port) as listening,
        _listening_for_admins(settings) as admin,
        Supervision() as supervision,
    ):
        store_url = external_store(settings) or embedded_store(settings, supervision).url
        refuse_public_address(settings, store_url)
        environment = environment_of({**options, "redis_url": store_url})
        workers = ApiWorkers(supervision, settings.workers, listening, environment, admin)
        try:
            reload.watch(workers.look, workers.replace_all)
        except KeyboardInterrupt:
            workers.drain(settings.drain_seconds)
        finally:
            workers.end()


def seconds_to_end(settings: Settings) -> float:
    """How long `sirocco serve` may take from SIGTERM to its end."""
    return settings.drain_seconds + _PARENT_SECONDS


@contextmanager
def _listening(settings: Settings, port: int) -> Iterator[socket]:
    try:
        listening = listener(settings.host, port, _BACKLOG)
    except OSError as error:
        raise CommandError(
            f"cannot listen on port {port} of {settings.host}: {error.strerror}", FAILED
        ) from None
    with listening:
        yield listening


@contextmanager
def _listening_for_admins(settings: Settings) -> Iterator[socket | None]:
    """The listener of the admin routes, if they have a port of their own."""
    if not settings.admin_port:
        yield None
        return
    with _listening(settings, settings.admin_port) as listening:
        yield listening
