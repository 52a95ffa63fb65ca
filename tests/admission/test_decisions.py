from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringwise.apps.admission.rules import ClusterFacts
from ringwise.kube.watch.readers import ObservedQueue
from ringwise.manifests.settings.boards import shipped_catalog
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.messages.events import ConfigurationSeen, QueueGone, QueueSeen, QuotaGone, QuotaSeen
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.state.model import ClassScope, Queue, ResourceQuota
from tests.admission.reviews import answer, container, deletion, group, pod, review, vcjob
from tests.builders import objects
from tests.place.workloads import ascend_job, operator_job, replicated, role

CATALOG = shipped_catalog()
ON_A2 = {"annotations": {"huawei.com/schedule_policy": "chip8-node8"}}
IN_GROUP = {"scheduling.k8s.io/group-name": "gang"}


def world() -> ClusterFacts:
    return ClusterFacts(
        CATALOG, queues={"default": Queue("default"), "closed": Queue("closed", state="Closed")}
    )


def respond(object: dict[str, Any], **how: Any) -> dict[str, Any]:
    answered = answer(review(object, **how), world())
    assert answered is not None
    assert answered["kind"] == "AdmissionReview"
    response: dict[str, Any] = answered["response"]
    assert response["uid"] == "the-review"
    return response


@pytest.mark.parametrize(
    "object",
    [
        vcjob(1),
        vcjob(8, replicas=4),
        vcjob(3, scheduler="default-scheduler"),
        vcjob(8, replicas=2, metadata={"labels": {"tor-affinity": "normal-schema"}}),
        pod(4),
        pod(3, scheduler="default-scheduler"),
        # Two pods of four chips may be one gang of pods of eight on another board; alone it is allowed.
        pod(4, annotations=IN_GROUP),
        pod(8, annotations=IN_GROUP),
        pod(16, annotations={**IN_GROUP, "sp-block": "32", "huawei.com/schedule_policy": "chip2-node16-sp"}),
        # A logical rack of eight pods: what is wrong with one alone is right for the gang.
        pod(
            8, annotations={**IN_GROUP, "ra-block": "64", "huawei.com/schedule_policy": "chip8-node8-ra64-sp"}
        ),
        # The PodGroup may name a board that allows it: the annotations of a vcjob are there, not on its pods.
        pod(3, annotations=IN_GROUP),
        pod(16, annotations=IN_GROUP),
        pod(8, annotations=IN_GROUP, chip="huawei.com/npu"),
        pod(16, ownerReferences=[{"kind": "ReplicaSet", "name": "a", "uid": "u", "controller": True}]),
        # Its PodGroup may come a moment later.
        pod(1, annotations={"scheduling.k8s.io/group-name": "not-there-yet"}),
        group(),
        {"kind": "ConfigMap", "metadata": {"name": "other"}},
    ],
    ids=lambda one: f"{one['kind']}-{str(one.get('spec', ''))[-40:]}",
)
def test_a_job_that_can_run_some_day_is_allowed(object: dict[str, Any]) -> None:
    assert respond(object)["allowed"] is True


def test_unknown_fields_are_warnings() -> None:
    response = respond(vcjob(8, minAvailble=1))
    assert response["allowed"] is True
    assert response["warnings"] == ['spec.minAvailble: unknown field, not read; did you mean "minAvailable"?']
    assert "warnings" not in respond(vcjob(8))
    assert "warnings" not in respond(vcjob(8, minAvailble=1), operation="UPDATE", old=vcjob(8))
    owner = [{"kind": "ReplicaSet", "name": "made", "uid": "1", "apiVersion": "apps/v1"}]
    assert "warnings" not in respond(pod(1, strange=1, ownerReferences=owner))
    near = pod(1, annotations={"volcano.sh/network-topology-mode": "hrad"})
    response = respond(near)
    assert response["allowed"] is True
    assert response["warnings"] == [
        'metadata.annotations[volcano.sh/network-topology-mode]: must be hard or soft, got "hrad"; '
        'hard is used; did you mean "hard"?'
    ]


def test_a_priority_class_that_the_namespace_may_not_use_is_a_warning() -> None:
    only = "only the namespaces kube-system, mindx-dl, volcano-system may use it"
    for made in (vcjob(8, priorityClassName="system-node-critical"), group()):
        made["spec"]["priorityClassName"] = "system-node-critical"
        response = respond(made)
        assert response["allowed"] is True
        (warning,) = response["warnings"]
        assert f"priority class system-node-critical is not used: {only}" in warning
        assert "warnings" not in respond({**made, "metadata": {"name": "x", "namespace": "kube-system"}})
    cluster = world()
    scope = (ClassScope("In", ("high",)),)
    cluster.take(QuotaSeen(ResourceQuota("team", "none", {"pods": 0}, class_scopes=scope)))
    cluster.take(QuotaSeen(ResourceQuota("other", "none", {"pods": 0}, class_scopes=scope)))
    high = vcjob(8, priorityClassName="high")
    answered = answer(review(high), cluster)
    assert answered is not None
    (warning,) = answered["response"]["warnings"]
    assert "ResourceQuota team/none allows 0 of pods" in warning
    cluster.take(QuotaGone("team", "none"))
    answered = answer(review(high), cluster)
    assert answered is not None
    assert "warnings" not in answered["response"]


def test_a_job_of_0_replicas_is_allowed_and_its_missing_replicas_are_told() -> None:
    job = vcjob(8, 0)
    assert "warnings" not in respond(job)
    del job["spec"]["tasks"][0]["replicas"]
    response = respond(job)
    assert response["allowed"] is True
    assert response["warnings"] == [
        "spec.tasks[0].replicas: it is missing, which means 0: the task gets no pods"
    ]


def test_ignored_arguments_of_job_plugins_are_warnings() -> None:
    response = respond(vcjob(8, plugins={"ssh": ["--no-root"], "svc": ["--enable-networking"]}))
    assert response["allowed"] is True
    ssh, svc = response["warnings"]
    assert ssh.startswith("spec.plugins: job plugin ssh has no argument --no-root")
    assert svc.startswith("spec.plugins: job plugin svc has no argument --enable-networking")
    assert "it is ignored" in ssh
    assert "it is ignored" in svc
    strange: list[Any] = [{"ssh": "x"}, {"ssh": [1, None]}, ["ssh"], {"nobody": ["--x"]}]
    for plugins in strange:
        assert "allowed" in respond(vcjob(8, plugins=plugins))


REFUSED = [
    (
        vcjob(3),
        "a pod requests 3 chips; 910-x8 allows 1, 2, 4, 8 per pod in a job of 1 pod",
    ),
    (
        vcjob(4, replicas=2),
        "2 pods request 4 chips each; on 910-x8 each pod of a multi-pod job must request 8",
    ),
    (
        vcjob(8, queue="defualt"),
        'unable to find job queue: queue "defualt" not found; existing queues: closed, default; did you mean '
        "default?",
    ),
    (
        vcjob(8, queue="closed"),
        "can only submit job to queue with state `Open`: queue closed is Closed and does not accept jobs",
    ),
    (
        vcjob(8, minAvailable=2),
        "job 'minAvailable' should not be greater than total replicas in tasks: the job wants at least 2 "
        "pods and its tasks have 1",
    ),
    (
        vcjob(8, metadata={"annotations": {"sp-block": "16"}}),
        "the only pod of the job requests 8 chips and sp-block is 16; they must be equal",
    ),
    (
        vcjob(8, minAvailable=-1),
        "job 'minAvailable' must be >= 0. spec.minAvailable: Invalid value: -1: must be at least 0",
    ),
    (
        pod(1, container(1, "second")),
        "2 containers of pod pod request chips; only one container of a pod can",
    ),
    (
        pod(17, annotations=IN_GROUP),
        "a pod requests 17 chips; 910-x8 allows 1, 2, 4, 8 per pod in a job of 1 pod",
    ),
    (
        group("nobody"),
        'unable to find queue: queue "nobody" not found; existing queues: closed, default',
    ),
]


@pytest.mark.parametrize(("object", "message"), REFUSED, ids=[message[:30] for _, message in REFUSED])
def test_what_can_never_run_is_refused_with_reason_and_fix(object: dict[str, Any], message: str) -> None:
    response = respond(object)
    assert response["allowed"] is False
    assert response["status"] == {"code": 400, "reason": "BadRequest", "message": message}


def test_what_the_cluster_can_fix_is_a_warning() -> None:
    response = respond(vcjob(8, replicas=4, metadata={"labels": {"tor-affinity": "large-model-schema"}}))
    assert response["allowed"] is True
    (warning,) = response["warnings"]
    assert warning.startswith("it will wait: the job has the label tor-affinity, but the cluster has no leaf")
    assert len(warning) <= 250


def test_all_problems_are_reported_at_once() -> None:
    job = vcjob(8, minAvailable=5, policies=[{"event": "PodFailed", "action": "Dance"}])
    message = respond(job)["status"]["message"]
    assert "at least 5 pods" in message
    assert "unknown action Dance" in message


def test_an_existing_job_can_always_be_changed_for_the_better_and_removed() -> None:
    good, bad = vcjob(8), vcjob(3)
    worse = copy.deepcopy(bad)
    worse["spec"]["maxRetry"] = 1
    leaving = copy.deepcopy(bad)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert respond(bad, operation="UPDATE", old=good)["allowed"] is False
    assert respond(worse, operation="UPDATE", old=bad)["allowed"] is True
    assert respond(bad, operation="UPDATE", old=bad)["allowed"] is True
    assert respond(leaving, operation="UPDATE", old=good)["allowed"] is True
    assert respond(bad, operation="DELETE")["allowed"] is True


def test_only_the_size_and_the_priority_of_a_job_can_change() -> None:
    old = {**vcjob(8, 2), "status": {"state": {"phase": "Running"}, "running": 2}}
    larger = copy.deepcopy(old)
    larger["spec"].update(minAvailable=1, priorityClassName="high")
    larger["spec"]["tasks"][0].update(replicas=1, minAvailable=1)
    assert respond(larger, operation="UPDATE", old=old)["allowed"] is True
    changes: list[dict[str, Any]] = [{"maxRetry": 9}, {"queue": "other"}, {"plugins": {"svc": []}}]
    for change in changes:
        changed = copy.deepcopy(old)
        changed["spec"].update(change)
        answered = respond(changed, operation="UPDATE", old=old)
        assert answered["allowed"] is False
        said = answered["status"]["message"]
        assert said.startswith("job updates may not change fields other than `minAvailable`")
        assert f"spec.{next(iter(change))} was changed" in said
    more = copy.deepcopy(old)
    more["spec"]["tasks"].append({**old["spec"]["tasks"][0], "name": "more"})
    answered = respond(more, operation="UPDATE", old=old)
    assert answered["allowed"] is False
    assert answered["status"]["message"].startswith("job updates may not add or remove tasks: ")
    # What the webhook filled in is missing in the user's file, and the other way round.
    spelled = copy.deepcopy(old)
    spelled["spec"].update(maxRetry=3, queue="default")
    assert respond(spelled, operation="UPDATE", old=old)["allowed"] is True
    assert respond(old, operation="UPDATE", old=spelled)["allowed"] is True


def test_a_job_whose_queue_was_closed_is_changed_by_the_same_rules() -> None:
    old = vcjob(8, 2, queue="closed")
    smaller = copy.deepcopy(old)
    smaller["spec"]["minAvailable"] = 1
    assert respond(smaller, operation="UPDATE", old=old)["allowed"] is True
    wrong, other = copy.deepcopy(old), copy.deepcopy(old)
    wrong["spec"]["minAvailable"] = 9
    other["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] = "other"
    for changed in (wrong, other):
        assert respond(changed, operation="UPDATE", old=old)["allowed"] is False
    moved, lost = copy.deepcopy(old), copy.deepcopy(old)
    moved["spec"]["queue"] = "default"
    lost["spec"]["queue"] = "nowhere"
    assert respond(moved, operation="UPDATE", old=old)["allowed"] is True
    assert respond(lost, operation="UPDATE", old=old)["allowed"] is False


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"state": {"phase": "Aborted"}}, True),
        ({"state": {"phase": "Aborting"}, "running": 2}, True),
        ({"state": {"phase": "Pending"}, "pending": 2}, True),
        ({}, True),
        (None, True),
        ({"state": {"phase": "Pending"}, "running": 1}, False),
        ({"state": {"phase": "Running"}, "running": 2}, False),
        ({"state": {"phase": "Restarting"}}, False),
        ({"state": {"phase": "Completed"}}, False),
    ],
)
def test_a_job_that_is_suspended_or_waits_can_go_to_another_queue(status: Any, allowed: bool) -> None:
    known = world()
    assert known.queues is not None
    known.queues["night"] = Queue("night")
    old = {**vcjob(8, 2, queue="default"), "status": status}
    for queue, takes_jobs in (("night", True), ("closed", False), ("nowhere", False)):
        moved = copy.deepcopy(old)
        moved["spec"]["queue"] = queue
        answered = answer(review(moved, operation="UPDATE", old=old), known)
        assert answered is not None
        assert answered["response"]["allowed"] is (allowed and takes_jobs)


@pytest.mark.parametrize(
    "object",
    [
        vcjob(8),
        group(),
        pod(8),
        {"kind": "Queue", "metadata": {"name": "team"}, "spec": {}},
        replicated("Deployment", 8),
        ascend_job({"Worker": role(8)}),
    ],
    ids=lambda one: str(one["kind"]),
)
def test_a_name_that_the_api_server_makes_is_not_missing(object: dict[str, Any]) -> None:
    made = copy.deepcopy(object)
    made["metadata"]["generateName"] = f"{made['metadata'].pop('name')}-"
    answered = respond(made)
    assert answered["allowed"] is True
    assert "warnings" not in answered


def test_jobs_run_only_in_queues_without_queues_below() -> None:
    tree = ClusterFacts(CATALOG)
    for queue in (
        Queue("root"),
        Queue("default"),
        Queue("dept", parent="root"),
        Queue("team", parent="dept"),
    ):
        tree.take(QueueSeen(queue))
    outcome = {}
    for name in ("root", "default", "dept", "team"):
        answered = answer(review(vcjob(8, queue=name)), tree)
        assert answered is not None
        outcome[name] = answered["response"]["allowed"]
    assert outcome == {"root": False, "default": True, "dept": False, "team": True}


def test_before_queues_are_reported_no_queue_is_unknown() -> None:
    ignorant = ClusterFacts(CATALOG)
    answered = answer(review(vcjob(8, queue="anything")), ignorant)
    assert answered is not None
    assert answered["response"]["allowed"] is True
    ignorant.take(QueueSeen(Queue("default")))
    answered = answer(review(vcjob(8, queue="anything")), ignorant)
    assert answered is not None
    assert answered["response"]["allowed"] is False
    ignorant.take(QueueSeen(Queue("anything")))
    ignorant.take(QueueGone("default"))
    answered = answer(review(vcjob(8, queue="anything")), ignorant)
    assert answered is not None
    assert answered["response"]["allowed"] is True


def test_the_configuration_of_the_cluster_counts() -> None:
    known = world()
    text = "configurations:\n- name: init-params\n  arguments: {multi-pod-requests: vendor}\n"
    known.take(ConfigurationSeen(read_configuration(text, "test", BUILT_IN)))
    answered = answer(review(vcjob(4, replicas=2)), known)
    assert answered is not None
    assert answered["response"]["allowed"] is True


def test_other_names_for_our_pods() -> None:
    known = ClusterFacts(CATALOG, ("npu",), queues={"default": Queue("default")})
    for scheduler, allowed in (("npu", False), ("volcano", True)):
        for object in (vcjob(3, scheduler=scheduler), pod(3, scheduler=scheduler)):
            answered = answer(review(object), known)
            assert answered is not None
            assert answered["response"]["allowed"] is allowed


# -- kinds that others expand into pods


@pytest.mark.parametrize(
    ("object", "allowed"),
    [
        (replicated("Deployment", 4), True),
        (replicated("Deployment", 3), False),
        # Two pods of four chips are right alone; the scheduler decides about the gang.
        (replicated("Deployment", 4, 2), True),
        (replicated("Deployment", 3, 2), False),
        (replicated("Deployment", 3, 0), True),
        (replicated("Deployment", 3, metadata={"ownerReferences": [{"kind": "Other", "name": "a"}]}), True),
        (replicated("Deployment", 3, pod={"schedulerName": "default-scheduler"}), True),
        (replicated("StatefulSet", 8, 3), True),
        # A board that allows 3 chips, named by the owner: only a ReplicaSet is asked.
        (replicated("Deployment", 3, metadata=ON_A2), True),
        (replicated("Deployment", 3, 2, metadata=ON_A2), True),
        (replicated("StatefulSet", 3, metadata=ON_A2), False),
        (replicated("Job", 3), False),
        (ascend_job({"Master": role(8), "Worker": role(8, 3)}), True),
        (ascend_job({"Master": role(4), "Worker": role(4, 3)}), False),
        (ascend_job({"Scheduler": role(0), "Worker": role(8, 2)}, "mindspore"), True),
        (ascend_job({"Master": role(8)}, policy={"queue": "closed"}), False),
        (ascend_job({"Master": role(3)}, schedulerName="default-scheduler"), True),
        (operator_job("PyTorchJob", {"Master": role(3)}), False),
        (operator_job("MPIJob", {"Launcher": role(0), "Worker": role(8, 2)}), True),
    ],
)
def test_owners_of_pods_are_judged_like_their_pods(object: dict[str, Any], allowed: bool) -> None:
    assert respond(object)["allowed"] is allowed


def test_what_an_operator_would_refuse_is_only_told() -> None:
    response = respond(ascend_job({"Wroker": role(8)}))
    assert response["allowed"] is True
    (warning,) = response["warnings"]
    assert "spec.replicaSpecs.Wroker: must be one of Master, Scheduler, Chief, Worker" in warning


def test_a_huge_operator_job_is_not_expanded() -> None:
    response = respond(operator_job("JAXJob", {"Worker": role(8, 2_000_000_000)}))
    assert response["allowed"] is True
    assert response["warnings"][0].startswith("not checked at submission (2000000000 pods")


# -- hostile input


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{", b"\xff\xfe", b'{"request": 3}', b'{"request": {"uid": ""}}', b"[" * 100_000],
)
def test_a_body_that_is_no_review_gets_no_answer(body: bytes) -> None:
    assert answer(body, world()) is None


@pytest.mark.parametrize(
    "object",
    [
        {"kind": "Job"},
        {"kind": "Job", "metadata": 3, "spec": []},
        {"kind": "Job", "metadata": {"name": "x"}, "spec": {"tasks": "many"}},
        {"kind": "Pod", "metadata": {"generateName": "x-", "namespace": "team"}, "spec": {}},
        {"kind": "PodGroup", "metadata": None, "spec": {"minMember": "four"}},
        vcjob(8, replicas=2**31 - 1),
    ],
)
def test_strange_objects_are_answered(object: dict[str, Any]) -> None:
    assert respond(object)["allowed"] in (True, False)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    field=st.sampled_from(["metadata", "spec", "spec.tasks", "spec.queue", "spec.minAvailable"]), value=VALUES
)
def test_any_value_in_any_place_is_answered(field: str, value: Any) -> None:
    job = vcjob(8)
    *way, last = field.split(".")
    target = job
    for step in way:
        target = target[step]
    target[last] = value
    response = respond(job)
    assert json.dumps(response)
    if not response["allowed"]:
        assert response["status"]["message"]


@pytest.mark.parametrize(
    ("kind", "name", "allowed"),
    [
        ("Queue", "default", False),
        ("Queue", "root", False),
        ("Queue", "team", True),
        ("Pod", "default", True),
    ],
)
def test_the_queues_of_every_cluster_cannot_be_deleted(kind: str, name: str, allowed: bool) -> None:
    found = answer(deletion(kind, name), world())
    assert found is not None
    assert found["response"]["allowed"] is allowed
    if not allowed:
        assert f"`{name}` queue can not be deleted" in found["response"]["status"]["message"]


@pytest.mark.parametrize(
    ("phase", "queue", "owner", "warnings"),
    [
        ("Running", "other", None, ["spec.queue: pods that have a node count for queue default until"]),
        ("Running", "other", "Job", ["the controller restores the queue of a running vcjob"]),
        ("Unknown", "other", None, ["the earlier end of the max run times of both queues applies"]),
        ("Running", "default", "Job", []),
        ("Pending", "other", "Job", []),
        ("Inqueue", "other", None, []),
    ],
)
def test_another_queue_for_a_running_pod_group_is_allowed_with_a_warning(
    phase: str, queue: str, owner: str | None, warnings: list[str]
) -> None:
    old, new = ({**group(name), "status": {"phase": phase}} for name in ("default", queue))
    for one in (old, new):
        one["spec"]["minMember"] = 5 if one is new else 4
        if owner is not None:
            vcjob_owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": owner, "name": "t", "uid": "u"}
            one["metadata"] = {**one["metadata"], "ownerReferences": [{**vcjob_owner, "controller": True}]}
    response = respond(new, operation="UPDATE", old=old)
    assert response["allowed"]
    found = response.get("warnings", [])
    assert len(found) == len(warnings)
    assert all(text in one for text, one in zip(warnings, found, strict=True)), found


# -- queues, and what Volcano refuses of PodGroups and pods


def queue_world() -> ClusterFacts:
    known = world()
    for queue in (Queue("dept", deserved={"cpu": 4000}), Queue("team", parent="dept"), Queue("busy")):
        known.take(QueueSeen(queue))
    known.observed["busy"] = ObservedQueue(frozenset({"pods"}), 2)
    return known


def decided(body: bytes, known: ClusterFacts) -> tuple[bool, str]:
    answered = answer(body, known)
    assert answered is not None
    response = answered["response"]
    return response["allowed"], response.get("status", {}).get("message", "")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"parent": "dept", "deserved": {"cpu": "2"}}, ""),
        ({"parent": "dept", "deserved": {"cpu": "5"}}, "the 2 queues below dept have 5 of cpu"),
        ({"parent": "gone"}, "queue new: failed to get parent queue: its parent gone does not exist"),
        ({"parent": "busy"}, "its parent busy has 2 pods"),
        (
            {"guarantee": {"resource": {"cpu": "2"}}},
            "queue new: deserved[cpu] must be >= guarantee[cpu]: it is guaranteed 2 of cpu and deserves 0",
        ),
        ({"capability": {"cpu": "-1"}}, 'spec.capability.cpu: Invalid value: "-1": must not be negative'),
        ({"capability": {"huawei.com/Ascend910": "1.5"}}, "must be a whole number of 0 or more"),
    ],
)
def test_new_queues(spec: dict[str, Any], said: str) -> None:
    allowed, message = decided(review(objects.queue("new", **spec)), queue_world())
    assert allowed is (not said)
    assert said in message


def test_a_changed_queue_is_refused_for_what_the_change_makes_wrong() -> None:
    known = queue_world()
    old = objects.queue("dept", deserved={"cpu": "4"}, guarantee={"resource": {"cpu": "9"}})
    assert decided(review({**old, "spec": {**old["spec"], "weight": 2}}, "UPDATE", old), known)[0] is True
    looped = objects.queue("dept", deserved={"cpu": "4"}, parent="team")
    allowed, message = decided(review(looped, "UPDATE", old), known)
    assert not allowed
    assert "its parents lead back to it: dept -> team -> dept" in message
    # Until it is gone, a queue that is being deleted can be changed in any way: finalizers are removed so.
    looped["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert decided(review(looped, "UPDATE", old), known)[0] is True


def test_before_queues_are_reported_no_parent_is_unknown() -> None:
    assert decided(review(objects.queue("new", parent="gone")), ClusterFacts(CATALOG))[0] is True


def test_deletion_of_queues_with_others_below() -> None:
    known = queue_world()
    allowed, message = decided(deletion("Queue", "dept"), known)
    assert not allowed
    assert (
        "queue dept can not be deleted because it has 1 child queues: it has the 1 queue team below it"
        in message
    )
    assert decided(deletion("Queue", "team"), known)[0] is True


@pytest.mark.parametrize(
    ("status", "why", "why_strict"),
    [
        ({"state": "Open", "completed": 3}, "", ""),
        ({"state": "Open", "running": 1, "allocated": {"pods": "2"}}, "it has 1 job and 2 pods", None),
        ({"state": "Open", "pending": 1, "inqueue": 2, "unknown": 1}, "it has 4 jobs", None),
        ({"state": "Closing", "allocated": {"pods": 2}}, "it has 2 pods", None),
        # Somebody wants it to go all the same.
        ({"state": "Closed", "running": 1, "allocated": {"pods": "2"}}, "", "it has 2 pods"),
        ({"state": "Open", "running": "many", "allocated": {"pods": "2"}}, "", None),
        ("odd", "", None),
    ],
)
def test_a_queue_with_jobs_can_be_deleted_only_when_it_is_closed(
    status: object, why: str, why_strict: str | None
) -> None:
    known = queue_world()
    for said in (why, why if why_strict is None else why_strict):
        allowed, message = decided(deletion("Queue", "busy", status), known)
        assert allowed is (not said)
        assert said in message
        known.protect_used_queues = True


@pytest.mark.parametrize("status", ["odd", None, {"running": "many"}])
def test_an_unreadable_status_does_not_open_what_is_protected(status: object) -> None:
    assert decided(deletion("Queue", "dept", status), queue_world())[0] is False


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}, True),
        ({"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}}, False),
        (
            {"subGroupPolicy": [{"networkTopology": {"highestTierAllowed": 1, "highestTierName": "rack"}}]},
            False,
        ),
    ],
)
def test_a_pod_group_has_one_limit_of_tiers(spec: dict[str, Any], allowed: bool) -> None:
    made = group()
    made["spec"] |= spec
    assert respond(made)["allowed"] is allowed


@pytest.mark.parametrize(
    ("annotations", "allowed"),
    [
        ({"volcano.sh/jdb-min-available": "2"}, True),
        ({"volcano.sh/jdb-max-unavailable": "99%"}, True),
        ({"volcano.sh/jdb-min-available": "0"}, False),
        ({"volcano.sh/jdb-min-available": "100%"}, False),
        ({"volcano.sh/jdb-max-unavailable": "many"}, False),
        ({"volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "1"}, False),
    ],
)
def test_disruption_budgets_of_pods(annotations: dict[str, str], allowed: bool) -> None:
    assert respond(pod(8, annotations=annotations))["allowed"] is allowed
    assert respond(pod(8, annotations=annotations, scheduler="default-scheduler"))["allowed"] is True
