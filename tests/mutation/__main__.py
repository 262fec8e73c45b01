"""Do the tests find realistic faults? Each of `mutants` in a scratch copy of HEAD, one at a time.

python -m tests.mutation [--only NAME] [--jobs 2] [--timeout 180] [--json] [--check]

What is not committed is not looked at. The tests that found something run once more without any
mutant, and have to pass. A survivor is no error; a mutant that cannot be made is one.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO
from uuid import uuid4

from tests.mutation.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
NO_PRODUCT = ("tests/", "benchmarks/", "research/")
KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
REFUSED, SUITABLE = "refused", "suitable"
_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "without_shrinking")
_WITHOUT_SHRINKING = """\
from hypothesis import Phase, settings

settings.register_profile("mutation", phases=(Phase.explicit, Phase.generate), derandomize=True)
settings.load_profile("mutation")
"""
_PASSED, _FAILED, _NOT_COLLECTED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant; `by` is the first test that failed, or why it was refused."""

    name: str
    verdict: str
    seconds: float
    by: str = ""


class Unsuitable(Exception):
    """The mutant cannot be made or cannot be tested; says why."""


class Copy:
    """A scratch copy of HEAD, and the tests that run in it."""

    def __init__(self, root: Path, timeout: float) -> None:
        self._root, self._timeout = root, timeout
        self._running: dict[str, subprocess.Popen[str]] = {}
        # That a test fails is enough, and no run may learn from the one before.
        (root / "without_shrinking.py").write_text(_WITHOUT_SHRINKING, encoding="utf-8")
        self._texts = {path: path.read_text(encoding="utf-8") for path in product(root)}

    def place(self, mutant: Mutant) -> Path:
        """The one file that holds the old lines."""
        counts = {path: text.count(mutant.old) for path, text in self._texts.items()}
        holding = [path for path, count in counts.items() if count]
        if (found := sum(counts.values())) != 1:
            names = ", ".join(str(path.relative_to(self._root)) for path in holding)
            raise Unsuitable(f"its old lines stand {found} times in the product: {names or '-'}")
        return holding[0]

    def tests(self, mutant: Mutant) -> list[str]:
        """Its test files."""
        files: dict[str, None] = {}
        for pattern in mutant.tests.split():
            found = sorted((self._root / "tests").glob(pattern))
            if not found:
                raise Unsuitable(f"no file is tests/{pattern}")
            files |= dict.fromkeys(str(path.relative_to(self._root)) for path in found)
        return list(files)

    def check_imports(self) -> None:
        """Raises Unsuitable unless Python and the command take the product from the copy."""
        names = "app, calibrators, evaluation, pccem, sirocco_client"
        # As in a console script, nothing of the current folder is on the path.
        code = f"import sys; sys.path.pop(0); import {names}; print(*({names}), sep='\\n')"
        _, output = self._ended(("-c", code), self._timeout)
        lines = output.splitlines()
        if len(lines) != len(names.split()) or not all(str(self._root) in one for one in lines):
            raise Unsuitable(f"the product is not imported from the copy: {output}")

    def failing(self, tests: Iterable[str], jobs: int) -> set[str]:
        """Those of the test functions that fail without any mutant."""
        code, output = self._ended((*_PYTEST, "-n", str(jobs), *tests), 10 * self._timeout)
        if code not in (_PASSED, _FAILED):
            raise Unsuitable(f"pytest ended with {code} without a mutant: {output[-300:]}")
        return {_function(test) for test in _failures(output)}

    def check(self, mutant: Mutant) -> Result:
        """Whether the mutant can be made and has tests."""
        try:
            self.place(mutant), self.tests(mutant)
        except Unsuitable as reason:
            return Result(mutant.name, REFUSED, 0.0, str(reason))
        return Result(mutant.name, SUITABLE, 0.0)

    def judge(self, mutant: Mutant) -> Result:
        """Make the mutant, run its tests up to the first that fails, and undo it."""
        began = time.monotonic()
        try:
            place, tests = self.place(mutant), self.tests(mutant)
            self._write(place, self._texts[place].replace(mutant.old, mutant.new))
            try:
                verdict, by = self._judged(tests)
            finally:
                self._write(place, self._texts[place])
        except Unsuitable as reason:
            verdict, by = REFUSED, str(reason)
        return Result(mutant.name, verdict, round(time.monotonic() - began, 1), by)

    def _judged(self, tests: Sequence[str]) -> tuple[str, str]:
        code, output = self._ended((*_PYTEST, "-x", *tests), self._timeout)
        if code is None:
            return TIMED_OUT, ""
        if code == _PASSED:
            return SURVIVED, ""
        failures = _failures(output)
        if code not in (_FAILED, _NOT_COLLECTED) or not failures:
            raise Unsuitable(f"pytest ended with {code}: {output[-300:]}")
        return KILLED, failures[0]

    def _ended(self, arguments: Sequence[str], timeout: float) -> tuple[int | None, str]:
        """Python's exit code, None if it took too long, and what it wrote."""
        mark = f"SIROCCO_MUTATION_RUN={uuid4().hex}"
        process = subprocess.Popen(
            (sys.executable, *arguments),
            cwd=self._root,
            env={**os.environ, **_environment(self._root), **dict([mark.split("=")])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._running[mark] = process
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            self._end(mark)

    def end_all(self) -> None:
        """End what still runs here."""
        for mark in list(self._running):
            self._end(mark)

    def _end(self, mark: str) -> None:
        process = self._running.pop(mark, None)
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pid in _marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        # Two versions of one size in one second look the same to Python's cache.
        Path(cache_from_source(path)).unlink(missing_ok=True)


def product(root: Path) -> list[Path]:
    """The files that mutants are made of."""
    listed = _git("ls-files", "*.py", "*.lua", folder=root).split()
    return [root / path for path in listed if not path.startswith(NO_PRODUCT)]


def _environment(root: Path) -> dict[str, str]:
    # Before the finder of an editable install, in every child too.
    return {"PYTHONPATH": os.pathsep.join((str(root), str(root / "clients/python")))}


def _marked(mark: str) -> Iterator[int]:
    """Processes that have left the session, by their environment; on Linux only."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes():
                yield int(path.parent.name)


def _failures(output: str) -> list[str]:
    # Above the summary stand captured logs, whose errors look the same.
    summary = output.rpartition("short test summary info")[2]
    lines = (line.partition(" ") for line in summary.splitlines())
    return [rest.partition(" - ")[0] for first, _, rest in lines if first in ("FAILED", "ERROR")]


def _function(test: str) -> str:
    """The test without its parameters, which may hold anything."""
    return test.partition("[")[0]


def _git(*arguments: str, folder: Path = ROOT) -> str:
    command = ("git", "-C", str(folder), *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def _copy(timeout: float) -> Iterator[Copy]:
    with tempfile.TemporaryDirectory(prefix="sirocco-mutation-") as folder:
        root = Path(folder).resolve() / "copy"
        _git("worktree", "add", "--detach", "--quiet", str(root), "HEAD")
        copy = Copy(root, timeout)
        try:
            yield copy
        finally:
            copy.end_all()
            _git("worktree", "remove", "--force", str(root))


def _results(mutants: Sequence[Mutant], copies: Sequence[Copy]) -> Iterator[Result]:
    """As they come, one mutant at a time in each copy."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def judged(mutant: Mutant) -> Result:
        copy = free.get()
        try:
            return copy.judge(mutant)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        try:
            yield from (
                each.result() for each in as_completed(pool.submit(judged, one) for one in mutants)
            )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.end_all()
            raise


def _confirmed(results: Sequence[Result], copy: Copy, jobs: int) -> Iterator[Result]:
    """The same, but refused where the test that failed does so without the mutant too."""
    tests = sorted({_function(each.by) for each in results if each.verdict == KILLED})
    failing = copy.failing(tests, jobs) if tests else set()
    for each in results:
        if each.verdict == KILLED and _function(each.by) in failing:
            yield replace(each, verdict=REFUSED, by=f"fails without the mutant too: {each.by}")
        else:
            yield each


def _summary(results: Sequence[Result], seconds: float) -> str:
    counts = Counter(result.verdict for result in results)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in sorted(counts))
    return f"{len(results)} mutants in {seconds:.0f} s: {told}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.mutation", description=__doc__)
    names = [mutant.name for mutant in MUTANTS]
    parser.add_argument("--only", action="append", metavar="NAME", choices=names)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds of one mutant")
    parser.add_argument("--check", action="store_true", help="run nothing: can they be made?")
    parser.add_argument("--json", action="store_true", help="the results on stdout at the end")
    return parser.parse_args()


def _run(mutants: Sequence[Mutant], given: argparse.Namespace, lines: TextIO) -> list[Result]:
    jobs = min(given.jobs, len(mutants))
    with ExitStack() as opened:
        copies = [opened.enter_context(_copy(given.timeout)) for _ in range(jobs)]
        if given.check:
            return [copies[0].check(mutant) for mutant in mutants]
        copies[0].check_imports()
        results = []
        for each in _results(mutants, copies):
            results.append(each)
            lines.write(f"{each.verdict:9} {each.seconds:6.1f} s  {each.name}  {each.by}\n")
            lines.flush()
        return list(_confirmed(results, copies[0], jobs))


def main() -> int:
    """Judge the mutants; 1 when one of them could not be."""
    given = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    mutants = [one for one in MUTANTS if given.only is None or one.name in given.only]
    lines = sys.stderr if given.json else sys.stdout
    began, commit = time.monotonic(), _git("rev-parse", "HEAD").strip()
    results = sorted(_run(mutants, given, lines), key=lambda each: each.name)
    seconds = time.monotonic() - began
    refused = [each for each in results if each.verdict == REFUSED]
    lines.writelines(f"{each.verdict}: {each.name}: {each.by}\n" for each in refused)
    lines.write(_summary(results, seconds) + "\n")
    if given.json:
        rows = [asdict(each) for each in results]
        json.dump({"commit": commit, "seconds": seconds, "mutants": rows}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
