"""A scheduler that knows a cluster and has decided once: what every question about a cluster starts from."""

from __future__ import annotations

from dataclasses import dataclass, field

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.loading import check_holds, cluster_events, job_events
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.errors import ManifestError
from ringwise.messages import events as ev
from ringwise.scheduler.core.machine import Scheduler
from ringwise.topology.boards import BoardCatalog


@dataclass(slots=True)
class Source:
    scheduler: Scheduler
    #: Nanoseconds since 1970: the moment the question is about.
    now: int
    #: Pods whose chips cannot be theirs.
    errors: list[ManifestError] = field(default_factory=list)
    #: What the scheduler was told.
    events: list[ev.Event] = field(default_factory=list)


def from_bundle(
    bundle: Bundle,
    configuration: Configuration,
    catalog: BoardCatalog,
    *,
    now: int | None = None,
    decide: bool = True,
    keep_wrong_pods: bool = False,
) -> Source:
    """The cluster of an input, after one cycle.

    `keep_wrong_pods` lets pods in whose chips cannot be theirs: a doctor wants to see them.
    """
    errors = check_holds(bundle)
    wrong = set() if keep_wrong_pods else {error.origin for error in errors}
    now = bundle.newest_timestamp if now is None else now
    scheduler = new_scheduler(configuration, catalog)
    events: list[ev.Event] = [*cluster_events(bundle), *job_events(bundle)]
    events += [ev.PodSeen(pod) for pod in bundle.pods if pod.origin not in wrong]
    scheduler.take(events, now)
    scheduler.state.settle()
    for number in range(len(scheduler.state.names)):
        scheduler.state.refresh_node(number)
    if decide:
        scheduler.cycle(now)
    return Source(scheduler, now, errors, events)
