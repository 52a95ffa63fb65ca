"""The objects of a benchmark on a real API server: nodes, pods, a PodGroup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from ringwise.controller.machine import Controller
from ringwise.kube.watch.job_templates import TemplateStore
from ringwise.kube.watch.readers import JobReader
from ringwise.kube.write.pod_templates import render
from ringwise.kubeclient.resources import POD_GROUPS, VCJOBS
from ringwise.manifests.objects.pods import PodClassCache
from ringwise.manifests.text.errors import Findings
from ringwise.messages.commands import Bind, CreatePod
from ringwise.messages.events import PodGroupSeen, VcJobSeen
from ringwise.messages.job_expansion import pod_group_of
from ringwise.records import dataclass
from ringwise.state.model import DEFAULT_QUEUE
from ringwise.state.vcjob import VcJob
from ringwise.wellknown import (
    ACCELERATOR,
    ACCELERATOR_TYPE,
    ASCEND910,
    DISTRIBUTED_JOB,
    GROUP_NAME,
    HOST_ARCH,
    HOST_ARCH_ARM,
    PREDICATE_TIME,
    RANK_INDEX,
    VOLCANO_SCHEDULER,
)

NAMESPACE = "bench"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster and the pods that are bound on it."""

    name: str
    nodes: int
    pods: int
    chips: int = 1
    gang: bool = False
    #: The gang comes as a vcjob, whose creation is measured, too.
    vcjob: bool = False
    rounds: int = 2
    #: The wanted ratio to the bare loop: of the scheduler with its defaults, and of it without controller.
    goal: float | None = None
    goal_alone: float | None = None
    #: The processor time of the scheduler with its defaults, in that of the bare loop.
    most_cpu: float | None = None


class _Named(msgspec.Struct):
    name: str
    uid: str


class _CreatedPod(msgspec.Struct):
    metadata: _Named


_CREATED_POD = msgspec.json.Decoder(_CreatedPod)


def bind_of(scenario: Scenario, number: int, created: bytes) -> Bind:
    """The command that the scheduler would give."""
    place = number // scenario.nodes * scenario.chips
    chips = tuple(range(place, place + scenario.chips))
    annotations = {
        DISTRIBUTED_JOB: "true" if scenario.gang or scenario.vcjob else "false",
        ASCEND910: ",".join(f"Ascend910-{chip}" for chip in chips),
        PREDICATE_TIME: str(1_760_000_000_000_000_000 + number),
        RANK_INDEX: str(number if scenario.gang or scenario.vcjob else 0),
    }
    meta = _CREATED_POD.decode(created).metadata
    return Bind(meta.uid, NAMESPACE, meta.name, f"node-{number % scenario.nodes}", chips, annotations)


def group(team: str, members: int) -> dict[str, Any]:
    return {
        "apiVersion": POD_GROUPS.version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": team},
        "spec": {"minMember": members, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }


def pod(scenario: Scenario, team: str, number: int, scheduler: str) -> dict[str, Any]:
    annotations = {GROUP_NAME: team} if scenario.gang else {}
    return {
        "metadata": {"name": f"{team}-{number}", "annotations": annotations},
        "spec": {"schedulerName": scheduler, **_pod_spec(scenario)},
    }


def _pod_spec(scenario: Scenario) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", ASCEND910: str(scenario.chips)}
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": "train:latest", "resources": resources}
    return {"restartPolicy": "Never", "containers": [container]}


def vcjob(scenario: Scenario, team: str) -> dict[str, Any]:
    task = {"name": "work", "replicas": scenario.pods, "template": {"spec": _pod_spec(scenario)}}
    return {
        "apiVersion": VCJOBS.version,
        "kind": VCJOBS.kind,
        "metadata": {"name": team, "namespace": NAMESPACE},
        "spec": {
            "schedulerName": VOLCANO_SCHEDULER,
            "minAvailable": scenario.pods,
            "queue": DEFAULT_QUEUE,
            "tasks": [task],
        },
    }


def pods_of_vcjob(created: bytes) -> list[dict[str, Any]]:
    """The pods that the controller creates for a vcjob, once it is admitted to its queue."""
    templates: TemplateStore = {}
    objects = JobReader(PodClassCache(), templates).read(msgspec.Raw(created), Findings("vcjob"))
    assert objects is not None
    (key, job), *_ = objects
    assert isinstance(job, VcJob)
    admitted = replace(pod_group_of(job, {}), phase="Inqueue")
    commands = Controller().handle([VcJobSeen(job), PodGroupSeen(admitted)], 1)
    known = templates.get(key)
    assert known is not None
    return [render(command, known) for command in commands if isinstance(command, CreatePod)]


def node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "192", "memory": "768Gi", "pods": "110", ASCEND910: "8"}
    labels = {ACCELERATOR: "huawei-Ascend910", ACCELERATOR_TYPE: "module", HOST_ARCH: HOST_ARCH_ARM}
    return {
        "metadata": {"name": f"node-{number}", "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
            ],
        },
    }
