"""Leaders that hang, are paused, or get their credentials late or rejected: one replica binds at a time."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from ringwise.wellknown import PLUGIN_ENTRY_POINTS, SCHEDULER_LEASE, VOLCANO_SYSTEM
from ringwise_bench.control_plane import ControlPlane, Process, ringwise_command
from tests.cluster.cluster import Cluster, Component, check_chips
from tests.cluster.exec_credentials import calls, exec_user, launched_with, set_delays
from tests.cluster.objects import nodes, pod
from tests.cluster.placement_monitor import PlacementMonitor
from tests.cluster.workload import Workload

pytestmark = [pytest.mark.cluster, pytest.mark.alone]

#: Seconds, by default, for which a leader writes without a renewal.
DEADLINE = 10
#: Seconds without progress after which a core counts as hung. Twice as many leave time to release the lease.
STALL = 8
#: Leaders are paused at most this often.
TURNS = 8
#: The exit code of a process whose core hangs.
HUNG = 70
LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{VOLCANO_SYSTEM}/leases/{SCHEDULER_LEASE}"

#: A plugin that never returns for one job, in the replica that has the variable.
HANGING_PLUGIN = """
import os, time
from ringwise.framework.extension_points import JOB_VALID
from ringwise.framework.registry import PluginSpec


class Hanging:
    def __init__(self, option):
        pass

    def open(self, session):
        session.register(JOB_VALID, self.valid)

    def valid(self, job):
        while os.environ.get("TEST_HANGS") and job.name.startswith("hangs"):
            time.sleep(0.1)


SPEC = PluginSpec("hanging", "never returns for one job", Hanging)
"""


def with_hanging_plugin(
    site: Path, hangs: bool, plane: ControlPlane, name: str, arguments: list[str], token: str
) -> Process:
    environment = {"POD_NAMESPACE": VOLCANO_SYSTEM, "TEST_HANGS": "1" if hangs else ""}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    command = ringwise_command(*arguments, f"--kubeconfig={plane.kubeconfig(name, token)}")
    return plane.run(name, command, environment)


def test_a_hung_leader_is_replaced(cluster: Cluster, tmp_path: Path) -> None:
    metadata = tmp_path / "hanging_plugin-1.0.dist-info"
    metadata.mkdir()
    (tmp_path / "hanging_plugin.py").write_text(HANGING_PLUGIN)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging-plugin\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{PLUGIN_ENTRY_POINTS}]\nhanging = hanging_plugin:SPEC\n")
    path = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps/volcano-scheduler-configmap"
    text = cluster.api.get(path)["data"]["volcano-scheduler.conf"]
    with_plugin = text.replace("- name: binpack", "- name: binpack\n  - name: hanging")
    assert with_plugin != text
    cluster.api.patch(path, {"data": {"volcano-scheduler.conf": with_plugin}})
    cluster.apply(nodes(2))
    option = f"--core-stall-timeout={STALL}"

    hangs = cluster.start("scheduler", option, launch=partial(with_hanging_plugin, tmp_path, True))
    cluster.wait(lambda: hangs.leads and hangs.ready, "the first replica leads")
    other = cluster.start("scheduler", option, launch=partial(with_hanging_plugin, tmp_path, False))
    cluster.wait(lambda: other.ready, "the other replica has read everything")
    cluster.apply([pod("before-0", 4)])
    cluster.wait_running("before", 1)

    cluster.apply([pod("hangs-0", 4), pod("after-0", 8)])
    hangs.ends.add(HUNG)
    cluster.wait(lambda: not hangs.healthy, "/healthz of the hung replica fails")
    cluster.wait(lambda: other.leads, "the other replica leads")
    cluster.wait_running("hangs", 1)
    cluster.wait_running("after", 1)
    assert "the lease is released" in hangs.log()
    assert not hangs.leads
    cluster.wait(lambda: hangs.process.ended == HUNG, "the hung process ends")
    check_chips(cluster.pods())


def test_N6_slow_and_rejected_credentials_and_pauses_give_no_chip_twice(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Tokens are fetched every few seconds, some calls take longer than a leader may write, and some tokens
    are rejected. Each leader is paused in the middle of its work for longer than its lease.
    """
    rng = random.Random(1)
    count = 3
    cluster.apply(nodes(count))
    cluster.configure({"multi-pod-requests": "vendor"})
    cluster.run("controller")
    valid = {"token": cluster.plane.account_token(VOLCANO_SYSTEM, "ringwise-scheduler")}
    folders = [tmp_path / "left", tmp_path / "right"]
    slow = (0, 0, 2, 0, DEADLINE + 2)
    replicas = [
        cluster.start(
            "scheduler",
            launch=partial(launched_with, exec_user(folder, [valid, valid, {"token": "rejected"}], 14)),
        )
        for folder in folders
    ]
    cluster.wait(lambda: _leader(replicas), "one replica leads")
    for folder, delays in zip(folders, (slow, slow[::-1]), strict=True):
        set_delays(folder, delays)
    # Gangs may be partly bound for long here: it is only about chips.
    with PlacementMonitor(cluster, 1000, 1000) as monitor:
        work = Workload(cluster, rng, count * 8, 0)
        turns = 0
        # At least twice, and until enough has happened for a meaningful result.
        while turns < 2 or (turns < TURNS and not _enough(cluster, monitor, folders, replicas)):
            turns += 1
            leader = cluster.wait(lambda: _leader(replicas), "one replica leads")
            _work_until_bound(cluster, work, monitor)
            before = _transitions(cluster)
            leader.process.pause()
            try:
                # The other replica may wait for its credentials at that moment.
                cluster.wait(partial(_passed_on, cluster, work, before), "the other replica takes the lease")
                _work_until_bound(cluster, work, monitor)
            finally:
                leader.process.pause(False)
            cluster.wait(partial(_follows, leader), "the paused replica has noticed it")
            _work_until_bound(cluster, work, monitor)
        for folder in folders:
            set_delays(folder, ())

        def settled() -> bool:
            assert monitor.found is None, monitor.found
            work.update()
            return not work.unsettled()

        cluster.wait(settled, "every job runs or has run")
        assert monitor.found is None, monitor.found
    check_chips(cluster.pods())
    summary = f"{len(monitor.bound)} pods bound, {monitor.checks} checks, {dict(work.states())}"
    assert _enough(cluster, monitor, folders, replicas), summary
    assert all(replica.running for replica in replicas), cluster.picture()


def _enough(
    cluster: Cluster, monitor: PlacementMonitor, folders: Sequence[Path], replicas: Sequence[Component]
) -> bool:
    """Leaders changed, tokens were fetched again and again, and some were late."""
    logs = "".join(replica.log() for replica in replicas)
    return (
        len(monitor.bound) >= 10
        and _transitions(cluster) >= 2
        and all(calls(folder) >= 4 for folder in folders)
        and "no credentials within" in logs
        and "no longer the leader" in logs
    )


def _transitions(cluster: Cluster) -> int:
    return int(cluster.api.get(LEASE_PATH)["spec"]["leaseTransitions"])


def _passed_on(cluster: Cluster, work: Workload, before: int) -> bool:
    """Jobs are submitted all the time."""
    work.step()
    work.update()
    return _transitions(cluster) > before


def _follows(replica: Component) -> bool:
    return not replica.leads


def _leader(replicas: Sequence[Component]) -> Component | None:
    return next((one for one in replicas if one.leads), None)


def _work_until_bound(cluster: Cluster, work: Workload, monitor: PlacementMonitor) -> None:
    """Submit and end jobs until the next binding."""
    before = len(monitor.bound)

    def bound() -> bool:
        assert monitor.found is None, monitor.found
        work.step()
        work.update()
        return len(monitor.bound) > before

    cluster.wait(bound, "a pod is bound")
