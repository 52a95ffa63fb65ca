"""vcjobs: defaults, jobs that can never run, and the pods that a controller creates."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.kube.write.executor import group_body
from ringwise.manifests.bundle import read_bundle
from ringwise.messages.job_expansion import pod_group_of, pods_of
from ringwise.state.model import NetworkTopology, Owner, Requirement, SubGroupPolicy
from ringwise.state.vcjob import Policy, VcJob
from tests.builders.values import CHIP
from tests.manifests.builders import task, text_of, vcjob


def read(document: dict[str, Any]) -> VcJob:
    bundle = read_bundle(["-"], stdin=text_of(document))
    assert bundle.errors == []
    return bundle.vcjobs[0]


def test_defaults() -> None:
    job = read(vcjob(tasks=[{**task(replicas=3), "name": None}, task("ps", 2, minAvailable=1)]))
    assert [(one.name, one.replicas, one.min_available) for one in job.tasks] == [
        ("default0", 3, 3),
        ("ps", 2, 1),
    ]
    assert (job.min_available, job.max_retry, job.queue, job.scheduler) == (4, 3, "default", "volcano")
    assert job.problems == ()


def test_replicas_that_are_missing_are_0() -> None:
    bare = task()
    del bare["replicas"]
    job = read(vcjob(tasks=[bare, task("ps", 2)]))
    assert [(one.replicas, one.min_available) for one in job.tasks] == [(0, 0), (2, 2)]
    assert job.min_available == 2
    empty = read(vcjob(tasks=[bare]))
    assert (empty.problems, empty.min_available, pods_of(empty)) == ((), 0, [])
    group = pod_group_of(empty)
    assert (group.min_member, any(group.min_resources.values())) == (0, False)


def test_a_task_without_replicas_is_told() -> None:
    bare = task()
    del bare["replicas"]
    document = vcjob(tasks=[task("a"), bare])
    document["metadata"].pop("uid", None)
    bundle = read_bundle(["-"], stdin=text_of(document))
    (note,) = bundle.remarks
    assert note.endswith("spec.tasks[1].replicas: it is missing, which means 0: the task gets no pods")


@pytest.mark.parametrize("key", ["sla-waiting-time", "volcano.sh/sla-waiting-time"])
def test_the_limit_of_the_plugin_sla_reaches_the_pod_group(key: str) -> None:
    document = vcjob()
    document["metadata"]["annotations"] = {key: "3s"}
    assert pod_group_of(read(document)).annotations == {key: "3s"}


def test_all_fields_are_read() -> None:
    job = read(
        vcjob(
            tasks=[task(policies=[{"events": ["PodFailed", "PodEvicted"], "action": "RestartTask"}])],
            policies=[{"exitCode": 3, "action": "AbortJob", "timeout": "90s"}],
            plugins={"env": [], "svc": None, "ssh": ["--port=22"]},
            minAvailable=1,
            minSuccess=1,
            maxRetry=5,
            ttlSecondsAfterFinished=60,
            runningEstimate="1h",
            priorityClassName="high",
            queue="research",
        )
        | {"status": {"state": {"phase": "Completed"}, "retryCount": 2, "version": 4}}
    )
    assert job.tasks[0].policies == (Policy("RestartTask", ("PodFailed", "PodEvicted")),)
    assert job.policies == (Policy("AbortJob", (), 3, 90 * 10**9),)
    assert job.plugins == {"env": (), "svc": (), "ssh": ("--port=22",)}
    assert (job.min_available, job.min_success, job.max_retry, job.ttl_seconds) == (1, 1, 5, 60)
    assert (job.running_estimate, job.priority_class, job.queue) == (3600 * 10**9, "high", "research")
    assert (job.phase, job.retry_count, job.version, job.over) == ("Completed", 2, 4, True)
    assert pods_of(job) == []


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (vcjob(tasks=[]), "the job has no tasks"),
        (vcjob(tasks=[task(), task()]), "2 tasks are called work"),
        (vcjob(tasks=[task(minAvailable=3)]), "task work wants at least 3 pods and has 2"),
        (vcjob(minAvailable=9), "the job wants at least 9 pods and its tasks have 2"),
        (
            vcjob(tasks=[task(replicas=0)], minAvailable=1),
            "its tasks have 0; replicas that are missing are 0",
        ),
        (
            vcjob(tasks=[task(replicas=2_000_000_000)]),
            "the job has 2000000000 pods and at most 20000 are allowed",
        ),
        (
            vcjob(policies=[{"event": "PodFailed", "action": "Explode"}]),
            "the job has a policy with the unknown action Explode",
        ),
        (
            vcjob(policies=[{"event": "Lunch", "action": "AbortJob"}]),
            "the job has a policy for the unknown event Lunch",
        ),
        (
            vcjob(policies=[{"exitCode": 0, "action": "AbortJob"}]),
            "the job has a policy for exit code 0, which is not a failure",
        ),
        (vcjob(policies=[{"action": "AbortJob"}]), "the job has a policy without an event"),
        (
            vcjob(policies=[{"event": "PodFailed", "exitCode": 3, "action": "AbortJob"}]),
            "the job has a policy with both of them",
        ),
        (
            vcjob(policies=[{"events": ["*", "PodFailed"], "action": "AbortJob"}]),
            "the job has a policy for *, which is every event, and policies for other events: PodFailed",
        ),
        (
            vcjob(
                policies=[{"event": "*", "action": "AbortJob"}, {"event": "PodEvicted", "action": "AbortJob"}]
            ),
            "the job has a policy for *, which is every event, and policies for other events: PodEvicted",
        ),
        (
            vcjob(
                tasks=[
                    task(
                        "a",
                        policies=[
                            {"event": "PodFailed", "action": "AbortJob"},
                            {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"},
                        ],
                    )
                ]
            ),
            "duplicate event PodFailed: task a has 2 policies for it",
        ),
        (
            vcjob(policies=[{"exitCode": 3, "action": action} for action in ("AbortJob", "RestartJob")]),
            "the job has 2 policies for exit code 3",
        ),
        (vcjob(policies=[{"event": "OutOfSync", "action": "AbortJob"}]), "the unknown event OutOfSync"),
        (vcjob(policies=[{"event": "PodFailed", "action": "SyncJob"}]), "the unknown action SyncJob"),
        (vcjob(tasks=[task("Work")]), 'at most 63 of them, got "Work"'),
        (vcjob(tasks=[task("a"), task("work.a")]), "spec.tasks[1].name should match"),
        (vcjob(name="j" * 64), "the job's name has 64 characters"),
        (vcjob(tasks=[task("w" * 60)]), "would have a name of 68 characters and at most 63"),
        (vcjob(plugins={"gpu": []}), "unable to find job plugin: gpu"),
        (vcjob(volumes=[{"volumeClaimName": "a"}]), "volume 0 of the job has no mountPath"),
        (vcjob(volumes=[{"mountPath": "/a:b", "volumeClaimName": "a"}]), "a path has no colon"),
        (
            vcjob(volumes=[{"mountPath": "/a", "volumeClaimName": name} for name in "ab"]),
            "2 volumes have the mountPath /a",
        ),
        (vcjob(volumes=[{"mountPath": "/a"}]), "volume 0 of the job has neither of them"),
        (
            vcjob(volumes=[{"mountPath": "/a", "volumeClaimName": "a", "volumeClaim": {}}]),
            "volume 0 of the job has volumeClaim and volumeClaimName",
        ),
        (
            vcjob(volumes=[{"mountPath": "/a", "volumeClaimName": "A_"}]),
            "which is not a valid name of a claim",
        ),
        (
            vcjob(networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}),
            "in networkTopology simultaneously: that of the job has both",
        ),
        (
            vcjob(tasks=[task(replicas=4, partitionPolicy={"totalPartitions": 2, "partitionSize": 3})]),
            "task work has 4 replicas and 2 partitions of 3 are 6",
        ),
        (
            vcjob(
                tasks=[
                    task(
                        replicas=4,
                        minAvailable=3,
                        partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
                    )
                ]
            ),
            "task work has minAvailable 3 and 1 partitions of 2 are 2",
        ),
        (
            vcjob(tasks=[task(topologyPolicy="restricted")]),
            "topologyPolicy restricted and container main requests no whole number of cpus",
        ),
        (
            vcjob(tasks=[task("a", dependsOn={"name": ["z"]})]),
            "task a depends on z, which is not a task of the job",
        ),
        (
            vcjob(
                tasks=[task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]}), task("c")]
            ),
            "tasks wait for each other: a, b",
        ),
    ],
)
def test_a_job_that_can_never_run_has_problems(document: dict[str, Any], problem: str) -> None:
    job = read(document)
    assert any(problem in found for found in job.problems), job.problems
    assert pods_of(job) == []


@pytest.mark.parametrize("resources", [{"limits": {"cpu": 2}}, {"requests": {"cpu": "2000m"}}])
def test_whole_cpus_satisfy_a_topology_policy(resources: dict[str, Any]) -> None:
    work = task(topologyPolicy="restricted")
    work["template"]["spec"]["containers"][0]["resources"] = resources
    assert not read(vcjob(tasks=[work])).problems


@pytest.mark.parametrize(("own", "written"), [({}, "true"), ({"volcano.sh/preemptable": "false"}, "false")])
def test_pods_say_that_their_job_is_preemptable(own: dict[str, str], written: str) -> None:
    document = vcjob(tasks=[task(replicas=1)])
    document["metadata"]["annotations"] = {"volcano.sh/preemptable": "true"}
    document["spec"]["tasks"][0]["template"]["metadata"]["annotations"] = own
    (pod,) = pods_of(read(document))
    assert pod.annotations["volcano.sh/preemptable"] == written


def test_partitions_give_the_minimum_of_a_task() -> None:
    policy = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}
    job = read(vcjob(tasks=[task(replicas=6, partitionPolicy=policy)]))
    assert (job.problems, job.tasks[0].min_available, job.min_available) == ((), 4, 4)


def test_each_partition_is_a_sub_group_of_the_pod_group_and_is_read_as_it_is_written() -> None:
    policy = {
        "totalPartitions": 2,
        "partitionSize": 2,
        "minPartitions": 1,
        "networkTopology": {"mode": "soft", "highestTierName": "leaf"},
    }
    document = vcjob(tasks=[task("master", 1), task("worker", 4, partitionPolicy=policy)])
    document["spec"]["networkTopology"] = {"highestTierAllowed": 2}
    job = read(document)
    group = pod_group_of(job)
    assert group.topology == NetworkTopology(highest_tier=2)
    assert group.sub_groups == (
        SubGroupPolicy(
            "worker",
            (Requirement("volcano.sh/task-spec", "In", ("worker",)),),
            ("volcano.sh/partition-id",),
            size=2,
            min_groups=1,
            topology=NetworkTopology(soft=True, highest_tier_name="leaf"),
        ),
    )
    ids = [one.labels.get("volcano.sh/partition-id") for one in pods_of(job)]
    assert ids == [None, "0", "0", "1", "1"]
    bundle = read_bundle(["-"], stdin=text_of(group_body(group)))
    (again,) = bundle.pod_groups
    assert (again.sub_groups, again.topology, bundle.errors) == (group.sub_groups, group.topology, [])


def test_the_pods_of_a_job() -> None:
    document = vcjob(tasks=[task("master", 1, 0), task("worker", 2)], queue="research")
    document["metadata"]["annotations"] = {"sp-block": "16"}
    document["metadata"]["labels"] = {"tor-affinity": "normal-schema"}
    job = read(document)
    pods, group = pods_of(job), pod_group_of(job)
    assert [one.name for one in pods] == ["train-master-0", "train-worker-0", "train-worker-1"]
    last = pods[-1]
    assert last.group == group.name == "train-1234"
    assert last.owner == group.owner == Owner("Job", "train", "1234", "batch.volcano.sh/v1alpha1")
    assert (last.task, last.rank, last.cls.chips, last.phase) == ("worker", None, 8, "Pending")
    assert last.annotations == {
        "scheduling.k8s.io/group-name": "train-1234",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": "1",
        "volcano.sh/job-name": "train",
        "volcano.sh/queue-name": "research",
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": "train-worker",
        "volcano.sh/job-retry-count": "0",
    }
    assert last.labels == {
        "ring-controller.atlas": "ascend-910",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": "1",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "team",
        "volcano.sh/queue-name": "research",
    }
    assert (group.min_member, group.min_task_member) == (3, {"master": 1, "worker": 2})
    assert (group.annotations, group.labels) == ({"sp-block": "16"}, {"tor-affinity": "normal-schema"})
    assert group.min_resources == {
        CHIP: 16,
        f"requests.{CHIP}": 16,
        "pods": 3,
        "count/pods": 3,
    }
    assert len({one.uid for one in pods}) == 3
    assert [one.uid for one in pods_of(read(document))] == [one.uid for one in pods]


def test_existing_pods_are_not_created_again() -> None:
    job = read(vcjob())
    assert [one.name for one in pods_of(job, {"team/train-work-0", "other/train-work-1"})] == ["train-work-1"]


@pytest.mark.parametrize(
    ("plugins", "ranks"),
    [
        ({}, [None, None, None, None]),
        ({"env": []}, [0, 1, 2, 3]),
        ({"hcclrank": []}, [2, 3, 0, 1]),
        ({"hcclrank": ["--master=worker", "--worker=master"]}, [0, 1, 2, 3]),
    ],
)
def test_ranks_are_unique_over_the_tasks(plugins: dict[str, list[str]], ranks: list[int | None]) -> None:
    job = read(vcjob(tasks=[task("worker", 2), task("master", 2)], plugins=plugins))
    assert [one.rank for one in pods_of(job)] == ranks


def test_a_rank_in_a_template_counts_for_a_task_of_one_pod_only() -> None:
    def ranked(name: str, replicas: int) -> dict[str, Any]:
        built = task(name, replicas)
        built["template"]["metadata"]["annotations"] = {"hccl/rankIndex": "4"}
        return built

    job = read(vcjob(tasks=[ranked("one", 1), ranked("two", 2)]))
    assert [one.rank for one in pods_of(job)] == [4, None, None]
    assert [one.annotations.get("hccl/rankIndex") for one in pods_of(job)] == ["4", None, None]


@pytest.mark.parametrize(
    ("min_available", "chips"),
    [(1, 1), (2, 2), (3, 2 + 8), (4, 3 + 8), (5, 3 + 16)],
)
def test_the_smallest_gang_is_counted_by_priority(min_available: int, chips: int) -> None:
    """Below the sum of all minimums the first pods by priority; above it every minimum, then more."""
    low = task("low", 2, 8, minAvailable=1)
    high = task("high", 3, 1, minAvailable=2)
    high["template"]["spec"]["priorityClassName"] = "high"
    job = read(vcjob(tasks=[low, high], minAvailable=min_available))
    needed = pod_group_of(job, {"high": 100}).min_resources
    assert (needed[CHIP], needed["pods"]) == (chips, min_available)


def test_a_group_needs_what_quotas_count() -> None:
    """As in Kubernetes: containers together, or an init container, whichever is more; and the overhead."""
    one = task(replicas=2, chips=0)
    one["template"]["spec"] = {
        "overhead": {"cpu": "100m", "example.com/gpu": 1},
        "initContainers": [{"name": "first", "resources": {"limits": {"memory": "4Gi"}}}],
        "containers": [
            {
                "name": "main",
                "resources": {
                    "requests": {"cpu": 1, "memory": "1Gi", "example.com/gpu": 1},
                    "limits": {"cpu": 2, "example.com/gpu": 1, "ephemeral-storage": "1Gi"},
                },
            },
            {"name": "side", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}},
        ],
    }
    assert pod_group_of(read(vcjob(tasks=[one]))).min_resources == {
        "cpu": 2 * 1600,
        "requests.cpu": 2 * 1600,
        "limits.cpu": 2 * 2100,
        "memory": 2 * (4 << 30),
        "requests.memory": 2 * (4 << 30),
        "limits.memory": 2 * (4 << 30),
        "ephemeral-storage": 2 << 30,
        "requests.ephemeral-storage": 2 << 30,
        "limits.ephemeral-storage": 2 << 30,
        "example.com/gpu": 2 * 2,
        "requests.example.com/gpu": 2 * 2,
        "pods": 2,
        "count/pods": 2,
    }


def test_a_task_inherits_from_its_job() -> None:
    document = vcjob(priorityClassName="high", schedulerName="mine")
    document["metadata"]["annotations"] = {"volcano.sh/preemptable": "true"}
    first = pods_of(read(document))[0]
    assert (first.priority_class, first.scheduler, first.preemptable) == ("high", "mine", True)
