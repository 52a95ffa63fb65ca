"""What events about queues, namespaces, quotas, priority classes and the configuration change."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.messages import events as ev
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import ContextUser, Handlers
from ringwise.state.model import PriorityClass


class QueueEvents(ContextUser):
    def handlers(self) -> Handlers:
        return {
            ev.QueueSeen: self._queue_seen,
            ev.QueueGone: self._queue_gone,
            ev.QuotaSeen: self._quota_seen,
            ev.QuotaGone: self._quota_gone,
            ev.NamespaceSeen: self._namespace_seen,
            ev.NamespaceGone: self._namespace_gone,
            ev.PriorityClassSeen: self._priority_seen,
            ev.PriorityClassGone: self._priority_gone,
            ev.ConfigurationSeen: self._configuration_seen,
        }

    def current_events(self) -> Iterator[ev.Event]:
        yield from map(ev.QueueSeen, self._book.queues.values())
        yield from map(ev.NamespaceSeen, self._state.namespaces)
        yield from map(ev.PriorityClassSeen, self._book.priority_classes)
        yield from (ev.QuotaSeen(quota) for table in self._book.quotas.values() for quota in table.values())

    def _queue_seen(self, event: ev.QueueSeen, now: int) -> None:
        self._book.put_queue(event.queue)
        self._notify(event, now)
        self._triggers.add(Trigger.QUEUE_CHANGED)

    def _queue_gone(self, event: ev.QueueGone, now: int) -> None:
        self._book.drop_queue(event.name)
        self._notify(event, now)
        self._triggers.add(Trigger.QUEUE_CHANGED)

    def _namespace_seen(self, event: ev.NamespaceSeen, now: int) -> None:
        if self._state.namespaces.put(event.namespace):
            self._triggers.add(Trigger.NAMESPACE_CHANGED)
        self._notify(event, now)

    def _namespace_gone(self, event: ev.NamespaceGone, now: int) -> None:
        self._state.namespaces.drop(event.name)
        self._notify(event, now)

    def _quota_seen(self, event: ev.QuotaSeen, now: int) -> None:
        if self._book.put_quota(event.quota):
            self._triggers.add(Trigger.QUOTA_CHANGED)

    def _quota_gone(self, event: ev.QuotaGone, now: int) -> None:
        self._book.drop_quota(event.namespace, event.name)
        self._triggers.add(Trigger.QUOTA_CHANGED)

    def _priority_seen(self, event: ev.PriorityClassSeen, now: int) -> None:
        self._put_class(event.priority_class, event.priority_class.name)

    def _priority_gone(self, event: ev.PriorityClassGone, now: int) -> None:
        self._put_class(None, event.name)

    def _put_class(self, priority_class: PriorityClass | None, name: str) -> None:
        for job in self._book.put_priority_class(priority_class, name):
            # It may be served first now, or preempt others.
            self._job_queue.activate(job.key)

    def _configuration_seen(self, event: ev.ConfigurationSeen, now: int) -> None:
        self._configuration.current = event.configuration
        settings = event.configuration.settings
        self._state.prefer_aggregated(settings.use_cluster_info_manager)
        self._state.guarded_annotations = settings.owned_annotations == "guarded"
        self._book.read_users()
        self._state.maintain_free_chips(settings.self_maintain_available_card)
        for name in self._state.node_id:
            # Other reports may count now.
            self._notify(ie.NodeChanged(name), now)
        self._notify(event, now)
        self._book.revalidate()
        self._notify(ie.ClusterChanged(), now)
        self._triggers.add(Trigger.CONFIGURATION_CHANGED)
