"""The OpenAPI document of the API, made from the types of its documents, and a plain page of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import msgspec

from ringwise import __version__
from ringwise.records import dataclass
from ringwise.views.documents.accounting import ReportDocument
from ringwise.views.documents.dashboard import (
    DashboardChangeDocument,
    DashboardDocument,
    DashboardJobDocument,
    DashboardMovesDocument,
    DashboardNodeDocument,
    DashboardProblemsDocument,
    ErrorDocument,
    SeriesDocument,
)
from ringwise.views.documents.explain import HistoryDocument, WhyDocument
from ringwise.views.documents.limits import LimitsDocument
from ringwise.views.documents.maintenance import DefragPlanDocument
from ringwise.views.documents.place import PlaceDocument
from ringwise.views.kinds import OPERATIONS

_REFERENCE = "#/components/schemas/{name}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    path: str
    title: str
    text: str
    fields: type
    method: str = "get"
    content_type: str = "application/json"
    query: tuple[tuple[str, str], ...] = ()
    #: Whether there may be nothing to show, though the path names nothing.
    may_be_missing: bool = False

    @property
    def statuses(self) -> Iterator[int]:
        """Those besides 200."""
        yield from (400, 401, 403)
        if self.may_be_missing or "{" in self.path:
            yield 404
        if self.method == "post":
            yield 413
        yield 503


_JOB = "/api/v1/jobs/{namespace}/{name}"
#: Documents about the whole cluster, each under its name.
DOCUMENTS: dict[str, Endpoint] = {
    "problems": Endpoint(
        "/api/v1/problems",
        "Problems",
        "Findings of `ringwise doctor`, faults, and jobs that have been pending for ten minutes.",
        DashboardProblemsDocument,
    ),
    "moves": Endpoint(
        "/api/v1/moves", "Moves", "Plans under way, and those that ended.", DashboardMovesDocument
    ),
    **{
        name: Endpoint(f"/api/v1/{name}", title, f"The document of `ringwise {command} -o json`.", fields)
        for name, title, command, fields in (
            ("limits", "Limits", "limits", LimitsDocument),
            ("defrag-plan", "Possible moves", "defrag --plan", DefragPlanDocument),
            *((kind.plural, f"{kind.title}s", f"get {kind.plural}", kind.list_type) for kind in OPERATIONS),
        )
    },
}
ENDPOINTS = (
    Endpoint(
        "/api/v1/snapshot", "The whole cluster", "All rows, and where the stream goes on.", DashboardDocument
    ),
    Endpoint(
        "/api/v1/stream",
        "What changes",
        "Server-sent events. `change` has a document; its id is the sequence. `reset` has the new epoch and "
        "sequence: the client fetches the snapshot again. `leader` has the leader's identity and address; "
        "it is the last event of a replica that does not lead.",
        DashboardChangeDocument,
        content_type="text/event-stream",
        query=(
            ("epoch", "Of the document that the client has."),
            ("since", "The last sequence that the client has."),
        ),
    ),
    Endpoint("/api/v1/series", "The history in numbers", "From the memory of the process.", SeriesDocument),
    Endpoint(_JOB, "A job", "With its pods.", DashboardJobDocument),
    Endpoint(
        f"{_JOB}/why",
        "Why a job waits",
        "The document of `ringwise why -o json`. Fixes were tried on the present state, and undone.",
        WhyDocument,
    ),
    Endpoint(
        f"{_JOB}/history",
        "The life of a job",
        "The document of `ringwise why --history -o json`.",
        HistoryDocument,
    ),
    Endpoint(
        "/api/v1/nodes/{name}",
        "A node",
        "With its chips and who holds them.",
        DashboardNodeDocument,
    ),
    Endpoint(
        "/api/v1/report",
        "Accounting",
        "The document of `ringwise report -o json` for the last days, today included.",
        ReportDocument,
        may_be_missing=True,
        query=(
            ("by", "What is added up: queue (default), namespace, user, job or board."),
            ("days", "How many days, 1 to 366; 7 where it is missing."),
        ),
    ),
    Endpoint(
        "/api/v1/what-if",
        "What if",
        "A manifest, YAML or JSON, of at most 1 MiB in; the document of `ringwise place -o json` for the "
        "present state out. Nothing is changed.",
        PlaceDocument,
        method="post",
    ),
    *DOCUMENTS.values(),
)


def openapi_document() -> dict[str, Any]:
    types = [endpoint.fields for endpoint in ENDPOINTS]
    schemas, components = msgspec.json.schema_components([*types, ErrorDocument], ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint, schema in zip(ENDPOINTS, schemas, strict=False):
        paths.setdefault(endpoint.path, {})[endpoint.method] = _operation(endpoint, schema, schemas[-1])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ringwise dashboard",
            "version": __version__,
            "description": "Read-only documents of a scheduler.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"bearer": []}],
    }


def _operation(endpoint: Endpoint, schema: dict[str, Any], error: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "summary": endpoint.title,
        "description": endpoint.text,
        "parameters": list(_parameters(endpoint)),
        "responses": {
            "200": {"description": endpoint.title, "content": {endpoint.content_type: {"schema": schema}}},
            **{
                str(status): {
                    "description": "What is wrong with the request, or with this replica.",
                    "content": {"application/json": {"schema": error}},
                }
                for status in endpoint.statuses
            },
        },
    }
    if endpoint.method == "post":
        text = {"schema": {"type": "string", "maxLength": 1 << 20}}
        made["requestBody"] = {
            "required": True,
            "content": {"application/yaml": text, "application/json": text},
        }
    return made


def _parameters(endpoint: Endpoint) -> Iterable[dict[str, Any]]:
    of_path = [(part.strip("{}"), "") for part in endpoint.path.split("/") if part.startswith("{")]
    for place, parameters in (("path", of_path), ("query", endpoint.query)):
        for name, text in parameters:
            described = {"description": text} if text else {}
            yield {"name": name, "in": place, "required": True, **described, "schema": {"type": "string"}}


def api_page() -> str:
    """The API for people: no script, no style, made from the same table."""
    document = openapi_document()
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>Ringwise API</title></head><body>",
        "<h1>Ringwise API</h1>",
        '<p>Read-only. <a href="/api/v1/openapi.json">OpenAPI document</a>, <a href="/">dashboard</a>.</p>',
    ]
    for endpoint in ENDPOINTS:
        parts.append(f"<h2><code>{endpoint.method.upper()} {escape(endpoint.path)}</code></h2>")
        parts.append(f"<p>{escape(endpoint.title)}. {escape(endpoint.text)}</p>")
        parts.append(_fields_table(endpoint.fields.__name__, document["components"]["schemas"]))
    parts.append("<h2>Parts of documents</h2>")
    tops = {endpoint.fields.__name__ for endpoint in ENDPOINTS}
    for name in sorted(document["components"]["schemas"]):
        if name not in tops:
            parts.append(f'<h3 id="{escape(name)}">{escape(name)}</h3>')
            parts.append(_fields_table(name, document["components"]["schemas"]))
    parts.append("</body></html>")
    return "\n".join(parts)


def _fields_table(name: str, schemas: dict[str, Any]) -> str:
    schema = schemas.get(name, {})
    rows = [
        f"<tr><td><code>{escape(field)}</code></td><td>{_type_text(what)}</td>"
        f"<td>{escape(what.get('description', ''))}</td></tr>"
        for field, what in schema.get("properties", {}).items()
    ]
    text = escape(schema.get("description", ""))
    head = "<tr><th>field</th><th>type</th><th>meaning</th></tr>"
    return f"<p>{text}</p><table>{head}{''.join(rows)}</table>" if rows else f"<p>{text}</p>"


def _type_text(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_type_text, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_type_text(schema.get('items', {}))}"
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    return escape(str(schema.get("type", "any")))
