"""Nodes, pods, groups and other values of the core, and the events that report them.

Fields that a test does not name have the values of an ordinary object: a ready node of eight healthy chips, a
pod in the namespace `default` that waits for one chip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from ringwise.manifests.objects.isolations import isolation_name
from ringwise.messages import events as ev
from ringwise.state.model import (
    Device,
    DeviceReport,
    HyperNode,
    HyperNodeMember,
    Isolation,
    Node,
    NodeTerm,
    Pod,
    PodClass,
    PodGroup,
    Requirement,
)
from ringwise.state.vcjob import PodTemplate, Policy, Task, VcJob
from ringwise.state.volumes import ClaimReference, PersistentVolume, PersistentVolumeClaim
from ringwise.topology.chips import mask_of
from ringwise.topology.switches import LeafSwitch, Server, SwitchTopology

CHIP = "huawei.com/Ascend910"
SECOND = 1_000_000_000
GIB = 1 << 30
ONCE = ("ReadWriteOnce",)
_OF_CLASSES = frozenset(field.name for field in fields(PodClass))


def node(
    name: str = "n1", chips: int = 8, *, faulty: int = 0, resource: str = CHIP, **described: Any
) -> Node:
    described.setdefault("devices", tuple(map(Device, range(chips))))
    described.setdefault("chips_allocatable", {resource: chips - faulty})
    return Node(name, **{"chips_capacity": {resource: chips}, **described})


def report(node: str, free: Iterable[int] = (), *, resource: str = CHIP, **described: Any) -> DeviceReport:
    """Of a device plugin that says something about the network; sets beside `free` are masks."""
    return DeviceReport(node, resource, mask_of(free), **{"network_unhealthy": 0, **described})


def pod_class(
    chips: int = 0,
    *,
    resource: str = CHIP,
    cpu: int = 0,
    extended: Mapping[str, int] | Iterable[tuple[str, int]] = (),
    **described: Any,
) -> PodClass:
    described = {"cpu_milli": cpu, "extended": tuple(sorted(dict(extended).items())), **described}
    return PodClass(resource if chips else None, chips, **described)


def pod(
    name: str = "p1",
    chips: int = 1,
    *,
    namespace: str = "default",
    on: str | None = None,
    holds: Iterable[Any] = (),
    **described: Any,
) -> Pod:
    """A pod that waits, or runs `on` a node. Fields of its class may be given with those of the pod."""
    asked = {name: described.pop(name) for name in _OF_CLASSES & described.keys()}
    described.setdefault("cls", pod_class(chips, **asked))
    described.setdefault("phase", "Running" if on else "Pending")
    return Pod(described.pop("uid", name), namespace, name, node=on, holds=tuple(holds), **described)


def group(name: str, pods: int = 1, *, namespace: str = "default", **described: Any) -> PodGroup:
    return PodGroup(namespace, name, **{"min_member": pods, **described})


def gang(name: str, pods: int, chips: int, **described: Any) -> list[PodGroup | Pod]:
    """A group and its pods."""
    made = group(name, pods, **described)
    members = (pod(f"{name}-{at}", chips, group=name, created=made.created) for at in range(pods))
    return [made, *members]


def hyper_node(
    name: str, tier: int, *members: str, of_nodes: bool | None = None, **described: Any
) -> HyperNode:
    """Of nodes on tier 1 and of HyperNodes above, where `of_nodes` does not say otherwise."""
    higher = tier > 1 if of_nodes is None else not of_nodes
    return HyperNode(name, tier, tuple(HyperNodeMember(higher, one) for one in members), **described)


def address(number: int) -> str:
    return f"10.0.0.{number}"


def switches(leaves: int, nodes: int) -> SwitchTopology:
    """Leaf switches A, B, C ... of so many nodes, whose addresses count from 1."""
    return SwitchTopology(
        tuple(
            LeafSwitch(
                "ABCDEF"[leaf],
                leaf,
                tuple(Server(address(leaf * nodes + at + 1), at, at) for at in range(nodes)),
            )
            for leaf in range(leaves)
        ),
        nodes,
    )


def claim(name: str = "data", storage_class: str = "fast", **described: Any) -> PersistentVolumeClaim:
    usual = {"uid": f"uid-{name}", "access_modes": ONCE, "requested": GIB}
    return PersistentVolumeClaim("default", name, storage_class=storage_class, **{**usual, **described})


def volume(name: str, storage_class: str = "local", **described: Any) -> PersistentVolume:
    return PersistentVolume(
        name, storage_class=storage_class, **{"capacity": GIB, "access_modes": ONCE, **described}
    )


def reference(claim: PersistentVolumeClaim) -> ClaimReference:
    return ClaimReference(claim.namespace, claim.name, claim.uid)


def on_node(*names: str) -> tuple[NodeTerm, ...]:
    """The node affinity of a volume that only these nodes can use."""
    return (NodeTerm(fields=(Requirement("metadata.name", "In", names),)),)


def in_zone(*zones: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm(labels=(Requirement("zone", "In", zones),)),)


def task_of(
    name: str = "worker",
    replicas: int = 2,
    *,
    chips: int = 1,
    cpu: int = 0,
    min_available: int | None = None,
    policies: Sequence[Policy] = (),
    depends_on: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **described: Any,
) -> Task:
    template = PodTemplate(
        pod_class(chips, cpu=cpu),
        labels=labels or {},
        annotations=annotations or {},
        chip_containers=1 if chips else 0,
    )
    least = replicas if min_available is None else min_available
    return Task(name, replicas, least, template, tuple(policies), depends_on=tuple(depends_on), **described)


def job_of(*tasks: Task, name: str = "train", policies: Sequence[Policy] = (), **described: Any) -> VcJob:
    """A vcjob; without tasks, of one task with two pods."""
    tasks = tasks or (task_of(),)
    least = sum(task.min_available for task in tasks)
    usual = {"uid": f"uid-{name}", "min_available": least, "policies": tuple(policies)}
    return VcJob("default", name, tasks=tasks, **{**usual, **described})


def vcjob(
    name: str,
    pods: int,
    chips: int,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **described: Any,
) -> VcJob:
    """Of one task, with the same labels and annotations on the job and its pods."""
    noted: dict[str, Any] = {"labels": labels or {}, "annotations": annotations or {}}
    return job_of(task_of("worker", pods, chips=chips, **noted), name=name, **noted, **described)


#: The event that reports a value of each type: that of its first field.
_EVENTS: Mapping[type, Callable[[Any], ev.Event]] = {
    one: event
    for name, event in vars(ev).items()
    if name.endswith("Seen")
    for hint in [get_type_hints(event)[event.__match_args__[0]]]
    for one in get_args(hint) or (hint,)
}


def isolated(*entries: Isolation) -> list[Isolation]:
    """The same with the names that commands give them, with a number if there are several of one."""
    found: dict[str, Isolation] = {}
    for one in entries:
        name = isolation_name(one)
        name = f"{name}-{len(found)}" if name in found else name
        found[name] = replace(one, name=name, generation=1)
    return list(found.values())


def seen(*values: object) -> list[ev.Event]:
    """Events that report these values, in this order; events stay, and those of lists are taken out."""
    result: list[ev.Event] = []
    for value in values:
        if isinstance(value, list):
            result += seen(*value)
        else:
            result.append(value if isinstance(value, ev.Event) else _EVENTS[type(value)](value))
    return result
