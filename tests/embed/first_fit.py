"""A simple scheduler for embedded clusters, and a lab with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ringwise.controller.machine import Controller
from ringwise.durations import SECOND
from ringwise.embed.clock import VirtualClock
from ringwise.embed.fleets import make_fleet
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.loop import EmbeddedLoop
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, SetGroupStatus
from ringwise.state.model import Node, Pod, PodGroup
from ringwise.topology.chips import chip_names
from tests.builders.values import CHIP
from tests.embed.faulty import FaultyCluster


class FirstFit:
    """Admits every gang, and places it as soon as all its pods fit, node by node."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, PodGroup] = {}
        #: Placements that the events do not show yet.
        self.placed: dict[str, tuple[str, tuple[int, ...]]] = {}

    def next_deadline(self) -> int | None:
        return None

    def handle(self, events: Iterable[ev.Event], now: int) -> list[Command]:
        for event in events:
            self.update(event)
        commands: list[Command] = []
        for group in self.groups.values():
            if group.phase in ("", "Pending"):
                commands.append(SetGroupStatus(group.key, "Inqueue"))
            else:
                commands += self.place(group)
        for pod in [pod for pod in self.pods.values() if pod.group is None and self.waits(pod)]:
            commands += self.place_all([pod])
        return commands

    def update(self, event: ev.Event) -> None:
        match event:
            case ev.NodeSeen():
                self.nodes[event.node.name] = event.node
            case ev.NodeGone():
                self.nodes.pop(event.name, None)
            case ev.PodSeen():
                self.pods[event.pod.uid] = event.pod
            case ev.PodGone():
                self.pods.pop(event.uid, None)
                self.placed.pop(event.uid, None)
            case ev.PodGroupSeen():
                self.groups[event.group.key] = event.group
            case ev.PodGroupGone():
                self.groups.pop(event.key, None)
            case ev.BindFailed():
                self.placed.pop(event.uid, None)

    def waits(self, pod: Pod) -> bool:
        return pod.live and not pod.deleting and pod.node is None and pod.uid not in self.placed

    def place(self, group: PodGroup) -> list[Command]:
        members = [pod for pod in self.pods.values() if f"{pod.namespace}/{pod.group}" == group.key]
        waiting = [pod for pod in members if self.waits(pod)]
        settled = [pod for pod in members if not pod.deleting and not self.waits(pod)]
        if not waiting or len(waiting) + len(settled) < group.min_member:
            return []
        commands = self.place_all(waiting)
        return [*commands, SetGroupStatus(group.key, "Running")] if commands else []

    def place_all(self, pods: Sequence[Pod]) -> list[Command]:
        chosen: list[Command] = []
        for pod in pods:
            found = self.first_fit(pod)
            if found is None:
                for bind in chosen:
                    assert isinstance(bind, Bind)
                    del self.placed[bind.uid]
                return []
            node, chips = found
            self.placed[pod.uid] = found
            given = {CHIP: chip_names(CHIP, chips), "predicate-time": "1"} if chips else {}
            chosen.append(Bind(pod.uid, pod.namespace, pod.name, node, chips, given))
        return chosen

    def first_fit(self, pod: Pod) -> tuple[str, tuple[int, ...]] | None:
        for name, node in self.nodes.items():
            if node.unschedulable or not node.ready:
                continue
            taken = {
                chip
                for uid, (where, chips) in self.placed.items()
                if where == name and self.pods[uid].live
                for chip in chips
            }
            free = [chip for chip in range(node.chips_capacity[CHIP]) if chip not in taken]
            if len(free) >= pod.cls.chips:
                return name, tuple(free[: pod.cls.chips])
        return None


def lab_of(
    nodes: int = 2, *, settings: SimulationSettings | None = None, start: int = SECOND
) -> EmbeddedLoop:
    cluster = FaultyCluster(settings=settings, now=start)
    fleet = make_fleet(nodes)
    cluster.submit_all(fleet.nodes)
    cluster.submit_all(fleet.reports)
    return EmbeddedLoop(cluster, FirstFit(), Controller(), VirtualClock(start))
