"""The objects of a benchmark on a real API server: nodes, pods, a PodGroup."""

from __future__ import annotations

from typing import Any

import msgspec

from ringwise.kubeclient.resources import POD_GROUPS
from ringwise.messages.commands import Bind
from ringwise.records import dataclass
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
    rounds: int = 2
    #: The wanted ratio to the bare loop.
    goal: float | None = None


class _Named(msgspec.Struct):
    uid: str


class _Made(msgspec.Struct):
    metadata: _Named


_MADE = msgspec.json.Decoder(_Made)


def bind_of(scenario: Scenario, team: str, number: int, created: bytes) -> Bind:
    """The command that the scheduler would give."""
    place = number // scenario.nodes * scenario.chips
    chips = tuple(range(place, place + scenario.chips))
    annotations = {
        DISTRIBUTED_JOB: "true" if scenario.gang else "false",
        ASCEND910: ",".join(f"Ascend910-{chip}" for chip in chips),
        PREDICATE_TIME: str(1_760_000_000_000_000_000 + number),
        RANK_INDEX: str(number if scenario.gang else 0),
    }
    uid = _MADE.decode(created).metadata.uid
    return Bind(uid, NAMESPACE, f"{team}-{number}", f"node-{number % scenario.nodes}", chips, annotations)


def group(team: str, members: int) -> dict[str, Any]:
    return {
        "apiVersion": POD_GROUPS.version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": team},
        "spec": {"minMember": members, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }


def pod(scenario: Scenario, team: str, number: int, scheduler: str) -> dict[str, Any]:
    amounts = {"cpu": "1", "memory": "1Gi", ASCEND910: str(scenario.chips)}
    annotations = {GROUP_NAME: team} if scenario.gang else {}
    return {
        "metadata": {"name": f"{team}-{number}", "annotations": annotations},
        "spec": {
            "schedulerName": scheduler,
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "train:latest",
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        },
    }


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
