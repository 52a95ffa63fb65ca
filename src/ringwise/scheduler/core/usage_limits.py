"""UsageLimits: which of them are accepted and exceeded, and which of them hold in a namespace."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from ringwise.durations import earliest
from ringwise.framework.holdings import Scope
from ringwise.grammar import amount_text
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, Condition, SetConditions, SetNamespaceLimits
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Component, Context, on
from ringwise.scheduler.core.custom_resources import STATUS_INTERVAL, CustomResources, Problem, accepted
from ringwise.state.limits import SHOWN_FIELDS, UsageLimit
from ringwise.topology.natural import natural_key
from ringwise.wellknown import USAGE_LIMITS

#: More than this count for nothing.
MAX_LIMITS = 1_000


class UsageLimitEvents(CustomResources[UsageLimit]):
    name = "usage limits"
    resource = USAGE_LIMITS
    seen, gone = ev.UsageLimitSeen, ev.UsageLimitGone

    def __init__(self, context: Context) -> None:
        super().__init__(context, UsageLimit)
        #: When it was last decided.
        self._decided = 0

    @on(ev.ConfigurationSeen)
    def _configuration_seen(self, event: ev.ConfigurationSeen, now: int) -> None:
        """Users may be verified now."""
        self._stale = self._stale or bool(self._objects)

    @on(ie.JobSeen, ie.JobChanged, ie.PodBound, ie.JobGone)
    def _use_changed(self, event: object, now: int) -> None:
        if self._objects:
            self._next = earliest(self._next, max(now, self._decided + STATUS_INTERVAL))

    def decide(self, now: int) -> Iterator[SetConditions]:
        self._decided = now
        limits, problems = list[UsageLimit](), dict[str, Problem]()
        for one in sorted(self._objects.values(), key=lambda one: (one.created, natural_key(one.name))):
            problem = self._problem(one, len(limits))
            if problem is None:
                limits.append(one)
            else:
                problems[one.name] = problem
        table = self._book.limits
        table.problems = {name: problem for name, (_, problem) in problems.items()}
        if table.put(limits):
            self._state.changes.some_queue()
            self._notify(ie.LimitsChanged(), now)
        exceeded = self._exceeded()
        for one in self._objects.values():
            problem, text = problems.get(one.name), exceeded.get(one.name, "")
            conditions = accepted(problem), _exceeded_condition(text, is_accepted=problem is None)
            yield SetConditions(self.resource.kind, one.name, one.generation, conditions)

    def _problem(self, one: UsageLimit, before: int) -> Problem | None:
        """Return why it is not accepted: the reason, and the message."""
        if one.user and self._configuration.settings.user_annotation != "guarded":
            return (
                "UserNotVerified",
                "limits of users do not hold: the user of a job is known only if admission records it "
                "(user-annotation: guarded)",
            )
        if before >= MAX_LIMITS:
            return "TooManyLimits", f"more than {MAX_LIMITS} limits"
        return None

    def _exceeded(self) -> dict[str, str]:
        """By name of limits that are exceeded: the first subject, and what it uses."""
        table, exceeded = self._book.limits, dict[str, str]()
        for scope in sorted(self._usage.holdings.used):
            for limit in table.limits_of(scope):
                for what, more in table.exceeded_by(scope, limit):
                    hard = limit.hard[what]
                    text = f"{amount_text(what, hard + more)} of {amount_text(what, hard)} {what}"
                    exceeded.setdefault(limit.name, f"{scope} uses {text}")
        return exceeded


def _exceeded_condition(text: str, *, is_accepted: bool) -> Condition:
    if not is_accepted:
        return Condition("Exceeded", False, "NotAccepted")
    return Condition("Exceeded", bool(text), "LimitExceeded" if text else "WithinLimit", text)


#: Characters of a condition, of which the API server allows 32,768. What is beyond them is left out.
MAX_TEXT = 16_384


class NamespaceLimits(Component):
    """The UsageLimits that hold in a namespace, in a condition of the Namespace.

    Users may read nothing but their own namespace; UsageLimits are objects of the cluster, which name others.
    """

    name = "limits of namespaces"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        #: By namespace: what its condition says, as far as it says something.
        self._written: dict[str, str] = {}
        #: When conditions may be written next.
        self._due = context.deadlines.table()
        self._last = -STATUS_INTERVAL

    @on(ev.NamespaceGone)
    def _namespace_gone(self, event: ev.NamespaceGone, now: int) -> None:
        self._written.pop(event.name, None)

    @on(ev.NamespaceSeen)
    def _namespace_seen(self, event: ev.NamespaceSeen, now: int) -> None:
        """A former leader wrote it, or another client changed it."""
        self._written[event.namespace.name] = event.namespace.limits
        self._changed(event, now)

    @on(ie.LimitsChanged, ie.JobSeen, ie.JobGone)
    def _changed(self, event: object, now: int) -> None:
        if self._book.limits or any(self._written.values()):
            self._due.put("", max(now, self._last + STATUS_INTERVAL))

    def publish(self, now: int) -> Iterator[Command]:
        if not self._due.take(now):
            return
        self._last = now
        for namespace, limits in self._limits().items():
            text = _text(limits.values())
            if text != self._written[namespace]:
                self._written[namespace] = text
                yield SetNamespaceLimits(namespace, text)

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
