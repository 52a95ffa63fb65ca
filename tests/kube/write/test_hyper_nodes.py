"""HyperNodes from labels of nodes at the API server: made, changed and deleted; those of others are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringwise.kube.watch.config_map_readers import DiscoveryReader
from ringwise.kube.write.object_writers import HyperNodeWriter
from ringwise.kubeclient.client import ApiError
from ringwise.kubeclient.resources import HYPER_NODES
from ringwise.manifests.text.errors import Findings
from ringwise.manifests.text.wire import ConfigMapWire
from ringwise.state.model import HyperNode, HyperNodeMember
from tests.kube.harness import server

PATH = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
MARK = "ringwise.io/topology-type"


def wanted(*nodes: str) -> HyperNode:
    members = tuple(HyperNodeMember(name=node) for node in nodes)
    return HyperNode("rack", 1, members, tier_name="tor", labels={MARK: "A2", "tor": "r"})


def exact(*names: str) -> list[dict[str, Any]]:
    return [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]


async def test_it_is_made_changed_with_its_status_kept_and_deleted() -> None:
    async with server() as (api, client):
        writer = HyperNodeWriter(client)
        await writer.put(wanted("a"))
        (made,) = api.all(PATH)
        assert made["spec"] == {"tier": 1, "tierName": "tor", "members": exact("a")}
        assert made["metadata"]["labels"] == {MARK: "A2", "tor": "r"}
        uid = made["metadata"]["uid"]
        await client.patch(HYPER_NODES, None, "rack", {"metadata": {"labels": {"team": "x"}}})
        status = {"status": {"nodeCount": 1}}
        await client.patch(HYPER_NODES, None, "rack", status, subresource="status")
        await writer.put(wanted("a", "b"))
        (changed,) = api.all(PATH)
        assert changed["spec"]["members"] == exact("a", "b")
        assert changed["metadata"]["labels"]["team"] == "x"
        assert (changed["metadata"]["uid"], changed["status"]) == (uid, {"nodeCount": 1})
        above = HyperNode("row", 2, (HyperNodeMember(True, "rack"),), labels={MARK: "A2"})
        await writer.put(above)
        members = next(one["spec"]["members"] for one in api.all(PATH) if one["spec"]["tier"] == 2)
        assert members == [{"type": "HyperNode", "selector": {"exactMatch": {"name": "rack"}}}]
        for name in ("rack", "row", "never-there"):
            await writer.delete(name)
        assert api.all(PATH) == []


async def test_one_of_another_is_neither_changed_nor_deleted() -> None:
    async with server() as (api, client):
        theirs = {"metadata": {"name": "rack", "labels": {}}, "spec": {"tier": 3}}
        api.put(PATH, theirs)
        before = json.dumps(api.all(PATH))
        writer = HyperNodeWriter(client)
        await writer.put(wanted("a"))
        await writer.delete("rack")
        assert json.dumps(api.all(PATH)) == before


async def test_a_label_that_is_no_longer_wanted_is_removed_and_those_of_others_stay() -> None:
    async with server() as (api, client):
        writer = HyperNodeWriter(client)
        await writer.put(wanted("a"))
        await client.patch(HYPER_NODES, None, "rack", {"metadata": {"labels": {"team": "x"}}})
        await writer.put(HyperNode("rack", 1, (), labels={MARK: "A2"}))
        assert api.get(PATH, "rack")["metadata"]["labels"] == {MARK: "A2", "team": "x"}


async def test_one_that_another_client_creates_meanwhile_is_not_taken_over() -> None:
    async with server() as (api, client):
        api.put(PATH, {"metadata": {"name": "rack", "labels": {}}, "spec": {"tier": 3}})
        before = json.dumps(api.all(PATH))
        api.fault(f"GET {PATH}", status=404)
        with pytest.raises(ApiError, match="409"):
            await HyperNodeWriter(client).put(wanted("a"))
        assert json.dumps(api.all(PATH)) == before


async def test_without_the_definition_it_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with server() as (api, client):
        writer = HyperNodeWriter(client)
        for _ in range(2):
            api.fault(f"PATCH {PATH}", status=404)
            await writer.put(wanted("a"))
        assert api.all(PATH) == []
    assert capsys.readouterr().err.count("hypernodes.topology.volcano.sh") == 1


def test_warnings_of_one_text_are_told_once_and_a_wrong_text_leaves_the_last_one_in_force() -> None:
    told: list[str] = []
    reader = DiscoveryReader(told.append)

    def read(text: str) -> Any:
        found = Findings("map")
        objects = reader.objects(ConfigMapWire(data={"volcano-controller.conf": text}), found)
        return objects, [str(error) for error in found.errors]

    ufm = "networkTopologyDiscovery: [{source: ufm, enabled: true}]"
    for _ in range(2):
        objects, errors = read(ufm)
        assert objects is not None
        assert errors == []
    assert told == [
        "map: line 1: networkTopologyDiscovery[0]: the source ufm is not supported and has no effect; "
        "allowed: label"
    ]
    objects, errors = read("networkTopologyDiscovery: {}")
    assert objects is None
    assert errors == [
        "map: data.volcano-controller.conf: line 1: networkTopologyDiscovery: Invalid value: an object: "
        "must be a list"
    ]
