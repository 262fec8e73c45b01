"""Replays the Dockerfile where there is no container runtime, and runs what comes out of it.

Each stage begins with a root that holds a Python, the C library, a shell and a few tools, as the
base image does. Every step runs in it, by chroot. Then the image's command serves from the root:
read-only, as process 1 of its own, as the image's user, without privileges, on a real Redis with
the configuration of the deployments. It must be ready, healthy, and drain when told to end.

What differs from a real build: the base is made of this machine's Python and libraries; `apt-get`
unpacks packages of this machine's Debian; they and the wheels are fetched beforehand, and the steps
have no network. Nothing is compiled when it is installed: Python's files would take most of the
time, and for look-ups this base has no compiler, so they are done in numpy.

    python deploy/replay_image.py --fetch PARTS
    python deploy/replay_image.py --redis-server redis-server PARTS                (as root, Linux)
"""

import argparse
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

PROJECT = Path(__file__).resolve().parents[1]
TOOLS = ("sh", "install", "mkdir", "chown", "rm", "cp", "apt-get")
PACKAGES = ("libc6", "libgcc-s1", "libstdc++6")
PATIENCE_SECONDS = 180
DRAIN_SECONDS = 2
UNPACK = """#!/bin/sh
[ "$1" = install ] || exit 0
for name; do case $name in -*|install) ;; *) cp -a "/packages/$name/." / || exit 100;; esac; done
"""


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Instruction(NamedTuple):
    """A line of a Dockerfile: its name in capitals, and what follows it."""

    name: str
    rest: str


def instructions(text: str) -> list[Instruction]:
    """The instructions in order, without comments, long lines joined."""
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = (line.partition(" ") for line in joined.splitlines())
    return [Instruction(name.upper(), rest.strip()) for name, _, rest in found]


@dataclass
class Stage:
    """What a stage is after its steps so far."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin"})
    arguments: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    commands: dict[str, list[str]] = field(default_factory=dict)
    volumes: list[str] = field(default_factory=list)

    def filled(self, text: str) -> str:
        """The text with its variables, which must all be known."""
        known = self.arguments | self.environment
        return re.sub(r"\$\{?(\w+)\}?", lambda found: known[found[1]], text)


class Replay:
    """Runs the instructions of a Dockerfile into roots below `folder`."""

    def __init__(self, folder: Path, parts: Path) -> None:
        self._folder = folder
        self._parts = parts
        self._globals: dict[str, str] = {}
        self._stages: dict[str, Stage] = {}
        self.stage = Stage(folder)

    def run(self, steps: list[Instruction]) -> Stage:
        """The last stage, after all steps; those that only inform leave nothing behind."""
        for name, rest in steps:
            say(f"{name} {rest}"[:100])
            getattr(self, f"_{name.lower()}", lambda rest: None)(rest)
        return self.stage

    def _arg(self, rest: str) -> None:
        name, _, default = rest.partition("=")
        known = self._globals if not self._stages else self.stage.arguments
        known[name] = default or self._globals.get(name, "")

    def _from(self, rest: str) -> None:
        name = rest.split()[-1] if " AS " in rest else "last"
        self.stage = self._stages[name] = Stage(self._folder / name)
        make_base(self.stage.root)

    def _workdir(self, rest: str) -> None:
        self.stage.folder = rest
        (self.stage.root / rest[1:]).mkdir(parents=True, exist_ok=True)

    def _env(self, rest: str) -> None:
        pairs = (pair.partition("=") for pair in shlex.split(self.stage.filled(rest)))
        self.stage.environment |= {name: value for name, _, value in pairs}

    def _user(self, rest: str) -> None:
        self.stage.user = rest

    def _volume(self, rest: str) -> None:
        self.stage.volumes += json.loads(rest)

    def _entrypoint(self, rest: str) -> None:
        self.stage.commands["entrypoint"] = json.loads(rest)

    def _cmd(self, rest: str) -> None:
        self.stage.commands["cmd"] = json.loads(rest)

    def _healthcheck(self, rest: str) -> None:
        self.stage.commands["healthcheck"] = json.loads(rest.partition("CMD ")[2])

    def _copy(self, rest: str) -> None:
        options, names = _parted(rest.split())
        *sources, target = names
        into = self.stage.root / PurePath(self.stage.folder, target).relative_to("/")
        if options:
            source = self._stages[options[0].removeprefix("--from=")].root / sources[0][1:]
            shutil.copytree(source, into, symlinks=True)
            return
        for path in context():
            if any(path.is_relative_to(source) for source in sources):
                (into / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / path, into / path)

    def _run(self, rest: str) -> None:
        root = self.stage.root
        for name in packages(rest):
            (root / "packages" / name).mkdir(parents=True)
            (package,) = self._parts.glob(f"{name}_*.deb")
            subprocess.run(["dpkg-deb", "-x", package, root / "packages" / name], check=True)
        _bind(self._parts, root / "wheels")
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels", "PIP_COMPILE": "0"}
        subprocess.run(
            ["unshare", f"--root={root}", f"--wd={self.stage.folder}", "sh", "-ec", rest],
            env=self.stage.environment | offline,
            check=True,
        )
        subprocess.run(["umount", root / "wheels"], check=True)
        (root / "wheels").rmdir()
        shutil.rmtree(root / "packages", ignore_errors=True)


def _parted(words: list[str]) -> tuple[list[str], list[str]]:
    options = [word for word in words if word.startswith("-")]
    return options, [word for word in words if word not in options]


def context() -> Iterator[PurePath]:
    """The files that a build is given, as .dockerignore says: nothing but what it names."""
    first, *rules = (
        line
        for line in (PROJECT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    )
    assert first == "*", "it must begin with nothing"
    never = [rule.removeprefix("**/") for rule in rules if not rule.startswith("!")]
    for rule in rules:
        path = PROJECT / rule.removeprefix("!")
        for file in [path, *path.rglob("*")] if rule.startswith("!") else []:
            relative = file.relative_to(PROJECT)
            if file.is_file() and not any(
                fnmatch(part, name) for part in relative.parts for name in never
            ):
                yield relative


def make_base(root: Path) -> None:
    """What the base image has: Python under /usr/local, the libraries and tools that it needs."""
    for folder in ("usr/local/bin", "usr/bin", "usr/lib", "usr/lib64", "etc", "proc", "dev", "tmp"):
        (root / folder).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    prefix = Path(sys.base_prefix)
    _bind(prefix, root / prefix.relative_to("/"))
    for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        (root / "dev" / name).chmod(0o666)
    for name, program in (("python", "python3"), ("python3", "python3"), ("pip", "pip3")):
        (root / "usr/local/bin" / name).symlink_to(prefix / "bin" / program)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    tools = [Path(str(shutil.which(name))) for name in TOOLS]
    dynamic = [prefix / "bin/python3", *prefix.glob("lib/python3*/lib-dynload/*.so")]
    for path in {*tools, *libraries([*tools, *dynamic]), *of_packages()}:
        copied = root / path.relative_to("/")
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copied)
    (root / "usr/bin/apt-get").write_text(UNPACK)


def libraries(programs: list[Path]) -> set[Path]:
    """The shared libraries of this machine that the programs are linked to."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = {Path(name) for name in re.findall(r"(/\S+) \(0x", said)}
    return {path for path in found if not path.is_relative_to(sys.base_prefix)}


def of_packages() -> set[Path]:
    """The libraries of the packages without which there is no Debian."""
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=True)
    found = map(Path, listed.stdout.splitlines())
    return {path for path in found if ".so" in path.name and path.is_file()}


def packages(step: str) -> list[str]:
    """The Debian packages that a step installs."""
    installed = re.finditer(r"apt-get install ((?:[\w.+-]+ ?)+)", step)
    return [name for found in installed for name in _parted(found[1].split())[1]]


def _bind(source: Path, target: Path, mode: str = "ro") -> None:
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--rbind", source, target], check=True)
    subprocess.run(["mount", "-o", f"remount,{mode},bind", target], check=True)


def fetch(folder: Path) -> None:
    """Have in the folder what the steps install: every wheel of the image's lock, each with the
    hash that stands there, and Debian packages, as this machine's release has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for step in instructions((PROJECT / "Dockerfile").read_text()):
        for name in packages(step.rest):
            subprocess.run(["apt-get", "download", "-q", name], cwd=folder, check=True)
    lock = PROJECT / "requirements-runtime.lock"
    options = ["--require-hashes", "--only-binary", ":all:", "-r", str(lock), "-d", str(folder)]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *options], check=True)


class Container:
    """The image with a read-only root, secrets by file and a volume for its data."""

    def __init__(self, image: Stage, redis_url: str, folder: Path) -> None:
        self._image = image
        self.port = _free_port()
        self._user, self._group = map(int, image.user.split(":"))
        self.key = secrets.token_urlsafe(32)
        given = {"redis.url": redis_url, "admin.key": self.key, "signing.key": self.key}
        for name, secret in given.items():
            file = image.root / "run/secrets" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(secret)
            os.chown(file, 0, self._group)
            file.chmod(0o440)
        _bind(image.root, image.root)
        for volume in image.volumes:
            _bind(_like(image.root / volume[1:], folder / "data"), image.root / volume[1:], "rw")

    @property
    def environment(self) -> Mapping[str, str]:
        """What the deployments set."""
        return self._image.environment | {
            "SIROCCO_PORT": str(self.port),
            "SIROCCO_DRAIN_SECONDS": str(DRAIN_SECONDS),
            "SIROCCO_REDIS_URL_FILE": "/run/secrets/redis.url",
            "SIROCCO_SIGNING_KEY_FILE": "/run/secrets/signing.key",
            "SIROCCO_BOOTSTRAP_ADMIN_KEY_FILE": "/run/secrets/admin.key",
        }

    def start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        """The command as process 1 of its own, as the image's user and nobody else."""
        root = self._image.root
        isolated = ["setpriv", "--no-new-privs", "unshare", "--mount", "--pid", "--fork"]
        inside = ["--mount-proc=/proc", f"--root={root}", f"--wd={self._image.folder}"]
        user = [f"--setgid={self._group}", f"--setuid={self._user}"]
        return subprocess.Popen([*isolated, *inside, *user, *command], env=self.environment)

    def entry(self, *arguments: str) -> list[str]:
        """The image's command, with other arguments if some are given."""
        commands = self._image.commands
        return [*commands["entrypoint"], *(arguments or commands["cmd"])]

    @property
    def healthcheck(self) -> list[str]:
        """The image's own."""
        return self._image.commands["healthcheck"]

    def status(self, path: str) -> tuple[int, str]:
        """What the service answers; 0 while it does not."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urlopen(Request(url, headers={"Authorization": f"Bearer {self.key}"})) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""


def _like(folder: Path, copy: Path) -> Path:
    copy.mkdir()
    shutil.copystat(folder, copy)
    os.chown(copy, folder.stat().st_uid, folder.stat().st_gid)
    return copy


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def await_(condition: Callable[[], bool], what: str) -> None:
    """Returns once it holds; AssertionError after three minutes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within three minutes: {what}"
        time.sleep(0.05)
    say(f"ok: {what}")


def started_redis(binary: str, folder: Path) -> "tuple[subprocess.Popen[bytes], str]":
    """A server with the configuration of the deployments, and its URL."""
    port, password = _free_port(), secrets.token_hex(16)
    (folder / "auth").write_text(f"requirepass {password}\n")
    given = (PROJECT / "deploy/kubernetes/redis.conf").read_text()
    moved = given.replace("/run/secrets/redis.auth", str(folder / "auth"))
    (folder / "redis.conf").write_text(moved.replace("dir /data", f"dir {folder}"))
    options = ["--port", str(port), "--maxmemory", "256mb", "--logfile", str(folder / "log")]
    server = subprocess.Popen([binary, str(folder / "redis.conf"), *options])
    return server, f"redis://:{password}@127.0.0.1:{port}/0"


def _runs(process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, f"it ended with {process.returncode}"
    return True


def _first_process(of: "subprocess.Popen[bytes]") -> int:
    return int(Path(f"/proc/{of.pid}/task/{of.pid}/children").read_text().split()[0])


def check(container: Container) -> None:
    """The API is ready and healthy, the worker works, and both end well when they are told to."""
    api, worker = container.start(container.entry()), container.start(container.entry("worker"))
    try:
        await_(lambda: _runs(api) and container.status("/readyz")[0] == 200, "/readyz answers 200")
        await_(lambda: container.start(container.healthcheck).wait() == 0, "HEALTHCHECK passes")
        alive = ["python", "-m", "app.worker.liveness"]
        await_(lambda: container.start(alive).wait() == 0, "the worker gives signs of life")
        assert container.status("/v1/campaigns")[0] == 200, "the key from the file opens"
        os.kill(_first_process(api), signal.SIGTERM)
        await_(lambda: "draining" in container.status("/readyz")[1], "it drains on SIGTERM")
        os.kill(_first_process(worker), signal.SIGTERM)
        assert api.wait(PATIENCE_SECONDS) == 0, f"serve ended with {api.returncode}"
        assert worker.wait(PATIENCE_SECONDS) == 0, f"worker ended with {worker.returncode}"
    finally:
        for process in (api, worker):
            if process.poll() is None:
                # Its end is that of all the others in its namespace.
                os.kill(_first_process(process), signal.SIGKILL)


def replay(folder: Path, parts: Path, redis_server: str) -> None:
    """The whole of it, in a mount namespace that ends with this process."""
    steps = instructions((PROJECT / "Dockerfile").read_text())
    image = Replay(folder, parts).run(steps)
    server, url = started_redis(redis_server, folder)
    try:
        check(Container(image, url, folder))
    finally:
        server.terminate()
        server.wait()
    say("the image serves")


def main() -> None:
    """Have it replayed by a process that takes its mounts along, and only then clear the folder."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--redis-server", default="redis-server")
    options.add_argument("--fetch", action="store_true", help="only fetch the parts")
    options.add_argument("parts", type=Path, help="folder of wheels and packages")
    options.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.fetch:
        fetch(given.parts)
        return
    if given.inside is not None:
        replay(given.inside, given.parts.resolve(), given.redis_server)
        return
    with TemporaryDirectory(prefix="sirocco-image-") as folder:
        inside = [sys.executable, *sys.argv, "--inside", folder]
        sys.exit(subprocess.run(["unshare", "--mount", *inside], check=False).returncode)


if __name__ == "__main__":
    main()
