"""Who is tried again when a driver has room for more, and what a write of the driver costs everybody else."""

from __future__ import annotations

from typing import Any

import pytest

from ringwise.messages import events as ev
from ringwise.state.model import Requirement
from ringwise.state.volumes import CsiDriver, StorageCapacity
from tests.builders.values import GIB
from tests.scheduler.volume_rig import VolumeRig

ALLOCATE = ("enqueue", "allocate", "backfill")


class StorageRig(VolumeRig):
    """The driver of `fast` says how much it has room for on each node. `tried`: the jobs of the last step."""

    def __init__(self, nodes: int = 2, sizes: int = 1, **more: Any) -> None:
        super().__init__(**more)
        self.tried: list[str] = []
        self.machine.observe(lambda session, job: self.tried.append(job.name))
        self.tell(CsiDriver("disk.example.com", publishes_capacity=True))
        for number in range(1, nodes + 1):
            self.node(f"n{number}", labels={"host": f"n{number}"})
            self.room(f"n{number}", sizes)

    def room(self, node: str, size: int, storage_class: str = "fast") -> None:
        nodes = (Requirement("host", "In", (node,)),)
        one = StorageCapacity("kube-system", f"{storage_class}-{node}", storage_class, nodes, size * GIB)
        self.tell(one)

    def wants(self, name: str, size: int, *, chips: int = 8, **more: Any) -> None:
        self.claim(name, requested=size * GIB)
        self.submit(name, chips=chips, claims=(name,), **more)

    def wakes(self) -> list[str]:
        self.run()
        self.tried.clear()
        self.step()
        return self.tried


def test_a_job_starts_where_the_driver_has_room_and_waits_for_room_elsewhere() -> None:
    rig = StorageRig()
    rig.room("n2", 4)
    rig.wants("first", 4)
    rig.wants("second", 2)
    rig.wants("third", 9)
    rig.run()
    assert rig.selected() == {"first": "n2"}
    assert (rig.reason("second"), rig.reason("third")) == ("no-node-fits", "insufficient-storage")
    rig.room("n1", 3)
    rig.run()
    assert rig.selected() == {"first": "n2", "second": "n1"}


@pytest.mark.parametrize(
    ("before", "after", "storage_class", "tried"),
    [
        (1, 2, "fast", ["small"]),
        (1, 8, "fast", ["small", "large"]),
        (1, 5, "fast", ["small"]),
        (1, 1, "fast", []),
        (1, 8, "other", []),
    ],
)
def test_only_who_can_use_the_difference_is_tried(
    before: int, after: int, storage_class: str, tried: list[str]
) -> None:
    rig = StorageRig(1, before)
    for name, size in (("small", 2), ("large", 6), ("huge", 99)):
        rig.wants(name, size)
    rig.submit("plain", pods=2, chips=8)
    rig.run()
    rig.tried.clear()
    rig.room("n1", after, storage_class)
    rig.step()
    assert rig.tried == tried


@pytest.mark.parametrize("evicting", [False, True])
def test_room_on_a_full_node_helps_only_who_may_evict_until_chips_come_free_there(evicting: bool) -> None:
    rig = StorageRig(1, actions=(*ALLOCATE, "preempt") if evicting else ALLOCATE)
    rig.node("n2", chips=0, labels={"host": "n2"})
    rig.room("n2", 99)
    rig.submit("old", chips=8)
    rig.run()
    rig.wants("new", 5)
    rig.run()
    rig.tried.clear()
    rig.room("n1", 5)
    rig.step()
    assert rig.tried == (["new"] if evicting else [])
    rig.end("old")
    rig.run()
    assert rig.selected() == {"new": "n1"}


def test_room_on_a_node_helps_the_job_whose_chips_are_reserved_there() -> None:
    """Only that job may use them. It restarts as a whole after a fault of n2."""
    rig = StorageRig(3, 5, actions=ALLOCATE)

    def claim() -> None:
        for number in range(2):
            rig.claim(f"data-{number}", requested=5 * GIB, uid=f"{number} at {rig.now}")

    claim()
    rig.submit("train", pods=2, chips=8, labels={"fault-scheduling": "force"}, claims=("data-{}",))
    rig.run()
    for number in range(2):
        rig.provision(f"data-{number}")
    rig.run()
    assert rig.nodes_of("train") == ["n1", "n2"]
    rig.room("n1", 1)
    rig.sick("n2", 0b100)
    rig.step(1)
    # Their claims go with the pods, as those of ephemeral volumes do.
    rig.tell(*(ev.ClaimGone(f"default/data-{number}") for number in range(2)))
    rig.finish()
    claim()
    rig.run()
    assert rig.reason("train") == "gang-incomplete"
    (reservation,) = rig.machine.view.reservations
    assert reservation.owner == "default/train"
    rig.room("n1", 5)
    rig.run()
    assert rig.selected() == {"data-0": "n1", "data-1": "n3"}


def test_a_node_with_room_that_comes_later_is_used() -> None:
    rig = StorageRig(1)
    rig.room("n9", 9)
    rig.wants("new", 5)
    rig.run()
    assert rig.reason("new") == "insufficient-storage"
    rig.node("n9", labels={"host": "n9"})
    rig.run()
    assert rig.selected() == {"new": "n9"}


@pytest.mark.parametrize("event", ["silent", "driver gone", "none published"])
def test_a_driver_that_says_nothing_any_more_keeps_nobody_waiting(event: str) -> None:
    rig = StorageRig(1)
    rig.wants("new", 5)
    rig.run()
    assert rig.reason("new") == "insufficient-storage"
    match event:
        case "silent":
            rig.tell(CsiDriver("disk.example.com"))
        case "driver gone":
            rig.tell(ev.CsiDriverGone("disk.example.com"))
        case "none published":
            rig.tell(ev.StorageCapacityGone("kube-system", "fast-n1"))
    rig.run()
    assert rig.selected() == {"new": "n1"}


def test_a_write_that_changes_nothing_and_one_for_a_job_that_is_gone_wake_nobody() -> None:
    rig = StorageRig(1)
    rig.wants("new", 5)
    rig.wants("gone", 5)
    rig.run()
    rig.room("n1", 1)
    assert rig.wakes() == []
    rig.gone("gone-0")
    rig.run()
    rig.room("n1", 7)
    rig.run()
    assert rig.selected() == {"new": "n1"}
    rig.provision("new")
    rig.run()
    rig.room("n1", 1)
    rig.room("n1", 7)
    assert rig.wakes() == []
