"""The guide for the first hour on a real cluster, with the commands of docs/guides/first-hour.md.

Volcano is not here: the test binds its pods, and its scheduler is a Deployment without a program.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ringwise.wellknown import SCHEDULER_CONFIG_KEY, SCHEDULER_CONFIG_MAP, VOLCANO_SYSTEM
from ringwise_bench.checkout import definitions
from ringwise_bench.control_plane import ControlPlane, find_program
from tests.checkout import ROOT
from tests.cluster.cluster import PODS, Cluster, Component, check_chips, chips_of, may_be_gone, node_of
from tests.cluster.objects import CHIP, Object, node, nodes, pod
from tests.cluster.test_chart import DEPLOYMENTS, components, workload

pytestmark = pytest.mark.cluster

SYSTEM_PODS = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/pods"
VOLCANO = "volcano-scheduler"
TRIAL = "node-3"
PLUGINS = "".join(f"  - name: {name}\n" for name in ("gang", "predicates", "topology910"))
SETTINGS = f"actions: enqueue, allocate\ntiers:\n- plugins:\n{PLUGINS}"


def blocks(page: str, heading: str) -> list[str]:
    """The commands below a heading of a guide, block by block."""
    text = (ROOT / "docs/guides" / page).read_text(encoding="utf-8")
    section = re.split(r"^## ", text.partition(f"\n## {heading}\n")[2], maxsplit=1, flags=re.M)[0]
    found = re.findall(r"^```\n(.*?)^```", section, re.M | re.S)
    return [block for block in found if block.split()[0] in ("kubectl", "helm", "ringwise")]


class Operator:
    """Runs blocks of the guide in a directory of the sources."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self.folder = folder
        (folder / "deploy").symlink_to(ROOT / "deploy")
        self._bin = folder / "bin"
        self._bin.mkdir()
        (folder / "chips.json").write_text(json.dumps({"chip_name": "910B3", "board": 48}))
        #: No kubelet serves the log of the scheduler: this file is what it would serve.
        self.log = folder / "scheduler.log"
        kubectl = find_program("kubectl")
        self._script("kubectl", f'case " $* " in *" logs "*) cat {self.log};; *) exec {kubectl} "$@";; esac')
        self._script("helm", f'exec {find_program("helm")} "$@"')

    def _script(self, name: str, line: str) -> None:
        (self._bin / name).write_text(f"#!/bin/sh\n{line}\n")
        (self._bin / name).chmod(0o755)

    def run(self, block: str, *, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", block.replace("NODE", TRIAL)],
            cwd=self.folder,
            env={
                **os.environ,
                "PATH": f"{self._bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "KUBECONFIG": str(self._cluster.admin_config),
                "HOME": str(self.folder),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{block}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ControlPlane(tmp_path_factory.mktemp("first-hour-plane")) as plane:
        cluster = Cluster(plane)
        yield cluster
        cluster.stop_components()


def with_pods_started(cluster: Cluster, command: Callable[[], str]) -> str:
    """Run a command that waits for pods of the chart, which the scheduler of Kubernetes would bind."""
    with ThreadPoolExecutor() as executor:
        answer = executor.submit(command)

        def is_over() -> bool:
            for one in cluster.api.items(SYSTEM_PODS):
                if not node_of(one) and one["metadata"]["labels"].get("app.kubernetes.io/name") == "ringwise":
                    name = one["metadata"]["name"]
                    bind = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "other"}}
                    with may_be_gone():
                        cluster.api.create(f"{SYSTEM_PODS}/{name}/binding", bind)
            return answer.done()

        cluster.wait(is_over, "the command of the guide ends")
        return answer.result()


def account_of_volcano() -> list[Object]:
    """The policy of the chart knows its name."""
    account = {"kind": "ServiceAccount", "name": VOLCANO, "namespace": VOLCANO_SYSTEM}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": VOLCANO, "namespace": VOLCANO_SYSTEM},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": VOLCANO},
            "roleRef": role,
            "subjects": [account],
        },
    ]


def bind_as_volcano(cluster: Cluster, name: str, node: str, chips: list[int]) -> None:
    held = {CHIP: ",".join(f"Ascend910-{chip}" for chip in chips), "predicate-time": str(2**64 - 1)}
    target = {"metadata": {"name": name, "annotations": held}, "target": {"kind": "Node", "name": node}}
    volcano = cluster.api_of(cluster.plane.account_token(VOLCANO_SYSTEM, VOLCANO))
    volcano.create(f"{PODS}/{name}/binding", target)


def placed(cluster: Cluster, job: str) -> dict[str, tuple[str, list[str]]]:
    return {one["metadata"]["name"]: (node_of(one), chips_of(one)) for one in cluster.pods(job)}


def start_scheduler(cluster: Cluster) -> None:
    """Run the program of the Deployment that the chart created, with its arguments."""
    cluster.stop_components()
    cluster.shipped_arguments = {"scheduler": components(cluster)["ringwise-scheduler"]}
    scheduler = cluster.start("scheduler")
    shadow = "--shadow" in cluster.shipped_arguments["scheduler"]
    cluster.wait(lambda: scheduler.ready and (shadow or scheduler.leads), "the scheduler works")


def free_chips(scheduler: Component) -> float:
    metrics = scheduler.metrics().items()
    return sum(value for name, value in metrics if name.startswith("ringwise_chips{") and '"free"' in name)


def tolerant(name: str, chips: int) -> Object:
    made = pod(name, chips, scheduler="ringwise")
    made["spec"]["nodeSelector"] = {"ringwise-trial": "true"}
    made["spec"]["tolerations"] = [{"key": "ringwise-trial", "operator": "Exists"}]
    return made


def test_the_guide_is_followed_from_volcano_to_ringwise_and_back(empty: Cluster, tmp_path: Path) -> None:
    cluster, operator = empty, Operator(empty, tmp_path)
    cluster.apply(definitions())
    cluster.use_namespace(VOLCANO_SYSTEM)
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": SCHEDULER_CONFIG_MAP, "namespace": VOLCANO_SYSTEM},
        "data": {SCHEDULER_CONFIG_KEY: SETTINGS},
    }
    cluster.apply([settings, workload("Deployment", VOLCANO_SYSTEM, VOLCANO), *account_of_volcano()])
    cluster.start_controllers()
    cluster.apply([*nodes(3), node("other", 0)])
    cluster.use_namespace("training")
    cluster.start_nodes()
    cluster.apply([pod("old-0", 8, on="node-1", held=range(8))])
    cluster.wait_running("old", 1)
    before = placed(cluster, "old")

    # -- 1 and 2: nothing is installed -----------------------------------------------------------------
    (check,) = blocks("first-hour.md", "1. Check the hardware")
    assert "no problem found" in operator.run(f"{check.strip()} --simulated-chips chips.json")
    assert json.loads((tmp_path / "check.json").read_text())["boards"] == ["910b-x8"]
    (checks,) = blocks("first-hour.md", "2. Check the cluster")
    shown = operator.run(checks)
    assert "node-1" in shown
    assert "topology910" in shown

    # -- 3: in shadow mode nothing is bound -------------------------------------------------------------
    install, read = blocks("first-hour.md", "3. Run in shadow mode for a day")
    with_pods_started(cluster, lambda: operator.run(install))
    start_scheduler(cluster)
    (shadow,) = cluster.components
    cluster.wait(lambda: free_chips(shadow) == 16, "the cluster is read")
    cluster.apply([pod("first-0", 2), pod("second-0", 8)])
    cluster.wait(lambda: free_chips(shadow) == 6, "both pods have a place in shadow mode")
    bind_as_volcano(cluster, "first-0", "node-2", [0, 1])
    bind_as_volcano(cluster, "second-0", TRIAL, list(range(8)))
    cluster.wait_running("first", 1)
    cluster.wait_running("second", 1)
    cluster.wait(lambda: shadow.log().count('"placed"') == 2, "both pods are compared")
    operator.log.write_text(shadow.log())
    assert "2 pods compared" in operator.run(read)
    assert cluster.api.items(f"/api/v1/namespaces/{cluster.namespace}/events") == []

    # -- 4: a node for the trial -------------------------------------------------------------------------
    cluster.kubectl("delete", "pod", "second-0", "--wait=false")
    switch, end = blocks("first-hour.md", "4. Switch one namespace")
    operator.run(switch)
    start_scheduler(cluster)
    cluster.apply([pod("theirs-0", 2), tolerant("trial-0", 4)])
    assert {node_of(one) for one in cluster.wait_running("trial", 1)} == {TRIAL}
    assert not node_of(cluster.pods("theirs")[0])
    bind_as_volcano(cluster, "theirs-0", "node-2", [2, 3])

    # -- 5: all --------------------------------------------------------------------------------------------
    operator.run(end)
    (switch,) = blocks("migration.md", "3. Switch")
    operator.run(switch)
    start_scheduler(cluster)
    cluster.apply([pod("new-0", 4)])
    cluster.wait_running("new", 1)
    check_chips(cluster.pods())
    while_ringwise_led = {job: placed(cluster, job) for job in ("old", "first", "theirs", "trial", "new")}
    assert while_ringwise_led["old"] == before

    # -- 6: and back ---------------------------------------------------------------------------------------
    cluster.stop_components()
    (back,) = blocks("first-hour.md", "6. Switch back")
    operator.run(back)
    assert cluster.api.get(f"{DEPLOYMENTS}/{VOLCANO}")["spec"]["replicas"] == 1
    assert components(cluster).keys() == {VOLCANO}
    assert {job: placed(cluster, job) for job in while_ringwise_led} == while_ringwise_led
    assert cluster.api.get(f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps/{SCHEDULER_CONFIG_MAP}")[
        "data"
    ] == {SCHEDULER_CONFIG_KEY: SETTINGS}
    (trial,) = [one for one in cluster.api.items("/api/v1/nodes") if one["metadata"]["name"] == TRIAL]
    assert "taints" not in trial["spec"]
