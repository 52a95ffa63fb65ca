"""Builders of embedded clusters, and a simple scheduler for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ringwise.controller.machine import Controller
from ringwise.embed.clock import SECOND, VirtualClock
from ringwise.embed.cluster import EmbeddedCluster
from ringwise.embed.fleets import make_fleet
from ringwise.embed.kubelet import SimulationSettings
from ringwise.embed.loop import EmbeddedLoop
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind, Command, SetGroupStatus
from ringwise.state.model import Node, Pod, PodClass, PodGroup
from ringwise.state.vcjob import PodTemplate, Policy, Task, VcJob
from ringwise.topology.chips import chip_names

CHIP = "huawei.com/Ascend910"


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
    cluster = EmbeddedCluster(settings=settings, now=start)
    fleet = make_fleet(nodes)
    cluster.submit_all(fleet.nodes)
    cluster.submit_all(fleet.reports)
    return EmbeddedLoop(cluster, FirstFit(), Controller(), VirtualClock(start))


def task_of(
    name: str = "worker",
    replicas: int = 2,
    *,
    chips: int = 1,
    min_available: int | None = None,
    annotations: Mapping[str, str] | None = None,
    policies: Sequence[Policy] = (),
    max_retry: int = 3,
    depends_on: Sequence[str] = (),
    depends_on_any: bool = False,
) -> Task:
    cls = PodClass(resource=CHIP if chips else None, chips=chips)
    return Task(
        name,
        replicas,
        replicas if min_available is None else min_available,
        PodTemplate(cls, annotations=annotations or {}, chip_containers=1 if chips else 0),
        tuple(policies),
        max_retry,
        tuple(depends_on),
        depends_on_any,
    )


def job_of(
    *tasks: Task,
    name: str = "train",
    min_available: int | None = None,
    min_success: int | None = None,
    policies: Sequence[Policy] = (),
    plugins: Mapping[str, tuple[str, ...]] | None = None,
    max_retry: int = 3,
    ttl_seconds: int | None = None,
    problems: Sequence[str] = (),
    queue: str = "default",
) -> VcJob:
    tasks = tasks or (task_of(),)
    return VcJob(
        "default",
        name,
        f"uid-{name}",
        tasks,
        sum(task.min_available for task in tasks) if min_available is None else min_available,
        min_success,
        policies=tuple(policies),
        plugins=plugins or {},
        max_retry=max_retry,
        ttl_seconds=ttl_seconds,
        queue=queue,
        problems=tuple(problems),
    )


def pod_of(name: str, chips: int = 1, annotations: Mapping[str, str] | None = None) -> Pod:
    return Pod("", "default", name, PodClass(resource=CHIP, chips=chips), annotations=annotations or {})
