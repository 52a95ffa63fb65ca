"""Documents that commands print, compared with their schemas."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ringwise.views.schemas import find_kind, json_schema

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "compatibility" / "samples"


@cache
def _validator(schema: str) -> Draft202012Validator:
    """Stricter than the schema: readers pass over unknown fields, but every printed one is declared."""
    read = json_schema(find_kind(schema))
    for part in read["$defs"].values():
        part["additionalProperties"] = False
    return Draft202012Validator(read)


def check_document(document: Any) -> str:
    """The schema of the document. Raises where it has none or breaks it."""
    document = msgspec.to_builtins(document)
    schema = document.get("schema")
    if schema is None:
        # Kubernetes objects say in their own way what they are.
        assert document["apiVersion"]
        assert document["kind"]
        return ""
    assert next(iter(document)) == "schema", "a reader should see first what it is"
    if (shape := (schema, _shape(document))) not in _checked:
        problem = best_match(_validator(schema).iter_errors(document))
        assert problem is None, f"{schema}: {problem.json_path}: {problem.message}"
        _checked.add(shape)
    keep_document(document)
    return str(schema)


#: Validation takes longer than most tests: a document is checked if none of its shape was.
_checked: set[tuple[str, object]] = set()


def _shape(value: Any) -> object:
    """Return what a schema can reject: names and types of fields, and texts that may be one of a few."""
    if isinstance(value, dict):
        return tuple((key, _shape(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return frozenset(map(_shape, value))
    if isinstance(value, str):
        return value if value.replace("-", "").isalpha() else str
    return type(value), isinstance(value, int | float) and value < 0


def document_file(schema: str) -> Path:
    return SAMPLES / "documents" / (schema.partition("/")[2].replace("/", "-") + ".json")


def keep_document(document: dict[str, Any]) -> None:
    file = document_file(document["schema"])
    if os.environ.get("RINGWISE_WRITE_GOLDEN") and not file.exists():
        text = json.dumps(_short(document), indent=1, ensure_ascii=False)
        text = re.sub(rf"({gettempdir()}|{ROOT})[^\"\s]*", "/path", text)
        file.write_text(f"{text}\n", encoding="utf-8")


def _short(value: Any) -> Any:
    """A document with the first rows of each list: a sample of the fields."""
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value[: 1 if isinstance(next(iter(value), None), dict) else 4]]
    return value
