"""A scheduler that knows a cluster: every question about a cluster starts from one."""

from __future__ import annotations

from dataclasses import field

from ringwise.apps.extensions import new_scheduler
from ringwise.apps.loading import check_holds, cluster_events, job_events
from ringwise.framework.configuration import Configuration
from ringwise.manifests.bundle import Bundle
from ringwise.manifests.errors import ManifestError
from ringwise.messages import events as ev
from ringwise.messages.events import Decide
from ringwise.records import dataclass
from ringwise.scheduler.view import SchedulerView
from ringwise.topology.boards import BoardCatalog


@dataclass(slots=True)
class Source:
    view: SchedulerView
    #: Nanoseconds since 1970: the moment the question is about.
    now: int
    #: Pods that name chips they cannot hold.
    errors: list[ManifestError] = field(default_factory=list)


def from_bundle(
    bundle: Bundle,
    configuration: Configuration,
    catalog: BoardCatalog,
    *,
    now: int | None = None,
    decide: bool = True,
    keep_wrong_pods: bool = False,
) -> Source:
    """The cluster of an input, after one cycle; without `decide`, as the input describes it.

    `keep_wrong_pods` includes pods that name chips they cannot hold: `doctor` reports them.
    """
    events, errors = input_events(bundle, keep_wrong_pods=keep_wrong_pods)
    now = bundle.newest_timestamp if now is None else now
    scheduler = new_scheduler(configuration, catalog, awaits_groups=bundle.awaits_groups)
    scheduler.handle(events, now, Decide.ONE_CYCLE if decide else Decide.NOTHING)
    return Source(scheduler.view, now, errors)


def input_events(
    bundle: Bundle, *, keep_wrong_pods: bool = False
) -> tuple[list[ev.Event], list[ManifestError]]:
    """All objects of an input as events, and the errors of pods that name chips they cannot hold."""
    errors = check_holds(bundle)
    wrong = set() if keep_wrong_pods else {error.origin for error in errors}
    events: list[ev.Event] = [*cluster_events(bundle), *job_events(bundle)]
    events += [ev.PodSeen(pod) for pod in bundle.pods if pod.origin not in wrong]
    return events, errors
