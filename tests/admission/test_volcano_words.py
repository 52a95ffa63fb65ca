"""Refusals begin with Volcano's words for the same fact: scripts and its own suite look for them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ringwise.apps.admission.rules import ClusterFacts
from ringwise.kube.watch.readers import ObservedQueue
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.state.model import Queue
from tests.admission.reviews import answer, container, deletion, group, pod, review, vcjob
from tests.builders.objects import queue

CATALOG = shipped_catalog()
FAILED, EVICTED = "PodFailed", "PodEvicted"


def world() -> ClusterFacts:
    queues = (
        Queue("root"),
        Queue("default"),
        Queue("closed", state="Closed"),
        Queue("dept", deserved={"cpu": 4000}, capability={"cpu": 8000}),
        Queue("team", parent="dept", deserved={"cpu": 2000}, capability={"cpu": 4000}),
        Queue("busy"),
        Queue("sci", annotations={"volcano.sh/hierarchy": "root/sci/dev"}),
        *(Queue(f"q{level}", parent=f"q{level - 1}" if level > 1 else "") for level in range(1, 6)),
    )
    known = ClusterFacts(CATALOG, queues={queue.name: queue for queue in queues})
    known.observed["busy"] = ObservedQueue(frozenset({"pods"}), 2)
    return known


def refusal(body: bytes) -> str:
    answered = answer(body, world())
    assert answered is not None
    response = answered["response"]
    assert response["allowed"] is False
    message: str = response["status"]["message"]
    return message


def task(name: str = "worker", replicas: int = 1, **more: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [container(8)]}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def policies(*given: dict[str, Any]) -> dict[str, Any]:
    return vcjob(8, policies=[{"action": "AbortJob", **one} for one in given])


def volumes(*given: dict[str, Any]) -> dict[str, Any]:
    return vcjob(8, volumes=list(given))


def partitions(replicas: int = 4, **policy: int) -> dict[str, Any]:
    return vcjob(8, tasks=[task(replicas=replicas, partitionPolicy=policy)], minAvailable=1)


def new_queue(spec: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
    notes = {f"volcano.sh/{key}": value for key, value in annotations.items()}
    return queue("new", annotations=notes, **(spec or {}))


def tiers() -> dict[str, Any]:
    return {"highestTierAllowed": 1, "highestTierName": "rack"}


def path(weights: str, steps: str = "root/a/b") -> dict[str, Any]:
    return new_queue(None, **{"hierarchy": steps, "hierarchy-weights": weights})


#: What is sent, Volcano's words, and a part of our explanation.
JOBS = [
    (vcjob(8, tasks=[], minAvailable=0), "No task specified in job spec", "no tasks"),
    (
        vcjob(8, minAvailable=-1),
        "job 'minAvailable' must be >= 0.",
        "spec.minAvailable: Invalid value: -1: must be",
    ),
    (
        vcjob(8, maxRetry=-1),
        "'maxRetry' cannot be less than zero.",
        "spec.maxRetry: Invalid value: -1: must be",
    ),
    (
        vcjob(8, ttlSecondsAfterFinished=-1),
        "'ttlSecondsAfterFinished' cannot be less than zero.",
        "spec.ttlSecondsAfterFinished: Invalid value: -1: must be",
    ),
    (
        vcjob(8, tasks=[task(replicas=-1)]),
        "'replicas' < 0 in task",
        "spec.tasks[0].replicas: Invalid value: -1: must be",
    ),
    (
        vcjob(8, tasks=[task(minAvailable=-1)]),
        "'minAvailable' < 0 in task",
        "spec.tasks[0].minAvailable: Invalid value: -1: must be",
    ),
    (vcjob(8, tasks=[task(), task()]), "duplicated task name worker", "2 tasks"),
    (vcjob(8, tasks=[task("Task-1")]), "spec.tasks[0].name should match", 'got "Task-1"'),
    (
        vcjob(8, tasks=[task("Task-1")]),
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters",
        "",
    ),
    (
        vcjob(8, tasks=[task(replicas=3, minAvailable=5)]),
        "'minAvailable' is greater than 'replicas' in task",
        "task worker wants at least 5 pods and has 3",
    ),
    (
        vcjob(
            8,
            tasks=[
                task(
                    replicas=2,
                    partitionPolicy={"totalPartitions": 2, "partitionSize": 1, "minPartitions": 3},
                )
            ],
        ),
        "'minAvailable' is greater than 'replicas' in task",
        "at least 3 pods (minPartitions 3 x partitionSize 1) and has 2",
    ),
    (
        vcjob(8, minAvailable=5),
        "job 'minAvailable' should not be greater than total replicas",
        "the job wants at least 5 pods and its tasks have 1",
    ),
    (vcjob(8, metadata={"name": "j" * 64}), "create job with name", "64 characters"),
    (vcjob(8, tasks=[task("w" * 60)]), "create pod with name", "at most 63 are allowed"),
    (policies({"event": FAILED}, {"event": FAILED}), "duplicate event PodFailed", "2 policies"),
    (
        policies({"event": FAILED, "exitCode": 1}),
        "must not specify event and exitCode simultaneously",
        "both",
    ),
    (policies({}), "either event and exitCode should be specified", "without an event"),
    (policies({"event": "Lunch"}), "invalid policy event", "unknown event Lunch; allowed: *"),
    (policies({"event": EVICTED, "action": "Dance"}), "invalid policy action", "unknown action Dance"),
    (policies({"exitCode": 0}), "0 is not a valid error code", "not a failure"),
    (policies({"exitCode": 1}, {"exitCode": 1}), "duplicate exitCode 1", "2 policies"),
    (
        policies({"event": "*"}, {"event": FAILED}),
        "if there's * here, no other policy should be here",
        "other events: PodFailed",
    ),
    (vcjob(8, plugins={"unknown": []}), "unable to find job plugin: unknown", "allowed: env, svc"),
    (vcjob(8, plugins={"mpi": []}), "The specified mpi master task was not found", "--master=NAME"),
    (volumes({"mountPath": ""}), "mountPath is required", "should be at least 1 chars long"),
    (
        volumes(*({"mountPath": "/var", "volumeClaimName": name} for name in "ab")),
        "duplicated mountPath",
        "2 volumes have the mountPath /var",
    ),
    (
        volumes({"mountPath": "/var"}),
        "either VolumeClaim or VolumeClaimName must be specified",
        "volume 0",
    ),
    (
        volumes({"mountPath": "/var", "volumeClaimName": "a", "volumeClaim": {}}),
        "conflict: If you want to use an existing PVC, just specify VolumeClaimName",
        "only one is allowed",
    ),
    (volumes({"mountPath": "/var", "volumeClaimName": "A_"}), "invalid VolumeClaimName", "volume 0"),
    (
        vcjob(8, tasks=[task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})]),
        "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)",
        "wait for each other: a, b",
    ),
    (
        vcjob(8, tasks=[task("a", dependsOn={"name": ["z"]})]),
        "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)",
        "z, which is not a task",
    ),
    (
        vcjob(8, networkTopology=tiers()),
        "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
        "only one is allowed",
    ),
    (partitions(totalPartitions=0, partitionSize=2), "'TotalPartitions' must be greater than 0", "has 0"),
    (partitions(totalPartitions=2, partitionSize=0), "'PartitionSize' must be greater than 0", "has 0"),
    (
        partitions(totalPartitions=3, partitionSize=2),
        "'Replicas' are not equal to TotalPartitions*PartitionSize in task",
        "3 partitions of 2 are 6",
    ),
    (
        vcjob(
            8,
            minAvailable=1,
            tasks=[
                task(
                    replicas=4,
                    minAvailable=3,
                    partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
                )
            ],
        ),
        "'MinAvailable' is not equal to MinPartitions*PartitionSize in task",
        "1 partitions of 2 are 2",
    ),
    (
        vcjob(8, tasks=[task(topologyPolicy="restricted")]),
        "the cpu request isn't  an integer in spec.task[0]",
        "container main",
    ),
    (vcjob(8, queue="nowhere"), "unable to find job queue", 'queue "nowhere" not found'),
    (vcjob(8, queue="closed"), "can only submit job to queue with state `Open`", "queue closed is Closed"),
    (vcjob(8, queue="root"), "can not submit job to root queue", "queues"),
    (vcjob(8, queue="dept"), "can only submit job to leaf queue", "queue dept has child queues (team)"),
]
JDB = "volcano.sh/jdb-min-available"
PODS = [
    (
        pod(8, annotations={JDB: "-1"}),
        'Invalid value: "-1": must be a positive integer',
        "or a valid percentage",
    ),
    (
        pod(8, annotations={JDB: "100%"}),
        '"100%": must be a positive integer or a valid percentage',
        "which between 1% ~ 99%",
    ),
    (
        pod(8, annotations={JDB: "1", "volcano.sh/jdb-max-unavailable": "1"}),
        "not allow configure multiple annotations",
        "only one of",
    ),
    (group("nowhere"), "unable to find queue", 'queue "nowhere" not found'),
    (group("closed"), "can only submit PodGroup to queue with state `Open`", "queue closed is Closed"),
    (
        {**group(), "spec": {"minMember": 1, "networkTopology": tiers()}},
        "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
        "only one is allowed",
    ),
]
CPU = {"cpu": "2"}
QUEUES = [
    (new_queue({"capability": {"cpu": "1"}, "deserved": CPU}), "must be <= capability", "its capability 1"),
    (
        new_queue({"capability": {"cpu": "1"}, "deserved": {"cpu": "1"}, "guarantee": {"resource": CPU}}),
        "must be <= capability",
        "spec.guarantee.resource is 2 of cpu",
    ),
    (new_queue({"guarantee": {"resource": CPU}}), "must be >= guarantee", "deserves 0"),
    (path("1/2"), "must have the same length", "each step needs one weight"),
    (path("1/x/2"), "is invalid number", 'got "x"'),
    (path("1/-1/2"), "must be larger than 0", 'got "-1"'),
    (path("1/2", "root/sci"), "is not allowed to be in the sub path of", "queue sci has the path"),
    (new_queue({"parent": "new"}), "cannot use itself as parent", "its own parent"),
    (new_queue({"parent": "gone"}), "failed to get parent queue", "gone does not exist"),
    (new_queue({"parent": "q5"}), "exceeds the maximum allowed depth of 5", "6 levels"),
    (
        new_queue({"parent": "busy"}),
        "cannot be the parent queue of queue new because it has allocated Pods",
        "2 pods",
    ),
    (
        new_queue({"parent": "dept", "capability": {"cpu": "9"}}),
        "exceeds its ancestor's capability",
        "that of queue dept above it 8",
    ),
    (
        new_queue({"parent": "dept", "deserved": {"cpu": "3"}}),
        "sum of children's deserved exceeds parent's deserved limit",
        "5 of cpu together",
    ),
]


@pytest.mark.parametrize(("object", "words", "ours"), [*JOBS, *PODS, *QUEUES], ids=lambda one: str(one)[:40])
def test_a_refusal_has_the_words_of_volcano_and_then_ours(
    object: dict[str, Any], words: str, ours: str
) -> None:
    said = refusal(review(object))
    assert words in said
    assert ours in said[said.index(words) + len(words) :]


def test_refusals_of_changes() -> None:
    old = {**vcjob(8), "status": {"state": {"phase": "Running"}, "running": 1}}
    more, moved, larger = (copy.deepcopy(old) for _ in range(3))
    more["spec"]["tasks"].append(task("more"))
    moved["spec"]["queue"] = "team"
    larger["spec"]["minAvailable"] = 9
    said = [refusal(review(changed, "UPDATE", old)) for changed in (more, moved, larger)]
    assert said[0].startswith("job updates may not add or remove tasks")
    assert said[1].startswith("job updates may not change fields other than `minAvailable`")
    assert "not be greater than total replicas" in said[2]
    root = {"kind": "Queue", "metadata": {"name": "root"}, "spec": {"weight": 1}}
    changed = {**root, "spec": {"weight": 1, "deserved": CPU}}
    words = "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
    assert words in refusal(review(changed, "UPDATE", root))
    lower = {"kind": "Queue", "metadata": {"name": "dept"}, "spec": {"deserved": {"cpu": "4"}}}
    less = {**lower, "spec": {"deserved": {"cpu": "4"}, "capability": {"cpu": "3"}}}
    assert "is smaller than its descendants' max capability" in refusal(review(less, "UPDATE", lower))


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("default", None, "`default` queue can not be deleted"),
        ("root", None, "`root` queue can not be deleted"),
        ("dept", None, "queue dept can not be deleted because it has 1 child queues"),
        ("busy", {"allocated": {"pods": "2"}}, "queue busy cannot be deleted because it has allocated Pods"),
    ],
)
def test_refusals_of_deletions(name: str, status: Any, words: str) -> None:
    assert refusal(deletion("Queue", name, status)).startswith(words)
