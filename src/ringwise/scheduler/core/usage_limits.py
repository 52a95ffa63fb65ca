"""UsageLimits: which of them are accepted, and which are exceeded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringwise.durations import earliest
from ringwise.grammar import amount_text
from ringwise.messages import events as ev
from ringwise.messages.commands import Condition, SetConditions
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Context, Handlers
from ringwise.scheduler.core.custom_resources import STATUS_INTERVAL, CustomResources, accepted
from ringwise.state.limits import UsageLimit
from ringwise.topology.natural import natural_key
from ringwise.wellknown import USAGE_LIMITS

#: More than this count for nothing.
MAX_LIMITS = 1_000


class UsageLimitEvents(CustomResources[UsageLimit]):
    name = "usage limits"
    resource = USAGE_LIMITS

    def __init__(self, context: Context) -> None:
        super().__init__(context, UsageLimit)
        #: When it was last decided.
        self._decided = 0

    def handlers(self) -> Handlers:
        return {
            **super().handlers(),
            ev.UsageLimitSeen: lambda event, now: self.put(event.limit.name, event.limit),
            ev.UsageLimitGone: lambda event, now: self.drop(event.name),
            ev.ConfigurationSeen: self._configuration_seen,
            **dict.fromkeys((ie.JobSeen, ie.JobChanged, ie.PodBound, ie.JobGone), self._use_changed),
        }

    def current_events(self) -> Iterator[ev.Event]:
        yield from super().current_events()
        yield from map(ev.UsageLimitSeen, self._objects.values())

    def put(self, name: str, one: UsageLimit) -> None:
        if self._objects.get(name) != one:
            super().put(name, one)
        self._recorded.discard(name)

    def _configuration_seen(self, event: ev.ConfigurationSeen, now: int) -> None:
        """Users may be verified now."""
        self._stale = self._stale or bool(self._objects)

    def _use_changed(self, event: object, now: int) -> None:
        if self._objects:
            self._next = earliest(self._next, max(now, self._decided + STATUS_INTERVAL))

    def decide(self, now: int) -> Sequence[SetConditions]:
        self._decided = now
        limits, problems = list[UsageLimit](), dict[str, tuple[str, str]]()
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
        return [
            SetConditions(
                self.resource.kind,
                one.name,
                one.generation,
                (
                    accepted(problems.get(one.name)),
                    _exceeded_condition(exceeded.get(one.name, ""), is_accepted=one.name not in problems),
                ),
            )
            for one in self._objects.values()
        ]

    def _problem(self, one: UsageLimit, before: int) -> tuple[str, str] | None:
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
