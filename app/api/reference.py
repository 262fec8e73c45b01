"""`GET /docs`: the OpenAPI document as a page that needs no script and asks nobody else."""

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Final

import orjson
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse

from app.api.contract import declared

router = APIRouter()

_NOTHING_ELSE: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --dim: #777; --fill: #8881; --link: #06c; }
@media (prefers-color-scheme: dark) { :root { --dim: #999; --link: #6bf; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
pre { background: var(--fill); padding: .75rem; border-radius: 6px; overflow-x: auto; }
h2 { margin-top: 2.5rem; } h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
a { color: var(--link); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .5rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary b { display: inline-block; min-width: 4.5em; text-transform: uppercase; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid var(--line); padding: .25rem .75rem .25rem 0; vertical-align: top; }
td:first-child { white-space: nowrap; } .dim { color: var(--dim); }
"""
_OPTIONAL: Final = " <i class=dim>optional</i>"
_CODE: Final = re.compile(r"`([^`]+)`")


@router.get("/docs", include_in_schema=False)
def docs(request: Request) -> HTMLResponse:
    """Every route: what it takes, what it answers, what may go wrong."""
    app: FastAPI = request.app
    return HTMLResponse(page_of(app.openapi()), headers=_NOTHING_ELSE)


def page_of(document: Mapping[str, Any]) -> str:
    """The document as HTML."""
    info = document["info"]
    return "".join(
        [
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(info['title'])}</title><style>{_STYLE}</style>",
            f"<h1>{escape(info['title'])}</h1><p>{_text(info['description'])}</p>",
            '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>',
            *_routes(document),
            "<h2>Types</h2>",
            *map(_type, *zip(*document["components"]["schemas"].items(), strict=True)),
            "</html>",
        ]
    )


def _routes(document: Mapping[str, Any]) -> Iterator[str]:
    before = None
    for method, path, operation in declared(document):
        tag = operation["tags"][0]
        if tag != before:
            yield f"<h2>{escape(tag)}</h2>"
        before = tag
        yield _route(method, path, operation)


def _route(method: str, path: str, operation: Mapping[str, Any]) -> str:
    text = operation.get("description", "")
    parts = [f"<details><summary><b>{method}</b> <code>{escape(path)}</code></summary>"]
    parts += [f"<p>{_text(one)}</p>" for one in text.split("\n\n")]
    if rows := [_parameter(one) for one in operation.get("parameters", [])]:
        parts += ["<h3>Parameters</h3>", _table(rows)]
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<h3>Body: <code>{escape(kind)}</code></h3>")
        if "schema" in content:
            parts.append(f"<p>{_name(content['schema'])}</p>")
        if "example" in content:
            example = orjson.dumps(content["example"], option=orjson.OPT_INDENT_2).decode()
            parts.append(f"<pre>{escape(example)}</pre>")
    answers = operation["responses"].items()
    parts += ["<h3>Answers</h3>", _table(_answer(code, one) for code, one in answers)]
    return "".join([*parts, "</details>"])


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, str]:
    place = f"<span class=dim>{escape(parameter['in'])}</span> {_name(parameter['schema'])}"
    return f"<code>{escape(parameter['name'])}</code>", f"{place} {_described(parameter)}"


def _answer(code: str, answer: Mapping[str, Any]) -> tuple[str, str]:
    found = []
    for kind, content in answer.get("content", {}).items():
        name = "" if "allOf" in content.get("schema", {}) else _name(content.get("schema", {}))
        found.append(f"<span class=dim>{escape(kind)}</span> {name}")
    return escape(code), f"{'<br>'.join(found)} {_described(answer)}"


def _type(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        (
            f"<code>{escape(field)}</code>{'' if field in required else _OPTIONAL}",
            f"{_name(kind)} {_described(kind)}",
        )
        for field, kind in schema.get("properties", {}).items()
    ]
    return f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{_described(schema)}</p>{_table(rows)}'


def _name(schema: Mapping[str, Any]) -> str:
    """The type in a few words, with a link to where it is described."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if found := schema.get("anyOf"):
        return " or ".join(map(_name, found))
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(one))}</code>" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_name(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_name(schema['additionalProperties'])}"
    return escape(str(schema.get("title") or schema.get("type", "any")))


def _described(part: Mapping[str, Any]) -> str:
    return _text(part.get("description", ""))


def _text(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = (f"<tr><td>{name}<td>{text}" for name, text in rows)
    return f"<table>{''.join(cells)}</table>"
