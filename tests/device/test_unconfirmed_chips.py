"""Pods of whose mount there is no record (rule N8): nobody gets a chip that one of them may have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ringwise.apps.extensions import new_scheduler
from ringwise.device.allocation import CONSUMED, AllocationError
from ringwise.device.allocator import Allocator
from ringwise.device.host_containers import ContainerSpecs
from ringwise.device.ledger import Ledger
from ringwise.device.pods import NodePod
from ringwise.manifests.objects.chips import chip_of
from ringwise.messages import events as ev
from ringwise.messages.commands import Bind
from ringwise.state.model import Pod
from ringwise.topology.chips import mask_of
from tests.builders import values
from tests.builders.values import CHIP, SECOND, report, seen
from tests.device.cases import chips
from tests.device.test_allocation import REAL, healthy, waiting_pod
from tests.examples import examples
from tests.scheduler.rig import configuration

ALL = chips(8)


def running(name: str, bound: str, real: str = "", time: str = CONSUMED, **more: Any) -> NodePod:
    """A pod that another plugin served, with what its annotations say now."""
    pod = waiting_pod(name, bound, time, phase="Running", **more)
    return pod.annotated({REAL: real}) if real else pod


def migrated(*pods: NodePod, **ids: list[str]) -> Allocator:
    machine = Allocator(CHIP, ALL, Ledger())
    machine.replace_pods(pods, 0)
    machine.listed({f"default/{name}": [listed] for name, listed in ids.items()}, 0)
    return machine


def names(*numbers: int) -> tuple[str, ...]:
    return tuple(f"Ascend910-{number}" for number in numbers)


@pytest.mark.parametrize(
    ("pod", "ids", "doubtful"),
    [
        (running("p", "Ascend910-0", "Ascend910-0"), ["Ascend910-0"], names(0)),
        # Its owner edited one list, or both agree and kubelet's ids are others.
        (running("p", "Ascend910-0", "Ascend910-3"), ["Ascend910-0"], names(0, 3)),
        (running("p", "Ascend910-0", "Ascend910-0"), ["Ascend910-5"], names(0, 5)),
        (running("p", "Ascend910-0"), ["Ascend910-5"], names(0, 5)),
        # Huawei's plugin does not mark a pod that takes a whole node.
        (running("p", "Ascend910-0", time="7"), ["Ascend910-5"], names(0, 5)),
        # Each list counts up to the limit; what cannot be read and what is not here count for nothing.
        (
            running(
                "p", "Ascend910-0,Ascend910-1", "Ascend910-4,Ascend910-5,Ascend910-6", limits=[{CHIP: 2}]
            ),
            ["Ascend910-0", "Ascend910-1"],
            names(0, 1, 4, 5),
        ),
        (running("p", "Ascend910-0"), ["Ascend910-0", "Ascend910-5"], names(0)),
        (running("p", "Ascend910-0", "Ascend910-x"), ["Ascend910-9"], names(0)),
        # Kubelet does not list it: it starts, or has lost its records.
        (running("p", "Ascend910-0", "Ascend910-3"), None, names(0, 3)),
    ],
)
def test_n8_what_a_pod_without_a_record_may_have(
    pod: NodePod, ids: list[str] | None, doubtful: tuple[str, ...]
) -> None:
    machine = migrated(pod, **({} if ids is None else {"p": ids}))
    assert machine.doubtful_chips() == {pod.uid: doubtful}
    assert machine.chips_of_pods() == {}
    assert machine.corrections() == []
    # At Allocate they count as used, and it is not a candidate itself where kubelet lists it.
    assert machine.used() >= set(doubtful)
    for chip in doubtful:
        machine.put_pod(waiting_pod("thief", chip, "1"))
        with pytest.raises(AllocationError, match=f"{chip} of pod default/thief is held by pod default/p"):
            machine.allocate(["Ascend910-7"], 0, healthy)
    machine.put_pod(waiting_pod("thief", "Ascend910-7", "1"))
    assert machine.allocate(["Ascend910-7"], 0, healthy).chips == ("Ascend910-7",)


def test_n8_a_pod_that_asks_for_no_chips_and_one_that_ended_hold_none() -> None:
    none = running("none", "Ascend910-0", "Ascend910-1", limits=[{}])
    over = replace(running("over", "Ascend910-2"), phase="Succeeded")
    machine = migrated(none, over, over=["Ascend910-2"])
    assert machine.doubtful_chips() == {}
    assert machine.used() == set()


def test_n8_a_later_edit_neither_frees_nor_takes_chips() -> None:
    pod = running("p", "Ascend910-0")
    machine = migrated(pod, p=["Ascend910-5"])
    assert machine.doubtful_chips() == {pod.uid: names(0, 5)}
    # Huawei's plugin writes what it mounted a moment later.
    machine.put_pod(pod.annotated({REAL: "Ascend910-1"}))
    assert machine.doubtful_chips() == {pod.uid: names(0, 1, 5)}
    for number in (2, 3, 4):
        machine.put_pod(pod.annotated({CHIP: f"Ascend910-{number}", REAL: f"Ascend910-{number}"}))
        assert machine.doubtful_chips() == {pod.uid: names(0, 1, 5)}
    # Nor does it after a restart.
    again = Allocator(CHIP, ALL, Ledger())
    again.doubts.restore(machine.doubtful_chips())
    again.replace_pods([pod.annotated({CHIP: "Ascend910-4"})], 0)
    assert again.doubtful_chips() == {pod.uid: names(0, 1, 4, 5)}
    again.drop_pod(pod.uid, 0, replace(pod, phase="Failed"))
    assert again.used() == set()


def test_n8_lists_of_huawei_s_scheduler_on_a5_name_logic_ids() -> None:
    machine = migrated(running("p", "Ascend910-0", "Ascend910-2"))
    machine.doubts.other_names = {"Ascend910-0": "Ascend910-2", "Ascend910-2": "Ascend910-0"}
    assert machine.used() == set(names(0, 2))


def test_n8_a_pod_that_waits_is_not_reported_under_the_name_of_one_that_is_gone() -> None:
    """Kubelet still lists a pod from before the plugin; its successor has its name and waits."""
    waits = waiting_pod("same", "Ascend910-1", "5")
    machine = migrated(waits, same=["Ascend910-5"])
    assert machine.doubtful_chips() == {}
    # Kubelet asks for it, so it has cleaned up.
    machine.listed({}, 0, during_call=True)
    assert machine.allocate(["Ascend910-7"], 0, healthy).pod == waits


@pytest.mark.parametrize(("ids", "doubtful"), [({"p": ["Ascend910-5"]}, names(0, 5)), ({}, None)])
def test_n8_a_mount_whose_pod_is_not_known_yet_may_be_that_of_a_pod_that_is_not_listed(
    ids: dict[str, list[str]], doubtful: tuple[str, ...] | None
) -> None:
    pod = running("p", "Ascend910-0")
    machine = migrated(pod, waiting_pod("next", "Ascend910-2", "6"), **ids)
    machine.allocate(["Ascend910-7"], 0, healthy)
    assert machine.doubtful_chips().get(pod.uid) == doubtful


def test_n8_kubelet_starts_and_lists_nothing_for_a_while() -> None:
    unmarked = waiting_pod("p", "Ascend910-0", "5")
    machine = migrated(unmarked, p=["Ascend910-5"])
    machine.listed({}, SECOND)
    machine.put_pod(waiting_pod("next", "Ascend910-2", "6"))
    assert machine.allocate(["Ascend910-7"], 0, healthy).chips == ("Ascend910-2",)


def test_n8_kubelet_s_ids_are_chips_where_pods_are_not_matched() -> None:
    pod = running("p", "Ascend910-0")
    machine = Allocator(CHIP, ALL, Ledger(), match_pods=False)
    machine.replace_pods([pod], 0)
    machine.listed({"default/p": [["Ascend910-5"]]}, 0)
    assert machine.chips_of_pods() == {pod.uid: names(5)}
    assert machine.doubtful_chips() == {}


def test_n8_chips_of_device_nodes_that_were_seen_are_a_record() -> None:
    pod = running("p", "Ascend910-0,Ascend910-1", "Ascend910-6,Ascend910-7")
    machine = migrated(pod)
    listing = {"default/p": [["Ascend910-4", "Ascend910-2"]]}
    # Not as many as kubelet gave it: a container with all device nodes of the host.
    machine.listed(listing, 0, in_containers={pod.uid: names(0, 1, 2)})
    assert machine.chips_of_pods() == {}
    machine.listed(listing, 0, in_containers={pod.uid: names(0, 1)})
    assert machine.chips_of_pods() == {pod.uid: names(0, 1)}
    assert machine.doubtful_chips() == {}
    assert [dict(one.annotations) for one in machine.corrections()] == [
        {REAL: "Ascend910-0,Ascend910-1", "huawei.com/kltDev": "Ascend910-2,Ascend910-4"}
    ]
    assert machine.used() == set(names(0, 1))


# -- what containers have


UID = "5f0c5c1e-7f2b-4b7e-9d6a-0123456789ab"


def write_spec(folder: Path, path: str, cgroup: str, *nodes: tuple[str, str]) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    devices = [{"path": node, "type": kind, "major": 236, "minor": 0} for node, kind in nodes]
    spec = {"ociVersion": "1.1.0", "linux": {"cgroupsPath": cgroup, "devices": devices}}
    file.write_bytes(msgspec.json.encode(spec))


@pytest.mark.parametrize(
    ("path", "cgroup"),
    [
        ("c1/config.json", f"/kubepods/burstable/pod{UID}/c1"),
        (
            "c1/userdata/config.json",
            f"kubelet-kubepods-pod{UID.replace('-', '_')}.slice:cri-containerd:c1",
        ),
    ],
)
def test_n8_device_nodes_of_a_container_are_read_from_its_specification(
    tmp_path: Path, path: str, cgroup: str
) -> None:
    specs = ContainerSpecs(tmp_path)
    specs.nodes = {f"/dev/davinci{number}": name for number, name in enumerate(ALL)}
    write_spec(tmp_path, "pause/config.json", cgroup)
    write_spec(
        tmp_path,
        path,
        cgroup,
        ("/dev/davinci_manager", "c"),
        ("/dev/davinci3", "c"),
        ("/dev/davinci1", "c"),
        # A volume in block mode: its path is the tenant's choice.
        ("/dev/davinci5", "b"),
    )
    write_spec(tmp_path, "other/config.json", "/kubepods/pod" + UID.replace("5", "6"), ("/dev/davinci7", "c"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    assert specs.chips_of([UID]) == {UID: names(1, 3)}
    write_spec(tmp_path, "c2/config.json", cgroup, ("/dev/davinci4", "c"))
    assert specs.chips_of([UID, "absent"]) == {UID: names(1, 3, 4)}
    # Not read: too large.
    with (tmp_path / "c2" / "config.json").open("ab") as file:
        file.write(b" " * (4 << 20))
    assert specs.chips_of([UID]) == {UID: names(1, 3)}
    (tmp_path / "c2" / "config.json").unlink()
    assert specs.chips_of([UID]) == {UID: names(1, 3)}


def test_n8_a_folder_that_is_not_there_is_told_once(tmp_path: Path, log: Any) -> None:
    specs = ContainerSpecs(tmp_path / "absent")
    assert specs.chips_of([UID]) == specs.chips_of([UID]) == {}
    assert log.getvalue().count("chips of containers are not detected") == 1


# -- plugin and scheduler together


class Migration(RuleBasedStateMachine):
    """A node with pods from before our plugin, whose owners edit annotations; new pods come beside them.

    What their containers really have is known to nobody here. When the plugin comes, one of the lists is
    still right.
    """

    owned = "open"

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        self.now, self.number = 1000 * SECOND, 0
        order = data.draw(st.permutations(ALL))
        #: Pod uid to what its container has.
        self.truth = {f"uid-old-{at}": tuple(order[2 * at : 2 * at + 2]) for at in range(2)}
        self.pods: dict[str, NodePod] = {}
        self.ids: dict[str, list[str]] = {}
        ids = data.draw(st.permutations(ALL))
        for at, (uid, real) in enumerate(self.truth.items()):
            lists = [",".join(real), ",".join(data.draw(st.permutations(ALL))[:2])]
            bound, mounted = lists if data.draw(st.booleans()) else lists[::-1]
            self.pods[uid] = running(f"old-{at}", bound, mounted)
            self.ids[f"default/old-{at}"] = list(ids[2 * at : 2 * at + 2])
        self.report_now = report("n1", network_unhealthy=None)
        self.scheduler = self._started()
        self.allocator = Allocator(CHIP, ALL, Ledger())
        self.restart_plugin()

    def _started(self) -> Any:
        made = new_scheduler(configuration(owned_annotations=self.owned))
        made.handle(seen(values.node(), *map(self._seen, self.pods.values())), self.now)
        made.handle(seen(self.report_now), self.now)
        return made

    def _seen(self, pod: NodePod) -> Pod:
        def listed(key: str) -> tuple[int, ...]:
            found = pod.annotations.get(key, "").split(",")[:2]
            return tuple(chip for one in found if one and (chip := chip_of(one, CHIP)) is not None)

        holds, mounted = listed(CHIP), listed(REAL)
        return values.pod(pod.name, 2, uid=pod.uid, on="n1", phase=pod.phase, holds=holds, mounted=mounted)

    def _tell(self, *known: object) -> list[Bind]:
        self.now += SECOND
        return [one for one in self.scheduler.handle(seen(*known), self.now) if isinstance(one, Bind)]

    def _listing(self) -> dict[str, list[list[str]]]:
        return {self.pods[uid].key: [self.ids[self.pods[uid].key]] for uid in self.truth}

    @rule()
    def report(self) -> None:
        self.allocator.listed(self._listing(), self.now)
        for correction in self.allocator.corrections():
            pod = self.pods[correction.pod.uid] = self.pods[correction.pod.uid].annotated(
                correction.annotations
            )
            self.allocator.put_pod(pod)
        self.report_now = report(
            "n1",
            network_unhealthy=None,
            mounted=_masks(self.allocator.chips_of_pods()),
            doubtful=_masks(self.allocator.doubtful_chips()),
        )
        self._tell(self.report_now)

    @rule()
    def restart_plugin(self) -> None:
        """It keeps what it mounted itself, and has its last report."""
        again = Allocator(CHIP, ALL, self.allocator.ledger)
        doubtful = self.report_now.doubtful
        again.doubts.restore({uid: _names(mask) for uid, mask in doubtful.items()})
        again.replace_pods(self.pods.values(), self.now)
        self.allocator = again
        self.report()

    @rule()
    def restart_scheduler(self) -> None:
        self.scheduler = self._started()

    @precondition(lambda self: self.truth)
    @rule(data=st.data(), key=st.sampled_from([CHIP, REAL, "predicate-time"]))
    def edit(self, data: st.DataObject, key: str) -> None:
        """The owner of a pod writes what it likes."""
        uid = data.draw(st.sampled_from(sorted(self.truth)))
        lie = data.draw(
            st.sampled_from(["", "1", "x", CONSUMED, *(",".join(names(a, a + 1)) for a in range(7))])
        )
        pod = self.pods[uid] = self.pods[uid].annotated({key: lie or None})
        self.allocator.put_pod(pod)
        self._tell(self._seen(pod))

    @rule()
    def place(self) -> None:
        """A new pod; kubelet asks for it with ids that are free for it."""
        self.number += 1
        name = f"new-{self.number}"
        uid = f"uid-{name}"
        binds = self._tell(values.pod(name, 2, uid=uid, created=self.number))
        if not binds:
            self._tell(ev.PodGone(uid))
            return
        (bind,) = binds
        wanted = tuple(f"Ascend910-{chip}" for chip in bind.chips)
        given = {chip for mounted in self.truth.values() for chip in mounted}
        assert given.isdisjoint(wanted), (self.truth, wanted)
        taken = {one for key, ids in self.ids.items() for one in ids}
        pod = waiting_pod(name, ",".join(wanted), str(self.number))
        self.pods[uid] = pod
        self.allocator.put_pod(pod)
        ids = [one for one in ALL if one not in taken][:2]
        allocation = self.allocator.allocate(ids, self.now, healthy)
        assert allocation.pod is not None
        assert allocation.pod.uid == uid
        self.allocator.commit(allocation)
        self.pods[uid] = replace(self.allocator.pods[uid], phase="Running")
        self.allocator.put_pod(self.pods[uid])
        self.ids[pod.key] = ids
        self.truth[uid] = allocation.chips
        self._tell(self._seen(self.pods[uid]))
        # Within a second; until then the scheduler has the annotations alone.
        self.report()

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.truth)))
        del self.truth[uid]
        pod = self.pods.pop(uid)
        del self.ids[pod.key]
        self.allocator.drop_pod(uid, self.now, replace(pod, phase="Succeeded"))
        # Kubelet has taken its ids back, and what it never listed is forgotten.
        self.now += 20 * SECOND
        self.allocator.listed(self._listing(), self.now, during_call=True)
        self._tell(ev.PodGone(uid))
        if not self.truth:
            # Nothing is withheld when all pods have ended.
            self.report()
            assert self.allocator.used() == set()
            assert self.scheduler.view.cluster.fleets[CHIP].free_mask[0] == 0xFF

    @invariant()
    def chips_of_containers_are_taken(self) -> None:
        assert {chip for mounted in self.truth.values() for chip in mounted} <= self.allocator.used()
        taken = self.scheduler.view.cluster.fleets[CHIP].taken(0)
        assert mask_of(int(one[10:]) for mounted in self.truth.values() for one in mounted) & ~taken == 0
        assert self.scheduler.view.inconsistencies() == []


def _masks(chips_of_pods: dict[str, tuple[str, ...]]) -> dict[str, int]:
    return {uid: mask_of(int(one[10:]) for one in found) for uid, found in chips_of_pods.items()}


def _names(mask: int) -> list[str]:
    return [name for number, name in enumerate(ALL) if mask >> number & 1]


class GuardedMigration(Migration):
    owned = "guarded"


TestMigration = Migration.TestCase
TestGuardedMigration = GuardedMigration.TestCase
TestMigration.settings = TestGuardedMigration.settings = settings(
    max_examples=examples(40), stateful_step_count=12, deadline=None
)
