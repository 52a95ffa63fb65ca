"""The documents that `-o json` prints, the lab's API sends and a dashboard shows.

A document is made of plain values. Its version is for the programs that read it: fields may be added under
the same version; to remove or rename one needs a new version and a line in the changelog.
"""

from __future__ import annotations

#: Document -> version of its fields.
VERSIONS = {
    "bench": 1,
    "boards": 1,
    "capacity": 1,
    "configuration": 1,
    "doctor": 1,
    "jobs": 1,
    "nodes": 1,
    "place": 1,
    "pods": 1,
    "queues": 1,
    "story": 1,
    "top": 1,
    "topology": 1,
    "why": 1,
}
