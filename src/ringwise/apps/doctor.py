"""Checks a cluster, and what was wrong with reading it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ringwise.apps.source import from_bundle
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.errors import ManifestError, one_line
from ringwise.scheduler.explain.doctor import Diagnosis, diagnose
from ringwise.scheduler.explain.findings import ERROR, Finding
from ringwise.topology.boards import BoardCatalog


def examine(
    bundle: Bundle, configuration: Configuration, catalog: BoardCatalog, *, now: int | None = None
) -> Diagnosis:
    """Everything wrong with the objects of an input, and with the cluster they describe."""
    source = from_bundle(bundle, configuration, catalog, now=now, keep_wrong_pods=True)
    unread = list(_unread(bundle.errors))
    diagnosis = diagnose(source.view)
    told = {finding.code for finding in diagnosis.findings}
    # Chips held twice, or not on their node, are told with all pods by the checks of the state.
    if not told & {"chip-held-twice", "chip-not-on-node"}:
        unread += _unread(source.errors)
    return Diagnosis(diagnosis.nodes, diagnosis.jobs, (*unread, *diagnosis.findings))


def _unread(errors: Iterable[ManifestError]) -> Iterator[Finding]:
    for error in errors:
        where = ": ".join(part for part in (error.origin, error.field) if part)
        yield Finding(
            ERROR,
            "unreadable-object",
            one_line(where),
            one_line(error.message),
            "correct the field; until then the object does not count",
        )
