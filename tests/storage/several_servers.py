"""Real clusters and Sentinels: processes of redis-server on loopback, to be killed and frozen; with
a file that `certificate` made they speak TLS alone, and ask clients for it, too."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from app.storage.errors import StorageUnavailable
from tests.reserved_ports import reserved_port

NODE_TIMEOUT = 1000
"""Milliseconds after which a silent node is taken for dead."""
MASTERS = 3
_PATIENCE = 240.0


def until(condition: Callable[[], object], what: str) -> None:
    """Waits until it is so; a server that does not answer yet is no failure."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with suppress(RedisError, OSError, StorageUnavailable):
            if condition():
                return
        time.sleep(0.02)
    raise AssertionError(f"waited in vain until {what}")


def certificate(pem: Path) -> Path:
    """Writes a key and its certificate, which is its own authority, for this machine."""
    if shutil.which("openssl") is None:
        pytest.skip("install openssl")
    key = pem.with_suffix(".key")
    names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    made = ("-keyout", key, "-out", pem, "-subj", "/CN=sirocco", "-addext", names)
    subprocess.run(["openssl", "req", "-x509", *kind, *made], check=True, capture_output=True)
    pem.write_bytes(pem.read_bytes() + key.read_bytes())
    return pem


def query_of(pem: Path | None) -> str:
    """What an address says of TLS."""
    return f"?ssl_ca_certs={pem}&ssl_certfile={pem}" if pem else ""


class Node:
    """One server: start it as often as it was killed."""

    def __init__(self, folder: Path, *options: str, pem: Path | None = None) -> None:
        self.port = reserved_port()
        tls = {"ssl": True, "ssl_ca_certs": pem, "ssl_certfile": pem} if pem else {}
        self.client = redis.Redis(port=self.port, socket_timeout=5, **tls)
        self._ports = ("--port", str(self.port))
        if pem:
            self._ports = ("--port", "0", "--tls-port", str(self.port))
            for name in ("cert", "key", "ca-cert"):
                self._ports += (f"--tls-{name}-file", str(pem))
            self._ports += ("--tls-replication", "yes", "--tls-cluster", "yes")
        self._folder = folder / str(self.port)
        self._folder.mkdir()
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            pytest.skip("no redis-server on PATH")
        common = (*self._ports, "--bind", "127.0.0.1", "--dir", str(self._folder))
        command = [binary, *self._options, *common, "--logfile", "log"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, process_group=0)

    def kill(self) -> None:
        """With the child that rewrites its file, which would write on after its death."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        self.client.close()


class Cluster:
    """Three masters, each with a replica behind it in `nodes`."""

    def __init__(self, nodes: list[Node], pem: Path | None) -> None:
        self.nodes = nodes
        hosts = ",".join(node.address for node in nodes[:MASTERS])
        self.url = f"redis{'s' if pem else ''}+cluster://{hosts}{query_of(pem)}"

    def master_of(self, key: str) -> Node:
        """Who serves a key now, as all who live agree."""
        slot = key_slot(key.encode())
        for node in self.nodes:
            with suppress(RedisError, OSError):
                for first, last, master, *_ in node.client.execute_command("CLUSTER", "SLOTS"):
                    if first <= slot <= last:
                        return next(one for one in self.nodes if one.port == master[1])
        raise AssertionError("nobody knows the slots")

    def replica_of(self, master: Node) -> Node:
        """Who follows it."""
        followers = (node for node in self.nodes if _followed_by(node) == master.port)
        return next(followers)

    def wait_until_whole(self) -> None:
        """Each node that runs sees all slots served, and each master has its replica."""
        for node in self.nodes:
            until(lambda node=node: _is_whole(node), f"{node.address} sees the whole cluster")

    def flush(self) -> None:
        for node in self.nodes:
            if node.client.info("replication")["role"] == "master":
                node.client.flushall()


def _followed_by(node: Node) -> int | None:
    replication = node.client.info("replication")
    return replication["master_port"] if replication["role"] == "slave" else None


def _is_whole(node: Node) -> bool:
    info = node.client.execute_command("CLUSTER", "INFO").decode()
    replication = node.client.info("replication")
    linked = replication.get("master_link_status") == "up"
    followed = (replication["role"] == "slave" and linked) or replication["connected_slaves"] >= 1
    return "cluster_state:ok" in info and "cluster_slots_ok:16384" in info and followed


def _folder(name: str) -> "TemporaryDirectory[str]":
    """A child that was killed may write its last file while the folder is emptied."""
    return TemporaryDirectory(prefix=f"sirocco-{name}-", ignore_cleanup_errors=True)


@contextmanager
def cluster(pem: Path | None = None) -> Iterator[Cluster]:
    """A cluster of its own."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(_folder("cluster")))
        nodes, ports = [], [reserved_port() for _ in range(2 * MASTERS)]
        for port in ports:
            options = {
                "cluster-enabled": "yes",
                "cluster-port": str(port),
                "cluster-node-timeout": str(NODE_TIMEOUT),
                "cluster-replica-validity-factor": "0",
                "appendonly": "yes",
                "save": "",
                "repl-diskless-sync-delay": "0",
            }
            words = [word for name, value in options.items() for word in (f"--{name}", value)]
            nodes.append(Node(folder, *words, pem=pem))
            opened.callback(nodes[-1].stop)
            nodes[-1].start()
        _join(nodes, ports)
        made = Cluster(nodes, pem)
        made.wait_until_whole()
        yield made


def _join(nodes: list[Node], ports: list[int]) -> None:
    for node in nodes:
        until(node.client.ping, f"{node.address} answers")
    share = 16384 // MASTERS + 1
    for place, node in enumerate(nodes[:MASTERS]):
        first, last = place * share, min((place + 1) * share, 16384) - 1
        node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
    for node, port in zip(nodes[1:], ports[1:], strict=True):
        nodes[0].client.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, port)
    for node in nodes:
        until(lambda node=node: len(_known(node)) == len(nodes), f"{node.address} knows all")
    for master, replica in zip(nodes[:MASTERS], nodes[MASTERS:], strict=True):
        name = master.client.execute_command("CLUSTER", "MYID")
        until(lambda name=name, replica=replica: name in _known(replica), "they know each other")
        replica.client.execute_command("CLUSTER", "REPLICATE", name)


def _known(node: Node) -> list[bytes]:
    lines = node.client.execute_command("CLUSTER", "NODES")
    text = lines if isinstance(lines, bytes) else str(lines).encode()
    return [line.split()[0] for line in text.splitlines() if b"handshake" not in line]


def move_slot(source: Node, target: Node, slot: int, meanwhile: Callable[[], None]) -> None:
    """Give a slot away, key by key, as redis-cli --cluster reshard does."""
    ids = [node.client.execute_command("CLUSTER", "MYID").decode() for node in (source, target)]
    target.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    while keys := source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 2):
        source.client.execute_command(
            "MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys
        )
        meanwhile()
    for node in (target, source):
        node.client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[1])


class Watched:
    """A master and its replica, and three Sentinels that watch them."""

    def __init__(
        self, master: Node, replica: Node, sentinels: list[Node], pem: Path | None
    ) -> None:
        self.master = master
        self.replica = replica
        hosts = ",".join(node.address for node in sentinels)
        self.url = f"redis{'s' if pem else ''}+sentinel://{hosts}/orders{query_of(pem)}"
        self.sentinels = sentinels


@contextmanager
def watched(pem: Path | None = None) -> Iterator[Watched]:
    """Of its own."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(_folder("sentinel")))

        def started(*options: str) -> Node:
            node = Node(folder, *options, pem=pem)
            opened.callback(node.stop)
            node.start()
            until(node.client.ping, f"{node.address} answers")
            return node

        common = ("--appendonly", "yes", "--save", "", "--repl-diskless-sync-delay", "0")
        master = started(*common)
        replica = started(*common, "--replicaof", f"127.0.0.1 {master.port}")
        until(lambda: master.client.info("replication")["connected_slaves"], "it has a replica")
        sentinels = []
        for number in range(3):
            file = folder / f"sentinel-{number}.conf"
            file.write_text(
                f"sentinel monitor orders 127.0.0.1 {master.port} 2\n"
                f"sentinel down-after-milliseconds orders {NODE_TIMEOUT}\n"
                "sentinel failover-timeout orders 3000\n"
            )
            sentinels.append(started(str(file), "--sentinel"))
        for node in sentinels:
            until(lambda node=node: _sees_all(node), "the Sentinels know each other")
        yield Watched(master, replica, sentinels, pem)


def _sees_all(sentinel: Node) -> bool:
    found = sentinel.client.execute_command("SENTINEL", "MASTER", "orders")
    said = dict(zip(found[::2], found[1::2], strict=True)) if isinstance(found, list) else found
    said = {k.decode() if isinstance(k, bytes) else k: v for k, v in said.items()}
    return int(said["num-slaves"]) == 1 and int(said["num-other-sentinels"]) == 2
