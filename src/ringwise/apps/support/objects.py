"""All objects of a cluster as a journal of two lines: a header, and a snapshot without decisions."""

from __future__ import annotations

from ringwise.apps.journal.format import header_line, snapshot_line
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.kinds import STORED, event_of_object
from ringwise.wellknown import SCHEDULER_NAMES


def lines_of(bundle: Bundle, configuration: Configuration, now: int) -> bytes:
    """The objects of an input."""
    events = [
        event for kind in STORED for event in map(event_of_object, bundle.of(kind)) if event is not None
    ]
    header = header_line(configuration, SCHEDULER_NAMES, awaits_groups=bundle.awaits_groups)
    return header + snapshot_line(0, now, events)
