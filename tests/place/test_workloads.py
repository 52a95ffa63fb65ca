"""Issue 17, 15: what-if for the kinds that people write besides vcjobs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ringwise.controller.machine import Controller
from ringwise.controller.pod_groups import PodGroupController
from ringwise.kube.watch.readers import PlainReader
from ringwise.manifests.bundle import Bundle, read_bundle
from ringwise.manifests.kinds import KINDS
from ringwise.manifests.text.errors import Findings
from ringwise.messages.commands import CreateGroup
from ringwise.state.workload import PodOwner
from tests.builders.objects import NAMESPACE, Plain, node, pod, pod_group, pod_spec
from tests.builders.values import seen
from tests.place.asking import ask, job_of
from tests.place.workloads import APIS, ROLES, ascend_job, operator_job, replicated, role

NODES = [node(f"node-{number}", devices=range(8)) for number in range(1, 7)]
VENDOR = {"multi-pod-requests": "vendor"}


def read(*objects: Plain) -> Bundle:
    return read_bundle(["-"], stdin="\n---\n".join(json.dumps(one) for one in objects).encode())


def errors(*objects: Plain) -> list[str]:
    return [str(error).removeprefix("stdin: document 1: ") for error in read(*objects).errors]


def notes(*objects: Plain) -> list[str]:
    bundle = read(*objects)
    assert bundle.errors == []
    return [note.removeprefix("stdin: document 1: ") for note in bundle.notes]


# -- the kinds of Kubernetes


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job"])
def test_every_kind_of_kubernetes_is_placed(kind: str) -> None:
    job = job_of(ask([*NODES, replicated(kind, 8, 2)]), "app")
    assert job["state"] == "scheduled"
    assert [(pod["name"], pod["rank"], len(pod["chips"])) for pod in job["pods"]] == [
        ("app-0", 0, 8),
        ("app-1", 1, 8),
    ]


def test_a_name_that_the_api_server_makes_is_made_here_too() -> None:
    made = replicated("Job", 8)
    made["metadata"]["generateName"] = f"{made['metadata'].pop('name')}-"
    assert job_of(ask([*NODES, made]), "app-0")["state"] == "scheduled"
    (twice,) = [str(error) for error in read(made, made).errors]
    assert "app-0 is already defined" in twice


def test_the_podgroup_follows_owner_and_pod() -> None:
    bundle = read(
        replicated(
            "Deployment",
            8,
            3,
            metadata={
                "annotations": {
                    "scheduling.volcano.sh/group-min-member": "2",
                    "volcano.sh/sla-waiting-time": "1h",
                    "sp-fit": "idlest",
                }
            },
            pod_metadata={"annotations": {"scheduling.volcano.sh/queue-name": "research"}},
            pod={"priorityClassName": "high"},
        )
    )
    (group,) = bundle.pod_groups
    assert (group.min_member, group.queue, group.priority_class) == (2, "research", "high")
    assert group.replicas == 3
    assert group.min_resources == {
        "huawei.com/Ascend910": 16,
        "requests.huawei.com/Ascend910": 16,
        "pods": 2,
        "count/pods": 2,
    }
    assert group.annotations == {"volcano.sh/sla-waiting-time": "1h", "ringwise.io/replicas": "3"}
    assert {pod.group for pod in bundle.pods} == {"app"}


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController", "Job"])
@pytest.mark.parametrize(
    ("of_owner", "of_pod"),
    [
        ({}, {}),
        ({"scheduling.volcano.sh/group-min-member": "2", "volcano.sh/x": "y"}, {}),
        ({}, {"huawei.com/schedule_minAvailable": "3", "scheduling.volcano.sh/queue-name": "research"}),
    ],
)
def test_a_manifest_gets_the_podgroup_that_the_controller_creates(
    kind: str, of_owner: dict[str, str], of_pod: dict[str, str]
) -> None:
    wanted = replicated(
        kind, 8, 3, metadata={"uid": "u", "annotations": of_owner}, pod_metadata={"annotations": of_pod}
    )
    bundle = read(wanted)
    (group,) = bundle.pod_groups
    (owner_kind,) = (one for one in KINDS if one.value is PodOwner and one.resource.kind == kind)
    ((_, owner),) = (
        PlainReader(owner_kind).read(msgspec.Raw(json.dumps(wanted).encode()), Findings("u")) or ()
    )
    assert isinstance(owner, PodOwner)
    controller = Controller(PodGroupController())
    pods = [replace(pod, group=None, annotations=of_pod) for pod in bundle.pods]
    (create,) = controller.handle(seen(owner, *pods), 0)
    assert isinstance(create, CreateGroup)
    named = replace(create.group, name=group.name, uid=group.uid, origin=group.origin)
    assert named == group
    assert create.group.name == "podgroup-u"


def test_pods_of_an_owner_that_is_not_in_the_input_share_a_podgroup() -> None:
    """As on a cluster: the ranks of a Deployment are counted over its pods."""
    pods = [owned("ReplicaSet", "app-5d59d", f"app-5d59d-{end}") for end in ("ab", "cd")]
    bundle = read(*pods, pod("bare", pod_spec(8)))
    assert [(one.name, one.group) for one in bundle.pods] == [
        ("app-5d59d-ab", "podgroup-u"),
        ("app-5d59d-cd", "podgroup-u"),
        ("bare", None),
    ]
    (group,) = bundle.pod_groups
    assert (group.name, group.ordinary, group.min_member) == ("podgroup-u", True, 1)
    job = job_of(ask([*NODES, *pods]), "app-5d59d")
    assert [one["rank"] for one in job["pods"]] == [0, 1]
    # Where the owner is there, its own pods join those that are missing.
    whole = read(replicated("ReplicaSet", 8, 3, "app-5d59d", metadata={"uid": "u"}), *pods)
    assert [one.group for one in whole.pods] == ["app-5d59d"] * 3
    assert [one.replicas for one in whole.pod_groups] == [3]


def test_indexed_jobs_number_their_pods() -> None:
    job = job_of(ask([*NODES, replicated("Job", 8, 2, completions=2, completionMode="Indexed")]), "app")
    assert [pod["rank"] for pod in job["pods"]] == [0, 1]
    assert all("hccl/rankIndex" not in pod["annotations"] for pod in job["pods"])


def test_a_gang_of_a_statefulset_waits_for_all_its_pods() -> None:
    gang = {"annotations": {"huawei.com/schedule_minAvailable": "7"}}
    whole = replicated("StatefulSet", 8, 7, pod_metadata=gang, podManagementPolicy="Parallel")
    assert notes(whole) == []
    assert job_of(ask([*NODES, whole]), "app")["state"] == "pending"
    assert job_of(ask([*NODES, node("node-7"), whole]), "app")["state"] == "scheduled"


def test_a_job_places_as_many_pods_as_run_at_once() -> None:
    assert len(read(replicated("Job", 8, 3, completions=2)).pods) == 2
    assert len(read(replicated("Job", 8, 3, completions=20)).pods) == 3
    assert len(read(replicated("Job", 8, None)).pods) == 1
    bundle = read(replicated("Job", 8, 3, suspend=True))
    assert bundle.pods == []
    assert bundle.notes == ["stdin: document 1: Job vcjob/app gets no pods: it is suspended"]


def test_ordinals_of_a_statefulset_are_its_ranks() -> None:
    bundle = read(replicated("StatefulSet", 8, 2, ordinals={"start": 5}))
    assert [(pod.name, pod.rank) for pod in bundle.pods] == [("app-5", 5), ("app-6", 6)]


def test_pods_that_name_a_podgroup_get_no_other() -> None:
    named = {"annotations": {"scheduling.k8s.io/group-name": "gang"}}
    bundle = read(replicated("Deployment", 8, 2, pod_metadata=named), pod_group("gang", 2))
    assert [group.name for group in bundle.pod_groups] == ["gang"]
    assert job_of(
        ask([*NODES, replicated("Deployment", 8, 2, pod_metadata=named), pod_group("gang", 2)]), "gang"
    )["state"] == ("scheduled")


def test_pods_of_another_scheduler_are_told_or_left_out() -> None:
    theirs = {"schedulerName": "default-scheduler"}
    bundle = read(replicated("Deployment", 0, 2, pod=theirs))
    assert bundle.pods == []
    assert bundle.notes == ["Deployment: 1 object not read; placed by another scheduler"]
    without = replicated("Deployment", 8, 1)
    del without["spec"]["template"]["spec"]["schedulerName"]
    job = job_of(ask([*NODES, without]), "app-0")
    assert (job["state"], job["reason"]["code"]) == ("rejected", "other-scheduler")


def test_equal_names_of_different_kinds_do_not_mix() -> None:
    kinds = ["Deployment", "StatefulSet", "Job"]
    answer = ask([*NODES, *(replicated(kind, 8, 1) for kind in kinds)])
    assert sorted(job["name"] for job in answer["jobs"]) == ["app", "app-deployment", "app-job"]
    assert {pod["name"] for job in answer["jobs"] for pod in job["pods"]} == {
        "app-0",
        "app-deployment-0",
        "app-job-0",
    }


def test_the_podgroup_of_a_replica_set_has_what_its_owner_says() -> None:
    """As Huawei's scheduler reads it; what the pods say comes first, and a gang is asked for by the pods."""
    owner = {"annotations": {"sp-block": "16", "huawei.com/schedule_policy": "chip8-node8-sp"}}
    inside = {"annotations": {"sp-block": "8"}}
    for kind in ("Deployment", "ReplicaSet"):
        wanted = replicated(kind, 8, 1, metadata=owner, pod_metadata=inside)
        assert notes(wanted) == []
        (group,) = read(wanted).pod_groups
        assert group.annotations == {"huawei.com/schedule_policy": "chip8-node8-sp"}


@pytest.mark.parametrize(
    ("wanted", "note"),
    [
        (
            replicated(
                "Deployment",
                8,
                2,
                metadata={"annotations": {"sp-block": "16"}},
                pod_metadata={"annotations": {"scheduling.k8s.io/group-name": "gang"}},
            ),
            "metadata.annotations.sp-block: has no effect on a Deployment; "
            "write it in spec.template.metadata.annotations",
        ),
        (
            replicated(
                "Deployment", 8, 2, metadata={"annotations": {"huawei.com/schedule_minAvailable": "2"}}
            ),
            "metadata.annotations[huawei.com/schedule_minAvailable]: has no effect on a Deployment; "
            "write it in spec.template.metadata.annotations",
        ),
        (
            replicated("StatefulSet", 8, 2, metadata={"annotations": {"sp-block": "16"}}),
            "metadata.annotations.sp-block: has no effect on a StatefulSet; "
            "write it in spec.template.metadata.annotations",
        ),
        (
            replicated("Deployment", 8, 2, metadata={"labels": {"fault-scheduling": "grace"}}),
            "metadata.labels.fault-scheduling: has no effect on a Deployment; "
            "write it in spec.template.metadata.labels",
        ),
        (
            replicated(
                "StatefulSet", 8, 2, metadata={"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}
            ),
            "spec.podManagementPolicy: OrderedReady creates one pod after the other, and 2 must be placed "
            "together; write Parallel",
        ),
        (replicated("Deployment", 8, 0), "Deployment vcjob/app gets no pods: it has ended or has 0 replicas"),
        (
            replicated("Deployment", 8, 1, replcas=2),
            'spec.replcas: unknown field, not read; did you mean "replicas"?',
        ),
        (
            replicated("Job", 8, 1, paralelism=2),
            'spec.paralelism: unknown field, not read; did you mean "parallelism"?',
        ),
        (
            replicated("Job", 8, 1, pod={"nodeSelektor": {}}),
            'spec.template.spec.nodeSelektor: unknown field, not read; did you mean "nodeSelector"?',
        ),
    ],
)
def test_what_has_no_effect_is_a_note(wanted: Plain, note: str) -> None:
    assert notes(wanted) == [note]


# -- what the input has already


def owned(kind: str, owner: str, name: str, **more: Any) -> Plain:
    made = pod(name, pod_spec(8), **more)
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": owner, "uid": "u", "controller": True}]
    return made


def test_a_dump_has_its_pods_already() -> None:
    deployment = replicated("Deployment", 8, 2, metadata={"uid": "d"})
    replica_set = replicated("ReplicaSet", 8, 2, "app-5d59d")
    replica_set["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": "app", "uid": "d"}]
    pods = [owned("ReplicaSet", "app-5d59d", f"app-5d59d-{end}", group="podgroup-1") for end in ("ab", "cd")]
    whole = read(deployment, replica_set, *pods, pod_group("podgroup-1", 1))
    assert (len(whole.pods), len(whole.pod_groups), whole.notes) == (2, 1, [])
    part = read(deployment, replica_set, pods[0], pod_group("podgroup-1", 1))
    assert [(pod.name, pod.group) for pod in part.pods] == [
        ("app-5d59d-ab", "podgroup-1"),
        ("app-0", "podgroup-1"),
    ]
    assert len(part.pod_groups) == 1
    pods[1]["status"] = {"phase": "Failed"}
    ended = read(deployment, replica_set, *pods, pod_group("podgroup-1", 1))
    assert [pod.name for pod in ended.pods if pod.live] == ["app-5d59d-ab", "app-0"]


def test_the_missing_pods_of_an_operator_job_join_its_podgroup() -> None:
    job = ascend_job({"Master": role(8), "Worker": role(8, 2)}, metadata={"uid": "j"})
    group = pod_group("train-j", 3)
    group["metadata"]["ownerReferences"] = [{"kind": "AscendJob", "name": "train", "uid": "j"}]
    bundle = read(job, owned("AscendJob", "train", "train-worker-0", group="train-j"), group)
    assert sorted((pod.name, pod.group) for pod in bundle.pods) == [
        ("train-master-0", "train-j"),
        ("train-worker-0", "train-j"),
        ("train-worker-1", "train-j"),
    ]
    assert len(bundle.pod_groups) == 1


@pytest.mark.parametrize(("kind", "condition"), [("Job", "Complete"), ("AscendJob", "Succeeded")])
def test_what_has_ended_gets_no_pods(kind: str, condition: str) -> None:
    made = replicated("Job", 8, 1) if kind == "Job" else ascend_job({"Master": role(8)})
    assert len(read(made).pods) == 1
    made["status"] = {"conditions": [{"type": condition, "status": "True"}]}
    assert read(made).pods == []


# -- jobs of operators


OPERATOR_JOBS = [
    (ascend_job({"Master": role(8), "Worker": role(8, 2)}), ["master-0", "worker-0", "worker-1"]),
    (ascend_job({"Chief": role(8), "Worker": role(8)}, "tensorflow"), ["chief-0", "worker-0"]),
    (
        ascend_job({"Scheduler": role(0), "Worker": role(8, 2)}, "mindspore"),
        ["worker-0", "worker-1", "scheduler-0"],
    ),
    (operator_job("PyTorchJob", {"Master": role(8), "Worker": role(8)}), ["master-0", "worker-0"]),
    (
        operator_job("TFJob", {"Chief": role(8), "Worker": role(8), "PS": role(0)}),
        ["chief-0", "worker-0", "ps-0"],
    ),
    (
        operator_job("MPIJob", {"Launcher": role(0), "Worker": role(8, 2)}),
        ["worker-0", "worker-1", "launcher"],
    ),
    (operator_job("PaddleJob", {"Worker": role(8, 2)}), ["worker-0", "worker-1"]),
    (operator_job("XGBoostJob", {"Master": role(8), "Worker": role(8)}), ["master-0", "worker-0"]),
    (operator_job("JAXJob", {"Worker": role(8, 2)}), ["worker-0", "worker-1"]),
]


@pytest.mark.parametrize(("wanted", "pods"), OPERATOR_JOBS, ids=[job["kind"] for job, _ in OPERATOR_JOBS])
def test_jobs_of_operators_are_placed_as_gangs(wanted: Plain, pods: list[str]) -> None:
    assert notes(wanted) == []
    job = job_of(ask([*NODES, wanted]), "train")
    assert job["state"] == "scheduled"
    assert [pod["name"] for pod in job["pods"]] == [f"train-{name}" for name in pods]
    (group,) = read(wanted).pod_groups
    assert group.min_member == len(pods)
    few = job_of(ask([NODES[0], wanted]), "train")
    assert few["state"] == "pending"


def test_ranks_are_those_of_huaweis_operator() -> None:
    """The leader is rank 0 where it has chips; without chips it counts apart, and the workers begin at 0."""
    led = read(ascend_job({"Master": role(8), "Worker": role(8, 2)})).pods
    assert [pod.annotations["hccl/rankIndex"] for pod in led] == ["0", "1", "2"]
    apart = ascend_job({"Scheduler": role(0), "Worker": role(8, 2)}, "mindspore")
    assert [pod.annotations["hccl/rankIndex"] for pod in read(apart).pods] == ["0", "0", "1"]
    job = job_of(ask([*NODES, apart]), "train")
    assert [(pod["name"], pod["rank"]) for pod in job["pods"]][:2] == [
        ("train-worker-0", 0),
        ("train-worker-1", 1),
    ]
    # The owner's word stays: the scheduler writes no other rank.
    assert all("hccl/rankIndex" not in pod["annotations"] for pod in job["pods"])


def test_the_scheduling_policy_makes_the_podgroup() -> None:
    policy = {"minAvailable": 2, "queue": "research", "priorityClass": "high", "minResources": {"cpu": "3"}}
    metadata = {"annotations": {"sp-block": "16"}, "labels": {"tor-affinity": "null"}}
    (group,) = read(
        ascend_job({"Master": role(8), "Worker": role(8, 2)}, policy=policy, metadata=metadata)
    ).pod_groups
    assert (group.min_member, group.queue, group.priority_class) == (2, "research", "high")
    assert group.min_resources == {"cpu": 3000}
    assert group.annotations == {"sp-block": "16"}
    assert group.labels["tor-affinity"] == "null"


def test_pods_have_the_labels_that_anti_affinities_select() -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {
                        "matchExpressions": [
                            {"key": "job-name", "operator": "In", "values": ["train"]},
                            {"key": "replica-type", "operator": "In", "values": ["worker"]},
                        ]
                    },
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
    named = [
        node(f"node-{number}", devices=range(8), labels={"kubernetes.io/hostname": f"node-{number}"})
        for number in (1, 2)
    ]
    wanted = ascend_job({"Worker": role(4, 2, affinity=apart)}, "mindspore")
    job = job_of(ask([*named, wanted], VENDOR), "train")
    assert sorted(pod["node"] for pod in job["pods"]) == ["node-1", "node-2"]


def test_a_scheduler_that_is_not_ours() -> None:
    theirs = ascend_job({"Master": role(8)}, schedulerName="default-scheduler")
    assert job_of(ask([*NODES, theirs]), "train")["reason"]["code"] == "other-scheduler"
    beside = operator_job("PyTorchJob", {"Master": role(8, schedulerName="default-scheduler")})
    assert job_of(ask([*NODES, beside]), "train")["reason"]["code"] == "other-scheduler"


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (
            ascend_job({"Master": role(8), "Wroker": role(8)}),
            "spec.replicaSpecs.Wroker: must be one of Master, Scheduler, Chief, Worker; did you "
            'mean "Worker"?',
        ),
        (
            ascend_job({"Master": role(8), "Chief": role(8)}),
            "spec.replicaSpecs.Chief: a job can have only one leader, and Master already exists",
        ),
        (
            ascend_job({"Master": role(8, 2)}),
            "spec.replicaSpecs.Master.replicas: Invalid value: 2: must be 1",
        ),
        (ascend_job({}), "spec.replicaSpecs: must have at least one of Master, Scheduler, Chief, Worker"),
        (
            operator_job("PyTorchJob", {"Master": None}),
            "spec.pytorchReplicaSpecs.Master.template.spec.containers: must have at least one container",
        ),
        (
            operator_job("MPIJob", {"worker": role(8), "Worker": role(8)}),
            "spec.mpiReplicaSpecs.Worker: Worker is already defined in spec.mpiReplicaSpecs.worker",
        ),
        (
            operator_job("JAXJob", {"Worker": role(8, -1)}),
            "spec.jaxReplicaSpecs.Worker.replicas: Invalid value: -1: must be at least 0",
        ),
        (
            operator_job("JAXJob", {"Worker": role(8, 30_000)}),
            "spec: it has 30000 pods; the limit is 20000",
        ),
        (
            operator_job("JAXJob", {"Worker": role(8)}, policy={"minAvailable": "2"}),
            'spec.runPolicy.schedulingPolicy.minAvailable: Invalid value: "2": must be a whole number',
        ),
        (
            replicated(
                "Deployment", 8, 1, metadata={"annotations": {"scheduling.volcano.sh/group-min-member": "x"}}
            ),
            "metadata.annotations[scheduling.volcano.sh/group-min-member]: "
            'Invalid value: "x": must be a whole number from 0 to 2147483647',
        ),
        (
            replicated("StatefulSet", 8, 1, ordinals={"start": -1}),
            "spec.ordinals.start: Invalid value: -1: must be at least 0",
        ),
    ],
)
def test_a_bad_field_is_an_error_that_says_what_is_allowed(wanted: Plain, error: str) -> None:
    assert errors(wanted) == [error]


@pytest.mark.parametrize(
    ("wanted", "note"),
    [
        (
            operator_job("AscendJob", {"Master": role(8)}),
            "metadata.labels.framework: Required value: must be one of pytorch, mindspore, tensorflow; "
            "the operator refuses the job",
        ),
        (
            ascend_job({"Master": role(8)}, "pytroch"),
            'metadata.labels.framework: Invalid value: "pytroch": must be one of pytorch, '
            'mindspore, tensorflow; did you mean "pytorch"?; the operator refuses the job',
        ),
        (
            ascend_job({"Master": role(8)}, "tensorflow"),
            "metadata.labels.framework: the leader of a tensorflow job is Chief, got Master; "
            "the operator refuses the job",
        ),
        (
            ascend_job({"Worker": role(8)}, "pytorch"),
            "metadata.labels.framework: a pytorch job needs a Master; the operator refuses the job",
        ),
        (
            ascend_job({"Master": role(8, container="main")}),
            "spec.replicaSpecs.Master.template.spec.containers: the operator refuses the job: "
            'one container must be named "ascend"',
        ),
        (
            ascend_job({"Master": role(8)}, runPolicy={"schedulingPolcy": {}}),
            'spec.runPolicy.schedulingPolcy: unknown field, not read; did you mean "schedulingPolicy"?',
        ),
        (
            operator_job("TFJob", {"Worker": role(8)}, policy={"minAvailble": 1}),
            "spec.runPolicy.schedulingPolicy.minAvailble: unknown field, not read; did you mean "
            '"minAvailable"?',
        ),
        (
            operator_job("TFJob", {"Worker": {**role(8), "replcas": 1}}),
            'spec.tfReplicaSpecs.Worker.replcas: unknown field, not read; did you mean "replicas"?',
        ),
        (
            operator_job("PyTorchJob", {"Master": role(8)}, runPolicy={"suspend": True}),
            f"PyTorchJob {NAMESPACE}/train gets no pods: it is suspended",
        ),
    ],
)
def test_what_the_operator_refuses_is_a_note(wanted: Plain, note: str) -> None:
    assert notes(wanted) == [note]


def test_every_kind_is_listed() -> None:
    """What the builders know is what the reader knows."""
    from ringwise.manifests.objects.workloads import OPERATOR_KINDS, REPLICATED_KINDS

    kinds = {(api.rpartition("/")[0], kind) for kind, api in APIS.items()}
    assert kinds == REPLICATED_KINDS | OPERATOR_KINDS.keys()
    assert {kind: form.field for (_, kind), form in OPERATOR_KINDS.items()} == ROLES
