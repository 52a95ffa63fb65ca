"""Who a job belongs to (`ringwise.io/user`), on a real API server with its own controllers: two users,
and what one of them can do to appear as the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from ringwise.kube.run.leader_term import default_queues
from ringwise.wellknown import APPROVED_BY, GROUP_NAME, USER, VOLCANO_SYSTEM
from ringwise_bench.control_plane import ControlPlane, free_port
from tests.cluster.cluster import (
    BATCH_JOBS,
    DEPLOYMENTS,
    GROUPS,
    JOBS,
    PATIENT,
    PODS,
    REPLICA_SETS,
    WITH_ADMISSION,
    Cluster,
    launch_here,
    patient,
    shipped_objects,
)
from tests.cluster.objects import Object, node, nodes, pod, vcjob
from tests.cluster.test_admission import ADDRESS, HOST, NAME, SLICES, webhook_pod
from tests.cluster.test_defrag import PLANS
from tests.cluster.test_move_plans import EXAMPLE

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not ADDRESS, reason="this machine has no address but loopback"),
]
VALUES = {**WITH_ADMISSION, "userPolicy": {"enabled": True}}
POLICY = "ValidatingAdmissionPolicy 'ringwise-users'"
CRON_JOBS = "/apis/batch/v1/namespaces/-/cronjobs"


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of its own, because of the policy. The webhook does not run yet."""
    with ControlPlane(tmp_path_factory.mktemp("users-plane")) as plane:
        cluster = Cluster(plane)
        cluster.install()
        cluster.apply(
            [*patient(shipped_objects(VALUES)), *default_queues(), *nodes(4), node(HOST, 0, address=ADDRESS)]
        )
        cluster.start_nodes()
        yield cluster
        cluster.stop_components()


def start_webhook(cluster: Cluster) -> None:
    port = free_port()
    cluster.apply([webhook_pod(shipped_objects(VALUES), port)])
    launch = launch_here(waits=PATIENT)
    webhook = cluster.start("admission", f"--address={ADDRESS}:{port}", launch=launch)
    cluster.wait(lambda: webhook.ready, "the webhook is ready")

    def has_endpoint() -> bool:
        return any(
            one["conditions"]["ready"]
            for part in cluster.api.items(SLICES)
            if part["metadata"]["labels"].get("kubernetes.io/service-name") == NAME
            for one in part.get("endpoints") or ()
        )

    cluster.wait(has_endpoint, "the Service has its endpoint")
    ana = Person(cluster, "ana")
    cluster.wait(lambda: user(ana.tried(pod("probe", 1))) == "ana", "the webhook writes the user")


class Person:
    """Somebody with every right, under a name of his own."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._as = (f"--as={name}", "--as-group=system:masters")

    def run(self, *arguments: str, stdin: Object | None = None) -> str:
        text = None if stdin is None else json.dumps(stdin)
        return self._cluster.kubectl(*arguments, *self._as, stdin=text, check=False)

    def create(self, made: Object, *options: str) -> str:
        return self.run("create", "-f", "-", *options, stdin=made)

    def tried(self, made: Object) -> Object:
        """As it would be stored. Warnings follow after it."""
        answer = self.create(made, "--dry-run=server", "-o", "json")
        stored: Object = json.JSONDecoder().raw_decode(answer)[0]
        return stored

    def replace(self, made: Object) -> str:
        return self.run("replace", "-f", "-", stdin=made)

    def patch(self, kind: str, name: str, body: Object, *options: str) -> str:
        return self.run("patch", kind, name, "--type=merge", "-p", json.dumps(body), *options)


def user(made: Object) -> str | None:
    name: str | None = (made["metadata"].get("annotations") or {}).get(USER)
    return name


def named(name: str) -> Object:
    return {"annotations": {USER: name}}


def deployed(name: str, scheduler: str = "volcano", kind: str = "Deployment") -> Object:
    made = pod(name, 1, labels={"app": name}, scheduler=scheduler)
    made["spec"]["restartPolicy"] = "Always"
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": made["spec"]},
        },
    }


def batch_job(name: str) -> Object:
    template = {"spec": pod(name, 1)["spec"]}
    meta = {"name": name}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}


def test_nobody_appears_as_another(guarded: Cluster) -> None:
    ana, eve = Person(guarded, "ana"), Person(guarded, "eve")

    # -- the policy alone: the webhook is not there, nobody is named, and nobody names another
    forged = pod("forged", 1, annotations={USER: "ana"})
    guarded.wait(lambda: POLICY in eve.create(forged, "--dry-run=server"), "the policy is in force")
    own = pod("own", 1, annotations={USER: "eve"})
    assert "created" in eve.create(own, "--dry-run=server")
    assert "created" in eve.create(pod("plain", 1))
    assert user(guarded.api.get(f"{PODS}/plain")) is None
    for made in (deployed("forged"), batch_job("forged"), vcjob("forged", 1, 1)):
        of = made["spec"]["template"] if "template" in made["spec"] else made["spec"]["tasks"][0]["template"]
        of.setdefault("metadata", {})["annotations"] = {USER: "ana"}
        assert POLICY in eve.create(made, "--dry-run=server"), made["kind"]
    empty = vcjob("empty-fields", 1, 1)
    empty["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {}, "labels": {}}
    assert "created" in eve.create(empty, "--dry-run=server")

    # -- the webhook writes the requester on every topmost owner, whatever the manifest says
    start_webhook(guarded)
    guarded.run("controller", "scheduler")
    copied = vcjob("copied", 1, 4)
    copied["metadata"]["annotations"] = {USER: "ana"}
    copied["spec"]["tasks"][0]["template"]["metadata"] = named("ana")
    assert "created" in eve.create(copied)
    assert "created" in ana.create(vcjob("train", 1, 4))
    assert "created" in ana.create(deployed("web"))
    assert "created" in ana.create(batch_job("once"))
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 1 1 *", "jobTemplate": {"spec": batch_job("x")["spec"]}},
    }
    assert "created" in ana.create(cron)
    assert "created" in ana.run("create", "job", "by-hand", "--from=cronjob/nightly")
    assert "created" in eve.create(forged)
    assert user(guarded.api.get(f"{PODS}/forged")) == "eve"
    assert user(guarded.api.get(f"{CRON_JOBS}/nightly")["spec"]["jobTemplate"]) == "ana"
    assert user(guarded.api.get(f"{BATCH_JOBS}/by-hand")) == "ana"

    # -- pods have their owner's, whichever controller made them, and so have the PodGroups
    def users_of(prefix: str, count: int) -> set[str | None] | None:
        found = [one for one in guarded.pods() if one["metadata"]["name"].startswith(prefix)]
        return {user(one) for one in found} if len(found) >= count else None

    for prefix, count, expected in (
        ("train-", 1, "ana"),
        ("copied-", 1, "eve"),
        ("web-", 1, "ana"),
        ("once-", 1, "ana"),
    ):
        assert guarded.wait(partial(users_of, prefix, count), f"pods of {prefix}") == {expected}
    assert {user(one) for one in guarded.api.items(REPLICA_SETS)} == {"ana"}
    of_groups = {"train": "ana", "copied": "eve", "once": "ana"}

    def users_of_groups() -> dict[str, str | None] | None:
        found = {
            one["metadata"]["ownerReferences"][0]["name"]: user(one)
            for one in guarded.api.items(GROUPS)
            if one["metadata"].get("ownerReferences")
        }
        return {name: found[name] for name in of_groups} if found.keys() >= of_groups.keys() else None

    assert guarded.wait(users_of_groups, "the PodGroups are there") == of_groups

    # -- an update changes nobody: neither the object's own, nor that of its template
    web = guarded.api.get(f"{DEPLOYMENTS}/web")
    assert "patched" in eve.patch("deployment", "web", {"metadata": named("eve")})
    assert "patched" in eve.patch(
        "deployment",
        "web",
        {"spec": {"template": {"metadata": named("eve"), "spec": web["spec"]["template"]["spec"]}}},
    )
    assert "replaced" in ana.replace(deployed("web"))
    after = guarded.api.get(f"{DEPLOYMENTS}/web")
    assert [user(after), user(after["spec"]["template"])] == ["ana", "ana"]
    assert len(guarded.api.items(REPLICA_SETS)) == 1, "no rollout"
    for kind, name in (("job.batch.volcano.sh", "train"), ("pod", "forged"), ("job.batch", "once")):
        eve.patch(kind, name, {"metadata": named("mallory")})
    assert user(guarded.api.get(f"{JOBS}/train")) == "ana"
    assert user(guarded.api.get(f"{PODS}/forged")) == "eve"
    # Subresources do not pass through the webhook.
    assert POLICY in eve.patch("pod", "forged", {"metadata": named("ana")}, "--subresource=status")
    assert POLICY in eve.patch("deployment", "web", {"metadata": named("eve")}, "--subresource=status")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "forged", "annotations": {USER: "ana"}},
        "target": {"kind": "Node", "name": "node-1"},
    }
    assert POLICY in eve.run(
        "create", "--raw", guarded.api.full(f"{PODS}/forged/binding"), "-f", "-", stdin=binding
    )

    # -- a pod that claims another's job, and a ReplicaSet of one's own
    (rs,) = guarded.api.items(REPLICA_SETS)
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": rs["metadata"]["name"],
        "uid": rs["metadata"]["uid"],
        "controller": True,
    }
    joined = pod("joined", 1, annotations={USER: "ana"}, group=f"podgroup-{rs['metadata']['uid']}")
    joined["metadata"]["ownerReferences"] = [reference]
    assert "created" in eve.create(joined, "--dry-run=server")
    answer = eve.tried(joined)
    assert user(answer) == "eve"
    assert GROUP_NAME in answer["metadata"]["annotations"]
    own_set = deployed("own-set", kind="ReplicaSet")
    own_set["spec"]["template"]["metadata"]["annotations"] = {USER: "ana"}
    assert "created" in eve.create(own_set)
    assert guarded.wait(lambda: users_of("own-set-", 1), "the pod of the ReplicaSet") == {"eve"}

    # -- given to us later: whoever does it is named
    assert "created" in eve.create(deployed("later", "default-scheduler"))
    assert user(guarded.api.get(f"{DEPLOYMENTS}/later")) is None
    body = {"spec": {"template": {"spec": {"schedulerName": "volcano"}}}}
    assert "patched" in eve.patch("deployment", "later", body)
    later = guarded.api.get(f"{DEPLOYMENTS}/later")
    assert [user(later), user(later["spec"]["template"])] == ["eve", "eve"]

    # -- names that could be taken for another: as they are
    for name in ("an a", "ana:x", f"system:serviceaccount:{VOLCANO_SYSTEM}:default", "аna"):
        assert user(Person(guarded, name).tried(pod("odd", 1))) == name


ASCEND_JOBS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ascendjobs.mindxdl.gitee.com"},
    "spec": {
        "group": "mindxdl.gitee.com",
        "scope": "Namespaced",
        "names": {"kind": "AscendJob", "plural": "ascendjobs", "singular": "ascendjob"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def ascend_job(name: str, **roles: Object | None) -> Object:
    meta = {"name": name}
    spec = {"replicaSpecs": roles}
    return {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "metadata": meta, "spec": spec}


def test_every_role_of_an_ascend_job_is_guarded(guarded: Cluster) -> None:
    """Its definition may let anything through, also fields that are empty."""
    guarded.apply([ASCEND_JOBS])
    guarded.wait_established("ascendjobs.mindxdl.gitee.com")
    eve = Person(guarded, "eve")
    plain = {"replicas": 1, "template": {"spec": {"containers": []}}}
    forged = {**plain, "template": {"metadata": named("ana"), "spec": {"containers": []}}}
    own = {**plain, "template": {"metadata": named("eve"), "spec": {"containers": []}}}

    def tried(job: Object) -> str:
        return eve.create(job, "--dry-run=server")

    guarded.wait(
        lambda: POLICY in tried(ascend_job("forged", Master=plain, Worker=forged)), "the policy is in force"
    )
    # A template that names its author, of an object that names nobody, is wrong as well.
    assert POLICY in tried(ascend_job("half", Worker=own))
    for number, odd in enumerate(
        (
            None,
            {},
            {"template": None},
            {"template": {"metadata": None}},
            {"template": {"metadata": {"annotations": None}}},
            {"template": {"metadata": {"annotations": {"note": "x"}}}},
        )
    ):
        assert "created" in tried(ascend_job(f"odd-{number}", Worker=odd)), odd
    empty = ascend_job("empty")
    empty["spec"] = {"replicaSpecs": None}
    assert "created" in tried(empty)

    start_webhook(guarded)

    def written() -> list[str | None] | None:
        answer = tried(ascend_job("forged", Master=plain, Worker=forged))
        if "created" not in answer:
            return None
        made = eve.tried(ascend_job("forged", Master=plain, Worker=forged))
        of = made["spec"]["replicaSpecs"]
        return [
            user(made),
            *(user({"metadata": {}, **of[role]["template"]}) for role in ("Master", "Worker")),
        ]

    assert guarded.wait(written, "the webhook writes the user") == ["eve", "eve", "eve"]


def test_who_creates_a_custom_resource_is_recorded_and_nobody_else_is(guarded: Cluster) -> None:
    start_webhook(guarded)
    one = Person(guarded, "ann")
    made = {
        "apiVersion": "ringwise.io/v1alpha1",
        "kind": "Isolation",
        "metadata": {"name": "fan"},
        "spec": {"node": HOST, "reason": "fan"},
    }
    path = "/apis/ringwise.io/v1alpha1/isolations/fan"
    forged = {**made, "metadata": {"name": "fan", "annotations": {USER: "bob"}}}
    one.create(forged)
    one.create(made)
    assert guarded.api.get(path)["metadata"]["annotations"][USER] == "ann"
    Person(guarded, "bob").run("annotate", "--overwrite", "isolation/fan", f"{USER}=bob")
    assert guarded.api.get(path)["metadata"]["annotations"][USER] == "ann"
    # Of a MovePlan also who set its approval.
    forged = {**EXAMPLE, "metadata": {"name": "plan", "annotations": {APPROVED_BY: "ann"}}}
    one.create(forged)
    path = f"{PLANS}/plan"

    def named_in_plan() -> list[str | None]:
        notes = guarded.api.get(path)["metadata"].get("annotations") or {}
        return [notes.get(USER), notes.get(APPROVED_BY)]

    assert named_in_plan() == ["ann", None]
    bob = Person(guarded, "bob")
    bob.patch("moveplan", "plan", {"spec": {"approval": "Approved"}})
    assert named_in_plan() == ["ann", "bob"]
    one.run("annotate", "--overwrite", "moveplan/plan", f"{APPROVED_BY}=ann")
    one.run("annotate", "moveplan/plan", f"{APPROVED_BY}-")
    assert named_in_plan() == ["ann", "bob"]
    one.patch("moveplan", "plan", {"spec": {"approval": "Rejected"}})
    assert named_in_plan() == ["ann", "ann"]
