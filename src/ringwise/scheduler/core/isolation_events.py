"""Isolations: what operators took out of use, and the conditions that say so."""

from __future__ import annotations

from collections.abc import Iterator

from ringwise.durations import earliest
from ringwise.messages import events as ev
from ringwise.messages.commands import SetConditions
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Context, on
from ringwise.scheduler.core.custom_resources import CustomResources, Problem, accepted, window
from ringwise.state.allocation_modes import NO_CHIPS
from ringwise.state.model import Isolation
from ringwise.topology.chips import chip_prefix
from ringwise.wellknown import ISOLATIONS


class IsolationEvents(CustomResources[Isolation]):
    """All of them are in force at once, also for nodes that are created later."""

    name = "isolations"
    resource = ISOLATIONS
    seen, gone = ev.IsolationSeen, ev.IsolationGone

    def __init__(self, context: Context) -> None:
        super().__init__(context, Isolation)
        self._targets: frozenset[str] = frozenset()
        #: An isolation began or ended since the last turn.
        self._changed = False

    def put(self, name: str, one: Isolation, now: int) -> None:
        self._changed |= self._state.put_isolation(name, one)
        super().put(name, one, now)

    def drop(self, name: str, now: int) -> None:
        self._changed |= self._state.put_isolation(name, None)
        super().drop(name, now)

    # A target may exist now, or no longer exist.

    @on(ie.NodeChanged)
    def _node_changed(self, event: ie.NodeChanged, now: int) -> None:
        self._stale |= event.name in self._targets

    @on(ie.ClusterChanged)
    def _cluster_changed(self, event: ie.ClusterChanged, now: int) -> None:
        self._stale |= any("/" in one for one in self._targets)

    def decide(self, now: int) -> Iterator[SetConditions]:
        if self._changed:
            self._changed = False
            self._announce_nodes(Trigger.HEALTH_CHANGED, now)
            self._stale = False
        self._targets = frozenset(one.target for one in self._objects.values())
        self._state.isolation_problems.clear()
        for one in self._objects.values():
            problem = self._problem(one)
            if problem is not None:
                self._state.isolation_problems[one.name] = problem[1]
            if one.start is not None and one.start > now:
                self._next = earliest(self._next, one.start)
            ignored = f"unknown fields ignored: {', '.join(one.ignored)}" if one.ignored else ""
            active = window(one.start, None, now, is_accepted=problem is None)
            conditions = accepted(problem, ignored), active
            yield SetConditions(self.resource.kind, one.name, one.generation, conditions)

    def _problem(self, one: Isolation) -> Problem | None:
        """Return which target does not exist."""
        if one.switch or one.superpod is not None:
            return self.nodes_of(one.switch, one.superpod)[1]
        number = self._state.node_id.get(one.node)
        node = None if number is None else self._state.nodes[number]
        if number is None or node is None:
            return "NodeNotFound", f'node "{one.node}" not found'
        # Of vNPUs, the chips that they are parts of.
        resource = self._state.modes.get(number, NO_CHIPS).resource
        offered = (resource,) if resource else node.chips_capacity
        prefixes = tuple(chip_prefix(name.partition("-")[0]) for name in offered)
        numbers = None if node.devices is None else {f"{device.chip}" for device in node.devices}
        for chip in one.chips:
            if not chip.startswith(prefixes) or (numbers and chip.rpartition("-")[2] not in numbers):
                return "ChipNotFound", f"{one.node} has no chip {chip}"
        return None
