"""NodeReservations: which of them are accepted, which nodes they have, and when they are over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import and_

from ringwise.durations import earliest
from ringwise.grammar import counted
from ringwise.messages import events as ev
from ringwise.messages.commands import SetConditions
from ringwise.reasons import Trigger
from ringwise.scheduler import internal_events as ie
from ringwise.scheduler.cache.component import Context, on
from ringwise.scheduler.core.custom_resources import CustomResources, Problem, accepted, window
from ringwise.state.model import NodeReservation, NodeReservations
from ringwise.state.node_labels import members_of
from ringwise.state.node_windows import NodeReservationTable
from ringwise.topology.natural import natural_key
from ringwise.wellknown import NODE_RESERVATIONS

#: Reservations that are in force or ahead, and their nodes together.
MAX_RESERVATIONS = 1_000
MAX_NODES = 50_000


class NodeReservationEvents(CustomResources[NodeReservation]):
    """A reservation of nodes ends by itself, and jobs that waited for its nodes are tried again."""

    name = "reservations of nodes"
    resource = NODE_RESERVATIONS
    seen, gone = ev.NodeReservationSeen, ev.NodeReservationGone

    def __init__(self, context: Context) -> None:
        super().__init__(context, NodeReservation)
        #: Those that were accepted and did not change since. They stay accepted if a node is deleted, and
        #: come before others that overlap with them.
        self._accepted: set[str] = set()
        #: The version of the labels of all nodes.
        self._labels = -1

    def current_events(self) -> Iterator[ev.Event]:
        for event in super().current_events():
            if isinstance(event, ev.NodeReservationSeen):
                one = event.reservation
                event = ev.NodeReservationSeen(replace(one, accepted=one.name in self._accepted))
            yield event

    def put(self, name: str, one: NodeReservation, now: int) -> None:
        # Whether it is accepted is status.
        spec = replace(one, accepted=False)
        if self._objects.get(name) != spec:
            self._accepted.discard(name)
        if one.accepted:
            self._accepted.add(name)
        super().put(name, spec, now)

    def drop(self, name: str, now: int) -> None:
        super().drop(name, now)
        self._accepted.discard(name)

    @on(ie.ClusterChanged)
    def _cluster_changed(self, event: ie.ClusterChanged, now: int) -> None:
        """Nodes may have other labels, or be in another leaf switch or SuperPoD."""
        if self._objects and not self._stale:
            version = self._state.labels.version
            grouped = any(one.switch or one.superpod is not None for one in self._objects.values())
            self._stale = grouped or version != self._labels
            self._labels = version

    def decide(self, now: int) -> Iterator[SetConditions]:
        table, problems = NodeReservationTable(), dict[str, str]()
        for one in sorted(self._objects.values(), key=self._precedence):
            nodes, missing = self._nodes(one)
            resolved = replace(one, nodes=nodes)
            problem = self._problem(resolved, missing, table, now)
            if problem is None:
                self._accepted.add(one.name)
            else:
                self._accepted.discard(one.name)
                problems[one.name] = problem[1]
            if problem is None and one.end > now:
                table.add(resolved)
                self._next = earliest(self._next, one.start if one.start > now else one.end)
            active = window(one.start, one.end, now, is_accepted=problem is None)
            conditions = accepted(problem, counted(nodes, "node")), active
            yield SetConditions(self.resource.kind, one.name, one.generation, conditions)
        wanted = NodeReservations(tuple(table.entries), problems)
        if wanted != self._state.node_reservations:
            changed = wanted.entries != self._state.node_reservations.entries
            self._state.put_node_reservations(wanted)
            if changed:
                self._announce_nodes(Trigger.HEALTH_CHANGED, now)
                self._stale = False

    def _precedence(self, one: NodeReservation) -> tuple[object, ...]:
        return (one.name not in self._accepted, one.created, natural_key(one.name))

    def _problem(
        self, one: NodeReservation, missing: Problem | None, table: NodeReservationTable, now: int
    ) -> Problem | None:
        """Return why it is not accepted; `missing`: what it names does not exist."""
        if one.end <= one.created:
            return "EndInPast", "its end is before its creation"
        if one.end <= now:
            return None
        if missing is not None and one.name not in self._accepted:
            return missing
        if overlap := table.overlap(one):
            return "Overlaps", overlap
        if len(table.entries) >= MAX_RESERVATIONS or table.size + len(one.nodes) > MAX_NODES:
            message = f"more than {MAX_RESERVATIONS} reservations, or more than {MAX_NODES} nodes in them"
            return "TooManyReservations", message
        return None

    def _nodes(self, one: NodeReservation) -> tuple[tuple[str, ...], Problem | None]:
        """Return the nodes that it selects now, and what of it does not exist."""
        names, labels = self._state.names, self._state.labels
        missing = None
        if one.switch or one.superpod is not None:
            nodes, missing = self.nodes_of(one.switch, one.superpod)
        elif one.selector:
            sets = (labels.with_any(key, (value,)) for key, value in one.selector)
            nodes = [names[number] for number in members_of(reduce(and_, sets, labels.existing))]
        else:
            unknown = [name for name in one.nodes if name not in self._state.node_id]
            if unknown:
                more = f" and {counted(len(unknown) - 1, 'more node')}" if len(unknown) > 1 else ""
                missing = "NodeNotFound", f"node {unknown[0]}{more} not found"
            return one.nodes, missing
        return tuple(sorted(nodes, key=natural_key)), missing
