"""Documents that commands print, compared with the schemas that the package ships."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from ringwise.views.schemas import find_kind, shipped_text


@cache
def _validator(schema: str) -> Draft202012Validator:
    """Stricter than what is shipped: readers pass over unknown fields, but every printed one is declared."""
    read = json.loads(shipped_text(find_kind(schema)))
    for part in read["$defs"].values():
        part["additionalProperties"] = False
    return Draft202012Validator(read)


def check_document(document: Any) -> str:
    """The schema of the document. Raises where it has none or breaks it."""
    schema = document.get("schema")
    if schema is None:
        # Kubernetes objects say in their own way what they are.
        assert document["apiVersion"]
        assert document["kind"]
        return ""
    assert next(iter(document)) == "schema", "a reader should see first what it is"
    problem = best_match(_validator(schema).iter_errors(document))
    assert problem is None, f"{schema}: {problem.json_path}: {problem.message}"
    return str(schema)
