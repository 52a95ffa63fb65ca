"""The status of HyperNodes: the number of nodes and one condition, without a fight with other writers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ringwise.kube.watch.readers import HyperNodeReader, Observed, ObservedHyperNode
from ringwise.kube.write.context import WriteContext
from ringwise.kube.write.fence import Fence
from ringwise.kube.write.status import StatusWriter, hyper_node_status
from ringwise.manifests.text.errors import Findings
from ringwise.messages.commands import SetHyperNodeStatus
from tests.kube.harness import InstantClock, server

NOW = "2026-01-01T00:00:00Z"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
OTHER = {"type": "Other", "status": "True"}
BAD = SetHyperNodeStatus("a", None, False, "Circle", "is a member of itself; it is ignored")
FOUND = {"type": "Valid", "status": "True", "reason": "AllMembersFound", "message": ""}
WRONG = {**FOUND, "status": "False", "reason": "Circle", "message": BAD.message}


@pytest.mark.parametrize(
    ("command", "nodes", "conditions", "written"),
    [
        pytest.param(SetHyperNodeStatus("a", 2), 2, (), {}, id="as it is"),
        pytest.param(SetHyperNodeStatus("a", 0), None, (), {}, id="none is 0"),
        pytest.param(SetHyperNodeStatus("a", 3), 2, (OTHER,), {"nodeCount": 3}, id="the number"),
        pytest.param(
            BAD,
            2,
            (OTHER,),
            {"conditions": [OTHER, {**WRONG, "lastTransitionTime": NOW}]},
            id="wrong: others stay, and so does the number",
        ),
        pytest.param(BAD, 2, ({**WRONG, "lastTransitionTime": "before"},), {}, id="told already"),
        pytest.param(
            BAD,
            2,
            ({**WRONG, "message": "x", "lastTransitionTime": "before"},),
            {"conditions": [{**WRONG, "lastTransitionTime": "before"}]},
            id="another message",
        ),
        pytest.param(
            SetHyperNodeStatus("a", 2),
            2,
            ({**WRONG, "lastTransitionTime": "before"},),
            {"conditions": [{**FOUND, "lastTransitionTime": NOW}]},
            id="repaired",
        ),
    ],
)
def test_what_is_written(
    command: SetHyperNodeStatus, nodes: int | None, conditions: tuple[Any, ...], written: dict[str, Any]
) -> None:
    assert hyper_node_status(command, ObservedHyperNode("uid", nodes, conditions), NOW) == written


async def test_condition_and_event_are_written_once() -> None:
    async with server() as (api, client):
        clock = InstantClock()
        fence = Fence(clock)
        fence.open_forever()
        wire = {"metadata": {"name": "a", "uid": "u1"}, "spec": {"tier": 1}, "status": {"nodeCount": 1}}
        api.put(HYPER_NODES, wire)
        observed: dict[str, ObservedHyperNode] = {}
        reader, found = HyperNodeReader(observed), Findings("a")
        reader.read(msgspec.Raw(msgspec.json.encode(wire)), found)
        assert not found.errors
        writer = StatusWriter(WriteContext(client, fence, clock), Observed(hyper_nodes=observed))
        for command in (BAD, SetHyperNodeStatus("gone", 5), BAD):
            writer.hyper_node(command)
        await writer.finish()
        status = api.get(HYPER_NODES, "a")["status"]
        assert status["nodeCount"] == 1
        assert [one["reason"] for one in status["conditions"]] == ["Circle"]
        events = api.all("/api/v1/events")
        assert [(one["reason"], one["type"], one["involvedObject"]["name"]) for one in events] == [
            ("InvalidHyperNode", "Warning", "a")
        ]
        reader.forget("a")
        assert observed == {}
        await writer.stop()
