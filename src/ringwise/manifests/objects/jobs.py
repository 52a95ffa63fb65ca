"""vcjobs (batch.volcano.sh) into the objects of the state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ringwise.manifests.objects.metadata import identity, number_in, read_annotations, reference, texts
from ringwise.manifests.objects.network_topology import network_topology
from ringwise.manifests.objects.pods import (
    PodClassCache,
    never_preempts,
    preemptable,
    priority_of,
    rank_variable,
)
from ringwise.manifests.objects.resources import containers_sharing_cpus, pod_limits
from ringwise.manifests.objects.visible_devices import visible_devices
from ringwise.manifests.objects.volumes import claim_of_spec, ephemeral_volumes, named_claims
from ringwise.manifests.text.checking import keyed
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.limits import (
    DEPENDENCIES,
    EVENTS,
    JOB_VOLUMES,
    LABELS,
    PLUGINS,
    POLICIES,
    RESOURCES,
    TASKS,
    check,
)
from ringwise.manifests.text.quantities import duration
from ringwise.manifests.text.strings import shared
from ringwise.manifests.text.wire import (
    DependsOnWire,
    JobSpecWire,
    JobStatusWire,
    JobWire,
    MetaWire,
    PartitionPolicyWire,
    PhaseStatusWire,
    PodSpecWire,
    PolicyWire,
    TaskWire,
    TemplateWire,
    VolumeWire,
)
from ringwise.state.job_rules import problems_of
from ringwise.state.model import DEFAULT_QUEUE
from ringwise.state.vcjob import Partitions, PodTemplate, Policy, Task, VcJob, Volume
from ringwise.wellknown import RANK_INDEX, VOLCANO_SCHEDULER

#: Volcano's default of maxRetry.
DEFAULT_RETRIES = 3


def vcjob_from_wire(wire: JobWire, classes: PodClassCache, issues: Findings) -> VcJob:
    """The job with Volcano's defaults. What makes a readable job impossible to run is in its `problems`."""
    who = identity(wire.metadata, "Job", issues)
    spec = wire.spec or JobSpecWire()
    status = wire.status or JobStatusWire()
    # Of a job with too many tasks nothing else is looked at.
    read = (spec.tasks or ()) if _are_few(spec.tasks or (), issues) else ()
    tasks = tuple(
        _task(task, index, f"spec.tasks[{index}]", classes, issues) for index, task in enumerate(read)
    )
    resources = {name for task in tasks for name, _ in task.template.cls.extended}
    check(RESOURCES, resources, "spec.tasks", issues)
    volumes = (spec.volumes or ()) if check(JOB_VOLUMES, spec.volumes, "spec.volumes", issues) else ()
    wanted = issues.count("spec.minAvailable", spec.min_available, 0)
    job = VcJob(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        tasks=tasks,
        min_available=wanted or sum(task.min_available for task in tasks),
        min_success=issues.count("spec.minSuccess", spec.min_success, None, least=1),
        queue=reference(spec.queue, "spec.queue", issues, DEFAULT_QUEUE),
        priority_class=reference(spec.priority_class_name, "spec.priorityClassName", issues),
        scheduler=reference(spec.scheduler_name, "spec.schedulerName", issues, VOLCANO_SCHEDULER),
        max_retry=issues.count("spec.maxRetry", spec.max_retry, 0) or DEFAULT_RETRIES,
        ttl_seconds=issues.count("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, None),
        running_estimate=_duration(spec.running_estimate, "spec.runningEstimate", issues),
        policies=_policies(spec.policies, "spec.policies", issues),
        plugins=_plugins(spec.plugins or {}, issues),
        labels=who.labels,
        annotations=who.annotations,
        created=who.created,
        deleting=who.deleting,
        phase=(status.state or PhaseStatusWire()).phase or "",
        retry_count=issues.count("status.retryCount", status.retry_count, 0),
        version=issues.count("status.version", status.version, 0),
        origin=issues.origin,
        volumes=tuple(
            _volume(one, f"spec.volumes[{position}]", issues) for position, one in enumerate(volumes)
        ),
        tier_conflicts=tuple(_tier_conflicts(spec)),
        topology=network_topology(spec.network_topology, "spec.networkTopology", issues),
    )
    job.problems = problems_of(job)
    return job


def _volume(wire: VolumeWire, path: str, issues: Findings) -> Volume:
    claim = wire.volume_claim
    return Volume(
        wire.mount_path or "",
        wire.volume_claim_name or "",
        claim is not None,
        None if claim is None else claim_of_spec(claim, f"{path}.volumeClaim", issues),
    )


def _are_few(tasks: Sequence[TaskWire], issues: Findings) -> bool:
    """Whether tasks, and the tasks that they depend on, are within the limits."""
    named = sum(len(task.depends_on.name or ()) for task in tasks if task.depends_on is not None)
    return check(TASKS, tasks, "spec.tasks", issues) and check(
        DEPENDENCIES, named, "spec.tasks.dependsOn", issues
    )


def _task(wire: TaskWire, position: int, path: str, classes: PodClassCache, issues: Findings) -> Task:
    # Programs leave a 0 out, as Volcano's type does.
    replicas = issues.count(f"{path}.replicas", wire.replicas, 0)
    depends = wire.depends_on or DependsOnWire()
    return Task(
        name=shared(wire.name or default_task_name(position)),
        replicas=replicas,
        min_available=issues.count(
            f"{path}.minAvailable", wire.min_available, default_min_available(wire, replicas)
        ),
        template=template_from_wire(wire.template or TemplateWire(), f"{path}.template", classes, issues),
        policies=_policies(wire.policies, f"{path}.policies", issues),
        max_retry=issues.count(f"{path}.maxRetry", wire.max_retry, 0, least=-1) or DEFAULT_RETRIES,
        depends_on=tuple(depends.name or ()),
        depends_on_any=depends.iteration == "any",
        partitions=_partitions(wire.partition_policy, f"{path}.partitionPolicy", issues),
        topology_policy=wire.topology_policy or "",
    )


def _partitions(wire: PartitionPolicyWire | None, path: str, issues: Findings) -> Partitions | None:
    if wire is None:
        return None
    return Partitions(
        issues.count(f"{path}.totalPartitions", wire.total_partitions, 0),
        issues.count(f"{path}.partitionSize", wire.partition_size, 0),
        issues.count(f"{path}.minPartitions", wire.min_partitions, 0),
        network_topology(wire.network_topology, f"{path}.networkTopology", issues),
    )


def _tier_conflicts(spec: JobSpecWire) -> Iterator[str]:
    """Where both limits of a network topology are set."""
    topologies = [("the job", spec.network_topology)]
    for position, task in enumerate(spec.tasks or ()):
        policy = task.partition_policy
        where = f"task {task.name or default_task_name(position)}"
        topologies.append((where, policy.network_topology if policy is not None else None))
    for where, topology in topologies:
        if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
            yield where


def default_min_available(task: TaskWire, replicas: int) -> int:
    """All pods of a task, or those of as many partitions as must run."""
    policy = task.partition_policy
    if policy is not None and policy.min_partitions and policy.min_partitions > 0:
        return policy.min_partitions * (policy.partition_size or 0)
    return replicas


def default_task_name(position: int) -> str:
    """The name that Volcano gives to a task without one."""
    return f"default{position}"


def template_from_wire(wire: TemplateWire, path: str, cache: PodClassCache, issues: Findings) -> PodTemplate:
    meta = wire.metadata or MetaWire()
    spec = wire.spec or PodSpecWire()
    if not spec.containers:
        issues.add_error(f"{path}.spec.containers", "must have at least one container")
    check(LABELS, meta.labels, f"{path}.metadata.labels", issues)
    labels = texts(meta.labels)
    annotations = read_annotations(meta.annotations, f"{path}.metadata.annotations", issues)
    cls, chip_containers = cache.of(spec, labels, f"{path}.spec", issues)
    rank = rank_variable(spec, f"{path}.spec", issues)
    if annotations.get(RANK_INDEX):
        rank = number_in(
            annotations[RANK_INDEX], keyed(f"{path}.metadata.annotations", RANK_INDEX), issues, least=0
        )
    return PodTemplate(
        cls=cls,
        labels=labels,
        annotations=annotations,
        scheduler=shared(spec.scheduler_name or ""),
        priority=priority_of(spec, f"{path}.spec.priority", issues),
        priority_class=shared(spec.priority_class_name or ""),
        preemptable=preemptable(annotations, labels, f"{path}.metadata", issues),
        never_preempts=never_preempts(spec.preemption_policy, f"{path}.spec.preemptionPolicy", issues),
        gated=bool(spec.scheduling_gates),
        chip_containers=chip_containers,
        rank=rank,
        hostname=spec.hostname or "",
        subdomain=spec.subdomain or "",
        sharing_cpus=tuple(containers_sharing_cpus(spec.containers or ())),
        limits=tuple(pod_limits(spec, f"{path}.spec", issues).items()),
        visible_devices=visible_devices(spec, f"{path}.spec"),
        claims=named_claims(spec, f"{path}.spec", issues),
        ephemeral_volumes=ephemeral_volumes(spec, f"{path}.spec", issues),
    )


def _policies(wires: list[PolicyWire] | None, path: str, issues: Findings) -> tuple[Policy, ...]:
    if not check(POLICIES, wires, path, issues):
        return ()
    return tuple(
        Policy(
            action=wire.action or "",
            events=_events(wire, f"{path}[{position}].events", issues),
            exit_code=wire.exit_code,
            timeout=_duration(wire.timeout, f"{path}[{position}].timeout", issues),
        )
        for position, wire in enumerate(wires or ())
    )


def _events(wire: PolicyWire, path: str, issues: Findings) -> tuple[str, ...]:
    named = (wire.events or []) if check(EVENTS, wire.events, path, issues) else []
    return tuple(dict.fromkeys(([wire.event] if wire.event else []) + named))


def _plugins(wire: Mapping[str, Sequence[str] | None], issues: Findings) -> dict[str, tuple[str, ...]]:
    """Each argument that a plugin does not know is compared with those that it does."""
    count = sum(1 + len(arguments or ()) for arguments in wire.values())
    if not check(PLUGINS, count, "spec.plugins", issues):
        return {}
    return {name: tuple(arguments or ()) for name, arguments in wire.items()}


def _duration(text: str | None, path: str, issues: Findings) -> int | None:
    return None if text is None else issues.parsed(path, text, duration, None)
