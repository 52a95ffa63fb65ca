"""M1 on a cluster: `kubectl ringwise defrag --apply` moves small jobs so that a gang can start."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from ringwise.wellknown import VOLCANO_SYSTEM
from tests.builders.records import entries_of
from tests.cluster.cluster import JOBS, STATEFUL_SETS, Cluster, check_chips, chips_of, node_of
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import CHIP, HOLDS_END, Object, nodes, vcjob
from tests.cluster.owners import Workload
from tests.cluster.test_maintenance import budget, told

pytestmark = pytest.mark.cluster

#: Seconds between two searches for a plan.
SEARCHES = {"ringwise.apps.auto_moves.INTERVAL": 5}
PLANS = "/apis/ringwise.io/v1alpha1/moveplans"
RECORDS = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps"


def place_of(pod: Object) -> tuple[str, list[str]]:
    return node_of(pod), chips_of(pod)


def on_node(number: int) -> dict[str, str]:
    return {"kubernetes.io/hostname": f"node-{number}"}


def end(cluster: Cluster, name: str) -> None:
    cluster.api.delete(f"{JOBS}/{name}")
    cluster.wait(lambda: not cluster.pods(name), f"{name} is gone")


def fill(cluster: Cluster, number: int, chips: int, name: str = "") -> None:
    """A job that stays where it is: it never moves, and runs for longer than any other."""
    name = name or f"fixed{number}"
    annotations = {"ringwise.io/movable": "false", "ringwise.io/expected-duration": "20h"}
    cluster.apply([vcjob(name, 1, chips, annotations=annotations, selector=on_node(number))])
    cluster.wait_running(name, 1)


def wait_for_a_node(cluster: Cluster, name: str, pods: int = 1) -> None:
    cluster.apply([vcjob(name, pods, 8)])
    cluster.wait(lambda: cluster.condition(name), f"{name} waits")


def for_gang(cluster: Cluster) -> tuple[str, ...]:
    return ("defrag", "--apply", "--yes", "--for", f"{cluster.namespace}/gang", "-o", "json")


def applied(done: subprocess.CompletedProcess[str]) -> Object:
    (plan,) = json.loads(done.stdout)["plans"]
    found: Object = plan
    return found


def is_sent(cluster: Cluster) -> bool:
    return bool(cluster.api.items(PLANS))


def is_recorded(cluster: Cluster, *, running: bool) -> bool:
    """Whether the scheduler's record has a plan that is carried out."""
    return bool(recorded(cluster).get("plans")) is running


def recorded(cluster: Cluster) -> Object:
    """What the scheduler wrote of its plans; nothing before the first one."""
    for one in cluster.api.items(RECORDS):
        if one["metadata"]["name"] == "ringwise-rescheduling":
            data = {key: text for key, text in one.get("data", {}).items() if text}
            return {"plans": entries_of(data, "moves"), "ended": entries_of(data, "ended-moves")}
    return {}


def test_M1_vcjobs_and_pods_of_a_deployment_move_and_a_gang_starts(cluster: Cluster, operator: Path) -> None:
    cluster.apply(nodes(3))
    scheduler = cluster.run()
    # One small job on each of two nodes, so that a gang of two whole nodes waits for holes. Others keep the
    # small ones from going to the same node meanwhile.
    fill(cluster, 3, 4)
    fill(cluster, 3, 4, "meanwhile3")
    fill(cluster, 2, 8, "meanwhile2")
    cluster.apply([vcjob("train", 1, 1)])
    (train,) = cluster.wait_running("train", 1)
    for chips in (4, 2, 1):
        fill(cluster, 1, chips, f"on1-{chips}")
    end(cluster, "meanwhile2")
    Workload(cluster, "Deployment", "web", 1, 2)
    (served,) = cluster.wait_running("web", 1)
    for chips in (4, 2, 1):
        end(cluster, f"on1-{chips}")
    assert (node_of(train), node_of(served)) == ("node-1", "node-2")
    wait_for_a_node(cluster, "gang", 2)
    end(cluster, "meanwhile3")
    # A plan that does not hold for the scheduler, which may not know that it is gone, is not carried out.
    used = f'ringwise_chips{{resource="{CHIP}",state="used"}}'
    cluster.wait(lambda: scheduler.metric(used) == 7, "the scheduler knows of it")

    planned = kubectl_ringwise(operator, "defrag", "--plan", "-o", "json")
    assert planned.returncode == 0, planned.stderr
    (plan,) = json.loads(planned.stdout)["plans"]
    targets = {move["pods"][0]["name"].split("-")[0]: move["pods"][0] for move in plan["moves"]}
    assert targets.keys() == {"train", "web"}
    done = kubectl_ringwise(operator, *for_gang(cluster))
    assert done.returncode == 0, done.stdout + done.stderr
    assert applied(done)["state"] == "done"
    pods = cluster.wait_running("gang", 2)
    assert {node_of(one) for one in pods} == {node_of(train), node_of(served)}
    for job in ("train", "web"):
        (moved,) = cluster.wait_running(job, 1)
        target = targets[job]
        assert place_of(moved) == (target["to"], [f"Ascend910-{chip}" for chip in target["chips"]])
    check_chips(cluster.pods())
    (message,) = cluster.wait(lambda: told(cluster, "train", "Moved"), "the move is told")
    assert "node-3" in message


def test_M1_a_disruption_budget_forbids_a_move(cluster: Cluster) -> None:
    cluster.apply(nodes(2))
    cluster.run()
    Workload(cluster, "Deployment", "web", 1, 1)
    (served,) = cluster.wait_running("web", 1)
    other = 2 if node_of(served) == "node-1" else 1
    fill(cluster, other, 4)
    wait_for_a_node(cluster, "gang")
    budget(cluster, "web", {"minAvailable": 1}, {"app": "web"})
    # The planner knows the budget, where the user may read it.
    done = kubectl_ringwise(cluster.admin_config, *for_gang(cluster)[:-2])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "nothing was changed" in done.stdout
    (still,) = cluster.pods("web")
    assert still["metadata"]["uid"] == served["metadata"]["uid"]


def test_M1_a_plan_from_before_a_disruption_budget_fails(cluster: Cluster, operator: Path) -> None:
    """The scheduler asks for the eviction, and the budget forbids it: the job keeps its place."""
    cluster.apply(nodes(2))
    cluster.run("controller")
    scheduler = cluster.run("scheduler")
    Workload(cluster, "Deployment", "web", 1, 1)
    (served,) = cluster.wait_running("web", 1)
    fill(cluster, 2 if node_of(served) == "node-1" else 1, 4)
    wait_for_a_node(cluster, "gang")
    # Sent while nobody takes it; the budget comes, then the next leader.
    cluster.crash(scheduler)
    running = cluster.begin(operator, *for_gang(cluster))
    cluster.wait(lambda: is_sent(cluster), "the plan is sent")
    budget(cluster, "web", {"minAvailable": 1}, {"app": "web"})
    cluster.run("scheduler")
    done = running.finish()
    assert (done.returncode, applied(done)["state"]) == (1, "failed"), done.stderr
    assert "web" in applied(done)["message"]
    (still,) = cluster.pods("web")
    assert still["metadata"]["uid"] == served["metadata"]["uid"]
    assert place_of(still) == place_of(served)


def is_leaving(cluster: Cluster, job: str) -> bool:
    return any("deletionTimestamp" in one["metadata"] for one in cluster.pods(job))


def is_observed(cluster: Cluster, name: str) -> bool:
    (found,) = (one for one in cluster.api.items(STATEFUL_SETS) if one["metadata"]["name"] == name)
    return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])


def test_M1_an_owner_that_creates_no_pod_again_ends_the_plan(cluster: Cluster, operator: Path) -> None:
    cluster.apply(nodes(2))
    cluster.run(waits={"ringwise.scheduler.defragment.moves.LIMIT": 20_000_000_000})
    # A StatefulSet creates the next pod when the old one is gone, not earlier.
    Workload(cluster, "StatefulSet", "web", 1, 1, pod_annotations={HOLDS_END: "true"})
    (served,) = cluster.wait_running("web", 1)
    fill(cluster, 2 if node_of(served) == "node-1" else 1, 4)
    wait_for_a_node(cluster, "gang")
    running = cluster.begin(operator, *for_gang(cluster))
    cluster.wait(lambda: is_leaving(cluster, "web"), "the plan is carried out")
    cluster.api.patch(f"{STATEFUL_SETS}/web", {"spec": {"replicas": 0}})
    cluster.wait(lambda: is_observed(cluster, "web"), "the StatefulSet controller knows of it")
    cluster.release("web")
    done = running.finish()
    assert (done.returncode, applied(done)["state"]) == (1, "failed"), done.stderr
    # The chips are free all the same.
    cluster.wait_running("gang", 1)
    check_chips(cluster.pods())


def test_M1_F1_the_leader_is_killed_in_the_middle(cluster: Cluster, operator: Path) -> None:
    cluster.apply(nodes(2))
    leader = cluster.run()
    cluster.apply([vcjob("train", 1, 1, pod_annotations={HOLDS_END: "true"})])
    (train,) = cluster.wait_running("train", 1)
    fill(cluster, 2 if node_of(train) == "node-1" else 1, 4)
    wait_for_a_node(cluster, "gang")
    running = cluster.begin(operator, *for_gang(cluster))
    cluster.wait(lambda: is_leaving(cluster, "train"), "the pod is evicted")
    cluster.crash(leader)
    cluster.release("train")
    cluster.start("scheduler")
    done = running.finish()
    assert (done.returncode, applied(done)["state"]) == (0, "done"), done.stderr
    (gang,) = cluster.wait_running("gang", 1)
    assert node_of(gang) == node_of(train)
    (moved,) = cluster.wait_running("train", 1)
    assert moved["metadata"]["uid"] != train["metadata"]["uid"]
    check_chips(cluster.pods())


# -- without a question -------------------------------------------------------------------------------------

#: What a move saves is known: whatever runs says how long.
LASTS = {"ringwise.io/expected-duration": "10h"}
WILLING = {**LASTS, "ringwise.io/movable": "true"}


def run_small(
    cluster: Cluster, name: str, chips: int, on: int, refuge: int, annotations: Object, **held: str
) -> Object:
    """The pod of a small job on a node, which may move to the refuge: a node that is not there yet."""
    job = vcjob(name, 1, chips, annotations=annotations, pod_annotations=held)
    allowed = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node-{on}", f"node-{refuge}"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [allowed]}]}
    job["spec"]["tasks"][0]["template"]["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}
    }
    cluster.apply([job])
    (pod,) = cluster.wait_running(name, 1)
    found: Object = pod
    return found


def is_in_place(cluster: Cluster, name: str, before: Object) -> bool:
    return [one["metadata"]["uid"] for one in cluster.pods(name)] == [before["metadata"]["uid"]]


def outcomes(cluster: Cluster) -> list[str]:
    """Of the plans that have ended, the first one first."""
    return [one["outcome"] for one in recorded(cluster).get("ended", {}).values()]


def test_M1_auto_moves_only_who_is_marked_and_keeps_the_hourly_limit(cluster: Cluster) -> None:
    cluster.configure({"defragment": "auto", "move-chips-per-hour": "3"})
    cluster.apply(nodes(4))
    cluster.run(waits=SEARCHES)
    # The cheapest is not marked. Of those that are, the second costs less than the third, and the limit
    # leaves no room for it after the first.
    unmarked = run_small(cluster, "unmarked", 1, 1, 5, {**LASTS, "ringwise.io/restart-cost": "1s"})
    first = run_small(cluster, "first", 2, 2, 5, {**WILLING, "ringwise.io/restart-cost": "2s"})
    second = run_small(cluster, "second", 2, 3, 5, {**WILLING, "ringwise.io/restart-cost": "1m"})
    third = run_small(cluster, "third", 1, 4, 5, {**WILLING, "ringwise.io/restart-cost": "1h"})
    cluster.apply(nodes(5)[4:])
    fill(cluster, 5, 4)

    cluster.apply([vcjob("gang", 1, 8, annotations=LASTS)])
    (gang,) = cluster.wait_running("gang", 1)
    assert node_of(gang) == "node-2"
    cluster.wait(lambda: outcomes(cluster) == ["done"], "the plan has ended")
    (moved,) = cluster.wait_running("first", 1)
    assert (node_of(first), node_of(moved)) == ("node-2", "node-5")

    cluster.apply([vcjob("next", 1, 8, annotations=LASTS)])
    (following,) = cluster.wait_running("next", 1)
    assert node_of(following) == "node-4"
    cluster.wait(lambda: outcomes(cluster) == ["done", "done"], "the second plan has ended")
    (moved,) = cluster.wait_running("third", 1)
    assert (node_of(third), node_of(moved)) == ("node-4", "node-5")
    assert is_in_place(cluster, "unmarked", unmarked)
    assert is_in_place(cluster, "second", second)
    check_chips(cluster.pods())


def test_M1_F1_the_leader_is_killed_in_the_middle_of_a_plan_of_auto(cluster: Cluster) -> None:
    cluster.configure({"defragment": "auto"})
    cluster.apply(nodes(1))
    leader = cluster.run(waits=SEARCHES)
    train = run_small(cluster, "train", 1, 1, 2, WILLING, **{HOLDS_END: "true"})
    cluster.apply(nodes(2)[1:])
    fill(cluster, 2, 4)
    cluster.apply([vcjob("gang", 1, 8, annotations=LASTS)])
    cluster.wait(lambda: is_leaving(cluster, "train"), "the pod is evicted")
    cluster.crash(leader)
    cluster.release("train")
    cluster.start("scheduler")
    (gang,) = cluster.wait_running("gang", 1)
    assert node_of(gang) == node_of(train) == "node-1"
    (moved,) = cluster.wait_running("train", 1)
    assert node_of(moved) == "node-2"
    assert moved["metadata"]["uid"] != train["metadata"]["uid"]
    cluster.wait(lambda: outcomes(cluster) == ["done"], "the plan has ended")
    check_chips(cluster.pods())
