"""PodGroups for pods whose owner creates none."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.controller.pod_groups import LONE_POD_WAIT, PodGroupController
from ringwise.durations import SECOND
from ringwise.messages import events as ev
from ringwise.messages.commands import AnnotatePod, Command, CreateGroup, DeleteGroup
from ringwise.messages.containment import Containment
from ringwise.messages.ordinary_groups import group_for, is_as_wanted
from ringwise.state.model import NetworkTopology, Owner, Pod, PodGroup
from ringwise.state.workload import PodOwner
from ringwise.wellknown import GROUP_NAME, SCHEDULING_QUEUE_NAME
from tests.builders.values import CHIP, group, pod, pod_class
from tests.examples import examples

SET = Owner("ReplicaSet", "chat-1", "rs", "apps/v1")
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"


def pod_of(uid: str = "p0", owner: Owner | None = SET, **more: Any) -> Pod:
    cls = pod_class(2, cpu_milli=500)
    return pod(f"pod-{uid}", uid=uid, cls=cls, owner=owner, **more)


def owner_of(kind: str = "ReplicaSet", replicas: int = 2) -> PodOwner:
    return PodOwner(kind, "default", "chat-1", "rs", replicas)


def owner_with(kind: str, annotations: dict[str, str]) -> PodOwner:
    return PodOwner(kind, "default", "chat-1", "rs", 2, annotations)


class Lab:
    """The objects of a cluster that carries out every command at once."""

    def __init__(self, controller: PodGroupController | None = None) -> None:
        self.controller = controller or PodGroupController()
        self.pods: dict[str, Pod] = {}
        self.groups: dict[str, PodGroup] = {}
        self.owners: dict[str, PodOwner] = {}
        self.waiting: list[ev.Event] = []
        self.now = 0

    def put(self, value: Pod | PodGroup | PodOwner) -> None:
        match value:
            case Pod():
                self.pods[value.uid] = value
                self.waiting.append(ev.PodSeen(value))
            case PodGroup():
                self.groups[value.key] = value
                self.waiting.append(ev.PodGroupSeen(value))
            case PodOwner():
                self.owners[value.uid] = value
                self.waiting.append(ev.PodOwnerSeen(value))

    def drop_pod(self, uid: str) -> None:
        if self.pods.pop(uid, None) is not None:
            self.waiting.append(ev.PodGone(uid))

    def drop_group(self, key: str) -> None:
        if self.groups.pop(key, None) is not None:
            self.waiting.append(ev.PodGroupGone(key))

    def restart(self) -> None:
        self.controller = PodGroupController()
        self.waiting = [
            *(ev.PodOwnerSeen(owner) for owner in self.owners.values()),
            *(ev.PodGroupSeen(group) for group in self.groups.values()),
            *(ev.PodSeen(pod) for pod in self.pods.values()),
        ]

    def turn(self) -> list[Command]:
        events, self.waiting = self.waiting, []
        for event in events:
            self.controller.apply(event)
        return self.controller.sync(self.now, Containment())

    def execute(self, command: Command) -> None:
        match command:
            case CreateGroup(group):
                self.put(group)
            case DeleteGroup(key):
                self.drop_group(key)
            case AnnotatePod(uid=uid, annotations=annotations):
                if uid in self.pods:
                    name = annotations[GROUP_NAME]
                    self.put(replace(self.pods[uid], annotations=dict(annotations), group=name))

    def settle(self, lost: Random | None = None) -> None:
        """Until nothing is left to do. With `lost` some commands fail, and are repeated in time."""
        for _ in range(200):
            for command in self.turn():
                if lost is None or lost.random() < 0.7:
                    self.execute(command)
            if not self.waiting:
                due = self.controller.next_deadline()
                if due is None:
                    return
                self.now = max(self.now, due)
        raise AssertionError("it does not settle")


def test_pods_of_one_owner_share_a_group_and_are_told_once_it_exists() -> None:
    lab = Lab()
    lab.put(owner_of())
    lab.put(pod_of("p0"))
    lab.put(pod_of("p1"))
    (create,) = lab.turn()
    assert isinstance(create, CreateGroup)
    assert (create.group.key, create.group.owner) == ("default/podgroup-rs", SET)
    assert lab.turn() == []
    lab.execute(create)
    told = lab.turn()
    assert [one.uid for one in told if isinstance(one, AnnotatePod)] == ["p0", "p1"]
    assert all(
        isinstance(one, AnnotatePod) and one.annotations == {GROUP_NAME: "podgroup-rs"} for one in told
    )


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (pod_of(scheduler="default-scheduler"), "another scheduler's"),
        (pod_of(group="mine"), "it names a group"),
        (pod_of(phase="Succeeded"), "it has ended"),
        (pod_of(deleting=True), "it is being deleted"),
    ],
)
def test_pods_that_are_left_alone(pod: Pod, why: str) -> None:
    lab = Lab()
    lab.put(owner_of())
    lab.put(pod)
    assert lab.turn() == [], why


@pytest.mark.parametrize(
    "owner",
    [None, Owner("Widget", "w", "w-uid", "example.com/v1", loose=True)],
    ids=["none", "no controller"],
)
def test_a_pod_without_a_controller_owns_its_group(owner: Owner | None) -> None:
    made = group_for(pod_of("p0", owner), None)
    assert (made.name, made.owner) == ("podgroup-p0", Owner("Pod", "pod-p0", "p0", "v1"))


def test_a_pod_without_an_owner_gets_a_group_only_after_it_has_waited() -> None:
    """Bindings come first, and a PodGroup says of such a pod only what it says itself."""
    lab = Lab()
    lab.put(pod_of("quick", None))
    lab.put(pod_of("slow", None))
    assert lab.turn() == []
    lab.put(replace(lab.pods["quick"], node="node-1"))
    lab.now = LONE_POD_WAIT - 1
    assert lab.turn() == []
    lab.now = LONE_POD_WAIT
    (create,) = lab.turn()
    assert isinstance(create, CreateGroup)
    assert create.group.name == "podgroup-slow"
    lab.execute(create)
    (told,) = lab.turn()
    assert isinstance(told, AnnotatePod)
    assert (told.uid, told.annotations) == ("slow", {GROUP_NAME: "podgroup-slow"})


def test_a_pod_without_an_owner_that_asks_for_a_topology_gets_its_group_at_once() -> None:
    """Only the PodGroup can say it, so the pod waits for that."""
    lab = Lab()
    lab.put(pod_of("near", None, annotations={"volcano.sh/network-topology-highest-tier": "1"}))
    (create,) = lab.turn()
    assert isinstance(create, CreateGroup)
    assert create.group.topology == NetworkTopology(highest_tier=1)


@pytest.mark.parametrize(
    ("annotations", "queue", "of_a_set"),
    [
        ({}, "default", "default"),
        ({"volcano.sh/queue-name": "blue"}, "blue", "default"),
        ({"volcano.sh/queue-name": "blue", SCHEDULING_QUEUE_NAME: "red"}, "red", "red"),
        ({"volcano.sh/queue-name": "blue", SCHEDULING_QUEUE_NAME: ""}, "blue", "default"),
        ({SCHEDULING_QUEUE_NAME: ""}, "default", "default"),
    ],
)
def test_a_pod_without_an_owner_stays_in_its_queue_when_it_gets_a_group(
    annotations: dict[str, str], queue: str, of_a_set: str
) -> None:
    queues: list[str | None] = []
    lab = Lab()
    lab.controller.on_lone_pod = lambda uid, queue: queues.append(queue)
    lab.put(pod_of("p0", None, annotations=annotations))
    lab.settle()
    assert [one for one in queues if one is not None] == [queue]
    assert lab.groups["default/podgroup-p0"].queue == queue
    assert group_for(pod_of(annotations=annotations), owner_of()).queue == of_a_set


def test_a_pod_that_lost_its_owner_counts_for_its_queue() -> None:
    """Its owner was deleted without its pods, before the pod had a PodGroup."""
    queues: dict[str, str | None] = {}
    lab = Lab()
    lab.controller.on_lone_pod = queues.__setitem__
    lab.put(pod_of("p0", on="node-1"))
    lab.turn()
    lab.put(pod_of("p0", None, on="node-1"))
    lab.turn()
    assert queues == {"p0": "default"}
    lab.put(pod_of("p0", on="node-1"))
    lab.turn()
    assert queues == {"p0": None}


def test_the_next_leader_finishes_the_group_of_a_pod_without_an_owner() -> None:
    """Bound meanwhile or not; a group that the pod names is there again at once."""
    lab = Lab()
    lab.put(group_for(pod_of("p0", None), None))
    lab.put(pod_of("p0", None, on="node-1", phase="Pending"))
    lab.put(pod_of("p1", None, group="podgroup-p1"))
    lab.put(pod_of("p2", None, on="node-1", phase="Pending"))
    lab.restart()
    told, made = lab.turn()
    assert isinstance(told, AnnotatePod)
    assert told.uid == "p0"
    assert isinstance(made, CreateGroup)
    assert made.group.name == "podgroup-p1"


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "members"),
    [
        ({}, {}, 1),
        ({MIN_MEMBER: "3"}, {}, 3),
        ({MIN_MEMBER: "0"}, {}, 0),
        ({MIN_MEMBER: "-1"}, {}, 1),
        ({MIN_MEMBER: "many"}, {}, 1),
        ({}, {"huawei.com/schedule_minAvailable": "4"}, 4),
        ({MIN_MEMBER: "3"}, {"huawei.com/schedule_minAvailable": "4"}, 3),
        ({}, {"huawei.com/schedule_minAvailable": "x"}, 1),
    ],
)
def test_the_gang_and_its_resources(of_owner: dict[str, str], of_pod: dict[str, str], members: int) -> None:
    made = group_for(pod_of(annotations=of_pod), owner_with("StatefulSet", of_owner))
    assert made.min_member == members
    wanted = {CHIP: 2, f"requests.{CHIP}": 2, "cpu": 500, "requests.cpu": 500, "pods": 1, "count/pods": 1}
    assert made.min_resources == (
        {name: count * members for name, count in wanted.items()} if members else {}
    )


def test_what_a_group_inherits() -> None:
    pod = pod_of(
        labels={"volcano.sh/preemptable": "true", "app": "chat"},
        annotations={
            "scheduling.volcano.sh/queue-name": "research",
            "volcano.sh/preemptable": "false",
            "volcano.sh/jdb-min-available": "1",
            "volcano.sh/jdb-max-unavailable": "2",
            "volcano.sh/other": "of the pod",
        },
        priority_class="high",
    )
    owner = owner_with("Job", {"volcano.sh/preemptable": "true", "volcano.sh/x": "y", MIN_MEMBER: "2"})
    made = group_for(pod, owner)
    assert (made.queue, made.priority_class) == ("research", "high")
    assert made.labels == {"volcano.sh/preemptable": "true"}
    assert made.annotations == {
        "volcano.sh/preemptable": "false",
        "volcano.sh/x": "y",
        "volcano.sh/jdb-min-available": "1",
        "ringwise.io/replicas": "2",
    }


def test_what_a_replica_set_says_to_huaweis_scheduler_is_inherited_and_followed() -> None:
    said = {"sp-block": "32", "huawei.com/schedule_policy": "chip2-node16-sp"}
    made = group_for(pod_of(annotations={"sp-block": "16"}), owner_with("ReplicaSet", said))
    assert made.annotations == {"huawei.com/schedule_policy": "chip2-node16-sp", "ringwise.io/replicas": "2"}
    assert not is_as_wanted(made, group_for(pod_of(), owner_with("ReplicaSet", {})))
    assert is_as_wanted(made, made)


def test_a_pod_waits_for_its_owner_to_be_seen_for_a_while() -> None:
    lab = Lab()
    lab.put(pod_of())
    assert lab.turn() == []
    assert lab.controller.next_deadline() == 10 * SECOND
    lab.put(owner_with("ReplicaSet", {MIN_MEMBER: "2"}))
    (create,) = lab.turn()
    assert isinstance(create, CreateGroup)
    assert create.group.min_member == 2
    late = Lab()
    late.put(pod_of())
    late.turn()
    late.now = 10 * SECOND
    assert [type(one) for one in late.turn()] == [CreateGroup]


@pytest.mark.parametrize(
    ("kind", "members"), [("ReplicaSet", 4), ("StatefulSet", 4), ("DaemonSet", 2), ("Job", 2)]
)
def test_which_groups_follow_their_owner(kind: str, members: int) -> None:
    lab = Lab()
    lab.put(owner_with(kind, {MIN_MEMBER: "2"}))
    lab.put(pod_of())
    lab.settle()
    lab.put(owner_with(kind, {MIN_MEMBER: "4"}))
    lab.settle()
    assert lab.groups["default/podgroup-rs"].min_member == members


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"created": 1}, {"created": 2}, "new"),
        # Not the order in which they are seen.
        ({"created": 3}, {"created": 2}, "old"),
        ({"created": 1}, {"created": 2, "phase": "Failed"}, "old"),
        ({"created": 1}, {"created": 2, "deleting": True}, "old"),
        ({"created": 1}, {"created": 1}, "new"),
    ],
)
def test_the_group_of_a_stateful_set_follows_its_latest_pod(
    old: dict[str, Any], new: dict[str, Any], expected: str
) -> None:
    """A rolling update changes the pods one after the other."""
    lab = Lab()
    lab.put(owner_of("StatefulSet"))
    for uid, more in (("p0-old", old), ("p1-new", new)):
        queue = uid.partition("-")[2]
        annotations = {"scheduling.volcano.sh/queue-name": queue}
        lab.put(pod_of(uid, annotations=annotations, priority_class=queue, **more))
        lab.settle()
    group = lab.groups["default/podgroup-rs"]
    assert (group.queue, group.priority_class) == (expected, expected)


def test_a_rolling_update_has_a_group_for_each_replica_set() -> None:
    lab = Lab()
    new_set = Owner("ReplicaSet", "chat-2", "rs2", "apps/v1")
    lab.put(owner_of(replicas=2))
    lab.put(pod_of("p0"))
    lab.put(pod_of("p1"))
    lab.settle()
    # The new ReplicaSet grows while the old one shrinks.
    lab.put(PodOwner("ReplicaSet", "default", "chat-2", "rs2", 1))
    lab.put(pod_of("q0", new_set))
    lab.put(owner_of(replicas=1))
    lab.drop_pod("p0")
    lab.settle()
    assert sorted(lab.groups) == ["default/podgroup-rs", "default/podgroup-rs2"]
    assert "ringwise.io/replicas" not in lab.groups["default/podgroup-rs"].annotations
    lab.put(PodOwner("ReplicaSet", "default", "chat-2", "rs2", 2))
    lab.put(pod_of("q1", new_set))
    lab.put(owner_of(replicas=0))
    lab.drop_pod("p1")
    lab.settle()
    assert list(lab.groups) == ["default/podgroup-rs2"]
    assert lab.groups["default/podgroup-rs2"].annotations == {"ringwise.io/replicas": "2"}
    assert {pod.uid: pod.group for pod in lab.pods.values()} == {"q0": "podgroup-rs2", "q1": "podgroup-rs2"}


def test_what_others_write_to_a_group_stays() -> None:
    """A webhook sets the queue of groups that name none; users annotate. Neither is undone for ever."""
    lab = Lab()
    lab.put(owner_of())
    lab.put(pod_of())
    lab.settle()
    group = lab.groups["default/podgroup-rs"]
    lab.put(replace(group, queue="research", annotations={**group.annotations, "mine": "kept"}))
    assert lab.turn() == []
    lab.put(owner_with("ReplicaSet", {MIN_MEMBER: "2"}))
    (update,) = lab.turn()
    assert isinstance(update, CreateGroup)
    assert (update.group.min_member, update.group.queue) == (2, "research")


def test_annotations_of_a_replication_controller_do_not_count() -> None:
    """As with Volcano. Its replicas do."""
    made = group_for(pod_of(), owner_with("ReplicationController", {MIN_MEMBER: "2", "volcano.sh/x": "y"}))
    assert (made.min_member, made.annotations) == (1, {"ringwise.io/replicas": "2"})


def test_at_0_replicas_the_group_is_deleted_once_its_pods_are_gone() -> None:
    lab = Lab()
    lab.put(owner_of())
    lab.put(pod_of())
    lab.settle()
    lab.put(owner_of(replicas=0))
    assert lab.turn() == []
    # It has its chips until its containers have ended.
    lab.put(replace(lab.pods["p0"], phase="Running", deleting=True))
    assert lab.turn() == []
    lab.drop_pod("p0")
    assert lab.turn() == [DeleteGroup("default/podgroup-rs")]
    # A controller that starts then does the same.
    lab.restart()
    assert lab.turn() == [DeleteGroup("default/podgroup-rs")]


def test_a_group_of_that_name_with_another_owner_is_not_touched() -> None:
    lab = Lab()
    lab.put(owner_of(replicas=0))
    lab.put(group("podgroup-rs", owner=Owner("Other", "x", "other")))
    assert lab.turn() == []


DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["pod", "end", "drop", "scale", "gang", "drop group", "restart", "settle"]),
        st.integers(0, 2),
    ),
    max_size=25,
)


def do(lab: Lab, what: str, number: int) -> None:
    uid = f"p{number}"
    owner = lab.owners["rs"]
    match what:
        case "pod" if uid not in lab.pods and owner.replicas:
            lab.put(pod_of(uid, created=number))
        case "end" if uid in lab.pods:
            lab.put(replace(lab.pods[uid], phase="Failed"))
        case "drop":
            lab.drop_pod(uid)
        case "scale":
            lab.put(replace(owner, replicas=number))
        case "gang":
            lab.put(replace(owner, annotations={MIN_MEMBER: str(number + 1)}))
        case "drop group":
            lab.drop_group("default/podgroup-rs")


@settings(max_examples=examples(150))
@given(deeds=DEEDS, chance=st.randoms(use_true_random=False))
def test_restarts_and_lost_commands_end_the_same(deeds: list[tuple[str, int]], chance: Random) -> None:
    """What is there in the end follows from the objects: every live pod has a group that fits its owner."""
    lab = Lab()
    lab.put(owner_of())
    for what, number in deeds:
        if what == "restart":
            lab.restart()
        elif what == "settle":
            lab.settle(chance)
        else:
            do(lab, what, number)
            if chance.random() < 0.5:
                for command in lab.turn():
                    lab.execute(command)
    lab.settle(chance)
    owner, group = lab.owners["rs"], lab.groups.get("default/podgroup-rs")
    live = [pod for pod in lab.pods.values() if pod.live]
    if owner.replicas and live:
        assert group is not None
        assert group.min_member == int(owner.annotations.get(MIN_MEMBER, "1"))
        assert {pod.group for pod in live} == {"podgroup-rs"}
    if not owner.replicas and not live:
        assert group is None


def test_the_group_of_a_job_says_whether_it_is_suspended() -> None:
    lab = Lab()
    job = PodOwner("Job", "default", "chat-1", "rs", 2)
    lab.put(job)
    lab.put(pod_of("p0", owner=Owner("Job", "chat-1", "rs", "batch/v1")))
    lab.settle()
    group = lab.groups["default/podgroup-rs"]
    assert not group.suspended
    lab.put(replace(job, replicas=0, suspended=True))
    (create,) = lab.turn()
    assert isinstance(create, CreateGroup)
    # Nothing else of it changes, and it is asked for once.
    assert create.group == replace(group, annotations={**group.annotations, "ringwise.io/suspended": "true"})
    assert lab.turn() == []
    lab.execute(create)
    lab.drop_pod("p0")
    lab.settle()
    assert lab.groups["default/podgroup-rs"].suspended
    # A new controller goes on from there.
    lab.restart()
    lab.put(job)
    lab.settle()
    assert lab.groups["default/podgroup-rs"] == group


def test_the_group_of_a_set_without_replicas_is_deleted_as_often_as_it_is_there() -> None:
    lab = Lab()
    lab.put(owner_of(replicas=0))
    lab.put(pod_of(phase="Succeeded"))
    made = group_for(pod_of(), owner_of())
    for _ in range(2):
        # Another client created it, and it is deleted at once.
        lab.put(made)
        (delete,) = lab.turn()
        assert delete == DeleteGroup(made.key)
        assert lab.turn() == []
        lab.execute(delete)
        assert lab.turn() == []
    # Scaled up and down again before it was gone.
    lab.put(made)
    assert len(lab.turn()) == 1
    lab.put(owner_of(replicas=1))
    assert lab.turn() == []
    lab.put(owner_of(replicas=0))
    assert lab.turn() == [DeleteGroup(made.key)]


def test_a_foreign_group_with_the_name_of_ours_is_not_deleted() -> None:
    lab = Lab()
    lab.put(owner_of(replicas=0))
    lab.put(pod_of(phase="Succeeded"))
    lab.put(group("podgroup-rs", owner=Owner("ReplicaSet", "other", "another", "apps/v1")))
    assert lab.turn() == []


def test_an_annotation_that_was_removed_is_written_again_at_once() -> None:
    lab = Lab()
    lab.put(owner_of())
    lab.put(pod_of())
    lab.settle()
    assert lab.pods["p0"].group == "podgroup-rs"
    lab.put(pod_of())
    (again,) = lab.turn()
    assert isinstance(again, AnnotatePod)
    assert again.annotations == {GROUP_NAME: "podgroup-rs"}


def test_a_wish_that_is_lost_is_repeated_and_a_foreign_group_is_left_alone() -> None:
    lab = Lab()
    lab.put(PodOwner("Job", "default", "chat-1", "rs", 0, suspended=True))
    foreign = group("podgroup-rs", owner=Owner("Job", "other", "another", "batch/v1"), ordinary=True)
    lab.put(foreign)
    assert lab.turn() == []
    lab.put(replace(foreign, owner=Owner("Job", "chat-1", "rs", "batch/v1")))
    assert len(lab.turn()) == 1
    due = lab.controller.next_deadline()
    assert due is not None
    lab.now = due
    assert len(lab.turn()) == 1


@pytest.mark.parametrize(
    ("mode", "tier", "topology"),
    [
        (None, None, None),
        ("hard", "2", NetworkTopology(highest_tier=2)),
        (None, "0", NetworkTopology(highest_tier=0)),
        ("Soft", None, NetworkTopology(soft=True)),
        # What cannot be read: any other mode is hard, and a tier that is not a number restricts nothing.
        ("near", "x", NetworkTopology()),
        ("hard", "-1", NetworkTopology()),
    ],
)
def test_pods_ask_for_a_network_topology_by_annotations(
    mode: str | None, tier: str | None, topology: NetworkTopology | None
) -> None:
    told = {"volcano.sh/network-topology-mode": mode, "volcano.sh/network-topology-highest-tier": tier}
    made = group_for(
        pod_of(annotations={key: text for key, text in told.items() if text is not None}), owner_of()
    )
    assert made.topology == topology
    assert is_as_wanted(made, made)
    assert is_as_wanted(replace(made, topology=NetworkTopology(soft=True)), replace(made, topology=None))
    if topology is not None:
        assert not is_as_wanted(replace(made, topology=None), made)
