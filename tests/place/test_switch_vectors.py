"""The worked cases again, as manifests through the same code as `ringwise place`.

A state is carried by running pods. What does not fit under the switch itself (the
owner's other shared switches, the rest of a foundation model) sits under helper
switches at the end of the topology, which are full and so take no part.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from ringwise.apps.place import place
from ringwise.manifests.bundle import read_bundle
from ringwise.manifests.settings.configuration import read_configuration
from ringwise.scheduler.defaults import BUILT_IN
from ringwise.topology.boards import shipped_catalog
from ringwise.views.place import PlaceAnswer
from tests.placement.switches.test_vectors import CASES, VERSIONS

CHIPS = ",".join(f"Ascend910-{chip}" for chip in range(8))
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: topology910
- plugins:
  - name: predicates
  - name: nodeorder
configurations:
- name: init-params
  arguments: {{"nslb-version": "{version}", "shared-tor-num": "{limit}"}}
"""


class NoPodsCanCarryIt(Exception):
    """The case gives a state without any running pod that could be its cause."""


@dataclass
class Manifests:
    case: dict[str, Any]
    limit: int
    items: list[dict[str, Any]] = field(default_factory=list)
    #: Leaves as lists of node names; helpers are appended.
    leaves: list[tuple[str, list[str]]] = field(default_factory=list)

    def node(self, name: str, address: str) -> None:
        chips = {"huawei.com/Ascend910": "8"}
        self.items.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": address}],
                    "allocatable": chips,
                    "capacity": chips,
                },
            }
        )

    def helper(self) -> str:
        """A node that is the only one of a leaf of its own."""
        number = len(self.leaves)
        self.leaves.append((f"helper-{number}", [f"helper-node-{number}"]))
        return f"helper-node-{number}"

    def pod(self, job: str, rank: int, label: str | None, node: str | None, mark: str | None) -> None:
        notes = {}
        if node is not None:
            notes["huawei.com/AscendReal"] = CHIPS
        if label is not None:
            notes["scheduling.k8s.io/group-name"] = job
            notes["hccl/rankIndex"] = str(rank)
        if mark is not None:
            notes["isSharedTor"] = mark
        self.items.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{job}-{rank}", "namespace": "default", "annotations": notes},
                "spec": {
                    "schedulerName": "volcano",
                    "containers": [{"name": "c", "resources": {"limits": {"huawei.com/Ascend910": 8}}}],
                }
                | ({} if node is None else {"nodeName": node}),
                "status": {"phase": "Pending" if node is None else "Running"},
            }
        )

    def group(self, name: str, label: str, pods: int, phase: str) -> None:
        self.items.append(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": name, "namespace": "default", "labels": {"tor-affinity": label}},
                "spec": {"minMember": pods},
                "status": {"phase": phase},
            }
        )

    def running(self, name: str, label: str, placed: list[tuple[str, str | None]]) -> None:
        self.group(name, label, len(placed), "Running")
        for rank, (node, mark) in enumerate(placed):
            self.pod(name, rank, label, node, mark)

    def carry_state(self, tor: dict[str, Any], busy: list[str]) -> None:
        """Running pods that give the switch its state; they use up `busy` as far as needed."""
        first_version = self.case["version"] == "v1"
        if tor["state"] == "idle":
            return
        if not busy:
            raise NoPodsCanCarryIt
        mark = None if first_version else "2" if tor["state"] == "exclusive" else "1"
        placed: list[tuple[str, str | None]] = [(busy.pop(), mark)]
        if tor["state"] == "exclusive":
            placed += [(self.helper(), "1") for _ in range(tor.get("owner_shared", 0))]
        elif not tor["healthy"]:
            placed += [(self.helper(), "1") for _ in range(self.limit)]
        if tor.get("only_common", True):
            self.running(f"holder-{tor['ip']}", "normal-schema", placed)
            return
        if not tor["healthy"]:
            raise NoPodsCanCarryIt
        if first_version and not tor["cross_model"]:
            if len(busy) < 3:
                raise NoPodsCanCarryIt
            placed += [(busy.pop(), None) for _ in range(3)]
        rest = None if first_version else "2"
        placed += [(self.helper(), rest) for _ in range(4 - len(placed))]
        self.running(f"holder-{tor['ip']}", "large-model-schema", placed)

    def text(self) -> bytes:
        case = self.case
        listed = {pod["node"] for job in case.get("other_jobs", ()) for pod in job["pods"]}
        listed |= {pod["node"] for pod in case.get("pods", ())}
        self.leaves = [(tor["ip"], [node["name"] for node in tor["nodes"]]) for tor in case["tors"]]
        for tor in case["tors"]:
            busy = [n["name"] for n in tor["nodes"] if not n["free"] and n["name"] not in listed]
            if not case.get("other_jobs") and not case.get("pods"):
                self.carry_state(tor, busy)
            for name in busy:
                self.pod(f"busy-{name}", 0, None, name, None)
        for job in case.get("other_jobs", ()):
            marks = [(pod["node"], pod["annotations"].get("isSharedTor")) for pod in job["pods"]]
            self.running(job["name"].lower(), job["tor_affinity_label"], marks)
        self.add_job()
        self.add_topology()
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": self.items}).encode()

    def add_job(self) -> None:
        case, label = self.case, self.case["tor_affinity_label"]
        self.group("train", label, case["job_pods"], "Running" if case.get("pods") else "Inqueue")
        pods = case.get("pods") or [
            {"rank": rank, "node": None, "annotations": {}} for rank in range(case["job_pods"])
        ]
        for pod in pods:
            self.pod("train", pod["rank"], label, pod["node"], pod["annotations"].get("isSharedTor"))

    def add_topology(self) -> None:
        switches = []
        for number, (ip, names) in enumerate(self.leaves):
            servers = []
            for position, name in enumerate(names):
                address = f"10.{number}.0.{position}"
                self.node(name, address)
                servers.append({"server_ip": address, "npu_count": 8, "slice_id": position})
            switches.append({"tor_id": number, "tor_ip": ip, "server": servers})
        info = {"version": "1.0", "tor_count": self.case["tor_count"], "server_list": switches}
        level = "single_layer" if self.case["version"] == "single" else "double_layer"
        self.items.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "basic-tor-node-cm", "namespace": "kube-system"},
                "data": {"tor_info": json.dumps(info), "tor_level": level},
            }
        )


def run(case: dict[str, Any]) -> PlaceAnswer:
    limit = case["shared_tor_num"] or 2
    bundle = read_bundle(["-"], stdin=Manifests(case, limit).text())
    assert bundle.errors == []
    conf = CONF.format(version=VERSIONS[case["version"]], limit=limit)
    return place(bundle, read_configuration(conf, "conf", BUILT_IN), shipped_catalog(()))


def carried(case: dict[str, Any]) -> bool:
    try:
        Manifests(case, case["shared_tor_num"] or 2).text()
    except NoPodsCanCarryIt:
        return False
    return True


CARRIED = [case for case in CASES if carried(case)]


def test_most_cases_can_be_carried_by_pods() -> None:
    assert len(CARRIED) > 90


@pytest.mark.parametrize("case", CARRIED, ids=[case["id"] for case in CARRIED])
def test_worked_case_as_manifests_S3_S4_S5_S6_S7_S8_S9_S11(case: dict[str, Any]) -> None:
    answer = run(case)
    job = next(job for job in answer.jobs if job.name == "train")
    expect = case["expect"]
    if not expect["scheduled"]:
        assert job.outcome == "pending"
        assert job.reason is not None
        return
    assert (job.outcome, job.reason) == ("placed", None)
    new = [pod for pod in job.pods if not pod.bound]
    if "per_tor" in expect:
        counts: dict[str, int] = {}
        for pod in new:
            counts[str(pod.switch)] = counts.get(str(pod.switch), 0) + 1
        assert counts == expect["per_tor"]
    assert {str(p.rank): p.node for p in new} == expect.get(
        "nodes_by_rank", {str(p.rank): p.node for p in new}
    )
    after = {switch["ip"]: switch for switch in answer.switches or ()}
    for ip, wanted in expect.get("new_states", {}).items():
        assert after[ip]["state"] == wanted["state"]
        assert after[ip]["healthy"] == wanted.get("healthy", after[ip]["healthy"])
