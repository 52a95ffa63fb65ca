"""HyperNodes from labels of nodes, and what admission says of HyperNodes, on a real control plane."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringwise.wellknown import CONTROLLER_CONFIG_KEY, CONTROLLER_CONFIG_MAP, VOLCANO_SYSTEM
from tests.cluster.cluster import Cluster, Component, shipped_objects
from tests.cluster.objects import Object, node

pytestmark = pytest.mark.cluster

HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
CONFIG = f"/api/v1/namespaces/{VOLCANO_SYSTEM}/configmaps/{CONTROLLER_CONFIG_MAP}"
RACK, ROW = "example.com/rack", "example.com/row"
SOURCE, MARK = "volcano.sh/network-topology-source", "ringwise.io/topology-type"
OPTION = f"--controller-configmap={VOLCANO_SYSTEM}/{CONTROLLER_CONFIG_MAP}"
#: What is seen of a HyperNode: tier, name of the tier, members, and the number of nodes in its status.
Shape = tuple[int, str, tuple[str, ...], int]


def setting(*labels: str, enabled: bool = True) -> Object:
    listed = [{"nodeLabel": label} for label in (*labels, "kubernetes.io/hostname")]
    sources = [{"source": "label", "enabled": enabled, "config": {"networkTopologyTypes": {"dc": listed}}}]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONTROLLER_CONFIG_MAP, "namespace": VOLCANO_SYSTEM},
        # JSON is YAML.
        "data": {CONTROLLER_CONFIG_KEY: json.dumps({"networkTopologyDiscovery": sources})},
    }


def hyper_node(name: str, members: Any, **labels: str) -> Object:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "labels": labels},
        "spec": {"tier": 1, "tierName": RACK, "members": members},
    }


def exact(*names: str) -> list[Object]:
    return [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]


@pytest.fixture
def discovering(cluster: Cluster) -> Cluster:
    """With the permissions for it."""
    without = [json.dumps(one, sort_keys=True) for one in shipped_objects()]
    shipped = shipped_objects({"networkTopologyDiscovery": {"enabled": True}})
    more = [one for one in shipped if json.dumps(one, sort_keys=True) not in without]
    cluster.apply(one for one in more if one["kind"] != "Deployment")
    return cluster


def shapes(cluster: Cluster) -> dict[str, Shape]:
    """Those that were discovered, by the value of their label; members of higher tiers by theirs."""
    found = [one for one in cluster.api.items(HYPER_NODES) if MARK in one["metadata"].get("labels", {})]
    values = {one["metadata"]["name"]: value_of(one) for one in found}
    return {
        value_of(one): (
            one["spec"]["tier"],
            one["spec"]["tierName"],
            tuple(
                values.get(member["selector"]["exactMatch"]["name"], member["selector"]["exactMatch"]["name"])
                for member in one["spec"]["members"]
            ),
            one.get("status", {}).get("nodeCount", 0),
        )
        for one in found
    }


def value_of(hyper_node: Object) -> str:
    value: str = hyper_node["metadata"]["labels"][hyper_node["spec"]["tierName"]]
    return value


def wait_for(cluster: Cluster, wanted: dict[str, Shape]) -> None:
    cluster.wait(
        lambda: shapes(cluster) == wanted, lambda: f"the HyperNodes are {wanted}, not {shapes(cluster)}"
    )


def label(cluster: Cluster, name: str, **labels: str | None) -> None:
    changed = {f"example.com/{key}": value for key, value in labels.items()}
    cluster.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": changed}})


def uids(cluster: Cluster) -> dict[str, str]:
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in cluster.api.items(HYPER_NODES)}


def controller(cluster: Cluster) -> Component:
    return cluster.start("controller", OPTION)


def test_it_discovers_updates_and_removes_the_topology_of_labels_while_status_is_kept(
    discovering: Cluster,
) -> None:
    cluster = discovering
    cluster.apply([node(f"n{number}") for number in range(3)])
    cluster.run("scheduler")
    leader = controller(cluster)
    cluster.wait(lambda: leader.ready and leader.leads, "the controller leads")
    # Without the setting nothing is made.
    label(cluster, "n0", rack="a", row="one")
    label(cluster, "n1", rack="a", row="one")
    cluster.apply([setting(ROW, RACK)])
    wait_for(cluster, {"a": (1, RACK, ("n0", "n1"), 2), "one": (2, ROW, ("a",), 2)})
    before = uids(cluster)
    assert all(name.startswith("hypernode-dc-tier") for name in before)
    assert {one["metadata"]["labels"][SOURCE] for one in cluster.api.items(HYPER_NODES)} == {"label"}
    label(cluster, "n1", rack="B", row="one")
    label(cluster, "n2", rack="B")
    wait_for(
        cluster,
        {
            "a": (1, RACK, ("n0",), 1),
            "B": (1, RACK, ("n1", "n2"), 2),
            "one": (2, ROW, tuple(sorted_values(cluster, "a", "B")), 3),
        },
    )
    assert before.items() <= uids(cluster).items()
    # Off: what is there stays. A wrong text is told and changes nothing.
    cluster.apply([setting(ROW, RACK, enabled=False)])
    cluster.apply([{**setting(), "data": {CONTROLLER_CONFIG_KEY: "networkTopologyDiscovery: 3"}}])
    cluster.wait(lambda: "Invalid value: 3: must be a list" in leader.log(), "the error is told")
    label(cluster, "n2", rack=None)
    assert before.items() <= uids(cluster).items()
    cluster.apply([setting(ROW, RACK)])
    wait_for(
        cluster,
        {
            "a": (1, RACK, ("n0",), 1),
            "B": (1, RACK, ("n1",), 1),
            "one": (2, ROW, tuple(sorted_values(cluster, "a", "B")), 2),
        },
    )
    for name in ("n0", "n1"):
        label(cluster, name, rack=None, row=None)
    cluster.wait(lambda: not cluster.api.items(HYPER_NODES), "all HyperNodes are gone")


def sorted_values(cluster: Cluster, *values: str) -> list[str]:
    """In the order of the names of their HyperNodes."""

    def names() -> dict[str, str] | None:
        found = {value_of(one): name_of(one) for one in cluster.api.items(HYPER_NODES)}
        return found if found.keys() >= set(values) else None

    found: dict[str, str] = cluster.wait(names, f"HyperNodes of {values}")
    return sorted(values, key=lambda value: found[value])


def name_of(one: Object) -> str:
    name: str = one["metadata"]["name"]
    return name


def test_what_others_made_is_not_touched_and_the_next_leader_continues(discovering: Cluster) -> None:
    cluster = discovering
    cluster.apply([node(f"n{number}") for number in range(4)])
    label(cluster, "n0", rack="a")
    label(cluster, "n2", rack="theirs")
    by_hand = hyper_node("by-hand", exact("n3"))
    # As Volcano's controller makes it: while it is there, the type is Volcano's.
    theirs = hyper_node("hypernode-dc-tier1-x7k2p", exact("n9"), **{SOURCE: "label", RACK: "theirs"})
    cluster.apply([setting(RACK), by_hand, theirs])
    before = uids(cluster)
    first = controller(cluster)
    cluster.run("scheduler")

    def told() -> bool:
        events = cluster.api.items("/api/v1/namespaces/default/events")
        return any(one["reason"] == "HyperNodeConflict" for one in events)

    cluster.wait(told, "an event says that Volcano's controller discovers the type")
    assert "made by Volcano's controller" in first.log()
    assert uids(cluster) == before
    specs = {name_of(one): one["spec"] for one in cluster.api.items(HYPER_NODES)}
    assert specs == {name_of(theirs): theirs["spec"], name_of(by_hand): by_hand["spec"]}
    # With our label it is ours, under its name.
    cluster.api.patch(f"{HYPER_NODES}/{name_of(theirs)}", {"metadata": {"labels": {MARK: "dc"}}})
    wait_for(cluster, {"a": (1, RACK, ("n0",), 1), "theirs": (1, RACK, ("n2",), 1)})
    assert before.items() <= uids(cluster).items()
    before = uids(cluster)
    second = controller(cluster)
    cluster.wait(lambda: second.ready, "the second is ready")
    cluster.crash(first)
    label(cluster, "n1", rack="after")
    wait_for(
        cluster,
        {
            "a": (1, RACK, ("n0",), 1),
            "theirs": (1, RACK, ("n2",), 1),
            "after": (1, RACK, ("n1",), 1),
        },
    )
    assert before.items() <= uids(cluster).items()
