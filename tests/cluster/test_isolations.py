"""Isolations on a real API server: validation, conditions, two operators, and a kind that is not served."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.checkout import ROOT
from tests.cluster.cluster import (
    CONFIG_MAPS,
    SOON_SERVED,
    SOON_STATED,
    Cluster,
    node_of,
    shipped_objects,
    start_plugin,
)
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, node, vcjob

pytestmark = pytest.mark.cluster

PATH = "/apis/ringwise.io/v1alpha1/isolations"
CRD = "isolations.ringwise.io"
PAGE = ROOT / "docs" / "reference" / "isolation.md"


def isolation(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "ringwise.io/v1alpha1",
        "kind": "Isolation",
        "metadata": {"name": name},
        "spec": spec,
    }


REFUSED = {
    "exactly one of node, leafSwitch, superPod": isolation("a", node="n", superPod=1),
    "must have exactly one of node, leafSwitch, superPod": isolation("a", reason="fan"),
    "chips requires node": isolation("a", superPod=1, chips=["npu-1"]),
    "Duplicate value": isolation("a", node="n", chips=["npu-1", "npu-1"]),
    "should match": isolation("a", node="n", chips=["3"]),
    'unknown field "spec.severity"': isolation("a", node="n", severity=3),
}


def conditions(cluster: Cluster, name: str) -> dict[str, str]:
    """Reason by type, of the conditions of the newest generation."""
    found = cluster.api.get(f"{PATH}/{name}")
    return {
        one["type"]: one["reason"]
        for one in found.get("status", {}).get("conditions", ())
        if one["observedGeneration"] == found["metadata"]["generation"]
    }


def ran(config: Path, *arguments: str) -> str:
    done = kubectl_ringwise(config, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def apply(cluster: Cluster, *objects: Object) -> None:
    for one in objects:
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(one))


ACTIVE = {"Accepted": "Accepted", "Active": "Started"}


def test_isolations_are_validated_and_have_conditions(cluster: Cluster, operator: Path) -> None:
    for message, made in REFUSED.items():
        said = cluster.kubectl("create", "-f", "-", stdin=json.dumps(made), check=False)
        assert message in said
    for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S):
        for one in yaml.safe_load_all(text):
            cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(one))
    cluster.apply([node("n-1"), node("n-2")])
    leader = cluster.run("scheduler", "controller", waits=SOON_STATED)
    # By the command, and by kubectl.
    assert ran(operator, "isolate", "n-1", "--reason", "fan") == "node n-1 isolated\n"
    apply(
        cluster,
        isolation("far", node="n-9"),
        isolation("later", node="n-2", startTime="2099-01-01T00:00:00Z"),
    )
    cluster.wait(lambda: conditions(cluster, "n-1") == ACTIVE, "it is in force")
    cluster.wait(lambda: conditions(cluster, "far").get("Accepted") == "NodeNotFound", "its node is missing")
    cluster.wait(lambda: conditions(cluster, "later").get("Active") == "NotStarted", "it is a drain ahead")
    assert re.search(r"n-1\s+fan|n-1\s+\S*\s*True\s+True\s+fan", cluster.kubectl("get", "iso", "n-1"))
    assert "n-1" in cluster.kubectl("get", "ringwise")
    listed = json.loads(ran(operator, "get", "isolations", "-o", "json"))["isolations"]
    assert [(one["name"], one["target"], one["state"]) for one in listed] == [
        ("n-1", "n-1", "active"),
        ("later", "n-2", "pending"),
        ("far", "n-9", "active"),
    ]
    # A change by kubectl while no scheduler runs: the next leader reads it.
    cluster.crash(leader)
    cluster.kubectl("patch", "iso/far", "--type=merge", "-p", json.dumps({"spec": {"node": "n-2"}}))
    cluster.stop_components()
    cluster.run("scheduler", "controller", waits=SOON_STATED)
    cluster.wait(lambda: conditions(cluster, "far") == ACTIVE, "it is in force")
    cluster.apply([vcjob("waits", 1, 8)])

    def says_why() -> bool:
        return "node-isolated" in kubectl_ringwise(operator, "why", f"{cluster.namespace}/waits").stdout

    cluster.wait(says_why, "why names the isolation")
    # Deleted by kubectl, and by the command, whoever created them.
    cluster.kubectl("delete", "iso", "n-1", "later")
    (placed,) = cluster.wait_running("waits", 1)
    assert node_of(placed) == "n-1"
    assert "is no longer isolated" in ran(operator, "unisolate", "n-2")
    assert cluster.api.items(PATH) == []


def test_two_operators_isolate_at_once(cluster: Cluster, operator: Path, tmp_path: Path) -> None:
    cluster.apply([node("n-1")])
    chips = [f"Ascend910-{chip}" for chip in range(4)]

    def both(*commands: tuple[str, ...]) -> list[str]:
        with ThreadPoolExecutor() as pool:
            return list(pool.map(lambda command: ran(operator, *command), commands))

    said = both(*[("isolate", "n-1", "--reason", "fan")] * 2)
    assert sorted(said) == ["node n-1 is isolated already\n", "node n-1 isolated\n"] or len(set(said)) == 1
    assert [one["metadata"]["name"] for one in cluster.api.items(PATH)] == ["n-1"]
    both(*[("unisolate", "n-1")] * 2)
    assert cluster.api.items(PATH) == []
    ran(operator, "isolate", "n-1", *chips, "--reason", "optics")
    both(*(("unisolate", "n-1", chip) for chip in chips[:3]))
    (left,) = cluster.api.items(PATH)
    assert left["spec"]["chips"] == chips[3:]
    ran(operator, "unisolate", "n-1", chips[3])
    assert cluster.api.items(PATH) == []
    # From a file, with the commands that a lab has; of objects of which one is refused none is written.
    file = tmp_path / "isolations.json"
    file.write_text(
        json.dumps({"kind": "List", "items": [isolation("a", node="n-1"), isolation("b", node="n-1")]})
    )
    assert ran(operator, "submit", str(file)) == "2 x Isolation created\n"
    assert ran(operator, "submit", str(file)) == "2 x Isolation changed\n"
    ran(operator, "delete", "-f", str(file))
    assert cluster.api.items(PATH) == []


def crd() -> Object:
    (found,) = (one for one in shipped_objects() if one["metadata"]["name"] == CRD)
    return found


def install(cluster: Cluster, definition: Object) -> None:
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(definition))
    cluster.wait_established(CRD)


def ran_doctor(config: Path) -> str:
    """It ends with 1 if there are findings."""
    return kubectl_ringwise(config, "doctor", "-o", "json").stdout


def test_isolations_stay_in_force_while_the_kind_is_not_served(
    cluster: Cluster, operator: Path, tmp_path: Path
) -> None:
    def report() -> Object:
        maps = {one["metadata"]["name"]: one for one in cluster.api.items(CONFIG_MAPS)}
        return maps.get("mindx-dl-deviceinfo-n-1", {})

    def reported() -> str:
        return str(report().get("data", {}).get("RingwiseIsolatedChips"))

    def version() -> str:
        return str(report()["metadata"]["resourceVersion"])

    cluster.apply([node("n-1")])
    cluster.run("scheduler", "controller", waits=SOON_SERVED)
    plugin = start_plugin(cluster, "n-1", tmp_path)
    ran(operator, "isolate", "n-1", "--reason", "fan")
    cluster.wait(lambda: conditions(cluster, "n-1") == ACTIVE, "it is in force")
    chips = ",".join(f"Ascend910-{chip}" for chip in range(8))
    cluster.wait(lambda: reported() == chips, "the device plugin withholds the chips")
    cluster.kubectl("delete", "crd", CRD)
    try:

        def told() -> bool:
            findings = json.loads(ran_doctor(operator))["findings"]
            return any(one["code"] == "kind-not-served" and one["severity"] == "error" for one in findings)

        cluster.wait(told, "doctor reports an error")
        refused = kubectl_ringwise(operator, "isolate", "n-1", "--reason", "x")
        assert "does not serve Isolations" in refused.stderr
        cluster.apply([vcjob("waits", 1, 8)])

        def said() -> bool:
            return "node-isolated" in kubectl_ringwise(operator, "why", f"{cluster.namespace}/waits").stdout

        cluster.wait(said, "why names the isolation")
        # The device plugin has it from its own report, the next leader from the record.
        plugin.stop()
        written = version()
        plugin = start_plugin(cluster, "n-1", tmp_path)
        cluster.stop_components()
        cluster.run("scheduler", "controller", waits=SOON_SERVED)
        cluster.wait(told, "doctor reports an error")
        assert not any(map(node_of, cluster.pods("waits")))
        cluster.wait(lambda: version() != written, "the device plugin reports again")
        assert reported() == chips
    finally:
        install(cluster, crd())
    # A list succeeds: the Isolation was deleted with its kind.
    (placed,) = cluster.wait_running("waits", 1)
    assert node_of(placed) == "n-1"
    cluster.wait(lambda: reported() == "", "the device plugin offers the chips")
    plugin.stop()
