"""Kubernetes objects as they stand on the wire, trimmed to the fields that are read.

Unknown fields are skipped by the decoder without being built. Every field may be
absent or null, as in Kubernetes. Checks of meaning are made where a struct is
turned into an object of the state (`nodes`, `pods`, `groups`, `jobs`).
"""

from __future__ import annotations

from typing import Any

import msgspec

Quantities = dict[str, str | int | float]
Texts = dict[str, str | None]


class Trimmed(msgspec.Struct, rename="camel", gc=False):
    """Camel case on the wire; never part of a reference cycle, so the collector need not look."""


class OwnerReference(Trimmed):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Trimmed):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Texts | None = None
    annotations: Texts | None = None
    owner_references: list[OwnerReference] | None = None


class Expression(Trimmed):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Trimmed):
    match_labels: Texts | None = None
    match_expressions: list[Expression] | None = None


class NodeSelectorTerm(Trimmed):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Trimmed):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredNodes(Trimmed):
    weight: int = 0
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Trimmed):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredNodes] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Trimmed):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class WeightedPodTerm(Trimmed):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Trimmed):
    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Trimmed):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Trimmed):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Port(Trimmed):
    container_port: int = 0
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class Variable(Trimmed):
    name: str = ""
    value: str | None = None


class Resources(Trimmed):
    limits: Quantities | None = None
    requests: Quantities | None = None


class Container(Trimmed):
    name: str = ""
    resources: Resources | None = None
    ports: list[Port] | None = None
    env: list[Variable] | None = None
    restart_policy: str | None = None


class Gate(Trimmed):
    name: str = ""


class PodSpec(Trimmed):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    node_selector: Texts | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[Gate] | None = None
    host_network: bool | None = None


class PodStatus(Trimmed):
    phase: str | None = None


class PodWire(Trimmed):
    metadata: Meta | None = None
    spec: PodSpec | None = None
    status: PodStatus | None = None


class TaintWire(Trimmed):
    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpec(Trimmed):
    unschedulable: bool | None = None
    taints: list[TaintWire] | None = None


class Condition(Trimmed):
    type: str = ""
    status: str = ""


class Address(Trimmed):
    type: str = ""
    address: str = ""


class NodeStatus(Trimmed):
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None


class NodeWire(Trimmed):
    metadata: Meta | None = None
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class PodGroupSpec(Trimmed):
    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    min_resources: Quantities | None = None


class PhaseStatus(Trimmed):
    phase: str | None = None


class PodGroupWire(Trimmed):
    metadata: Meta | None = None
    spec: PodGroupSpec | None = None
    status: PhaseStatus | None = None


class Guarantee(Trimmed):
    resource: Quantities | None = None


class QueueSpec(Trimmed):
    weight: int | None = None
    capability: Quantities | None = None
    guarantee: Guarantee | None = None
    reclaimable: bool | None = None
    priority: int | None = None
    parent: str | None = None


class QueueStatus(Trimmed):
    state: str | None = None
    #: Written by schedulers; only the names in it are looked at, so nothing in it can be wrong.
    allocated: Any = None


class QueueWire(Trimmed):
    metadata: Meta | None = None
    spec: QueueSpec | None = None
    status: QueueStatus | None = None


class PriorityClassWire(Trimmed):
    metadata: Meta | None = None
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class ConfigMapWire(Trimmed):
    metadata: Meta | None = None
    data: Texts | None = None


class PolicyWire(Trimmed):
    action: str | None = None
    event: str | None = None
    events: list[str] | None = None
    exit_code: int | None = None
    timeout: str | None = None


class TemplateWire(Trimmed):
    metadata: Meta | None = None
    spec: PodSpec | None = None


class DependsOn(Trimmed):
    name: list[str] | None = None
    iteration: str | None = None


class TaskWire(Trimmed):
    name: str | None = None
    replicas: int | None = None
    min_available: int | None = None
    template: TemplateWire | None = None
    policies: list[PolicyWire] | None = None
    max_retry: int | None = None
    depends_on: DependsOn | None = None


class JobSpec(Trimmed):
    scheduler_name: str | None = None
    min_available: int | None = None
    min_success: int | None = None
    tasks: list[TaskWire] | None = None
    policies: list[PolicyWire] | None = None
    plugins: dict[str, list[str] | None] | None = None
    queue: str | None = None
    max_retry: int | None = None
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str | None = None
    running_estimate: str | None = None


class JobStatus(Trimmed):
    state: PhaseStatus | None = None
    retry_count: int | None = None
    version: int | None = None


class JobWire(Trimmed):
    metadata: Meta | None = None
    spec: JobSpec | None = None
    status: JobStatus | None = None
