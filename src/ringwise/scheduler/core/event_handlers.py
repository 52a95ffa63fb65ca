"""Events change the scheduler's tables; one that raises changes nothing, and costs no other object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from ringwise.messages import events as ev
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Components, Context, ContextUser, Handler
from ringwise.state.cluster import PodRecord
from ringwise.state.model import Pod, unreadable_pod


class EventHandlers(ContextUser):
    def __init__(self, context: Context, objects: Sequence[Component], components: Components) -> None:
        super().__init__(context)
        self._objects = objects
        self._components = components
        self._handlers: dict[type, Handler] = dict(chain(*(some.handlers() for some in objects)))

    def current_events(self) -> Iterator[ev.Event]:
        """All objects as events; what others need comes first."""
        return chain(*(some.current_events() for some in self._objects), self._components.current_events())

    def apply(self, event: ev.Event, now: int) -> None:
        # What no table has, components hear all the same.
        handler = self._handlers.get(type(event), self._notify)
        last_good = self._last_good(event)
        try:
            handler(event, now)
        except Exception as error:
            kind, key = event.about
            uid = event.pod.uid if isinstance(event, ev.PodSeen) else ""
            self._containment.failed(kind, key, error, uid)
            self._restore(event, last_good, now)
        else:
            if self._containment.objects:
                self._containment.succeeded(*event.about)
                if isinstance(event, ev.PodGone):
                    self._containment.forget(event.uid)

    def _last_good(self, event: ev.Event) -> ev.Event | PodRecord | None:
        """What brings the object back as it is now, should the event fail in the middle."""
        match event:
            case ev.PodSeen(pod):
                # A copy: the record itself is changed in place.
                record = self._state.pods.get(pod.uid)
                return None if record is None else replace(record)
            case ev.NodeSeen(node):
                number = self._state.node_id.get(node.name)
                last_good = None if number is None else self._state.nodes[number]
                return ev.NodeGone(node.name) if last_good is None else ev.NodeSeen(last_good)
            case ev.PodGroupSeen(group):
                seen = self._book.groups.get(group.key)
                return ev.PodGroupGone(group.key) if seen is None else ev.PodGroupSeen(seen)
            case ev.QueueSeen(queue):
                before = self._book.queues.get(queue.name)
                return ev.QueueGone(queue.name) if before is None else ev.QueueSeen(before)
            case ev.VcJobSeen(job):
                vcjob = self._book.vcjobs.get(job.key)
                return ev.VcJobGone(job.key) if vcjob is None else ev.VcJobSeen(vcjob)
            case ev.ReportSeen(report):
                reports = self._state.reports.get((report.node, report.resource), {})
                old = reports.get(report.aggregated)
                return ev.ReportGone(report.node, report.aggregated) if old is None else ev.ReportSeen(old)
        return None

    def _restore(self, event: ev.Event, last_good: ev.Event | PodRecord | None, now: int) -> None:
        """The last good version stays in force; everything that follows from objects is computed again."""
        stand_in: Pod | None = None
        if isinstance(event, ev.PodSeen):
            pod = event.pod
            if isinstance(last_good, PodRecord) and (last_good.node >= 0 or not pod.node):
                self._state.restore_pod(last_good)
                job = self._book.job_of(event.pod.uid)
                if job is not None:
                    job.pods[event.pod.uid] = last_good.pod
            else:
                self._state.pods.pop(pod.uid, None)
                self._book.forget_pod(pod.uid)
                if pod.node and pod.live and pod.cls.chips:
                    # N7: nothing is known of the chips that it has.
                    stand_in = unreadable_pod(pod.uid, pod.namespace, pod.name, pod.node)
        elif last_good is not None and not isinstance(last_good, PodRecord):
            try:
                self._handlers[type(last_good)](last_good, now)
            except Exception as error:
                # Not even the version before can be handled now: the object is as if it were not there.
                self._containment.failed(*event.about, error)
        self._state.rebuild()
        if stand_in is not None:
            self._state.put_pod(stand_in)
        self._book.recount()
        self._topology.nodes_changed()
        self._notify(ie.StateRebuilt(), now)
