"""Ringwise itself is upgraded and rolled back while jobs run, as in docs/guides/upgrade.md.

The earlier version is that of a commit: its sources run beside the present ones, with its own definitions and
rules. Nothing is lost, nothing is restarted, and no chip has two pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ringwise.wellknown import VOLCANO_SYSTEM
from ringwise_bench.checkout import CHART, definitions
from ringwise_bench.control_plane import ControlPlane, Process
from tests.builders.records import entries_of
from tests.cluster.cluster import (
    JOBS,
    Cluster,
    Component,
    Launch,
    arguments_of,
    check_chips,
    chips_of,
    is_live,
    launch_from,
    node_of,
    shipped_objects,
)
from tests.cluster.objects import Object, node_report, nodes, pod, vcjob
from tests.cluster.owners import Workload
from tests.cluster.workload import send_command
from tests.former import former_checkout

pytestmark = pytest.mark.cluster

ALL = tuple(range(8))
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{VOLCANO_SYSTEM}/leases"
CONFIG_MAPS = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps"
DEFAULT_QUEUE = "/apis/scheduling.volcano.sh/v1beta1/queues/default"
RECORD = "ringwise-rescheduling"
COMPONENTS = ("scheduler", "controller")


class Version:
    """What is installed with a version, and its components."""

    def __init__(self, cluster: Cluster, checkout: Path | None = None) -> None:
        self._cluster = cluster
        self._sources = None if checkout is None else checkout / "src"
        chart = CHART if checkout is None else checkout / "deploy" / "helm" / "ringwise"
        self._objects = [*definitions(chart), *shipped_objects(chart=chart)]
        self._arguments = arguments_of(self._objects)

    def apply(self) -> None:
        """Apply what the chart of this version installs, and its definitions."""
        self._cluster.apply(one for one in self._objects if one["kind"] != "ConfigMap")

    def start(self) -> list[Component]:
        """A replica of each component, beside those that run."""
        return [self._cluster.start(kind, launch=self._launch()) for kind in COMPONENTS]

    def _launch(self) -> Launch | None:
        if self._sources is None:
            return None
        launch_there = launch_from(self._sources)

        def launch(plane: ControlPlane, name: str, arguments: list[str], token: str) -> Process:
            kind = name.rpartition("-")[0]
            # Of another version only the addresses and names that the stories choose.
            own = [one for one in arguments if one not in self._cluster.shipped_arguments[kind]]
            return launch_there(plane, name, [*self._arguments[kind], *own], token)

        return launch


@pytest.fixture
def versions(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Version, Version]]:
    """The earlier and the present one; the present one is installed again in the end."""
    former, present = Version(cluster, former_checkout(tmp_path)), Version(cluster)
    yield former, present
    cluster.stop_components()
    present.apply()


def leads(cluster: Cluster, components: list[Component]) -> None:
    for component in components:
        cluster.wait(partial(getattr, component, "leads"), f"{component.process.name} leads")


def hand_over(cluster: Cluster, old: list[Component], version: Version) -> list[Component]:
    """A rolling update: the new ones stand by, then the old ones end and give their leases back."""
    version.apply()
    new = version.start()
    for component in new:
        cluster.wait(partial(getattr, component, "healthy"), f"{component.process.name} is there")
    cluster.wait(lambda: all(component.leads for component in old), "the old ones still lead")
    for component in old:
        component.stop()
    leads(cluster, new)
    return new


def pods_now(cluster: Cluster) -> dict[str, Any]:
    """All that must stay of pods: which ones, where, their chips and annotations, how often they started."""
    found = {}
    for one in cluster.pods():
        status = one.get("status", {})
        found[one["metadata"]["name"]] = {
            "uid": one["metadata"]["uid"],
            "node": node_of(one),
            "chips": chips_of(one),
            "annotations": one["metadata"].get("annotations", {}),
            "phase": status.get("phase"),
            "restarts": [container["restartCount"] for container in status.get("containerStatuses", ())],
        }
    return found


def jobs_now(cluster: Cluster) -> dict[str, Any]:
    found = {}
    for one in cluster.api.items(JOBS):
        status = one.get("status", {})
        found[one["metadata"]["name"]] = {
            "uid": one["metadata"]["uid"],
            "phase": status.get("state", {}).get("phase"),
            "retries": status.get("retryCount", 0),
            "version": status.get("version", 0),
        }
    return found


def counted_pods(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Running and pending pods of each job, as its status says, which is written with its phase."""
    statuses = {one["metadata"]["name"]: one.get("status", {}) for one in cluster.api.items(JOBS)}
    return {name: (one.get("running", 0), one.get("pending", 0)) for name, one in statuses.items()}


def recorded_jobs(cluster: Cluster) -> list[str]:
    """The jobs that are being rescheduled, as the record for the next leader says."""
    for one in cluster.api.items(CONFIG_MAPS):
        if one["metadata"]["name"] == RECORD:
            return list(entries_of(one["data"], "fault-jobs"))
    return []


def phase_of(cluster: Cluster, job: str) -> str:
    return str(cluster.api.get(f"{JOBS}/{job}").get("status", {}).get("state", {}).get("phase"))


def prepare(cluster: Cluster) -> None:
    """Five nodes with a gang, a Deployment, a suspended job, one that waits and one that a fault hit."""
    cluster.apply(nodes(5))
    cluster.apply([node_report(f"node-{number}", ALL, index=number) for number in range(1, 6)])
    cluster.apply([vcjob("rest", 1, 8)])
    cluster.wait_running("rest", 1)
    send_command(cluster, "rest", "AbortJob")
    cluster.wait(
        lambda: phase_of(cluster, "rest") == "Aborted" and not cluster.pods("rest"), "rest is suspended"
    )
    cluster.apply([vcjob("train", 2, 8), vcjob("filler", 1, 8)])
    cluster.wait_running("train", 2)
    cluster.wait_running("filler", 1)
    cluster.apply([vcjob("affected", 1, 8, labels={"fault-scheduling": "grace"})])
    affected = cluster.wait_running("affected", 1)[0]
    Workload(cluster, "Deployment", "serve", 2, 2)
    cluster.wait_running("serve", 2)
    cluster.apply([vcjob("big", 2, 8)])
    cluster.wait(lambda: cluster.condition("big"), "big says why it waits")
    broken = node_of(affected)
    cluster.apply([node_report(broken, ALL[1:], unhealthy=[0], index=9)])
    before = affected["metadata"]["uid"]

    def waits_anew() -> bool:
        found = cluster.pods("affected")
        return [one["metadata"]["uid"] != before and not node_of(one) for one in found] == [True]

    cluster.wait(waits_anew, "affected lost its pod, and its new one waits for a healthy node")
    cluster.wait(
        lambda: any("affected" in job for job in recorded_jobs(cluster)), "the record names affected"
    )
    wanted = {"train": (2, 0), "filler": (1, 0), "affected": (0, 1)}
    cluster.wait(lambda: wanted.items() <= counted_pods(cluster).items(), "the controller counts all pods")


def probe(cluster: Cluster, name: str) -> None:
    """The leader places a pod, so it has read everything; then it is taken away again."""
    cluster.apply([pod(f"{name}-0", 1)])
    cluster.wait_running(name, 1)
    check_chips(one for one in cluster.pods() if is_live(one))
    cluster.kubectl("delete", "pod", f"{name}-0", "--wait=true")


def settled(pods: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in pods.items() if not name.startswith("probe")}


def test_upgrade_and_rollback_with_running_jobs(cluster: Cluster, versions: tuple[Version, Version]) -> None:
    former, present = versions
    former.apply()
    old = former.start()
    leads(cluster, old)
    prepare(cluster)
    probe(cluster, "probe-a")
    pods, jobs = settled(pods_now(cluster)), jobs_now(cluster)
    assert {"train", "rest", "filler", "affected", "big"} == jobs.keys()
    assert jobs["rest"]["phase"] == "Aborted"
    record = recorded_jobs(cluster)

    def nothing_changed(when: str) -> None:
        assert settled(pods_now(cluster)) == pods, when
        assert jobs_now(cluster) == jobs, when
        assert recorded_jobs(cluster) == record, when
        assert cluster.condition("big"), when

    # -- to the present version, back, and there again ----------------------------------------------------
    new = hand_over(cluster, old, present)
    probe(cluster, "probe-b")
    nothing_changed("after the upgrade")
    # What an earlier version does not know: it ignores it.
    cluster.api.patch(f"{JOBS}/train", {"metadata": {"annotations": {"ringwise.io/user": "ana"}}})
    cluster.api.patch(DEFAULT_QUEUE, {"metadata": {"annotations": {"ringwise.io/max-cooldown": "1h"}}})
    back = hand_over(cluster, new, former)
    probe(cluster, "probe-c")
    nothing_changed("after the rollback")
    again = hand_over(cluster, back, present)
    probe(cluster, "probe-d")
    nothing_changed("after the second upgrade")
    assert cluster.api.get(f"{JOBS}/train")["metadata"]["annotations"]["ringwise.io/user"] == "ana"
    cluster.api.patch(DEFAULT_QUEUE, {"metadata": {"annotations": {"ringwise.io/max-cooldown": None}}})

    # -- and everything goes on where it was ----------------------------------------------------------------
    cluster.apply([node_report(f"node-{number}", ALL, index=10 + number) for number in range(1, 6)])
    cluster.wait_running("affected", 1)
    held = node_of(cluster.pods("filler")[0])
    cluster.api.delete(f"{JOBS}/filler")
    cluster.wait(lambda: not cluster.pods("filler"), "its node is free")
    send_command(cluster, "rest", "ResumeJob")
    assert node_of(cluster.wait_running("rest", 1)[0]) == held
    after = pods_now(cluster)
    for name in ("train-work-0", "train-work-1", *(one for one in pods if one.startswith("serve"))):
        assert after[name] == pods[name]
    check_chips(one for one in cluster.pods() if is_live(one))
    for component in again:
        component.stop()
    leases: list[Object] = cluster.api.items(LEASES)
    assert {one["spec"].get("holderIdentity", "") for one in leases} == {""}
