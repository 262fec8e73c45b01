"""The JSON schema of the routes that read their bodies themselves, for /docs."""

from collections.abc import Collection
from typing import Any, Final

import msgspec

_REFERENCE: Final = "#/components/schemas/{name}"


def request_body(
    kinds: dict[str, Any], example: Any, binary: Collection[str] = ()
) -> dict[str, Any]:
    """`openapi_extra` of a route: a type of body per media type, and media types of bytes."""
    content: dict[str, Any] = {
        media_type: {"schema": _inlined(kind), "example": example}
        for media_type, kind in kinds.items()
    }
    # Bytes have no schema: OpenAPI 3.1 wants none.
    content |= {media_type: {} for media_type in binary}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(kind: Any) -> Any:
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    return _resolve(schema, components)


def _resolve(schema: Any, components: dict[str, Any]) -> Any:
    """The schema with every reference replaced: FastAPI keeps the components to itself."""
    if isinstance(schema, list):
        return [_resolve(item, components) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _resolve(components[schema["$ref"].rpartition("/")[2]], components)
    # A discriminator maps to references: without them it has nothing to say.
    kept = {key: value for key, value in schema.items() if key != "discriminator"}
    return {key: _resolve(value, components) for key, value in kept.items()}
