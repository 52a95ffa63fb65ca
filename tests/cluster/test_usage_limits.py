"""UsageLimits on a real API server: validation, conditions, rights, jobs that wait, and run times."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT
from tests.cluster.cluster import (
    EVENTS,
    GROUPS,
    JOBS,
    PODS,
    SOON_SERVED,
    SOON_STATED,
    Cluster,
    shipped_objects,
)
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, nodes, pod, pod_group, vcjob

pytestmark = pytest.mark.cluster

PATH = "/apis/ringwise.io/v1alpha1/usagelimits"
PAGE = ROOT / "docs" / "reference" / "usagelimit.md"
CHIPS = "requests.huawei.com/Ascend910"
#: Seconds.
WARNING, LONGEST = 5, 10


def queue(name: str) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }


def limit(name: str, subject: dict[str, str], **spec: Any) -> Object:
    return {
        "apiVersion": "ringwise.io/v1alpha1",
        "kind": "UsageLimit",
        "metadata": {"name": name},
        "spec": {"subject": subject, **spec},
    }


def limited_queue(name: str, chips: int | None = None, **spec: Any) -> list[Object]:
    """A queue, and the limit of its name."""
    hard = {} if chips is None else {"hard": {CHIPS: chips}}
    return [queue(name), limit(name, {"queue": name}, **hard, **spec)]


def apply(cluster: Cluster, one: Object) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(one))


def conditions(cluster: Cluster, name: str) -> dict[str, str]:
    """Reason by type, of the conditions of the newest generation."""
    found = cluster.api.get(f"{PATH}/{name}")
    return {
        one["type"]: one["reason"]
        for one in found.get("status", {}).get("conditions", ())
        if one["observedGeneration"] == found["metadata"]["generation"]
    }


def job_in(name: str, where: str, replicas: int = 1) -> Object:
    made = vcjob(name, replicas, 8)
    made["spec"]["queue"] = where
    return made


def said(cluster: Cluster, *arguments: str) -> str:
    ran = kubectl_ringwise(cluster.admin_config, *arguments)
    assert ran.returncode in (0, 1), ran.stderr
    return " ".join(ran.stdout.split())


def waits_for(cluster: Cluster, job: str, words: str) -> None:
    def told() -> bool:
        condition = cluster.condition(job)
        return condition is not None and words in condition.get("message", "")

    cluster.wait(told, f"{job} waits: {words}")


def phase(cluster: Cluster, name: str) -> str:
    return str(cluster.api.get(f"{JOBS}/{name}").get("status", {}).get("state", {}).get("phase", ""))


def warnings(cluster: Cluster, job: str) -> list[str]:
    """On the PodGroup of a job, which may be gone."""
    return [
        one["message"]
        for one in cluster.api.items(EVENTS)
        if one["reason"] == "MaxRunTimeApproaching"
        and one["involvedObject"]["kind"] == "PodGroup"
        and one["involvedObject"]["name"].partition("-")[0] == job
    ]


def shorten(cluster: Cluster, *limits: str) -> None:
    """No job ends before everything else has happened: its end comes with this."""
    for name in limits:
        cluster.api.patch(f"{PATH}/{name}", {"spec": {"maxRunTime": f"{LONGEST}s"}})


QUEUE = {"queue": "some"}
REFUSED = {
    "spec.subject in body should have at least 1 properties": limit("a", {}),
    "must have only runningJobs, pendingJobs, cpu, memory": limit("a", QUEUE, hard={"limits.cpu": 1}),
    "borrowingLimit must have only resources with an entry": limit("a", QUEUE, borrowingLimit={CHIPS: 1}),
    "onTimeout requires maxRunTime": limit("a", QUEUE, onTimeout="Requeue"),
    "must be more than 0": limit("a", QUEUE, maxRunTime="0s"),
    "spec.maxRunTime in body should match": limit("a", QUEUE, maxRunTime="7d"),
    "spec.hard.cpu in body should match": limit("a", QUEUE, hard={"cpu": "many"}),
    'unknown field "spec.scope"': limit("a", QUEUE, scope="all"),
}


def test_limits_are_validated_and_have_conditions(cluster: Cluster, operator: Path) -> None:
    cluster.apply(nodes(2))
    for message, made in REFUSED.items():
        answer = cluster.kubectl("create", "-f", "-", stdin=json.dumps(made), check=False)
        assert message in answer
    examples = yaml.safe_load_all("\n---\n".join(re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)))
    for one in examples:
        cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(one))
    leader = cluster.run(waits=SOON_STATED)
    subject = {"namespace": cluster.namespace}
    apply(cluster, limit("own", subject, hard={CHIPS: 8, "runningJobs": "2"}))
    apply(cluster, limit("each-user", {"user": "*"}, hard={CHIPS: 0}))
    within = {"Accepted": "Accepted", "Exceeded": "WithinLimit"}
    cluster.wait(lambda: conditions(cluster, "own") == within, "it is accepted")
    refused = {"Accepted": "UserNotVerified", "Exceeded": "NotAccepted"}
    cluster.wait(lambda: conditions(cluster, "each-user") == refused, "it is not accepted")
    findings = json.loads(kubectl_ringwise(operator, "doctor", "-o", "json").stdout)["findings"]
    assert [one["object"] for one in findings if one["code"] == "limit-not-accepted"] == [
        "UsageLimit each-user"
    ]
    cluster.apply([vcjob("runs", 1, 8)])
    cluster.wait_running("runs", 1)
    # Lowered while no scheduler runs.
    cluster.crash(leader)
    patch = json.dumps({"spec": {"hard": {CHIPS: 4}}})
    cluster.kubectl("patch", "ulim/own", "--type=merge", "-p", patch)
    cluster.stop_components()
    cluster.run(waits=SOON_STATED)
    exceeded = {"Accepted": "Accepted", "Exceeded": "LimitExceeded"}
    cluster.wait(lambda: conditions(cluster, "own") == exceeded, "it is exceeded")
    listed = cluster.kubectl("get", "ringwise")
    assert re.search(rf"own\s+{cluster.namespace}\s+True\s+True", listed), listed
    # Who may read it sees it.
    shown = " ".join(kubectl_ringwise(operator, "limits").stdout.split())
    assert f"own namespace {cluster.namespace} Ascend910 8 of 4" in shown
    cluster.api.delete(f"{JOBS}/runs")
    cluster.wait(lambda: conditions(cluster, "own") == within, "it is no longer exceeded")
    before = cluster.api.get(f"{PATH}/own")["metadata"]["resourceVersion"]
    cluster.apply([pod("some-0", 1)])
    cluster.wait_running("some", 1)
    assert cluster.api.get(f"{PATH}/own")["metadata"]["resourceVersion"] == before


def test_limits_stay_in_force_while_the_kind_is_not_served(cluster: Cluster, operator: Path) -> None:
    cluster.apply(nodes(2))
    cluster.run(waits=SOON_SERVED)
    apply(cluster, limit("own", {"namespace": cluster.namespace}, hard={"requests.cpu": 0, CHIPS: 0}))
    cluster.wait(lambda: conditions(cluster, "own").get("Accepted") == "Accepted", "it is in force")
    (crd,) = (one for one in shipped_objects() if one["metadata"]["name"] == "usagelimits.ringwise.io")
    cluster.kubectl("delete", "crd", "usagelimits.ringwise.io")
    try:

        def reported() -> bool:
            findings = json.loads(kubectl_ringwise(operator, "doctor", "-o", "json").stdout)["findings"]
            return any(one["code"] == "kind-not-served" for one in findings)

        cluster.wait(reported, "doctor reports an error")
        cluster.apply([vcjob("waits", 1, 8)])
        waits_for(cluster, "waits", "of UsageLimit own")
        # The next leader has it from the record.
        cluster.stop_components()
        cluster.run(waits=SOON_SERVED)
        cluster.apply([vcjob("later", 1, 8)])
        waits_for(cluster, "later", "of UsageLimit own")
    finally:
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(crd))
        cluster.wait_established("usagelimits.ringwise.io")
    # A list succeeds: the limit was deleted with its kind.
    cluster.wait_running("waits", 1)


def test_a_limit_with_a_field_of_a_newer_version_costs_no_other(cluster: Cluster, operator: Path) -> None:
    """Such a field may restrict what the others say, so the object is ignored; what was in force stays."""
    (shipped,) = (one for one in shipped_objects() if one["metadata"]["name"] == "usagelimits.ringwise.io")
    newer = copy.deepcopy(shipped)
    schema = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"]["weekdays"] = {"type": "string"}

    def install(definition: Object) -> None:
        cluster.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(definition)
        )

    subject = {"namespace": cluster.namespace}
    cluster.apply(nodes(2))
    apply(cluster, limit("own", subject, hard={CHIPS: 0}))
    cluster.run()
    cluster.wait(lambda: conditions(cluster, "own").get("Accepted") == "Accepted", "it is in force")
    install(newer)
    try:
        explain = ("explain", "usagelimit.spec")
        cluster.wait(lambda: "weekdays" in cluster.kubectl(*explain, check=False), "the schema is served")
        apply(cluster, limit("own", subject, hard={CHIPS: 99}, weekdays="Mon"))
        apply(cluster, limit("new", subject, hard={CHIPS: 99}, weekdays="Mon"))
        apply(cluster, limit("other", subject, hard={"runningJobs": 9}))
        cluster.wait(lambda: conditions(cluster, "other").get("Accepted") == "Accepted", "it is in force")
        cluster.apply([vcjob("waits", 1, 8)])
        waits_for(cluster, "waits", "of UsageLimit own")
        found = kubectl_ringwise(operator, "doctor", "-o", "json").stdout
        assert all(f"UsageLimit {name}" in found for name in ("own", "new"))
        assert "weekdays" in found
    finally:
        cluster.kubectl("delete", "ulim", "--all", check=False)
        install(shipped)
    cluster.wait_running("waits", 1)


def test_a_tenant_sees_the_limits_of_its_namespace_and_no_others(cluster: Cluster) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant"}}
    cluster.apply([*nodes(1), account, queue("mine"), *limited_queue("secret", 8)])
    subject = f"--serviceaccount={cluster.namespace}:tenant"
    cluster.kubectl("create", "rolebinding", "limits-tenant", "--clusterrole=edit", subject)
    tenant = cluster.plane.kubeconfig("tenant", cluster.plane.account_token(cluster.namespace, "tenant"))

    def shown() -> str:
        ran = kubectl_ringwise(tenant, "limits", "-n", cluster.namespace)
        return " ".join((ran.stdout + ran.stderr).split())

    cluster.run()
    cluster.wait(lambda: "no limits are set" in shown(), "the rights of the tenant are aggregated")
    apply(cluster, limit("theirs", {"namespace": "secret"}, hard={CHIPS: 8}))
    apply(cluster, limit("each", {"namespace": "*"}, hard={CHIPS: 16}, maxRunTime="12h"))
    apply(cluster, limit("mine", {"queue": "mine"}, hard={CHIPS: 8}))
    cluster.apply([job_in("runs", "mine")])
    cluster.wait_running("runs", 1)
    namespace = cluster.namespace
    cluster.wait(lambda: f"each namespace {namespace} Ascend910 8 of 16" in shown(), "it sees its use")
    cluster.wait(lambda: "mine queue mine" in shown(), "it sees the limit of the queue of its job")
    assert "secret" not in shown()
    # They end with the limit, also if no scheduler runs then.
    cluster.stop_components()
    cluster.api.delete(f"{PATH}/each")
    cluster.run()
    cluster.wait(lambda: "each" not in shown(), "the limit is gone")
    assert "not allowed" in kubectl_ringwise(tenant, "limits", "-n", "default").stderr


def test_jobs_wait_for_limits_and_are_woken(cluster: Cluster) -> None:
    cluster.apply([*nodes(4), *limited_queue("few", 8)])
    cluster.run()
    cluster.apply([job_in("first", "few")])
    cluster.wait_running("first", 1)
    cluster.apply([job_in("second", "few"), vcjob("other", 1, 8)])
    waits_for(cluster, "second", "queue few uses 8 of 8 Ascend910 and the job requests 8 more")
    # It keeps nobody else waiting.
    cluster.wait_running("other", 1)
    why = said(cluster, "why", f"{cluster.namespace}/second")
    assert "the limit of queue few is used by first (8 Ascend910)" in why
    assert "raise huawei.com/Ascend910 of UsageLimit few to 16 (now 8)" in why
    shown = said(cluster, "limits")
    assert "queue few Ascend910 8 of 8" in shown
    cluster.api.delete(f"{JOBS}/first")
    cluster.wait_running("second", 1)
    # Limits of the namespace come on top.
    cluster.apply([limit("own", {"namespace": cluster.namespace}, hard={"runningJobs": 2})])
    cluster.apply([job_in("fourth", "few")])
    # Changes of one kind are read in their order: this limit is known before the other one is raised.
    cluster.apply([*limited_queue("few", 32)])
    waits_for(cluster, "fourth", f"2 jobs of namespace {cluster.namespace} are running; the limit is 2")
    cluster.api.delete(f"{PATH}/own")
    cluster.wait_running("fourth", 1)


def test_a_run_time_ends_across_leaders(cluster: Cluster) -> None:
    cluster.configure({"max-run-time-warning": str(WARNING)})
    cluster.apply(
        [
            *nodes(2),
            *limited_queue("short", maxRunTime="1h"),
            *limited_queue("night", maxRunTime="1h", onTimeout="Requeue"),
        ]
    )
    scheduler = cluster.run()
    cluster.apply([job_in("ends", "short"), job_in("returns", "night")])
    cluster.wait_running("ends", 1)
    (before,) = cluster.wait_running("returns", 1)
    # The next leader goes on with what this one wrote.
    cluster.crash(scheduler)
    cluster.run("scheduler")
    shorten(cluster, "short", "night")
    (message,) = cluster.wait(lambda: warnings(cluster, "ends"), "it is warned")
    assert f"maxRunTime of UsageLimit short is {LONGEST}s" in message
    cluster.wait(lambda: phase(cluster, "ends") == "Terminated", "it is ended")
    assert not cluster.pods("ends")

    def started_over() -> bool:
        pods = cluster.running("returns", 1)
        return pods is not None and pods[0]["metadata"]["uid"] != before["metadata"]["uid"]

    cluster.wait(started_over, "it started over")
    assert not cluster.api.get(f"{JOBS}/returns")["status"].get("retryCount")


def move_group(cluster: Cluster, name: str, where: str) -> None:
    """As a tenant does it."""
    patch = f'{{"spec":{{"queue":"{where}"}}}}'
    cluster.kubectl("patch", "podgroups.scheduling.volcano.sh", name, "--type=merge", "-p", patch)


def test_pods_count_for_the_queue_they_were_bound_in_across_leaders(cluster: Cluster) -> None:
    """Two queues with 8 chips each never have 24 in use, whatever tenants do with PodGroups."""
    cluster.apply([*nodes(4), *limited_queue("few", 8), *limited_queue("wide", 8)])
    scheduler = cluster.run()
    group = pod_group("first", 1)
    group["spec"]["queue"] = "few"
    cluster.apply([group, pod("first-0", 8, group="first")])
    cluster.wait_running("first", 1)
    move_group(cluster, "first", "wide")
    cluster.apply([job_in("second", "few"), job_in("third", "wide")])
    cluster.wait_running("third", 1)
    waits_for(cluster, "second", "queue few uses 8 of 8 Ascend910 and the job requests 8 more")
    assert "queue few Ascend910 8 of 8" in said(cluster, "limits")
    # The next leader knows it, also when the PodGroup is gone.
    cluster.api.delete(f"{JOBS}/second")
    cluster.api.delete(f"{GROUPS}/first")
    cluster.crash(scheduler)
    cluster.run("scheduler")
    cluster.apply([job_in("fourth", "few")])
    waits_for(cluster, "fourth", "queue few uses 8 of 8 Ascend910 and the job requests 8 more")
    cluster.api.delete(f"{PODS}/first-0")
    cluster.wait_running("fourth", 1)


def test_a_vcjob_gets_its_queue_back_and_its_run_time_ends_wherever_it_is_moved(cluster: Cluster) -> None:
    cluster.configure({"max-run-time-warning": str(WARNING)})
    cluster.apply([*nodes(3), *limited_queue("short", maxRunTime="1h"), queue("wide")])
    scheduler = cluster.run()
    group = pod_group("moved", 1)
    group["spec"]["queue"] = "short"
    cluster.apply([job_in("train", "short"), group, pod("moved-0", 8, group="moved")])
    cluster.wait_running("train", 1)
    cluster.wait_running("moved", 1)
    of_job = cluster.group_of("train")
    assert of_job is not None
    for name in (of_job["metadata"]["name"], "moved"):
        move_group(cluster, name, "wide")

    def queue_of(job: str) -> str:
        found = cluster.group_of(job)
        return found["spec"]["queue"] if found is not None else ""

    cluster.wait(lambda: queue_of("train") == "short", "the PodGroup of the vcjob is in its queue again")
    assert queue_of("moved") == "wide"
    cluster.crash(scheduler)
    cluster.run("scheduler")
    shorten(cluster, "short")
    (message,) = cluster.wait(lambda: warnings(cluster, "moved"), "it is warned")
    assert f"maxRunTime of UsageLimit short is {LONGEST}s" in message
    cluster.wait(lambda: not cluster.pods("moved"), "it is ended")
    cluster.wait(lambda: phase(cluster, "train") == "Terminated", "so is the vcjob")
