"""Owners of pods that are not vcjobs: Deployments and the like, Jobs, AscendJobs, jobs of Kubeflow.

They are read for what-ifs and by the webhook. On a cluster the pods themselves are scheduled; what their
controllers and operators would create is in `messages/workload_expansion.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ringwise import wellknown
from ringwise.grammar import counted
from ringwise.manifests.objects.jobs import template_from_wire
from ringwise.manifests.objects.metadata import Identity, identity, name_of
from ringwise.manifests.objects.pods import PodClassCache, group_of
from ringwise.manifests.objects.resources import amounts
from ringwise.manifests.objects.volumes import claim_template
from ringwise.manifests.text.checking import keyed, must_be_one_of
from ringwise.manifests.text.errors import Findings, invalid
from ringwise.manifests.text.limits import POD_CLAIMS, check
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import (
    ConditionsWire,
    MetaWire,
    OperatorJobSpecWire,
    OperatorJobWire,
    OrdinalsWire,
    OwnerSpecWire,
    PodOwnerWire,
    PodSpecWire,
    ReplicatedSpecWire,
    ReplicatedWire,
    RoleWire,
    RunPolicyWire,
    SchedulingPolicyWire,
    TemplateWire,
)
from ringwise.messages.ordinary_groups import REPLICA_SET_ANNOTATIONS
from ringwise.records import dataclass
from ringwise.state.job_rules import MAX_PODS
from ringwise.state.model import DEFAULT_QUEUE, EMPTY
from ringwise.state.vcjob import PodTemplate
from ringwise.state.volumes import ClaimTemplates
from ringwise.state.workload import PodOwner, Role, Workload
from ringwise.topology.nearest import did_you_mean
from ringwise.topology.numbers import INT32, whole_number

#: API groups of Deployments and the like, and of Kubernetes' Jobs.
APPS_GROUP = wellknown.DEPLOYMENT_API.partition("/")[0]
KUBERNETES_BATCH_GROUP = wellknown.KUBERNETES_JOB_API.partition("/")[0]
#: Keys that belong to the pod template; on an owner they mean nothing unless its PodGroup inherits them.
_TEMPLATE_ANNOTATIONS = (
    wellknown.SCHEDULE_POLICY,
    wellknown.SCHEDULE_MIN_AVAILABLE,
    wellknown.SP_BLOCK,
    wellknown.RA_BLOCK,
)
_TEMPLATE_LABELS = (
    *(
        wellknown.TOR_AFFINITY,
        wellknown.SUPER_POD_AFFINITY,
        wellknown.FAULT_SCHEDULING,
        wellknown.FAULT_RETRY_TIMES,
        wellknown.POD_RESCHEDULING,
    ),
    *(wellknown.SUB_HEALTHY_STRATEGY, wellknown.NPU_310_STRATEGY),
)
#: Conditions of a job that has ended.
_ENDED = frozenset({"Complete", "Succeeded", "Failed", "FailureTarget", "SuccessCriteriaMet"})
_ORDERED_READY = "OrderedReady"
_CONTROLLER = "ReplicationController"
_REPLICA_SET = "ReplicaSet"


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """A kind whose pods an operator creates, together with a PodGroup."""

    #: Field of `OperatorJobSpecWire` with the roles.
    attribute: str
    #: Roles in the order of their ranks, leaders first.
    roles: tuple[str, ...]
    #: Of each framework (label `framework`), the role that leads; every job has at most one of them.
    leaders: Mapping[str, str] = EMPTY
    #: The container that the operator looks for.
    container: str = ""
    operator: str = ""
    #: Role of which the name of the only pod has no number.
    unnumbered: str = ""

    @property
    def field(self) -> str:
        """The same in a manifest."""
        fields = zip(
            OperatorJobSpecWire.__struct_fields__, OperatorJobSpecWire.__struct_encode_fields__, strict=True
        )
        return dict(fields)[self.attribute]


REPLICATED_KINDS: frozenset[tuple[str, str]] = frozenset(
    {
        (APPS_GROUP, "Deployment"),
        (APPS_GROUP, "ReplicaSet"),
        (APPS_GROUP, "StatefulSet"),
        ("", "ReplicationController"),
        (KUBERNETES_BATCH_GROUP, "Job"),
    }
)
OPERATOR_KINDS: Mapping[tuple[str, str], OperatorKind] = {
    (wellknown.ASCEND_JOB_GROUP, "AscendJob"): OperatorKind(
        "replica_specs",
        ("Master", "Scheduler", "Chief", "Worker"),
        {"pytorch": "Master", "mindspore": "Scheduler", "tensorflow": "Chief"},
        "ascend",
        wellknown.ASCEND_OPERATOR,
    ),
    (wellknown.KUBEFLOW_GROUP, "PyTorchJob"): OperatorKind(
        "pytorch_replica_specs", ("Master", "Worker"), operator="pytorchjob-controller"
    ),
    (wellknown.KUBEFLOW_GROUP, "TFJob"): OperatorKind(
        "tf_replica_specs",
        ("Chief", "Master", "PS", "Worker", "Evaluator"),
        operator="tfjob-controller",
    ),
    (wellknown.KUBEFLOW_GROUP, "MPIJob"): OperatorKind(
        "mpi_replica_specs",
        ("Launcher", "Worker"),
        operator="mpijob-controller",
        unnumbered="Launcher",
    ),
    (wellknown.KUBEFLOW_GROUP, "PaddleJob"): OperatorKind(
        "paddle_replica_specs", ("Master", "Worker"), operator="paddlejob-controller"
    ),
    (wellknown.KUBEFLOW_GROUP, "XGBoostJob"): OperatorKind(
        "xgb_replica_specs", ("Master", "Worker"), operator="xgboostjob-controller"
    ),
    (wellknown.KUBEFLOW_GROUP, "JAXJob"): OperatorKind(
        "jax_replica_specs", ("Worker",), operator="jaxjob-controller"
    ),
}


def replicated_from_wire(
    wire: ReplicatedWire, kind: str, classes: PodClassCache, issues: Findings, notes: list[str]
) -> Workload:
    """A Deployment, ReplicaSet, StatefulSet, ReplicationController or Job, with the PodGroup of its pods.

    `notes` gets what is read and yet has no effect.
    """
    # A vcjob is a Job, too, and a derived uid follows from kind and name.
    who = identity(wire.metadata, f"{KUBERNETES_BATCH_GROUP}/{kind}" if kind == "Job" else kind, issues)
    spec = wire.spec or ReplicatedSpecWire()
    template = template_from_wire(spec.template or TemplateWire(), "spec.template", classes, issues)
    template = replace(template, scheduler=template.scheduler or wellknown.DEFAULT_SCHEDULER)
    replicas = 0 if _has_ended(wire.status) else _replicas(kind, spec, issues)
    labels: dict[str, str] = {}
    if kind == "Job":
        labels = {wellknown.SHORT_JOB_NAME: who.name, wellknown.KUBERNETES_JOB_NAME: who.name}
    first = 0
    if kind == "StatefulSet":
        first = issues.count("spec.ordinals.start", (spec.ordinals or OrdinalsWire()).start, 0)
    indexed = kind == "Job" and spec.completion_mode == "Indexed"
    role = Role(
        "",
        replicas,
        template,
        first,
        first if indexed or (kind == "StatefulSet" and template.rank is None) else None,
        labels=labels,
        index_labels=(wellknown.JOB_COMPLETION_INDEX,) if indexed else (),
        claim_templates=_claim_templates(spec, issues),
    )
    workload = _workload(kind, who, (role,), issues)
    workload.random_names = kind != "StatefulSet"
    own = group_of(template.annotations)
    ours = template.scheduler in wellknown.SCHEDULER_NAMES
    workload.group = own or (who.name if ours else None)
    workload.creates_group = own is None and ours
    gang = _min_member(who, issues) if kind != _CONTROLLER else 1
    # The annotations of a Deployment reach its ReplicaSet: Kubernetes copies them.
    owner_kind = _REPLICA_SET if kind == "Deployment" else kind
    workload.owner = _pod_owner(owner_kind, who, replicas)
    notes += _replicated_notes(kind, who, spec, template, workload, gang)
    return workload


def pod_owner_from_wire(kind: str, wire: PodOwnerWire, issues: Findings) -> PodOwner:
    """What the PodGroup of the owner's pods follows."""
    spec = wire.spec or OwnerSpecWire()
    owner = _pod_owner(shared(kind), identity(wire.metadata, kind, issues), _replicas(kind, spec, issues))
    return replace(owner, suspended=True) if kind == "Job" and spec.suspend else owner


def _pod_owner(kind: str, who: Identity, replicas: int) -> PodOwner:
    return PodOwner(
        kind,
        who.namespace,
        who.name,
        who.uid,
        replicas,
        {
            key: value
            for key, value in who.annotations.items()
            if key in (wellknown.GROUP_MIN_MEMBER, wellknown.USER)
            or key.startswith(wellknown.VOLCANO_PREFIX)
            or (kind == _REPLICA_SET and key in REPLICA_SET_ANNOTATIONS)
        },
    )


def _replicas(kind: str, spec: OwnerSpecWire, issues: Findings) -> int:
    """How many pods it has at once; 1 for a DaemonSet, which has no number."""
    if kind != "Job":
        return issues.count("spec.replicas", spec.replicas, 1)
    at_once = issues.count("spec.parallelism", spec.parallelism, 1)
    wanted = issues.count("spec.completions", spec.completions, at_once)
    return 0 if spec.suspend else min(at_once, wanted)


def _claim_templates(spec: ReplicatedSpecWire, issues: Findings) -> ClaimTemplates:
    path = "spec.volumeClaimTemplates"
    if not check(POD_CLAIMS, spec.volume_claim_templates, path, issues):
        return ()
    return tuple(
        (
            name_of((one.metadata or MetaWire()).name, f"{path}[{position}].metadata.name", issues),
            claim_template(one, f"{path}[{position}]", issues),
        )
        for position, one in enumerate(spec.volume_claim_templates or ())
    )


def _min_member(who: Identity, issues: Findings) -> int:
    text = who.annotations.get(wellknown.GROUP_MIN_MEMBER)
    if text is None:
        return 1
    number = whole_number(text, 0, INT32)
    if number is None:
        issues.invalid(
            keyed("metadata.annotations", wellknown.GROUP_MIN_MEMBER),
            text,
            f"must be a whole number from 0 to {INT32}",
        )
    return 1 if number is None else number


def _replicated_notes(
    kind: str, who: Identity, spec: ReplicatedSpecWire, template: PodTemplate, workload: Workload, gang: int
) -> Iterator[str]:
    where = f"{workload.origin}: metadata"
    owner = workload.owner
    inherited = owner.annotations if owner is not None and workload.creates_group else EMPTY
    for part, keys, there, inside in (
        ("annotations", _TEMPLATE_ANNOTATIONS, who.annotations, {**inherited, **template.annotations}),
        ("annotations", (wellknown.SCHEDULING_QUEUE_NAME,), who.annotations, template.annotations),
        ("labels", _TEMPLATE_LABELS, who.labels, template.labels),
    ):
        for key in keys:
            if key in there and key not in inside:
                yield (
                    f"{keyed(f'{where}.{part}', key)}: has no effect on a {kind}; "
                    f"write it in spec.template.metadata.{part}"
                )
    if kind == _CONTROLLER and wellknown.GROUP_MIN_MEMBER in who.annotations:
        yield (
            f"{keyed(f'{where}.annotations', wellknown.GROUP_MIN_MEMBER)}: has no effect on a {kind}; "
            f"write {wellknown.SCHEDULE_MIN_AVAILABLE} in spec.template.metadata.annotations"
        )
    gang = max(
        gang, whole_number(template.annotations.get(wellknown.SCHEDULE_MIN_AVAILABLE, ""), 0, INT32) or 0
    )
    if (
        kind == "StatefulSet"
        and (spec.pod_management_policy or _ORDERED_READY) == _ORDERED_READY
        and gang > 1
    ):
        yield (
            f"{workload.origin}: spec.podManagementPolicy: {_ORDERED_READY} creates one pod after the other, "
            f"and {gang} must be placed together; write Parallel"
        )
    if not workload.replicas:
        yield _without_pods(workload, bool(spec.suspend))


def operator_job_from_wire(
    wire: OperatorJobWire,
    kind: str,
    form: OperatorKind,
    classes: PodClassCache,
    issues: Findings,
    notes: list[str],
) -> Workload:
    """An AscendJob or a job of Kubeflow, with the PodGroup that its operator creates for Volcano.

    The operators are taken to run with gang scheduling: pods without a `schedulerName` get Volcano's.
    """
    who = identity(wire.metadata, kind, issues)
    spec = wire.spec or OperatorJobSpecWire()
    run = spec.run_policy or RunPolicyWire()
    policy = run.scheduling_policy or SchedulingPolicyWire()
    path = f"spec.{form.field}"
    sections = _roles(getattr(spec, form.attribute), form, path, issues)
    over = bool(run.suspend) or _has_ended(wire.status)
    scheduler = shared(spec.scheduler_name or wellknown.VOLCANO_SCHEDULER)
    roles: list[Role] = []
    for name in form.roles:
        if name in sections:
            where, role = sections[name]
            roles.append(_role(name, role, where, form, who, scheduler, classes, issues, notes))
    if form.leaders:
        roles = _ranked(roles)
        _check_leader(roles, sections, who, form, issues, notes)
    if over:
        roles = [replace(role, replicas=0) for role in roles]
    workload = _workload(kind, who, tuple(roles), issues)
    workload.group = who.name
    workload.min_member = issues.count(
        "spec.runPolicy.schedulingPolicy.minAvailable", policy.min_available, workload.replicas
    )
    workload.queue = shared(policy.queue or DEFAULT_QUEUE)
    workload.priority_class = shared(policy.priority_class or "")
    workload.min_resources = amounts(
        policy.min_resources, "spec.runPolicy.schedulingPolicy.minResources", issues
    )
    workload.group_annotations = who.annotations
    if form.leaders:
        # Kubeflow's operator copies the annotations alone.
        workload.group_labels = who.labels
    if roles and not workload.replicas:
        notes.append(_without_pods(workload, bool(run.suspend)))
    return workload


def _roles(
    sections: Mapping[str, RoleWire | None] | None, form: OperatorKind, path: str, issues: Findings
) -> dict[str, tuple[str, RoleWire]]:
    """Role -> its path and value. Operators accept the names in any case."""
    if not sections:
        issues.add_error(path, f"must have at least one of {', '.join(form.roles)}")
        return {}
    names = {name.lower(): name for name in form.roles}
    roles: dict[str, tuple[str, RoleWire]] = {}
    for key, role in sections.items():
        name = names.get(key.lower())
        if name is None:
            issues.add_error(
                keyed(path, key),
                f"must be one of {', '.join(form.roles)}{did_you_mean(key, form.roles)}",
            )
        elif name in roles:
            issues.add_error(keyed(path, key), f"{name} is already defined in {roles[name][0]}")
        else:
            roles[name] = (keyed(path, key), role or RoleWire())
    return roles


def _role(
    name: str,
    wire: RoleWire,
    path: str,
    form: OperatorKind,
    who: Identity,
    scheduler: str,
    classes: PodClassCache,
    issues: Findings,
    notes: list[str],
) -> Role:
    written = wire.template or TemplateWire()
    template = template_from_wire(written, f"{path}.template", classes, issues)
    containers = (written.spec or PodSpecWire()).containers or ()
    if form.container and containers and all(one.name != form.container for one in containers):
        notes.append(
            f"{issues.origin}: {path}.template.spec.containers: the operator refuses the job: "
            f'one container must be named "{form.container}"'
        )
    word = name.lower()
    return Role(
        name,
        issues.count(f"{path}.replicas", wire.replicas, 1),
        replace(template, scheduler=template.scheduler or scheduler),
        unnumbered=name == form.unnumbered,
        labels={
            wellknown.OPERATOR_NAME: form.operator,
            wellknown.OPERATOR_JOB_NAME: who.name,
            wellknown.SHORT_JOB_NAME: who.name,
            wellknown.REPLICA_TYPE: word,
            wellknown.SHORT_REPLICA_TYPE: word,
        },
        index_labels=(wellknown.REPLICA_INDEX, wellknown.SHORT_REPLICA_INDEX),
    )


def _ranked(roles: list[Role]) -> list[Role]:
    """The ranks that Huawei's operator writes: its leader is rank 0 if it has chips; else it counts apart."""
    leads = any(role.name != "Worker" and role.template.cls.chips for role in roles)
    return [
        replace(role, first_rank=1 if leads and role.name == "Worker" else 0, writes_rank=True)
        for role in roles
    ]


def _check_leader(
    roles: list[Role],
    sections: Mapping[str, tuple[str, RoleWire]],
    who: Identity,
    form: OperatorKind,
    issues: Findings,
    notes: list[str],
) -> None:
    leaders = [role for role in roles if role.name != "Worker"]
    for role in leaders[1:]:
        issues.add_error(
            sections[role.name][0], f"a job can have only one leader, and {leaders[0].name} already exists"
        )
    for role in leaders:
        if role.replicas != 1:
            issues.invalid(f"{sections[role.name][0]}.replicas", role.replicas, "must be 1")
    framework = who.labels.get(wellknown.FRAMEWORK, "")
    where = f"{issues.origin}: {keyed('metadata.labels', wellknown.FRAMEWORK)}"
    if framework not in form.leaders:
        allowed = must_be_one_of(framework, form.leaders)
        message = invalid(framework, allowed) if framework else f"Required value: {allowed}"
        notes.append(f"{where}: {message}; the operator refuses the job")
    elif leaders and leaders[0].name != form.leaders[framework]:
        notes.append(
            f"{where}: the leader of a {framework} job is {form.leaders[framework]}, got {leaders[0].name}; "
            "the operator refuses the job"
        )
    elif roles and not leaders and framework != "mindspore":
        notes.append(
            f"{where}: a {framework} job needs a {form.leaders[framework]}; the operator refuses the job"
        )


def _workload(kind: str, who: Identity, roles: tuple[Role, ...], issues: Findings) -> Workload:
    total = sum(role.replicas for role in roles)
    if total > MAX_PODS:
        issues.add_error("spec", f"it has {counted(total, 'pod')}; the limit is {MAX_PODS}")
    return Workload(kind, who.namespace, who.name, who.uid, roles, created=who.created, origin=issues.origin)


def _has_ended(status: ConditionsWire | None) -> bool:
    conditions = (status or ConditionsWire()).conditions or ()
    return any(one.type in _ENDED and one.status == "True" for one in conditions)


def _without_pods(workload: Workload, suspended: bool) -> str:
    why = "it is suspended" if suspended else "it has ended or has 0 replicas"
    return f"{workload.origin}: {workload.kind} {workload.key} gets no pods: {why}"
