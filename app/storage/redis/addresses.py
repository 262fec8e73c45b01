"""Addresses of the store: one server, several that Sentinel watches, or the nodes of a cluster.

    redis://user:password@host:port/db             rediss:// with TLS, unix:// a socket
    redis+sentinel://host:port,host:port/name/db   the master that these Sentinels know by the name
    redis+cluster://host:port,host:port            the cluster that these nodes belong to

User and password are those of the servers. Sentinels get none but `sentinel_username` and
`sentinel_password` of the query; what else may stand there are options of TLS, and of one server
`username`, `password` and `db`. `rediss+sentinel` and `rediss+cluster` use TLS, to Sentinels too.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

SENTINEL, CLUSTER = "sentinel", "cluster"
_PORTS: Final = {SENTINEL: 26379, CLUSTER: 6379}
_OF_SENTINELS: Final = "sentinel_"
_LARGEST_PORT: Final = 65535
_LOGIN: Final = frozenset({"username", "password"})
_ONE_LOGIN: Final = (
    "user and password stand once, before the first host; @, /, ? and # in them are %40, %2F, %3F"
    " and %23"
)

Host = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Several hosts and how they are used: `kind` is SENTINEL or CLUSTER.

    `master` is the name that Sentinels know, `database` its number; `options` are those of the
    query, without Sentinel's own `sentinel_options`.
    """

    kind: str
    tls: bool
    hosts: tuple[Host, ...]
    credentials: str
    master: str
    database: int
    options: tuple[tuple[str, str], ...]
    sentinel_options: tuple[tuple[str, str], ...]

    def server_url(self, host: str, port: int) -> str:
        """The URL of one of the servers, as redis-py takes it."""
        login = f"{self.credentials}@" if self.credentials else ""
        return self._url(login, host, f"{port}/{self.database}")

    def sentinel_url(self, host: str, port: int) -> str:
        """The URL of one of the Sentinels."""
        given = dict(self.sentinel_options)
        user, password = quote(given.get("username", "")), quote(given.get("password", ""), safe="")
        return self._url(f"{user}:{password}@" if password else "", host, str(port))

    @property
    def name(self) -> str:
        """What tells the store from others: without credentials, and options."""
        if self.kind == SENTINEL:
            return f"sentinel:{self.master}/{self.database}"
        return "cluster:" + ",".join(f"{host}:{port}" for host, port in sorted(self.hosts))

    def _url(self, login: str, host: str, behind: str) -> str:
        name = f"[{host}]" if ":" in host else host
        query = f"?{urlencode(self.options)}" if self.options else ""
        scheme = "rediss" if self.tls else "redis"
        return f"{scheme}://{login}{name}:{behind}{query}"


def address_of(url: str) -> StoreAddress | None:
    """The hosts that a URL names; None of one that names a single server.

    Raises ValueError that says what is wrong, without the password.
    """
    scheme, _, rest = url.partition("://")
    base, _, kind = scheme.partition("+")
    if kind not in _PORTS:
        return None
    # The schemes of redis-py have no list of hosts.
    parts = urlsplit(f"redis://{rest}")
    credentials, _, netloc = parts.netloc.rpartition("@")
    if "@" in credentials + parts.path + parts.query + parts.fragment:
        raise ValueError(_ONE_LOGIN)
    hosts = tuple(_host(text, _PORTS[kind]) for text in netloc.split(","))
    path = [unquote(name) for name in parts.path.split("/")[1:] if name]
    query = parse_qsl(parts.query)
    own = len(_OF_SENTINELS)
    return StoreAddress(
        kind,
        base == "rediss",
        hosts,
        credentials,
        *_master_and_database(kind, path),
        tuple(pair for pair in query if not pair[0].startswith(_OF_SENTINELS)),
        tuple((name[own:], value) for name, value in query if name.startswith(_OF_SENTINELS)),
    )


def check_server(url: str) -> None:
    """Of the URL of one server: raises ValueError, without the password, on what redis-py would
    leave out or take for something else, such as database 0 for one that is no number."""
    parts = urlsplit(url)
    is_socket = parts.scheme == "unix"
    options = parse_qsl(parts.query, keep_blank_values=True)
    if is_socket and not parts.path:
        raise ValueError("it must name a socket: unix:///run/redis.sock?db=0")
    if not is_socket and "@" in parts.path + parts.query + parts.fragment:
        raise ValueError(_ONE_LOGIN)
    databases = [value for name, value in options if name == "db"]
    databases += [] if is_socket else filter(None, [parts.path.strip("/")])
    if len(databases) > 1 or not all(map(str.isdecimal, databases)):
        given = ", ".join(databases)
        raise ValueError(f"database {given}: must be a number, given once: redis://host:port/0")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError(f"its port must be from 0 to {_LARGEST_PORT}; {_ONE_LOGIN}") from None
    for name, _ in options:
        if name not in {*_LOGIN, "db"} and not name.startswith("ssl_"):
            raise ValueError(f"{name}: there is no such option; there are db and those of TLS")


def _host(text: str, port: int) -> Host:
    parts = urlsplit(f"//{text}")
    try:
        given = parts.port or port
    except ValueError:
        given = _LARGEST_PORT + 1
    if not parts.hostname or given > _LARGEST_PORT:
        # What follows a colon may be the password of a login that lacks its host.
        shown = text.partition(":")[0] + ":..." * (":" in text)
        raise ValueError(f"{shown!r} is no host:port; several stand behind one another with commas")
    return parts.hostname, given


def _master_and_database(kind: str, path: list[str]) -> tuple[str, int]:
    if kind == CLUSTER:
        if path not in ([], ["0"]):
            raise ValueError("a cluster has the database 0 alone: leave out what follows the hosts")
        return "", 0
    name, database = (*path, "0")[:2] if path else ("", "0")
    if not name or len(path) > 2 or not database.isdecimal():
        raise ValueError("redis+sentinel://host:port,host:port/name/db: name is that of the master")
    return name, int(database)
