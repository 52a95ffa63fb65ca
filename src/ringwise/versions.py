"""Versions of what Ringwise writes for later: files, records for the next leader and JSON documents.

Each says its version. One that this Ringwise does not read is refused with the same message, whatever it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: Of every other record in a ConfigMap of ours: plans of moves (M1), isolations and reservations.
RECORD_VERSION = 1
#: Of the tables of the leader record (F1).
LEADER_RECORD_VERSION = 2
#: Of every JSON document.
DOCUMENT_VERSION = "v1"


def commit() -> str | None:
    """Return the commit that the package was built from, if its build named one."""
    file = Path(__file__).parent / "commit.txt"
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None


def unsupported(version: object, supported: object) -> str:
    """Return why something of this version is refused."""
    return f"unsupported version {version}: this Ringwise reads version {supported}"


def read_record(text: str, version: int = RECORD_VERSION) -> tuple[dict[str, Any], str]:
    """Return what the record holds, and why it cannot be read; it is empty then, as one that is not there.

    A leader without the records of the one before decides from the objects of the cluster alone.
    """
    if not text:
        return {}, ""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}, "is not JSON"
    if not isinstance(record, dict):
        return {}, "is not a JSON object"
    if record.get("version") != version:
        return {}, unsupported(record.get("version"), version)
    return record, ""


def entry_problem(version: int) -> str:
    """Return why an entry of an operator is not read; one without a version (0) was written by hand."""
    return "" if version in (0, RECORD_VERSION) else unsupported(version, RECORD_VERSION)


def document_problem(schema: object) -> str:
    """Return why a document with this `schema` is not read; empty: it is read."""
    version = str(schema).rpartition("/")[2]
    return "" if version == DOCUMENT_VERSION else unsupported(version, DOCUMENT_VERSION)
