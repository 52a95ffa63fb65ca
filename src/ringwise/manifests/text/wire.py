"""Kubernetes objects as they are on the wire, with the fields that are read.

The decoder skips all other fields. Every field may be absent or null, as in Kubernetes. Values are validated
where a struct is turned into an object of the state (`nodes`, `pods`, `groups`, `jobs`).
"""

from __future__ import annotations

from typing import Any

import msgspec

Quantity = str | int | float
Quantities = dict[str, Quantity]
Texts = dict[str, str | None]


class WireStruct(msgspec.Struct, rename="camel", gc=False):
    """Camel case on the wire. Never part of a reference cycle, so garbage collection can skip it."""


class OwnerReferenceWire(WireStruct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class MetaWire(WireStruct):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Texts | None = None
    annotations: Texts | None = None
    owner_references: list[OwnerReferenceWire] | None = None


class ObjectWire(WireStruct):
    """An object of any kind; without metadata it is empty."""

    metadata: MetaWire = msgspec.field(default_factory=MetaWire)


class ExpressionWire(WireStruct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelectorWire(WireStruct):
    match_labels: Texts | None = None
    match_expressions: list[ExpressionWire] | None = None


class NodeSelectorTermWire(WireStruct):
    match_expressions: list[ExpressionWire] | None = None
    match_fields: list[ExpressionWire] | None = None


class NodeSelectorWire(WireStruct):
    node_selector_terms: list[NodeSelectorTermWire] | None = None


class PreferredNodeTermWire(WireStruct):
    weight: int = 0
    preference: NodeSelectorTermWire | None = None


class NodeAffinityWire(WireStruct):
    required: NodeSelectorWire | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredNodeTermWire] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTermWire(WireStruct):
    topology_key: str = ""
    label_selector: LabelSelectorWire | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelectorWire | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTermWire(WireStruct):
    weight: int = 0
    pod_affinity_term: PodAffinityTermWire | None = None


class PodAffinityWire(WireStruct):
    required: list[PodAffinityTermWire] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTermWire] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class AffinityWire(WireStruct):
    node_affinity: NodeAffinityWire | None = None
    pod_affinity: PodAffinityWire | None = None
    pod_anti_affinity: PodAffinityWire | None = None


class TopologySpreadWire(WireStruct):
    max_skew: int | None = None
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelectorWire | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class TolerationWire(WireStruct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class ContainerPortWire(WireStruct):
    container_port: int = 0
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class FieldRefWire(WireStruct):
    field_path: str | None = None


class EnvSourceWire(WireStruct):
    """A reference to a field of the pod; all others (ConfigMap, Secret, ...) are skipped."""

    field_ref: FieldRefWire | None = None


class EnvVarWire(WireStruct):
    name: str = ""
    value: str | None = None
    value_from: EnvSourceWire | None = None


class EnvFromWire(WireStruct):
    """All of a ConfigMap or Secret as variables."""

    prefix: str | None = None


class ResourcesWire(WireStruct):
    limits: Quantities | None = None
    requests: Quantities | None = None


class ContainerWire(WireStruct):
    name: str = ""
    resources: ResourcesWire | None = None
    ports: list[ContainerPortWire] | None = None
    env: list[EnvVarWire] | None = None
    env_from: list[EnvFromWire] | None = None
    restart_policy: str | None = None


class ClaimSpecWire(WireStruct):
    access_modes: list[str] | None = None
    resources: ResourcesWire | None = None
    #: Empty: no class. Absent: the default class.
    storage_class_name: str | None = None
    volume_name: str | None = None
    volume_mode: str | None = None
    selector: LabelSelectorWire | None = None


class ClaimTemplateWire(WireStruct):
    metadata: MetaWire | None = None
    spec: ClaimSpecWire | None = None


class NamedWire(WireStruct):
    name: str = ""


class ClaimSourceWire(WireStruct):
    claim_name: str | None = None


class EphemeralSourceWire(WireStruct):
    """A claim of the pod's own, named after pod and volume; Kubernetes makes it."""

    volume_claim_template: ClaimTemplateWire | None = None


class PodVolumeWire(WireStruct):
    """A volume of a pod: by a claim; all other sources are skipped."""

    name: str = ""
    persistent_volume_claim: ClaimSourceWire | None = None
    ephemeral: EphemeralSourceWire | None = None


class PodSpecWire(WireStruct):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    containers: list[ContainerWire] | None = None
    init_containers: list[ContainerWire] | None = None
    ephemeral_containers: list[ContainerWire] | None = None
    overhead: Quantities | None = None
    resources: ResourcesWire | None = None
    node_selector: Texts | None = None
    affinity: AffinityWire | None = None
    tolerations: list[TolerationWire] | None = None
    resource_claims: list[NamedWire] | None = None
    topology_spread_constraints: list[TopologySpreadWire] | None = None
    scheduling_gates: list[NamedWire] | None = None
    volumes: list[PodVolumeWire] | None = None
    host_network: bool | None = None
    hostname: str | None = None
    subdomain: str | None = None
    termination_grace_period_seconds: int | None = None


class ConditionWire(WireStruct):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class ConditionsWire(WireStruct):
    conditions: list[ConditionWire] | None = None


class PodStatusWire(ConditionsWire):
    phase: str | None = None
    nominated_node_name: str | None = None
    start_time: str | None = None


class PodWire(ObjectWire):
    spec: PodSpecWire | None = None
    status: PodStatusWire | None = None


class TaintWire(WireStruct):
    key: str = ""
    value: str | None = None
    effect: str = ""


class NodeSpecWire(WireStruct):
    unschedulable: bool | None = None
    taints: list[TaintWire] | None = None


class NodeConditionWire(WireStruct):
    type: str = ""
    status: str = ""


class NodeAddressWire(WireStruct):
    type: str = ""
    address: str = ""


class NodeStatusWire(WireStruct):
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: list[NodeConditionWire] | None = None
    addresses: list[NodeAddressWire] | None = None


class NodeWire(ObjectWire):
    spec: NodeSpecWire | None = None
    status: NodeStatusWire | None = None


class NetworkTopologyWire(WireStruct):
    mode: str | None = None
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class SubGroupPolicyWire(WireStruct):
    name: str | None = None
    label_selector: LabelSelectorWire | None = None
    match_label_keys: list[str] | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    network_topology: NetworkTopologyWire | None = None


class PodGroupSpecWire(WireStruct):
    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    queue: str | None = None
    priority_class_name: str | None = None
    min_resources: Quantities | None = None
    network_topology: NetworkTopologyWire | None = None
    sub_group_policy: list[SubGroupPolicyWire] | None = None


class PhaseStatusWire(WireStruct):
    phase: str | None = None


class PodGroupWire(ObjectWire):
    spec: PodGroupSpecWire | None = None
    status: PhaseStatusWire | None = None


class GuaranteeWire(WireStruct):
    resource: Quantities | None = None


class GroupNamesWire(WireStruct):
    required: list[str] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[str] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class QueueAffinityWire(WireStruct):
    node_group_affinity: GroupNamesWire | None = None
    node_group_anti_affinity: GroupNamesWire | None = None


class QueueSpecWire(WireStruct):
    weight: int | None = None
    capability: Quantities | None = None
    guarantee: GuaranteeWire | None = None
    reclaimable: bool | None = None
    priority: int | None = None
    parent: str | None = None
    deserved: Quantities | None = None
    affinity: QueueAffinityWire | None = None


class QueueStatusWire(WireStruct):
    state: str | None = None
    #: Written by schedulers. Only the names in it are read, so any value is accepted.
    allocated: Any = None


class QueueWire(ObjectWire):
    spec: QueueSpecWire | None = None
    status: QueueStatusWire | None = None


class CommandTargetWire(WireStruct):
    kind: str | None = None
    name: str | None = None


class CommandWire(ObjectWire):
    """What a user asks for: `bus.volcano.sh`."""

    action: str | None = None
    target: CommandTargetWire | None = None
    message: str | None = None


class NameMatchWire(WireStruct):
    name: str | None = None


class PatternMatchWire(WireStruct):
    pattern: str | None = None


class MemberSelectorWire(WireStruct):
    exact_match: NameMatchWire | None = None
    regex_match: PatternMatchWire | None = None
    label_match: LabelSelectorWire | None = None


class HyperNodeMemberWire(WireStruct):
    type: str | None = None
    selector: MemberSelectorWire | None = None


class HyperNodeSpecWire(WireStruct):
    tier: int | None = None
    tier_name: str | None = None
    members: list[HyperNodeMemberWire] | None = None


class HyperNodeStatusWire(WireStruct):
    node_count: int | None = None
    #: As they are: those of others are written back.
    conditions: list[Any] | None = None


class HyperNodeWire(ObjectWire):
    spec: HyperNodeSpecWire | None = None
    status: HyperNodeStatusWire | None = None


class NamespaceWire(ObjectWire):
    status: ConditionsWire | None = None


class ClaimWire(ObjectWire):
    spec: ClaimSpecWire | None = None
    status: PhaseStatusWire | None = None


class ClaimReferenceWire(WireStruct):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class VolumeNodeAffinityWire(WireStruct):
    required: NodeSelectorWire | None = None


class CsiSourceWire(WireStruct):
    driver: str | None = None
    volume_handle: str | None = None


class DiskSourceWire(WireStruct):
    """A disk of a cloud, from before CSI; each kind has a field of its own for its name."""

    volume_id: str | None = msgspec.field(default=None, name="volumeID")
    pd_name: str | None = None
    disk_uri: str | None = msgspec.field(default=None, name="diskURI")
    volume_path: str | None = None


class PersistentVolumeSpecWire(WireStruct):
    capacity: Quantities | None = None
    access_modes: list[str] | None = None
    claim_ref: ClaimReferenceWire | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinityWire | None = None
    persistent_volume_reclaim_policy: str | None = None
    csi: CsiSourceWire | None = None
    aws_elastic_block_store: DiskSourceWire | None = None
    azure_disk: DiskSourceWire | None = None
    cinder: DiskSourceWire | None = None
    gce_persistent_disk: DiskSourceWire | None = None
    vsphere_volume: DiskSourceWire | None = None


class PersistentVolumeWire(ObjectWire):
    spec: PersistentVolumeSpecWire | None = None
    status: PhaseStatusWire | None = None


class TopologyTermWire(WireStruct):
    match_label_expressions: list[ExpressionWire] | None = None


class StorageClassWire(ObjectWire):
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTermWire] | None = None


class CsiAllocatableWire(WireStruct):
    count: int | None = None


class CsiNodeDriverWire(WireStruct):
    name: str = ""
    allocatable: CsiAllocatableWire | None = None
    topology_keys: list[str] | None = None


class CsiNodeSpecWire(WireStruct):
    drivers: list[CsiNodeDriverWire] | None = None


class CsiNodeWire(ObjectWire):
    spec: CsiNodeSpecWire | None = None


class CsiDriverSpecWire(WireStruct):
    storage_capacity: bool | None = None


class CsiDriverWire(ObjectWire):
    spec: CsiDriverSpecWire | None = None


class StorageCapacityWire(ObjectWire):
    storage_class_name: str | None = None
    node_topology: LabelSelectorWire | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class PriorityClassWire(ObjectWire):
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class ScopeExpressionWire(WireStruct):
    scope_name: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class ScopeSelectorWire(WireStruct):
    match_expressions: list[ScopeExpressionWire] | None = None


class ResourceQuotaSpecWire(WireStruct):
    hard: Quantities | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelectorWire | None = None


class ResourceQuotaStatusWire(WireStruct):
    hard: Quantities | None = None
    used: Quantities | None = None


class ResourceQuotaWire(ObjectWire):
    spec: ResourceQuotaSpecWire | None = None
    status: ResourceQuotaStatusWire | None = None


class ConfigMapWire(ObjectWire):
    data: Texts | None = None

    @property
    def texts(self) -> dict[str, str]:
        """The data. Null is the empty string, as for the API server."""
        return {key: value or "" for key, value in (self.data or {}).items()}


class PolicyWire(WireStruct):
    action: str | None = None
    event: str | None = None
    events: list[str] | None = None
    exit_code: int | None = None
    timeout: str | None = None


class TemplateWire(WireStruct):
    metadata: MetaWire | None = None
    spec: PodSpecWire | None = None


class DependsOnWire(WireStruct):
    name: list[str] | None = None
    iteration: str | None = None


class PartitionPolicyWire(WireStruct):
    total_partitions: int | None = None
    partition_size: int | None = None
    min_partitions: int | None = None
    network_topology: NetworkTopologyWire | None = None


class TaskWire(WireStruct):
    name: str | None = None
    replicas: int | None = None
    min_available: int | None = None
    template: TemplateWire | None = None
    policies: list[PolicyWire] | None = None
    max_retry: int | None = None
    depends_on: DependsOnWire | None = None
    topology_policy: str | None = None
    partition_policy: PartitionPolicyWire | None = None


class VolumeWire(WireStruct):
    mount_path: str | None = None
    volume_claim_name: str | None = None
    volume_claim: ClaimSpecWire | None = None


class JobSpecWire(WireStruct):
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
    volumes: list[VolumeWire] | None = None
    network_topology: NetworkTopologyWire | None = None


class JobStatusWire(WireStruct):
    state: PhaseStatusWire | None = None
    retry_count: int | None = None
    version: int | None = None


class JobWire(ObjectWire):
    spec: JobSpecWire | None = None
    status: JobStatusWire | None = None


class OrdinalsWire(WireStruct):
    start: int | None = None


class OwnerSpecWire(WireStruct):
    """How many pods a Deployment, ReplicaSet, StatefulSet, ReplicationController or Kubernetes Job has."""

    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class PodOwnerWire(ObjectWire):
    """Of such an owner what the PodGroups of its pods follow."""

    spec: OwnerSpecWire | None = None


class ReplicatedSpecWire(OwnerSpecWire):
    """Spec of such an owner."""

    template: TemplateWire | None = None
    ordinals: OrdinalsWire | None = None
    pod_management_policy: str | None = None
    volume_claim_templates: list[ClaimTemplateWire] | None = None
    completion_mode: str | None = None


class ReplicatedWire(ObjectWire):
    spec: ReplicatedSpecWire | None = None
    status: ConditionsWire | None = None


class RoleWire(WireStruct):
    replicas: int | None = None
    template: TemplateWire | None = None


class SchedulingPolicyWire(WireStruct):
    min_available: int | None = None
    queue: str | None = None
    min_resources: Quantities | None = None
    priority_class: str | None = None


class RunPolicyWire(WireStruct):
    scheduling_policy: SchedulingPolicyWire | None = None
    suspend: bool | None = None


Roles = dict[str, RoleWire | None]


class OperatorJobSpecWire(WireStruct):
    """Spec of an AscendJob or of a job of Kubeflow. Each kind has a field of its own for the roles."""

    scheduler_name: str | None = None
    run_policy: RunPolicyWire | None = None
    replica_specs: Roles | None = None
    pytorch_replica_specs: Roles | None = None
    tf_replica_specs: Roles | None = None
    mpi_replica_specs: Roles | None = None
    paddle_replica_specs: Roles | None = None
    xgb_replica_specs: Roles | None = None
    jax_replica_specs: Roles | None = None


class OperatorJobWire(ObjectWire):
    spec: OperatorJobSpecWire | None = None
    status: ConditionsWire | None = None
