"""A pod that is deleted by force is forgotten by API server and kubelet before its container has ended.

Until it has ended no other container gets its chips, whatever ids kubelet gives out; the scheduler is told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ringwise.device.allocation import CONSUMED, AllocationError
from ringwise.device.allocator import KILL_TIME, MAX_END, Allocator
from ringwise.device.host_containers import ControlGroups
from ringwise.device.ledger import Ledger
from ringwise.device.pods import NodePod, NodePodWire, pod_from_wire
from ringwise.device.simulated_kubelet import AdmissionError
from tests.builders.values import CHIP, SECOND
from tests.device.cases import chips
from tests.device.rig import PODS, Rig, rig
from tests.device.test_allocation import healthy, waiting_pod

FOUR, FIVE = "Ascend910-4", "Ascend910-5"


# -- the allocator


def served(**old: Any) -> tuple[Allocator, NodePod]:
    """Chip 4 is in the container of pod `old`, under the id of chip 5."""
    machine = Allocator(CHIP, chips(8), Ledger())
    machine.replace_pods([waiting_pod("old", FOUR)], 0)
    machine.commit(machine.allocate([FIVE], 0, healthy))
    machine.listed({"default/old": [[FIVE]]}, SECOND, running=())
    pod = replace(machine.pods["uid-old"], phase="Running", **old)
    machine.put_pod(pod)
    return machine, pod


def next_one(machine: Allocator, ids: Sequence[str] = (FIVE,), *, fresh: bool = True) -> tuple[str, ...]:
    machine.put_pod(waiting_pod("new", FOUR, "7"))
    return machine.allocate(ids, 100 * SECOND, healthy, fresh=fresh).chips


def test_chips_are_held_while_the_container_has_processes() -> None:
    machine, pod = served()
    machine.drop_pod(pod.uid, 2 * SECOND)
    # Kubelet gives the id out before it was asked again whether the pod is there.
    with pytest.raises(AllocationError, match="held by pod default/old"):
        next_one(machine, fresh=False)
    assert machine.in_question({}) == {pod.uid}
    for now in (3, 9999):
        machine.listed({}, now * SECOND, during_call=True, running={pod.uid})
        assert machine.chips_of_pods() == {pod.uid: (FOUR,)}
        assert machine.used() == {FOUR}
        for ids in ((FIVE,), ("Ascend910-0",)):
            with pytest.raises(AllocationError, match="held by pod default/old, which is deleted and may"):
                next_one(machine, ids)
    machine.listed({}, 9999 * SECOND, during_call=True, running=())
    assert machine.used() == {FOUR}, "the pod that waits names it"
    assert next_one(machine) == (FOUR,)


@pytest.mark.parametrize("is_there", [True, False])
def test_ids_that_another_plugin_gave_out_since_are_not_those_of_a_pod_that_has_ended(is_there: bool) -> None:
    """The node had Huawei's plugin for a while: which chips the new pod has is not known."""
    machine, pod = served()
    ended = replace(pod, phase="Succeeded")
    machine.put_pod(ended)
    if not is_there:
        machine.drop_pod(pod.uid, 2 * SECOND, ended)
    machine.put_pod(replace(waiting_pod("new", "Ascend910-1"), phase="Running"))
    machine.listed({"default/new": [[FIVE]]}, 3 * SECOND, running=())
    assert machine.ledger.mounts == []
    assert machine.doubtful_chips() == {"uid-new": ("Ascend910-1", FIVE)}


def test_n8_device_nodes_that_another_container_has_are_not_recorded_twice() -> None:
    """One of the two records is wrong: the chips of the pod without one stay doubtful."""
    machine, pod = served()
    machine.put_pod(replace(waiting_pod("new", "Ascend910-1"), phase="Running"))
    listing = {pod.key: [[FIVE]], "default/new": [["Ascend910-2"]]}
    machine.listed(listing, 2 * SECOND, in_containers={"uid-new": (FOUR,)}, running=())
    assert [mount.owner for mount in machine.ledger.mounts] == [pod.uid]
    assert machine.doubtful_chips() == {"uid-new": ("Ascend910-1", "Ascend910-2")}
    machine.listed(listing, 3 * SECOND, in_containers={"uid-new": ("Ascend910-1",)}, running=())
    assert machine.chips_of_pods() == {pod.uid: (FOUR,), "uid-new": ("Ascend910-1",)}


@pytest.mark.parametrize(("stopped", "left"), [(False, {"default/old": (FOUR,)}), (True, {})])
def test_a_deleted_pod_without_a_record_keeps_its_chips_unless_its_containers_had_ended(
    stopped: bool, left: dict[str, tuple[str, ...]]
) -> None:
    machine = Allocator(CHIP, chips(8), Ledger())
    machine.put_pod(replace(waiting_pod("old", FOUR), phase="Running", stopped=stopped))
    machine.drop_pod("uid-old", SECOND)
    assert machine.left() == left


def test_it_keeps_them_though_its_ids_go_to_another_pod_with_other_chips() -> None:
    machine, pod = served()
    machine.drop_pod(pod.uid, 2 * SECOND)
    machine.listed({}, 3 * SECOND, running={pod.uid})
    machine.put_pod(waiting_pod("other", "Ascend910-1", "3"))
    machine.commit(machine.allocate([FIVE], 4 * SECOND, healthy))
    listing = {"default/other": [[FIVE]]}
    machine.listed(listing, 5 * SECOND, running=machine.in_question(listing))
    assert machine.chips_of_pods() == {pod.uid: (FOUR,), "uid-other": ("Ascend910-1",)}
    # Also after a restart.
    again = Allocator(CHIP, chips(8), machine.ledger)
    again.replace_pods(machine.pods.values(), 6 * SECOND)
    again.listed(listing, 7 * SECOND, running={pod.uid})
    with pytest.raises(AllocationError, match="held by pod default/old"):
        next_one(again, ["Ascend910-0"])
    again.listed(listing, 8 * SECOND, running=())
    assert next_one(again, ["Ascend910-0"]) == (FOUR,)


@pytest.mark.parametrize("deleted", [True, False])
@pytest.mark.parametrize("last", [{"phase": "Failed"}, {"phase": "Succeeded"}, {"stopped": True}])
def test_a_pod_that_was_seen_to_end_holds_nothing(last: dict[str, Any], deleted: bool) -> None:
    machine, pod = served()
    if deleted:
        machine.drop_pod(pod.uid, 2 * SECOND, replace(pod, **last))
    else:
        machine.put_pod(replace(pod, **last))
    assert machine.in_question({}) == set()
    # The pause container of the pod may be there a little longer.
    assert next_one(machine, fresh=False) == (FOUR,)


@pytest.mark.parametrize(
    ("grace", "until"), [(0, KILL_TIME), (30, 30 + KILL_TIME), (10**9, MAX_END)], ids=str
)
def test_where_processes_cannot_be_seen_its_time_to_end_is_waited_for(grace: int, until: int) -> None:
    machine, pod = served(grace=grace)
    machine.drop_pod(pod.uid, 2 * SECOND)
    machine.listed({}, 3 * SECOND, running=None)
    with pytest.raises(AllocationError, match="held by pod default/old"):
        next_one(machine)
    machine.listed({}, (3 + until) * SECOND - 1, running=None)
    with pytest.raises(AllocationError, match="held by pod default/old"):
        next_one(machine)
    machine.listed({}, (3 + until) * SECOND, running=None)
    assert next_one(machine) == (FOUR,)


def test_ids_of_a_pod_that_is_there_and_runs_do_not_give_its_chips_away() -> None:
    """A kubelet that lost its records believes that all ids are free."""
    machine, pod = served()
    for running in ({pod.uid}, None):
        machine.listed({}, 20 * SECOND, during_call=True, running=running)
        with pytest.raises(AllocationError, match="held by pod default/old"):
            next_one(machine)
    # Nor do they go to the pod that gets the ids with another chip.
    machine.put_pod(waiting_pod("other", "Ascend910-1", "3"))
    machine.allocate([FIVE], 20 * SECOND, healthy, fresh=False)
    assert machine.chips_of_pods() == {pod.uid: (FOUR,)}


def test_ids_of_a_pod_that_kubelet_rejected_after_the_call_give_its_chips_away() -> None:
    machine, _ = served()
    machine.listed({}, 20 * SECOND, during_call=True, running=())
    assert next_one(machine) == (FOUR,)


def test_a_pod_without_a_record_holds_what_it_may_have() -> None:
    machine = Allocator(CHIP, chips(8), Ledger())
    pod = waiting_pod("old", FOUR, CONSUMED, phase="Running")
    machine.replace_pods([pod], 0)
    machine.listed({"default/old": [["Ascend910-6"]]}, SECOND, running=())
    machine.drop_pod(pod.uid, 2 * SECOND)
    with pytest.raises(AllocationError, match="held by pod default/old"):
        next_one(machine)
    machine.listed({}, 3 * SECOND, running={pod.uid})
    assert machine.chips_of_pods() == {pod.uid: (FOUR, "Ascend910-6")}
    machine.listed({}, 4 * SECOND, running=())
    assert next_one(machine) == (FOUR,)


def test_where_kubelet_s_ids_are_the_chips() -> None:
    machine = Allocator(CHIP, chips(8), Ledger(), match_pods=False)
    pod = waiting_pod("old", FOUR, phase="Running")
    machine.replace_pods([pod], 0)
    machine.allocate([FOUR], 0, healthy)
    machine.listed({"default/old": [[FOUR]]}, SECOND, running=())
    machine.drop_pod(pod.uid, 2 * SECOND)
    machine.listed({}, 3 * SECOND, running={pod.uid})
    with pytest.raises(AllocationError, match=f"chip {FOUR} is held by pod uid-old|default/old"):
        machine.allocate([FOUR], 4 * SECOND, healthy)
    machine.listed({}, 5 * SECOND, running=())
    assert machine.allocate([FOUR], 6 * SECOND, healthy).chips == (FOUR,)


# -- what is read


@pytest.mark.parametrize(
    ("spec", "meta", "grace"),
    [
        ({}, {}, 30),
        ({"terminationGracePeriodSeconds": 0}, {}, 0),
        ({}, {"deletionGracePeriodSeconds": 90}, 90),
    ],
)
def test_the_time_that_containers_have_to_end(spec: dict[str, int], meta: dict[str, int], grace: int) -> None:
    document = {"metadata": {"name": "p", **meta}, "spec": spec}
    pod = pod_from_wire(msgspec.json.decode(json.dumps(document).encode(), type=NodePodWire))
    assert pod is not None
    assert pod.grace == grace


@pytest.mark.parametrize(
    ("phase", "states", "ended"),
    [
        ("Running", [], False),
        ("Running", [{"running": {}}], False),
        ("Running", [{"terminated": {"exitCode": 1}}, {"running": {}}], False),
        ("Running", [{"terminated": {"exitCode": 1}}, {"terminated": {}}], True),
        ("Running", [{"waiting": {"reason": "CrashLoopBackOff"}}], False),
        ("Succeeded", [], True),
    ],
)
def test_whether_all_containers_have_ended(phase: str, states: list[dict[str, object]], ended: bool) -> None:
    status = {"phase": phase, "containerStatuses": [{"state": state} for state in states]}
    pod = pod_from_wire(
        msgspec.json.decode(
            json.dumps({"metadata": {"name": "p"}, "status": status}).encode(), type=NodePodWire
        )
    )
    assert pod is not None
    assert pod.ended is ended


UID = "8f1c0f4e-3b7e-4b5a-9a55-0c1f6a1c2d3e"
UNDERLINED = UID.replace("-", "_")


@pytest.mark.parametrize(
    "group",
    [
        f"kubepods/pod{UID}/c1",
        f"kubepods/burstable/pod{UID}/c1",
        f"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDERLINED}.slice/cri-c1.scope",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERLINED}.slice/c1.scope",
        f"pids/kubepods/burstable/pod{UID}/c1",
        f"memory/kubepods.slice/kubepods-pod{UNDERLINED}.slice/docker-c1.scope",
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_processes_are_seen_in_the_control_groups(tmp_path: Path, group: str, version: int) -> None:
    groups = ControlGroups(tmp_path)
    container = tmp_path / group
    container.mkdir(parents=True)

    def put(populated: bool) -> None:
        if version == 2:
            text = f"populated {int(populated)}\nfrozen 0\n"
            (container.parent / "cgroup.events").write_text(text)
        else:
            (container.parent / "cgroup.procs").write_text("")
            # Processes of other containers have no number here.
            (container / "cgroup.procs").write_text("0\n" if populated else "")

    put(True)
    assert groups.running({UID, "another"}) == frozenset({UID})
    assert groups.running({"another"}) == frozenset()
    put(False)
    assert groups.running({UID}) == frozenset()
    for path in sorted(container.parent.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    container.parent.rmdir()
    assert groups.running({UID}) == frozenset()


def test_control_groups_of_a_container_alone_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "init.scope").mkdir()
    assert ControlGroups(tmp_path).running({UID}) is None
    assert ControlGroups(tmp_path / "nothing").running({UID}) is None


# -- the plugin


def processes(node: Rig, uid: str, *, there: bool) -> None:
    group = node.folder / "groups" / "kubepods" / f"pod{uid}"
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text("0\n" if there else "")


@pytest.mark.parametrize("heard", [True, False], ids=["report", "call"])
async def test_a_pod_that_is_deleted_by_force_keeps_its_chips_until_its_container_has_ended(
    heard: bool,
) -> None:
    """Kubelet's next call may come before the plugin has made a report."""
    async with rig(report_interval=0.01 if heard else 3600.0) as node:
        notes = {CHIP: FOUR, "predicate-time": "1"}
        meta = {"namespace": "default", "name": "old", "uid": UID, "annotations": notes}
        node.bind("old", FOUR, metadata=meta)
        assert await node.admit("old") == (4,)
        await node.plugin.report()
        if heard:
            await node.until(lambda: "default/old" in node.report()["RingwiseKubeletDevices"])
        processes(node, UID, there=True)
        node.api.put(PODS, {**node.api.get(PODS, "default/old"), "status": {"phase": "Running"}})
        node.api.remove(PODS, "default/old")
        node.kubelet.remove("default/old")
        if heard:
            await node.until(lambda: "default/old" not in node.report()["RingwiseKubeletDevices"])
            assert json.loads(node.report()["RingwiseMountedChips"]) == {UID: FOUR}
            assert FOUR not in node.device_list()[CHIP].split(",")
        node.bind("new", FOUR)
        with pytest.raises(AdmissionError, match="Ascend910-4 of pod default/new is held by pod default/old"):
            await node.admit("new", ids=[FOUR])
        assert node.plugin.allocator.chips_of_pods() == {UID: (FOUR,)}
        processes(node, UID, there=False)
        assert await node.admit("new", ids=[FOUR]) == (4,)
