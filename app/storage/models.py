"""Post-click models: what a training of a delayed target gave, the last few of each target.

A model is one hash: `manifest` (schema_version, version, target, window, as_of, trained_at, source,
SHA-256 of the contents, and bytes, chunks and SHA-256 of the model), `contents` (JSON: report,
delays, features), and the sealed model in chunks `model:<number>`, stored as `versions` stores
versions of maps.
"""

from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Literal

import orjson
import redis

from app.storage import keys
from app.storage.lease import LeaseToken
from app.storage.redis.client import as_bytes, as_text, lua, reaching_the_store
from app.storage.versions import (
    check_digest,
    check_published,
    chunks_of,
    described,
    pack_manifest,
    readable_manifests,
    stage,
    unpack_manifest,
)

SCHEMA_VERSION = 1
KEPT = 3
CHUNK_BYTES = 4 * 1024 * 1024
_ATTEMPTS_SECONDS = 3 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Trained:
    """What one training gave: how conversions are spread in time, and perhaps a model.

    `window` is the attribution window in seconds, `delays` the delay distribution as JSON holds
    it, `model` the sealed bytes of a post-click model, `features` the kind of each of its features
    by name; None or empty where there is none.
    """

    target: str
    window: float
    as_of: float
    trained_at: float
    source: Literal["model", "delays"]
    report: dict[str, Any] = field(default_factory=dict)
    delays: dict[str, Any] | None = None
    features: dict[str, str] = field(default_factory=dict)
    model: bytes | None = None


class Models:
    """The last KEPT trainings of each target."""

    def __init__(self, client: redis.Redis, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._client = client
        self._chunk_bytes = chunk_bytes
        self._publish = client.register_script(lua("publish_model"))

    @reaching_the_store()
    def publish(self, lease_token: LeaseToken, trained: Trained) -> str:
        """Keep a training's outcome and drop the oldest beyond KEPT; returns its version.

        Raises LeaseLost, and changes nothing, when the token's lease is not held any more.
        """
        model = trained.model or b""
        about = {"report": trained.report, "delays": trained.delays, "features": trained.features}
        contents = orjson.dumps(about, option=orjson.OPT_SERIALIZE_NUMPY)
        number = self._client.incr(keys.MODEL_SEQUENCE)
        version = f"{number:06d}-{sha256(contents + model).hexdigest()[:8]}"
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "version": version,
            "target": trained.target,
            "window": trained.window,
            "as_of": trained.as_of,
            "trained_at": trained.trained_at,
            "source": trained.source,
            "contents_sha256": sha256(contents).hexdigest(),
            "model": None if trained.model is None else described(model, self._chunk_bytes),
        }
        fields = {"manifest": pack_manifest(manifest), "contents": contents}
        chunks = enumerate(chunks_of(model, self._chunk_bytes))
        fields |= {f"model:{place}": chunk for place, chunk in chunks}
        stage(self._client, keys.model(trained.target, version), fields.items())
        self._keep(lease_token, trained.target, version)
        return version

    @reaching_the_store()
    def history(self, target: str) -> list[dict[str, Any]]:
        """The manifests of the target's models, newest first; logs and leaves out damaged ones."""
        listed, key_of = keys.models(target), partial(keys.model, target)
        where = f"the models of {target}"
        return list(readable_manifests(self._client, listed, key_of, SCHEMA_VERSION, where))

    @reaching_the_store()
    def load(self, target: str, version: str) -> Trained:
        """The whole of it, every byte checked; raises UnknownVersion, CorruptVersion."""
        stored = self._client.hgetall(keys.model(target, version))
        fields = {as_text(name): as_bytes(value) for name, value in stored.items()}
        manifest = unpack_manifest(version, fields.get("manifest"), SCHEMA_VERSION)
        contents = fields.get("contents", b"")
        check_digest(version, "contents", sha256(contents).hexdigest(), manifest["contents_sha256"])
        return Trained(
            target,
            manifest["window"],
            manifest["as_of"],
            manifest["trained_at"],
            manifest["source"],
            model=_model(version, manifest["model"], fields),
            **orjson.loads(contents),
        )

    @reaching_the_store()
    def attempt(self, target: str, as_of: float) -> int:
        """Count one more training of the target as of a moment; returns how many there were.

        A training that takes the whole process down is known by this count alone.
        """
        key = keys.training(target, as_of)
        attempts = self._client.incr(key)
        self._client.expire(key, _ATTEMPTS_SECONDS)
        return int(attempts)

    @reaching_the_store()
    def forget_attempts(self, target: str, as_of: float) -> None:
        """The process is still there: count from 0 again."""
        self._client.delete(keys.training(target, as_of))

    def _keep(self, lease_token: LeaseToken, target: str, version: str) -> None:
        names = [keys.lease(lease_token.name), keys.model(target, version), keys.models(target)]
        arguments = (lease_token.value, version, KEPT, keys.model(target, ""))
        status = self._publish(keys=names, args=arguments)
        check_published(status, lease_token.name, f"model {version!r}")


def _model(version: str, about: dict[str, Any] | None, fields: dict[str, bytes]) -> bytes | None:
    if about is None:
        return None
    chunks = range(about["chunks"])
    data = b"".join(fields.get(f"model:{place}", b"") for place in chunks)
    check_digest(version, "model", sha256(data).hexdigest(), about["sha256"])
    return data
