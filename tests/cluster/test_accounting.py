"""Accounting on a real API server: what the ConfigMaps tell equals what the objects said, also when a leader
is killed; who may read them, and whose they are not."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path

import pytest

from ringwise.kube.run.leader_term import default_queues
from ringwise.kube.write.accounts import AccountKeeper, ConfigMapAccounts
from ringwise.kube.write.own_config_maps import OwnConfigMaps
from ringwise.kubeclient.client import Client
from ringwise.kubeclient.clock import RealClock
from ringwise.kubeclient.config import find_access
from ringwise.kubeclient.retry import Retrier
from ringwise.messages.accounting import AccountedJob, JobWaits
from ringwise.wellknown import ACCOUNTING_CONFIG_MAPS, ACCOUNTING_KEY, VOLCANO_SYSTEM
from tests.cluster.cluster import JOBS, PODS, Cluster, node_of, requested_chips
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, nodes, vcjob
from tests.cluster.test_preemption import CONFIGURATION, HIGH, high

pytestmark = pytest.mark.cluster

CONFIG_MAPS = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps"
READER = "accountant"
#: Seconds between two writes: long enough that the last job is not written yet when the leader is killed.
WAITS = {"ringwise.kube.write.accounts.INTERVAL": 15}
ACCOUNT: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": READER}}
#: Somebody else's, under the first name that the scheduler would take.
FOREIGN: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": f"{ACCOUNTING_CONFIG_MAPS}00", "namespace": VOLCANO_SYSTEM},
    "data": {"invoices": "of last year"},
}


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def config_maps(cluster: Cluster) -> list[Object]:
    found = cluster.api.items(CONFIG_MAPS)
    return [one for one in found if one["metadata"]["name"].startswith(ACCOUNTING_CONFIG_MAPS)]


def held(cluster: Cluster, job: str, now: int) -> list[int]:
    """Chip-seconds of each pod of the job, in their order, counted without the accounting."""
    last = {one.uid: one.object for one in cluster.history(PODS, f"{job}-") if node_of(one.object)}
    return [requested_chips(one) * ((end_of(one) or now) - start_of(one)) for one in last.values()]


def start_of(pod: Object) -> int:
    """When it got its node."""
    (since,) = [
        one["lastTransitionTime"] for one in pod["status"]["conditions"] if one["type"] == "PodScheduled"
    ]
    return seconds(since)


def end_of(pod: Object) -> int:
    """When its containers ended; 0: they run."""
    states = [one["state"] for one in pod["status"].get("containerStatuses", ())]
    ends = [seconds(one["terminated"]["finishedAt"]) for one in states if "terminated" in one]
    return max(ends, default=0)


@pytest.fixture
def reader(cluster: Cluster) -> Path:
    """The kubeconfig of an account without any right."""
    cluster.apply([FOREIGN, ACCOUNT, HIGH, *default_queues()])
    return cluster.plane.kubeconfig(READER, cluster.plane.account_token(cluster.namespace, READER))


def allow_report(cluster: Cluster) -> None:
    account = f"--serviceaccount={cluster.namespace}:{READER}"
    role = ("--role=ringwise-accounting", account, "-n", VOLCANO_SYSTEM)
    cluster.kubectl("create", "rolebinding", f"ringwise-report-{READER}", *role)


def report(config: Path) -> Object | None:
    """Until the ConfigMaps are there, and as long as the account has no right: None."""
    ran = kubectl_ringwise(config, "report", "--group-by", "job", "-o", "json")
    if ran.returncode != 0:
        return None
    document: Object = json.loads(ran.stdout)
    assert f"omitted: {FOREIGN['metadata']['name']}" in ran.stderr
    document["rows"] = {row["job"]: row for row in document["rows"]}
    return document


def test_the_report_equals_what_the_objects_said_across_leaders(cluster: Cluster, reader: Path) -> None:
    text = cluster.api.get(CONFIGURATION)["data"]["volcano-scheduler.conf"]
    changed = 'actions: "enqueue, allocate, preempt"\n' + (
        "tiers:\n- plugins:\n  - {name: priority}\n  - {name: gang, enablePreemptable: false}\n"
        "  - {name: conformance}\n  - {name: topology910}\n"
        "- plugins:\n  - {name: predicates}\n  - {name: nodeorder}\n"
        "configurations:\n- name: init-params\n  arguments: {}\n"
    )
    assert changed != text
    cluster.api.patch(CONFIGURATION, {"data": {"volcano-scheduler.conf": changed}})
    cluster.apply(nodes(2))
    leader = cluster.run(waits=WAITS)
    standby = cluster.start("scheduler")
    cluster.wait(lambda: standby.ready, "the other replica has read everything")

    # -- one runs all the time, one is preempted
    on_first = {"kubernetes.io/hostname": "node-1"}
    cluster.apply([vcjob("steady", 1, 4, selector={"kubernetes.io/hostname": "node-2"})])
    claims = {"volcano.sh/preemptable": "true"}
    cluster.apply([vcjob("low", 1, 8, selector=on_first, pod_annotations=claims)])
    cluster.wait_running("steady", 1)
    cluster.wait_running("low", 1)
    # Times of the API have whole seconds.
    cluster.wait(lambda: sum(held(cluster, "low", int(time.time()))) > 0, "it has held chips for some time")
    cluster.apply([high(vcjob("boss", 1, 8, selector=on_first))])
    cluster.wait_running("boss", 1)
    assert report(reader) is None, "it may not be read without the role"
    allow_report(cluster)

    def written() -> Object | None:
        found = report(reader)
        boss = None if found is None else found["rows"].get("boss")
        return found if boss is not None and boss["starts"] else None

    first = cluster.wait(written, "the ConfigMap is written")
    check(first, cluster, "steady", "boss")
    (lost,) = cluster.wait(lambda: [one for one in held(cluster, "low", 0) if one > 0], "its pod has ended")
    assert first["rows"]["low"]["lost_chip_hours"] == {"preempt": pytest.approx(lost / 3600, abs=1e-4)}

    # -- something begins that is not written yet, and the leader is killed
    cluster.apply([vcjob("late", 1, 4, selector={"kubernetes.io/hostname": "node-2"})])
    cluster.wait_running("late", 1)
    cluster.crash(leader)
    cluster.wait(lambda: '"deciding"' in standby.log(), "the other replica leads and decides")
    cluster.api.delete(f"{JOBS}/boss")
    cluster.wait_running("low", 1)
    # What is not written yet is, when a leader ends.
    standby.stop()
    last = cluster.wait(lambda: report(reader), "it is read again")
    # A replica that lists pods again knows that one is gone, not when it ended: a second of 8 chips.
    check(last, cluster, "steady", "late", "boss", "low", within=1e-4 + 8 / 3600)
    assert {name: row["starts"] for name, row in last["rows"].items()} == {
        "steady": 1,
        "boss": 1,
        "late": 1,
        "low": 2,
    }
    assert last["rows"]["low"]["lost_chip_hours"] == first["rows"]["low"]["lost_chip_hours"]
    assert {(one["uncertain_chip_hours"], one["failures"]) for one in last["totals"]} == {(0, 0)}

    # -- what is somebody else's stays as it is, and the next name is taken
    found = {one["metadata"]["name"]: one["data"] for one in config_maps(cluster)}
    assert found[FOREIGN["metadata"]["name"]] == FOREIGN["data"]
    assert f"{ACCOUNTING_CONFIG_MAPS}01" in found


def check(document: Object, cluster: Cluster, *jobs: str, within: float = 1e-4) -> None:
    now = document["now"] // 1_000_000_000
    reported = {job: document["rows"][job]["allocated_chip_hours"] for job in jobs}
    assert reported == {job: pytest.approx(sum(held(cluster, job, now)) / 3600, abs=within) for job in jobs}


async def test_documents_of_30000_pending_jobs_of_one_namespace_are_accepted(
    cluster: Cluster, reader: Path
) -> None:
    """With the account of the scheduler; the job of another namespace that comes last is in the report."""
    token = cluster.plane.account_token(VOLCANO_SYSTEM, "ringwise-scheduler")
    access = find_access(str(cluster.plane.kubeconfig("accounting", token)), None)
    clock, count = RealClock(), 30_000
    async with Client(access) as client:
        keeper = AccountKeeper(ConfigMapAccounts(OwnConfigMaps(client), Retrier(clock)), clock)
        await keeper.read()
        now = clock.now()
        for number in range(count):
            name = f"{number:05}".rjust(253, "x")
            who = AccountedJob("flood", name, f"00000000-0000-0000-0000-{number:012}")
            keeper.apply(JobWaits(who, "default", now))
        keeper.apply(JobWaits(AccountedJob("other", "late", "uid-of-late"), "default", now))
        await keeper.write()
    written = [one["data"][ACCOUNTING_KEY] for one in config_maps(cluster) if ACCOUNTING_KEY in one["data"]]
    assert len(written) == 8
    assert max(len(text.encode()) for text in written) <= 900 * 1024
    allow_report(cluster)
    found = cluster.wait(lambda: report(reader), "the report can be read")
    assert found["rows"]["late"]["namespace"] == "other"
    assert found["merged_jobs"] > count // 2
