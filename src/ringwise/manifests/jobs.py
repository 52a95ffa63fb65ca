"""vcjobs (batch.volcano.sh) into the objects of the state."""

from __future__ import annotations

from ringwise.manifests.checking import keyed
from ringwise.manifests.errors import Findings, shown
from ringwise.manifests.groups import DEFAULT_QUEUE
from ringwise.manifests.metadata import identity, kept_annotations, number_in, texts
from ringwise.manifests.pods import PodClassCache, never_preempts, preemptable, priority_of, rank_variable
from ringwise.manifests.quantities import NotReadableError, duration
from ringwise.manifests.resources import pod_limits
from ringwise.manifests.strings import shared
from ringwise.manifests.wire import (
    DependsOnWire,
    JobSpecWire,
    JobStatusWire,
    JobWire,
    MetaWire,
    PhaseStatusWire,
    PodSpecWire,
    PolicyWire,
    TaskWire,
    TemplateWire,
)
from ringwise.state.vcjob import PodTemplate, Policy, Task, VcJob, Volume, problems_of
from ringwise.wellknown import RANK_INDEX, VOLCANO_SCHEDULER

#: Volcano's default of maxRetry.
DEFAULT_RETRIES = 3


def vcjob_from_wire(wire: JobWire, classes: PodClassCache, found: Findings) -> VcJob:
    """The job with Volcano's defaults. What makes a readable job impossible to run is in its `problems`."""
    who = identity(wire.metadata, "Job", found)
    spec = wire.spec or JobSpecWire()
    status = wire.status or JobStatusWire()
    tasks = tuple(
        _task(task, position, f"spec.tasks[{position}]", classes, found)
        for position, task in enumerate(spec.tasks or ())
    )
    wanted = found.count("spec.minAvailable", spec.min_available, 0)
    job = VcJob(
        namespace=who.namespace,
        name=who.name,
        uid=who.uid,
        tasks=tasks,
        min_available=wanted or sum(task.min_available for task in tasks),
        min_success=(
            None if spec.min_success is None else found.count("spec.minSuccess", spec.min_success, 1, least=1)
        ),
        queue=shared(spec.queue or DEFAULT_QUEUE),
        priority_class=shared(spec.priority_class_name or ""),
        scheduler=shared(spec.scheduler_name or VOLCANO_SCHEDULER),
        max_retry=found.count("spec.maxRetry", spec.max_retry, 0) or DEFAULT_RETRIES,
        ttl_seconds=(
            None
            if spec.ttl_seconds_after_finished is None
            else found.count("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, 0)
        ),
        running_estimate=_duration(spec.running_estimate, "spec.runningEstimate", found),
        policies=_policies(spec.policies, "spec.policies", found),
        plugins={name: tuple(arguments or ()) for name, arguments in (spec.plugins or {}).items()},
        labels=who.labels,
        annotations=who.annotations,
        created=who.created,
        deleting=who.deleting,
        phase=(status.state or PhaseStatusWire()).phase or "",
        retry_count=found.count("status.retryCount", status.retry_count, 0),
        version=found.count("status.version", status.version, 0),
        origin=found.origin,
        volumes=tuple(
            Volume(one.mount_path or "", one.volume_claim_name or "", one.volume_claim is not None)
            for one in spec.volumes or ()
        ),
    )
    job.problems = problems_of(job)
    return job


def _task(wire: TaskWire, position: int, path: str, classes: PodClassCache, found: Findings) -> Task:
    replicas = found.count(f"{path}.replicas", wire.replicas, 1)
    depends = wire.depends_on or DependsOnWire()
    return Task(
        name=shared(wire.name or f"default{position}"),
        replicas=replicas,
        min_available=found.count(f"{path}.minAvailable", wire.min_available, replicas),
        template=template_from_wire(wire.template or TemplateWire(), f"{path}.template", classes, found),
        policies=_policies(wire.policies, f"{path}.policies", found),
        max_retry=found.count(f"{path}.maxRetry", wire.max_retry, DEFAULT_RETRIES, least=-1),
        depends_on=tuple(depends.name or ()),
        depends_on_any=depends.iteration == "any",
    )


def template_from_wire(wire: TemplateWire, path: str, classes: PodClassCache, found: Findings) -> PodTemplate:
    meta = wire.metadata or MetaWire()
    spec = wire.spec or PodSpecWire()
    if not spec.containers:
        found.wrong(f"{path}.spec.containers", "must have at least one container")
    labels = texts(meta.labels)
    annotations = kept_annotations(meta.annotations, f"{path}.metadata.annotations", found)
    cls, chip_containers = classes.of(spec, f"{path}.spec", found)
    rank = rank_variable(spec, f"{path}.spec", found)
    if annotations.get(RANK_INDEX):
        rank = number_in(
            annotations[RANK_INDEX], keyed(f"{path}.metadata.annotations", RANK_INDEX), found, least=0
        )
    return PodTemplate(
        cls=cls,
        labels=labels,
        annotations=annotations,
        scheduler=shared(spec.scheduler_name or ""),
        priority=priority_of(spec, annotations, f"{path}.spec.priority", found),
        priority_class=shared(spec.priority_class_name or ""),
        preemptable=preemptable(annotations, labels, f"{path}.metadata", found),
        never_preempts=never_preempts(spec.preemption_policy, f"{path}.spec.preemptionPolicy", found),
        gated=bool(spec.scheduling_gates),
        chip_containers=chip_containers,
        rank=rank,
        hostname=spec.hostname or "",
        subdomain=spec.subdomain or "",
        limits=tuple(pod_limits(spec, f"{path}.spec", found).items()),
    )


def _policies(wires: list[PolicyWire] | None, path: str, found: Findings) -> tuple[Policy, ...]:
    return tuple(
        Policy(
            action=wire.action or "",
            events=tuple(dict.fromkeys(([wire.event] if wire.event else []) + (wire.events or []))),
            exit_code=wire.exit_code,
            timeout=_duration(wire.timeout, f"{path}[{position}].timeout", found),
        )
        for position, wire in enumerate(wires or ())
    )


def _duration(text: str | None, path: str, found: Findings) -> int | None:
    if text is None:
        return None
    try:
        return duration(text)
    except NotReadableError as problem:
        found.wrong(path, f"{problem}, got {shown(text)}")
        return None
