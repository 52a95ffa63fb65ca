"""Objects that somebody made as large as the API server accepts: no other job waits for them."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from ringwise.messages.event_reasons import EventReason
from ringwise.wellknown import FAULT_SCHEDULING, FAULT_TYPE, VOLCANO_SYSTEM
from ringwise_bench.hostile_objects import HOSTILE, HostileObject, spread_out
from tests.cluster.cluster import EVENTS, GROUPS, JOBS, PODS, Cluster, Component, check_chips, node_of
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, nodes, pod
from tests.cluster.owners import Workload

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

#: The last one first: a pod that is bound already is on the first of them.
NODES = [f"node-{number}" for number in range(20, 0, -1)]
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{VOLCANO_SYSTEM}/leases"
_KINDS = {
    "Pod": ("v1", PODS),
    "PodGroup": ("scheduling.volcano.sh/v1beta1", GROUPS),
    "Job": ("batch.volcano.sh/v1alpha1", JOBS),
}
#: By words of its name: an object of the bench, and what is said about it; nothing of one that is placed.
LARGE = {
    "14,000 required": "has 14,000 terms",
    "14,000 preferred": "has 14,000 terms",
    "150,000 values": "has 150,000 values",
    "3,000 anti-affinity": "",
    "everything as is allowed": "",
    "chain of 8,000": "has 8,000 tasks",
}
RESTARTS = re.compile(r"after (\d+) restarts")
#: PodGroups of 1.4 MB each, and MiB that a process may have more when they are gone.
LONG_NAMES, MAX_MEMORY = 60, 50
#: A namespace, and how many pods in it match no node.
FLOOD, UNPLACEABLE = "flood", 3_000


def hostile(words: str) -> HostileObject:
    return next(one for one in HOSTILE if words in one.name)


def create(cluster: Cluster, made: HostileObject, name: str) -> list[tuple[str, str]]:
    """Kinds and names of what was created."""
    created = []
    for kind, body in made.make(name, NODES):
        version, path = _KINDS[kind]
        others = ("namespace", "uid", "creationTimestamp")
        own = {key: value for key, value in body["metadata"].items() if key not in others}
        for container in body["spec"].get("containers", ()):
            container["image"] = "train:latest"
        written: Object = {"apiVersion": version, "kind": kind, "metadata": own, "spec": body["spec"]}
        cluster.api.create(path, written)
        created.append((kind, own["name"]))
    return created


def told(cluster: Cluster, kind: str, name: str, words: str) -> bool:
    return any(words in event["message"] for event in cluster.events(kind, name))


def stated(cluster: Cluster, kind: str, name: str, words: str) -> bool:
    """Whether the status of a pod or vcjob says why it does not run."""
    found = next(one for one in cluster.api.items(_KINDS[kind][1]) if one["metadata"]["name"] == name)
    status = found.get("status", {})
    if kind == "Job":
        return words in status.get("state", {}).get("message", "")
    return any(
        one["type"] == "PodScheduled" and one["reason"] == "Unschedulable" and words in one["message"]
        for one in status.get("conditions", ())
    )


def leaders(cluster: Cluster) -> dict[str, tuple[str, int]]:
    found = {one["metadata"]["name"]: one["spec"] for one in cluster.api.items(LEASES)}
    return {name: (spec["holderIdentity"], spec["leaseTransitions"]) for name, spec in found.items()}


def memory(component: Component) -> int:
    """MiB of its process."""
    status = Path(f"/proc/{component.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def test_objects_as_large_as_is_accepted_hold_up_nobody_and_leave_nothing(cluster: Cluster) -> None:
    cluster.apply(nodes(len(NODES)))
    cluster.run("scheduler", "controller")
    components, before = list(cluster.components), leaders(cluster)
    for number, (words, problem) in enumerate(LARGE.items()):
        created = create(cluster, hostile(words), f"large{number}")
        cluster.api.create(PODS, pod(f"after{number}-0", 1))
        cluster.wait_running(f"after{number}", 1)
        kind, name = created[-1]
        if problem:
            cluster.wait(partial(told, cluster, kind, name, problem), f"an event about {kind} {name}")
            cluster.wait(partial(stated, cluster, kind, name, problem), f"the status of {kind} {name}")
            why = kubectl_ringwise(cluster.admin_config, "why", f"{cluster.namespace}/large{number}")
            assert problem in why.stdout, why.stdout + why.stderr
        else:
            cluster.wait_running(f"large{number}", 1)
    assert not [one for one in cluster.pods("large0") if node_of(one)]
    # Names of 1.4 MB: they are refused, and nothing of them is kept.
    used = [memory(component) for component in components]
    for number in range(LONG_NAMES):
        create(cluster, hostile("1.4 MB"), f"long{number}")
    last = f"long{LONG_NAMES - 1}"
    cluster.wait(partial(told, cluster, "PodGroup", last, "at most 253 characters"), f"an event about {last}")
    cluster.api.delete(GROUPS)
    cluster.api.create(PODS, pod("last-0", 1))
    cluster.wait_running("last", 1)
    for component, least in zip(components, used, strict=True):
        assert memory(component) - least <= MAX_MEMORY, component.process.name
        assert component.running
        assert component.healthy
    assert leaders(cluster) == before
    check_chips(cluster.pods())


def test_a_pod_of_another_namespace_does_not_wait_for_pods_with_many_spread_constraints(
    cluster: Cluster,
) -> None:
    """200 pods with 60 constraints of 50 expressions each delayed it by 25 s."""
    cluster.apply(nodes(len(NODES)))
    scheduler = cluster.run()
    refused = HostileObject("60 constraints of 50", partial(spread_out, expressions=50))
    for number in range(200):
        # Nodes lack the topology keys, so all of them stay pending.
        create(cluster, refused if number % 2 else hostile("spread constraints"), f"spread{number}")
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}])
    honest = pod("honest-0", 1)
    honest["metadata"]["namespace"] = "other"
    cluster.apply([honest])
    theirs = PODS.replace("/-/", "/other/")
    cluster.wait(lambda: all(map(node_of, cluster.api.items(theirs))), "the other pod is bound")
    pending = [one for one in cluster.pods() if not node_of(one)]
    assert len(pending) == 200
    cluster.wait(
        partial(stated, cluster, "Pod", "spread1-0", "has 3,000 expressions"), "the limit is in the status"
    )
    assert scheduler.healthy


def test_pods_that_say_they_are_faulty_are_restarted_ever_less_often(cluster: Cluster) -> None:
    """A Deployment with a fault in its own template: every new pod has it, and is deleted for it."""
    cluster.apply(nodes(4))
    scheduler = cluster.run()
    faulty = {FAULT_SCHEDULING: "force", FAULT_TYPE: "Separate"}
    Workload(cluster, "Deployment", "faulty", 8, 1, pod_labels=faulty)

    def restarts_explain_pods() -> bool:
        """Return whether events report three restarts, and all pods are of the first eight or of a restart.

        It may be false for a while: new pods that take longer than the pause do not wait, without an event.
        """
        made = {one.uid for one in cluster.history(PODS, "faulty-")}
        bound = scheduler.metric("ringwise_bindings_total")
        messages = [
            event["message"]
            for event in cluster.api.items(EVENTS)
            if event["reason"] == EventReason.RESTART_BACKOFF
        ]
        restarts = max((int(found[1]) for text in messages if (found := RESTARTS.search(text))), default=0)
        return restarts >= 3 and max(len(made), bound) <= 8 * (restarts + 1)

    cluster.wait(restarts_explain_pods, "the reported restarts explain all pods that are created and bound")
    cluster.api.create(PODS, pod("other-0", 1))
    cluster.wait_running("other", 1)
    assert scheduler.running


def test_pods_that_fit_nowhere_do_not_delay_other_namespaces(cluster: Cluster) -> None:
    """Thousands of them have waited so long that nodes are reserved for such jobs, and a node joins."""
    cluster.configure({"reservation-after": "1"})
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FLOOD}}])
    cluster.apply(nodes(8))
    scheduler = cluster.run()
    for number in range(56):
        cluster.api.create(PODS, pod(f"runs-{number}", 1))
    path = f"/api/v1/namespaces/{FLOOD}/pods"

    for number in range(UNPLACEABLE):
        one = pod(f"never-{number}", 1)
        one["metadata"]["namespace"] = FLOOD
        one["spec"]["nodeSelector"] = {"no": "such"}
        cluster.api.create(path, one)
    pending = 'ringwise_pending_jobs{reason="no-node-fits"}'
    cluster.wait(lambda: scheduler.metric(pending) >= UNPLACEABLE, "all of them were tried")
    for number in range(3):
        cluster.apply(nodes(9 + number)[8 + number :])
        cluster.api.create(PODS, pod(f"other{number}-0", 1))
        cluster.wait_running(f"other{number}", 1)
    waiting = cluster.api.items(path)
    assert len(waiting) == UNPLACEABLE
    assert not any(map(node_of, waiting))
    assert scheduler.healthy
    check_chips(cluster.pods())
