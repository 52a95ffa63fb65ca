"""Objects by what they are, so that two ways of writing them down can be compared."""

from __future__ import annotations

from typing import Any

import yaml

Objects = dict[tuple[str, str, str], dict[str, Any]]


def by_identity(text: str) -> Objects:
    """The objects of a text; namespaces are left out, since Helm makes its own one by a flag."""
    found: Objects = {}
    for one in yaml.safe_load_all(text):
        if one is None or one["kind"] == "Namespace":
            continue
        meta = one["metadata"]
        key = (one["kind"], meta.get("namespace", ""), meta["name"])
        assert key not in found, f"{key} stands there twice"
        found[key] = one
    return found
