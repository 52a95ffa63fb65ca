"""Pods that go because their node is drained: an event on the PodGroup, and a line of the job's history.

The command that drains evicts the pods (`ringwise drain`, `kubectl drain`). The scheduler sees pods that are
being deleted on a node that is isolated or cordoned for the drain, and reports the cause.
"""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.framework.job import Job
from ringwise.grammar import listed
from ringwise.messages.commands import RecordJobEvent
from ringwise.messages.event_reasons import EventReason
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.node_states import DRAIN
from ringwise.state.model import Pod
from ringwise.topology.natural import natural_key

#: Pods that one sentence names.
_NAMED = 3


class DrainEvents(Component):
    name = "drains"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: By job and cause: names of pods that go, since the last turn.
        self._leaving: dict[tuple[str, str], tuple[Job, list[Pod]]] = {}

    @on(ie.PodLeaving)
    def _pod_leaving(self, event: ie.PodLeaving, now: int) -> None:
        job, pod = event.job, event.pod
        cause = self._cause(pod)
        if cause:
            self._leaving.setdefault((job.key, cause), (job, []))[1].append(pod)
            self._notify(ie.PodDrained(job, pod), now)

    def act(self, now: int) -> Iterator[RecordJobEvent]:
        for (key, cause), (job, pods) in self._leaving.items():
            pods.sort(key=lambda pod: natural_key(pod.name))
            message = f"{listed([pod.name for pod in pods], _NAMED)} must be evicted: {cause}"
            if job.group is not None:
                yield RecordJobEvent(key, EventReason.DRAINED, message)
            else:
                yield RecordJobEvent(pods[0].key, EventReason.DRAINED, message, pod=pods[0].uid)
        self._leaving.clear()

    def _cause(self, pod: Pod) -> str:
        number = self._state.node_id.get(pod.node or "")
        node = None if number is None else self._state.nodes[number]
        if node is None or number is None:
            return ""
        isolation = self._state.isolated_nodes.get(number)
        if isolation is not None and isolation.reason == DRAIN:
            by = f" by {isolation.by}" if isolation.by else ""
            what = f" with {isolation.target}" if isolation.target != node.name else ""
            return f"{node.name} is drained{what}{by}"
        return f"{node.name} is cordoned" if node.unschedulable else ""
