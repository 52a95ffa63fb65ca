"""Shadow mode: nothing is bound, and every difference is reported with its reason."""

from __future__ import annotations

from typing import Any

import msgspec

from ringwise.apps.extensions import new_scheduler
from ringwise.kube.run.core_thread import MachineAdapter
from ringwise.kube.run.shadow import ShadowAdapter
from ringwise.kube.watch.kinds import watched_kinds
from ringwise.kube.watch.readers import Observed
from ringwise.manifests.text.errors import Findings
from ringwise.messages import events as ev
from ringwise.state.model import Node, Pod
from tests.builders.values import CHIP
from tests.kube.fake_api_server import Object
from tests.kube.harness import node, pod

KINDS = {target.title: reader for target, reader in watched_kinds(Observed())}


def read(kind: str, raw: Object) -> Any:
    found = Findings("x")
    raw["metadata"].setdefault("uid", raw["metadata"]["name"])
    facts = KINDS[kind].read(msgspec.Raw(msgspec.json.encode(raw)), found)
    assert facts is not None, found.errors
    return facts[0][1]


def nodes(*names: str) -> list[ev.Event]:
    made: list[Node] = [read("nodes", node(name)) for name in names]
    return [ev.NodeSeen(one) for one in made]


def seen(raw: Object) -> ev.Event:
    made: Pod = read("pods", raw)
    return ev.PodSeen(made)


class Shadow:
    def __init__(self, *names: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self.adapter = ShadowAdapter(new_scheduler(), self.lines.append)
        adapter: MachineAdapter = self.adapter
        adapter.absorb(nodes(*names), 1)

    def send(self, *events: ev.Event) -> None:
        assert self.adapter.decide(list(events), 2) == []


def test_equal_decisions_are_counted() -> None:
    shadow = Shadow("node-1")
    shadow.send(seen(pod("train", 1)))
    shadow.send(seen(pod("train", 1, on="node-1", held="Ascend910-0")))
    assert [line["outcome"] for line in shadow.lines] == ["same"]
    assert shadow.adapter.summary()["same_share"] == 1.0


def test_other_chips_of_the_same_node_are_a_difference() -> None:
    shadow = Shadow("node-1")
    shadow.send(seen(pod("train", 1)))
    shadow.send(seen(pod("train", 1, on="node-1", held="Ascend910-5")))
    (line,) = shadow.lines
    assert line["outcome"] == "other-chips"
    assert (line["ours"]["chips"], line["theirs"]["chips"]) == ([0], [5])


def test_another_node_is_reported_with_both_scores() -> None:
    shadow = Shadow("node-1", "node-2")
    # node-2 is partly used, so one chip fits better there.
    shadow.send(seen(pod("old", 3, on="node-2", held="Ascend910-0,Ascend910-1,Ascend910-2")))
    shadow.send(seen(pod("train", 1)))
    shadow.send(seen(pod("train", 1, on="node-1", held="Ascend910-0")))
    line = shadow.lines[-1]
    assert line["outcome"] == "other-node"
    assert line["ours"]["node"] == "node-2"
    assert line["ours"]["score"] > line["theirs"]["score"]
    assert line["why"] == "Ringwise's node has the higher score"
    # node-1 was empty, and 7 of its chips stay free.
    assert (line["ours"]["splits_node"], line["theirs"]["splits_node"]) == (False, True)


def test_a_node_that_the_rules_reject_is_reported_with_the_reason() -> None:
    shadow = Shadow("node-1", "node-2")
    used = "Ascend910-0,Ascend910-1,Ascend910-4"
    shadow.send(seen(pod("old", 3, on="node-2", held=used)))
    shadow.send(seen(pod("train", 4)))
    chips = "Ascend910-2,Ascend910-3,Ascend910-5,Ascend910-6"
    shadow.send(seen(pod("train", 4, on="node-2", held=chips)))
    line = shadow.lines[-1]
    assert line["ours"]["node"] == "node-1"
    assert line["theirs"]["score"] is None
    assert line["theirs"]["reason"]
    assert line["why"].startswith("by the rules of Ringwise the pod cannot run there")


def test_later_decisions_use_the_real_placement() -> None:
    shadow = Shadow("node-1")
    shadow.send(seen(pod("train", 4)))
    others = ",".join(f"Ascend910-{chip}" for chip in range(4, 8))
    shadow.send(seen(pod("train", 4, on="node-1", held=others)))
    shadow.send(seen(pod("next", 4)))
    mine = ",".join(f"Ascend910-{chip}" for chip in range(4))
    shadow.send(seen(pod("next", 4, on="node-1", held=mine)))
    assert [line["outcome"] for line in shadow.lines] == ["other-chips", "same"]


def test_released_chips_of_a_shadow_decision_wake_pending_pods() -> None:
    shadow = Shadow("node-1", "node-2")
    every = ",".join(f"Ascend910-{chip}" for chip in range(8))
    shadow.send(seen(pod("foreign", 8, scheduler="other", on="node-2", held=every)))
    shadow.send(seen(pod("first", 8)), seen(pod("second", 8)))
    # The first pod went to a node that is not known, so the second can use the node decided for the first.
    shadow.send(seen(pod("first", 8, on="node-3", held=every)))
    shadow.send(seen(pod("second", 8, on="node-1", held=every)))
    assert [line["outcome"] for line in shadow.lines] == ["other-node", "same"]


def test_pods_that_only_one_of_both_schedulers_places() -> None:
    shadow = Shadow("node-1")
    # The rules of the board reject three chips in one pod.
    shadow.send(seen(pod("odd", 3)))
    shadow.send(seen(pod("odd", 3, on="node-1", held="Ascend910-0,Ascend910-1,Ascend910-2")))
    shadow.send(seen(pod("gone", 1)))
    shadow.send(ev.PodGone("gone"))
    assert [line["outcome"] for line in shadow.lines] == ["only-theirs", "only-ours"]
    assert "3" in shadow.lines[0]["why"]
    assert CHIP.rpartition("/")[2] in str(shadow.lines[0]) or shadow.lines[0]["why"]


def test_pods_of_other_schedulers_are_no_difference() -> None:
    shadow = Shadow("node-1")
    shadow.send(seen(pod("web", 0, scheduler="default-scheduler")))
    shadow.send(seen(pod("web", 0, scheduler="default-scheduler", on="node-1")))
    assert shadow.lines == []
