"""The UsageLimits that hold in a namespace, in a condition of the Namespace.

Users may read nothing but their own namespace; UsageLimits are objects of the cluster, which name others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from ringwise.durations import earliest
from ringwise.framework.holdings import Scope
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, SetNamespaceLimits
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, Handlers
from ringwise.scheduler.core.custom_resources import STATUS_INTERVAL
from ringwise.state.limits import SHOWN_FIELDS, UsageLimit

#: Characters of a condition, of which the API server allows 32,768. What is beyond them is left out.
MAX_TEXT = 16_384


class NamespaceLimits(Component):
    name = "limits of namespaces"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: By namespace: what its condition says, as far as it says something.
        self._written: dict[str, str] = {}
        self._next: int | None = None
        self._last = -STATUS_INTERVAL

    def handlers(self) -> Handlers:
        return {
            ev.NamespaceSeen: self._namespace_seen,
            ev.NamespaceGone: lambda event, now: self._written.pop(event.name, None),
            **dict.fromkeys((ie.LimitsChanged, ie.JobSeen, ie.JobGone), self._changed),
        }

    def _namespace_seen(self, event: ev.NamespaceSeen, now: int) -> None:
        """A former leader wrote it, or another client changed it."""
        self._written[event.namespace.name] = event.namespace.limits
        self._changed(event, now)

    def _changed(self, event: object, now: int) -> None:
        if self._book.limits or any(self._written.values()):
            self._next = earliest(self._next, max(now, self._last + STATUS_INTERVAL))

    def deadline(self) -> int | None:
        return self._next

    def publish(self, now: int) -> Sequence[Command]:
        if self._next is None or self._next > now:
            return ()
        self._next, self._last = None, now
        commands: list[Command] = []
        for namespace, limits in self._limits().items():
            text = _text(limits.values())
            if text != self._written[namespace]:
                self._written[namespace] = text
                commands.append(SetNamespaceLimits(namespace, text))
        return commands

    def _limits(self) -> Mapping[str, Mapping[str, UsageLimit]]:
        """By namespace: those of it, and those of queues and users that have jobs in it."""
        table = self._book.limits
        result = {
            namespace: {one.name: one for one in table.limits_of(Scope(namespace=namespace))}
            for namespace in self._written
        }
        for limit in table.limits.values():
            if limit.namespace in result:
                result[limit.namespace][limit.name] = limit
        jobs = {(job.namespace, job.queue, table.user_of(job)): job for job in self._book.jobs.values()}
        for (namespace, _, _), job in jobs.items():
            if namespace in result:
                result[namespace].update((limit.name, limit) for _, limit in table.on(job))
        return result


def _text(limits: Iterable[UsageLimit]) -> str:
    entries, left = list[str](), MAX_TEXT - 2
    for limit in sorted(limits, key=lambda one: one.name):
        fields = {name: value for name in SHOWN_FIELDS if (value := getattr(limit, name))}
        entry = json.dumps(fields, separators=(",", ":"))
        left -= len(entry) + 1
        if left < 0:
            break
        entries.append(entry)
    return f"[{','.join(entries)}]" if entries else ""
