"""The admission policies of the chart, on a real API server: who may write owned annotations (N8), what the
device plugin of a node and the controller may write, and who may open and close queues."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from ringwise.kube.run.leader_term import default_queues
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.wellknown import (
    ASCEND_REAL,
    PREDICATE_TIME,
    SCHEDULER_CONFIG_KEY,
    SCHEDULER_CONFIG_MAP,
    VOLCANO_SYSTEM,
)
from ringwise_bench.control_plane import ApiAnswer, ControlPlane
from tests.cluster.cluster import PODS, Cluster, chips_of, node_of
from tests.cluster.objects import CHIP, Object, nodes, pod, vcjob
from tests.cluster.releases import apply_manifests, helm
from tests.cluster.test_queues import command, queue, states

pytestmark = pytest.mark.cluster

OURS = f"system:serviceaccount:{VOLCANO_SYSTEM}:ringwise-scheduler"
PLUGIN = f"system:serviceaccount:{VOLCANO_SYSTEM}:ringwise-device-plugin"
VENDOR = "system:serviceaccount:kube-system:ascend-device-plugin-sa"
OTHER_VENDOR = "system:serviceaccount:npu:vendor-plugin"
CONTROLLER = f"system:serviceaccount:{VOLCANO_SYSTEM}:ringwise-controller"
FOUR = "Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7"
DENIED, WARNED, ALLOWED = "denied", "warned", "allowed"


def by_helm(cluster: Cluster, **values: Object) -> None:
    helm(cluster, "install", "ringwise", "--create-namespace", values=values)


def with_values(cluster: Cluster) -> None:
    by_helm(cluster, annotationPolicy={"accounts": [OTHER_VENDOR]})


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of its own: a policy would deny what other stories do."""
    with ControlPlane(tmp_path_factory.mktemp("guarded-plane")) as plane:
        yield Cluster(plane)


class User:
    """Somebody with every permission but the name of an account that the policy lists."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._as = (f"--as={name}", "--as-group=system:masters")

    def _tried(self, *arguments: str, stdin: str | None = None) -> str:
        output = self._cluster.kubectl(*arguments, *self._as, stdin=stdin, check=False)
        if "ValidatingAdmissionPolicy 'ringwise-annotations-guarded'" in output:
            return DENIED
        assert "rror" not in output, output
        return WARNED if "Warning: " in output and "ringwise-annotations-copied" in output else ALLOWED

    def create(self, made: Object, *options: str) -> str:
        return self._tried("create", "-f", "-", *options, stdin=json.dumps(made))

    def annotate(self, name: str, text: str) -> str:
        return self._tried("annotate", "pod", name, text, "--overwrite")

    def patch(self, name: str, body: Object, *options: str) -> str:
        return self._tried("patch", "pod", name, "--type=merge", "-p", json.dumps(body), *options)

    def bind(self, name: str, annotations: dict[str, str]) -> str:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "annotations": annotations},
            "target": {"kind": "Node", "name": "node-1"},
        }
        path = self._cluster.api.full(f"{PODS}/{name}/binding")
        return self._tried("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))


@pytest.mark.parametrize(
    ("install", "vendor"), [(with_values, OTHER_VENDOR), (apply_manifests, VENDOR)], ids=["helm", "kubectl"]
)
def test_N8_only_listed_accounts_write_owned_annotations(
    empty: Cluster, install: Callable[[Cluster], object], vendor: str
) -> None:
    install(empty)
    path = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps/{SCHEDULER_CONFIG_MAP}"
    text = empty.api.get(path)["data"][SCHEDULER_CONFIG_KEY]
    assert read_configuration(text, "installed", BUILT_IN).settings.owned_annotations == "guarded"
    empty.use_namespace("training")
    empty.apply([*nodes(1)])
    user = User(empty, "ana")
    copied = pod("copied", 4, annotations={CHIP: FOUR, ASCEND_REAL: FOUR, PREDICATE_TIME: "1"})
    on_node = pod("placed", 4, on="node-1", held=(0, 1, 2, 3))
    # The API server uses a new policy some time after it was created.
    empty.wait(lambda: user.create(on_node, "--dry-run=server") == DENIED, "the policy is in force")

    # A creation passes with a warning, and is denied together with spec.nodeName.
    assert user.create(copied) == WARNED
    assert user.create(pod("plain", 4, annotations={"sp-block": "8"})) == ALLOWED
    assert user.create(on_node) == DENIED
    assert user.create(pod("placed-plain", 4, on="node-1"), "--dry-run=server") == ALLOWED

    # An update that changes an owned annotation is denied: set, edited, removed, in every subresource.
    assert user.annotate("plain", f"{CHIP}={FOUR}") == DENIED
    assert user.annotate("copied", f"{ASCEND_REAL}=Ascend910-0") == DENIED
    assert user.annotate("copied", f"{PREDICATE_TIME}-") == DENIED
    owned = {"metadata": {"annotations": {ASCEND_REAL: "Ascend910-0"}}}
    assert user.patch("plain", owned, "--subresource=status") == DENIED
    assert user.bind("plain", {CHIP: FOUR}) == DENIED
    assert User(empty, CONTROLLER).annotate("copied", f"{ASCEND_REAL}=Ascend910-0") == DENIED
    # Other changes of the same pods are not.
    assert user.annotate("copied", "note=mine") == ALLOWED
    assert user.patch("copied", {"metadata": {"labels": {"a": "b"}}}) == ALLOWED

    # The accounts of scheduler and device plugin, and those in the values, may write them.
    for account in (PLUGIN, vendor, OURS):
        assert User(empty, account).annotate("copied", f"{ASCEND_REAL}=Ascend910-{len(account)}") == ALLOWED

    # The scheduler removes what was copied and binds, with its own account and permissions.
    empty.run("scheduler")
    found = empty.wait(lambda: _bound(empty, "copied"), "the copy is bound")
    assert len(chips_of(found)) == 4
    assert ASCEND_REAL not in found["metadata"]["annotations"]
    assert user.annotate("copied", f"{CHIP}={FOUR}") == DENIED


def test_without_the_annotation_policy_a_device_plugin_still_writes_what_belongs_to_its_node(
    empty: Cluster,
) -> None:
    by_helm(empty, annotationPolicy={"enabled": False})
    empty.use_namespace("training")
    empty.apply([*nodes(2), pod("here", 4, on="node-1"), pod("there", 4, on="node-2")])
    account = {"serviceAccountName": "ringwise-device-plugin"}
    ours = pod("plugin", 0, on="node-1")
    where = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/pods"
    meta = {"name": "plugin", "namespace": VOLCANO_SYSTEM}
    made = empty.api.create(where, {**ours, "metadata": meta, "spec": {**ours["spec"], **account}})
    # A token as the pod of the DaemonSet gets it: it names the pod, and so the node.
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "plugin", "uid": made["metadata"]["uid"]}
    token = empty.plane.account_token(VOLCANO_SYSTEM, "ringwise-device-plugin", bound)
    plugin = empty.api_of(token)

    def tried(call: Callable[[], object]) -> str:
        try:
            call()
        except ApiAnswer as refusal:
            if refusal.status != 403 or "ringwise-device-plugin-node" not in str(refusal):
                raise
            return DENIED
        return ALLOWED

    def annotated(path: str) -> str:
        return tried(lambda: plugin.patch(path, {"metadata": {"annotations": {ASCEND_REAL: "Ascend910-0"}}}))

    def reported(name: str) -> str:
        maps = "/api/v1/namespaces/kube-system/configmaps"
        body = {"metadata": {"name": name}, "data": {"a": "b"}}
        return tried(lambda: plugin.create(maps, body))

    # The API server uses a new policy some time after it was created.
    empty.wait(lambda: annotated(f"{PODS}/there") == DENIED, "the policy is in force")
    assert annotated(f"{PODS}/here") == ALLOWED
    assert annotated("/api/v1/nodes/node-1/status") == ALLOWED
    assert annotated("/api/v1/nodes/node-2/status") == DENIED
    assert reported("mindx-dl-deviceinfo-node-1") == ALLOWED
    for name in ("mindx-dl-deviceinfo-node-2", "ringwise-limits", "mindx-dl-deviceinfo-node-10"):
        assert reported(name) == DENIED
    maps = "/api/v1/namespaces/kube-system/configmaps"
    empty.api.create(maps, {"metadata": {"name": "coredns"}})
    assert tried(lambda: plugin.patch(f"{maps}/coredns", {"data": {"Corefile": ""}})) == DENIED
    report = f"{maps}/mindx-dl-deviceinfo-node-1"
    assert tried(lambda: plugin.patch(report, {"data": {"a": "c"}})) == ALLOWED
    # The scheduler's account is not a business of this policy.
    scheduler = empty.api_of(empty.plane.account_token(VOLCANO_SYSTEM, "ringwise-scheduler"))
    changed = {"metadata": {"annotations": {PREDICATE_TIME: "1"}}}
    assert scheduler.patch(f"{PODS}/there", changed)["metadata"]["annotations"][PREDICATE_TIME] == "1"
    # Nor are users: the other policy is off.
    assert User(empty, "ana").annotate("there", f"{ASCEND_REAL}=Ascend910-7") == ALLOWED


def test_a_token_of_the_controller_writes_only_what_belongs_to_vcjobs(empty: Cluster) -> None:
    by_helm(empty)
    empty.use_namespace("training")
    empty.apply([*default_queues()])
    account = (VOLCANO_SYSTEM, "ringwise-controller")
    stolen = empty.api_of(empty.plane.account_token(*account))
    job = empty.api.create("/apis/batch.volcano.sh/v1alpha1/namespaces/-/jobs", vcjob("train", 1, 8))
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": job["metadata"]["uid"],
    }
    other = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}
    spec = {"podSelector": {}, "policyTypes": ["Ingress"]}
    kinds: dict[str, Object] = {
        "api/v1 configmaps": {"data": {"a": "b"}},
        "api/v1 secrets": {"stringData": {"a": "b"}},
        "api/v1 services": {"spec": {"clusterIP": "None", "selector": {"a": "b"}}},
        "apis/networking.k8s.io/v1 networkpolicies": {"spec": spec},
    }

    def tried(call: Callable[[], object]) -> str:
        try:
            call()
        except ApiAnswer as refusal:
            if refusal.status != 403 or "ringwise-controller-jobs" not in str(refusal):
                raise
            return DENIED
        return ALLOWED

    def path(kind: str, where: str) -> str:
        version, plural = kind.split()
        return f"/{version}/namespaces/{where}/{plural}"

    def created(kind: str, where: str, *owners: Object, query: str = "") -> str:
        meta = {"name": "made", "ownerReferences": list(owners)}
        return tried(lambda: stolen.create(path(kind, where) + query, {"metadata": meta, **kinds[kind]}))

    def refused() -> bool:
        return created("api/v1 configmaps", "kube-system", query="?dryRun=All") == DENIED

    empty.wait(refused, "the policy is in force")
    for kind in kinds:
        for where in ("kube-system", VOLCANO_SYSTEM, "mindx-dl"):
            assert created(kind, where, owner) == DENIED
        assert created(kind, empty.namespace) == DENIED
        assert created(kind, empty.namespace, other) == DENIED
        assert created(kind, empty.namespace, owner) == ALLOWED
        if kind != "api/v1 configmaps":
            assert tried(partial(stolen.delete, f"{path(kind, empty.namespace)}/made")) == ALLOWED
    # What exists cannot become a job's, and the settings of the scheduler are out of reach.
    maps = path("api/v1 configmaps", empty.namespace)
    empty.api.create(maps, {"metadata": {"name": "theirs"}, "data": {}})
    for body in ({"data": {"a": "b"}}, {"metadata": {"ownerReferences": [owner]}, "data": {"a": "b"}}):
        assert tried(partial(stolen.patch, f"{maps}/theirs", body)) == DENIED
    assert tried(lambda: stolen.patch(f"{maps}/made", {"data": {"a": "c"}})) == ALLOWED
    assert tried(lambda: stolen.patch(f"{maps}/made", {"metadata": {"ownerReferences": None}})) == DENIED
    settings = f"{path('api/v1 configmaps', VOLCANO_SYSTEM)}/{SCHEDULER_CONFIG_MAP}"
    assert tried(lambda: stolen.patch(settings, {"data": {SCHEDULER_CONFIG_KEY: ""}})) == DENIED
    theirs = path("api/v1 secrets", empty.namespace)
    empty.api.create(theirs, {"metadata": {"name": "theirs"}})
    assert tried(lambda: stolen.delete(f"{theirs}/theirs")) == DENIED

    # The controller does its work: pods, PodGroup, Lease, Events, and what job plugins need.
    made = vcjob("full", 1, 8)
    made["spec"]["plugins"] = {"svc": [], "ssh": [], "env": []}
    empty.apply([*nodes(2), made])
    empty.run("controller", "scheduler")
    empty.wait(lambda: empty.pods("full"), "the job has its pod")
    for kind in kinds:
        names = [one["metadata"]["name"] for one in empty.api.items(path(kind, empty.namespace))]
        assert any(name.startswith("full") for name in names), kind


def test_a_command_for_a_queue_needs_the_right_to_update_it(empty: Cluster) -> None:
    by_helm(empty)
    empty.use_namespace("training")
    empty.apply([queue("research"), queue("other")])
    # Both may do everything in their namespace; one of them may also update one queue.
    commands = "create,get,list,patch,update,delete", "commands.bus.volcano.sh"
    for name in ("eve", "ana"):
        rights = ("create", "role", name, f"--verb={commands[0]}")
        empty.kubectl(*rights, f"--resource={commands[1]}")
        empty.kubectl("create", "rolebinding", name, f"--role={name}", f"--user={name}")
    resource = ("--resource=queues.scheduling.volcano.sh", "--resource-name=research")
    empty.kubectl("create", "clusterrole", "research", "--verb=update", *resource)
    empty.kubectl("create", "clusterrolebinding", "research", "--clusterrole=research", "--user=ana")

    def tried(user: str, *arguments: str, made: Object | None = None) -> str:
        options = (*arguments, f"--as={user}")
        output = empty.kubectl(*options, stdin=json.dumps(made) if made else None, check=False)
        if "ValidatingAdmissionPolicy 'ringwise-queue-commands'" in output:
            assert f"which {user} does not have" in output
            return DENIED
        assert "rror" not in output, output
        return ALLOWED

    def asked(user: str, name: str, *options: str, kind: str = "Queue") -> str:
        made = command(f"{user}-{name}", "CloseQueue", kind, name)
        return tried(user, "create", "-f", "-", *options, made=made)

    empty.wait(lambda: asked("eve", "research", "--dry-run=server") == DENIED, "the policy is in force")
    assert asked("eve", "other") == DENIED
    assert asked("ana", "other") == DENIED
    # Commands for jobs are the namespace's own business, and cannot become others.
    assert asked("eve", "train", kind="Job") == ALLOWED
    to_queue = json.dumps({"target": {"kind": "Queue", "name": "research"}})
    assert tried("eve", "patch", "command", "eve-train", "--type=merge", "-p", to_queue) == DENIED
    assert tried("eve", "label", "command", "eve-train", "a=b") == ALLOWED
    assert asked("ana", "research") == ALLOWED

    # The controller obeys Commands of every namespace, as the installed Deployment says.
    deployments = f"/apis/apps/v1/namespaces/{VOLCANO_SYSTEM}/deployments"
    installed = empty.api.get(f"{deployments}/ringwise-controller")
    (container,) = installed["spec"]["template"]["spec"]["containers"]
    empty.start("controller", *[one for one in container["args"] if "queue-command" in one])
    empty.wait(
        lambda: states(empty, "research", "other") == {"research": "Closed", "other": "Open"}, "closed"
    )
    path = "/apis/bus.volcano.sh/v1alpha1/namespaces/-/commands"
    empty.wait(lambda: empty.api.items(path) == [], "Commands are deleted")


def _bound(cluster: Cluster, name: str) -> Object | None:
    return next((one for one in cluster.pods() if one["metadata"]["name"] == name and node_of(one)), None)
