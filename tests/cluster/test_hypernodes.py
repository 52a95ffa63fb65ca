"""HyperNodes: trees are read, and each wrong one is told of itself and hurts no other."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from tests.cluster.cluster import HYPER_NODES, Cluster
from tests.cluster.commands import kubectl_ringwise
from tests.cluster.objects import Object, nodes

pytestmark = pytest.mark.cluster


def hyper_node(name: str, tier: int, *members: Object, tier_name: str = "") -> Object:
    spec: Object = {"tier": tier, "members": list(members)}
    if tier_name:
        spec["tierName"] = tier_name
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": spec,
    }


def member(kind: str, **selector: Any) -> Object:
    return {"type": kind, "selector": selector}


def exact(kind: str, *names: str) -> list[Object]:
    return [member(kind, exactMatch={"name": name}) for name in names]


GOOD = [
    hyper_node("s0", 1, *exact("Node", "node-1", "node-2"), tier_name="leaf"),
    hyper_node("s1", 1, member("Node", regexMatch={"pattern": "^node-[34]$"}), tier_name="leaf"),
    hyper_node("s2", 2, *exact("HyperNode", "s0", "s1"), tier_name="spine"),
]


def by_pattern(name: str, pattern: str, kind: str = "Node") -> Object:
    return hyper_node(name, 1, member(kind, regexMatch={"pattern": pattern}))


#: What is wrong with each, as its condition calls it.
WRONG = [
    (hyper_node("loop-b", 2, *exact("HyperNode", "loop-a")), "Circle"),
    (hyper_node("second-parent", 2, *exact("HyperNode", "s0")), "TwoParents"),
    (hyper_node("no-member", 2, *exact("HyperNode", "gone")), "MissingMember"),
    (hyper_node("same-tier", 1, *exact("HyperNode", "other")), "TierOrder"),
    (hyper_node("all", 1, member("Node", labelMatch={})), "EmptySelector"),
    (by_pattern("span", "node-[1-4]"), "OverlappingNodes"),
    (by_pattern("lookahead", "n(?=ode)"), "BadExpression"),
    (by_pattern("open", "((n+)+)+-(["), "BadExpression"),
    (by_pattern("members", "s", "HyperNode"), "MemberSelector"),
]
OTHER = hyper_node("other", 1, *exact("Node", "node-5"))
ABOVE_LOOP = hyper_node("loop-a", 3, *exact("HyperNode", "loop-b"))


def valid(cluster: Cluster, name: str) -> Object:
    """The condition that Ringwise writes; empty before it does."""
    status = cluster.api.get(f"{HYPER_NODES}/{name}").get("status", {})
    return next((one for one in status.get("conditions", []) if one["type"] == "Valid"), {})


def count(cluster: Cluster, name: str) -> int | None:
    found: int | None = cluster.api.get(f"{HYPER_NODES}/{name}").get("status", {}).get("nodeCount")
    return found


def events(cluster: Cluster, name: str) -> set[tuple[str, str]]:
    """Events of objects without a namespace are in `default`."""
    return {
        (one["type"], one["reason"])
        for one in cluster.api.items("/api/v1/namespaces/default/events")
        if (one["involvedObject"]["kind"], one["involvedObject"]["name"]) == ("HyperNode", name)
    }


def listed(cluster: Cluster) -> dict[str, Any]:
    done = kubectl_ringwise(cluster.admin_config, "get", "hypernodes", "-o", "json")
    assert done.returncode == 0, done.stderr
    return {row["name"]: row for row in json.loads(done.stdout)["hypernodes"]}


def test_a_tree_is_read_and_follows_its_nodes(cluster: Cluster) -> None:
    cluster.apply([*nodes(3), *GOOD])
    cluster.run("scheduler")
    names = ("s0", "s1", "s2")
    cluster.wait(lambda: [count(cluster, name) for name in names] == [2, 1, 3], "they are counted")
    assert not valid(cluster, "s0"), "of a good one nothing is told"
    cluster.apply(nodes(4)[3:])
    cluster.wait(lambda: [count(cluster, name) for name in names] == [2, 2, 4], "a node came")
    # Another writer of the status is not fought, and its conditions stay.
    theirs = {"type": "Theirs", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    cluster.api.patch(f"{HYPER_NODES}/s0/status", {"status": {"nodeCount": 7, "conditions": [theirs]}})
    cluster.apply([hyper_node("s0", 1, *exact("Node", "node-1", "node-2", "node-9"), tier_name="leaf")])
    cluster.wait(lambda: valid(cluster, "s0").get("reason") == "MissingNode", "a missing node is told")
    assert valid(cluster, "s0")["status"] == "True"
    status = cluster.api.get(f"{HYPER_NODES}/s0")["status"]
    assert [one["type"] for one in status["conditions"]] == ["Theirs", "Valid"]
    table = cluster.kubectl("get", "hn", "s2")
    assert table.split()[:4] == ["NAME", "TIER", "TIERNAME", "NODECOUNT"]
    assert table.splitlines()[1].split()[:4] == ["s2", "2", "spine", "4"]


def test_each_wrong_one_is_told_and_hurts_no_other(cluster: Cluster) -> None:
    cluster.apply([*nodes(5), *GOOD, OTHER, ABOVE_LOOP, *(one for one, _ in WRONG)])
    cluster.run("scheduler")
    for one, reason in WRONG:
        name = str(one["metadata"]["name"])
        told = cluster.wait(partial(valid, cluster, name), f"{name} is told")
        assert (told["status"], told["reason"]) == ("False", reason)
        found = cluster.wait(partial(events, cluster, name), f"{name} has an event")
        assert found == {("Warning", "InvalidHyperNode")}
    rows = listed(cluster)
    assert {name: (rows[name]["parent"], rows[name]["nodes"]) for name in ("s0", "s1", "s2", "other")} == {
        "s0": ("s2", 2),
        "s1": ("s2", 2),
        "s2": (None, 4),
        "other": (None, 1),
    }
    ignored = {name for name, row in rows.items() if row["state"] == "invalid"}
    assert ignored == {"span", "lookahead", "open"}
    checked = json.loads(kubectl_ringwise(cluster.admin_config, "doctor", "-o", "json").stdout)
    places = {one["object"] for one in checked["findings"] if one["code"].startswith("hypernode-")}
    assert {f"HyperNode {one['metadata']['name']}" for one, _ in WRONG} <= places
    # Repaired, and the condition says so.
    cluster.apply([hyper_node("loop-b", 2, *exact("HyperNode", "other"))])
    cluster.wait(lambda: valid(cluster, "loop-b").get("status") == "True", "the circle is gone")
    cluster.wait(lambda: count(cluster, "loop-a") == 1, "the one above has its node")
    # The server itself refuses what the schema forbids.
    two = member("Node", exactMatch={"name": "node-1"}, regexMatch={"pattern": "x"})
    answer = cluster.kubectl("apply", "-f", "-", stdin=json.dumps(hyper_node("two", 1, two)), check=False)
    assert "cannot specify more than one selector type" in answer
