"""All objects of a cluster as a journal of two lines: a header, and a snapshot without decisions."""

from __future__ import annotations

from collections.abc import Sequence

from ringwise.apps.journal.format import header_line, snapshot_line
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.kinds import STORED, event_of_object
from ringwise.messages import events as ev
from ringwise.wellknown import SCHEDULER_NAMES


def lines_of(
    bundle: Bundle, configuration: Configuration, now: int, names: Sequence[str] = SCHEDULER_NAMES
) -> bytes:
    """The objects of an input."""
    events = [
        event for kind in STORED for event in map(event_of_object, bundle.of(kind)) if event is not None
    ]
    return lines_of_events(events, configuration, now, names, awaits_groups=bundle.awaits_groups)


def lines_of_events(
    events: Sequence[ev.Event],
    configuration: Configuration,
    now: int,
    names: Sequence[str],
    *,
    awaits_groups: bool = False,
) -> bytes:
    return header_line(configuration, names, awaits_groups=awaits_groups) + snapshot_line(0, now, events)
