"""The rows of the dashboard: what is told as a change brings a client to where a new one begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from ringwise.apps.extensions import new_scheduler
from ringwise.messages import events as ev
from ringwise.scheduler.core.machine import Scheduler
from ringwise.scheduler.defaults import default_configuration
from ringwise.state.changes import Changes
from ringwise.state.limits import RUNNING_JOBS, UsageLimit
from ringwise.state.model import (
    Device,
    DeviceReport,
    Isolation,
    Node,
    NodeReport,
    Owner,
    Queue,
    ReportedFault,
)
from ringwise.topology.switches import Server, make_topology
from ringwise.views.cluster import QueueShares, shown_jobs
from ringwise.views.dashboard import DashboardRows
from ringwise.views.dashboard_details import node_document
from ringwise.views.dashboard_nodes import BoardsChangedError, cluster_totals
from ringwise.wellknown import ASCEND_REAL, EXPECTED_DURATION
from tests.builders.values import CHIP, SECOND, gang, group, isolated, job_of, node, pod, report, seen
from tests.examples import examples
from tests.lab.rig import Terminal, job, nodes, running
from tests.place.part_cases import events_of, node_object, report_object
from tests.place.test_part_cases import running_share, victim_node
from tests.scheduler.core.test_machine_properties import Stream
from tests.scheduler.rig import NOW, Rig, scheduler_told
from tests.tools.schemas import check_document
from tests.web.client import Mirror


def rows_of(scheduler: Scheduler) -> DashboardRows:
    changes = Changes()
    scheduler.record_changes(changes)
    return filled(DashboardRows(scheduler.view, changes))


def filled(rows: DashboardRows) -> DashboardRows:
    while not rows.fill(3):
        pass
    return rows


def fresh(scheduler: Scheduler) -> dict[str, Any]:
    """What a client that begins now gets."""
    return Mirror.of_rows(filled(DashboardRows(scheduler.view, Changes()))).plain()


class Follower:
    """A client that has seen everything."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.rows = rows_of(scheduler)
        self.mirror = Mirror.of_rows(self.rows)
        self.sequence = 0

    def follow(self, now: int = NOW) -> dict[str, Any] | None:
        change = self.rows.follow(self.sequence + 1, now)
        if change is None:
            return None
        self.sequence += 1
        self.mirror.apply(change)
        return dict(change)

    def check(self) -> None:
        self.follow(self.scheduler.view.history.now)
        assert self.mirror.plain() == fresh(self.scheduler)


class FollowedStream(Stream):
    """The random life of the scheduler's own test, with a client that follows it."""

    @initialize(nodes=st.integers(1, 4))
    def begin(self, nodes: int) -> None:
        Stream.begin(self, nodes)
        self.client = Follower(self.rig.machine)

    @rule(data=st.data(), chip=st.sampled_from(["", "Ascend910-3"]))
    def isolate(self, data: st.DataObject, chip: str) -> None:
        name = data.draw(st.sampled_from([*self.node_names, ""]))
        self.rig.tell(*map(ev.IsolationGone, self.rig.machine.view.cluster.isolations))
        if name:
            self.rig.tell(isolated(Isolation(name, (chip,) if chip else ())))
        self.rig.step(1)

    @rule(data=st.data(), there=st.booleans())
    def node_comes_or_goes(self, data: st.DataObject, there: bool) -> None:
        name = data.draw(st.sampled_from([*self.node_names, "n10", "n11"]))
        if there:
            self.rig.node(name)
        elif name not in self.node_names:
            self.rig.tell(ev.NodeGone(name))
        self.rig.step(1)

    @rule(kind=st.sampled_from(["Running", "Pending", "Succeeded", "gone"]))
    def pod_of_another_scheduler(self, kind: str) -> None:
        uid = "foreign"
        if kind == "gone":
            self.rig.tell(ev.PodGone(uid))
        else:
            self.rig.tell(
                pod(
                    "foreign",
                    1,
                    uid=uid,
                    namespace="other",
                    on="n1" if kind != "Pending" else None,
                    phase=kind,
                    holds=(7,) if kind != "Pending" else (),
                    scheduler="another",
                )
            )
        self.rig.step(1)

    @rule(weight=st.integers(1, 3), name=st.sampled_from(["capped", "third"]))
    def queue_changes(self, weight: int, name: str) -> None:
        self.rig.tell(Queue(name, weight=weight, created=5))
        self.rig.step(1)

    @invariant()
    def capability_is_never_exceeded(self) -> None:
        """Its queue changes here."""

    @invariant()
    def gangs_are_whole(self) -> None:
        """A pod of another scheduler may take what a gang was given."""

    @invariant()
    def who_waits_has_a_reason_that_is_true(self) -> None:
        """Tested without the client."""

    @invariant()
    def a_follower_has_what_a_new_client_gets(self) -> None:
        if hasattr(self, "client"):
            self.client.check()


TestFollowedStream = FollowedStream.TestCase
TestFollowedStream.settings = settings(max_examples=examples(15), stateful_step_count=20, deadline=None)


def followed(*known: object) -> Follower:
    return Follower(scheduler_told(*known))


def test_a_vcjob_that_is_over_is_shown_by_its_name(tmp_path: Path) -> None:
    """Its PodGroup is deleted before its pods."""
    with running(tmp_path, nodes(1)) as server:
        terminal = Terminal(tmp_path)
        terminal.submit(job("short", 1, 8, minutes=1))
        terminal.ok("advance 5m")
        (listed,) = terminal.json("get jobs")["jobs"]
        (shown,) = shown_jobs(server.live.view)
    assert (shown.name, shown.kind, shown.phase) == (listed["name"], "vcjob", listed["phase"])


@pytest.mark.parametrize("vcjob_first", [True, False])
def test_a_vcjob_whose_podgroup_has_its_name_has_one_row(vcjob_first: bool) -> None:
    """As older controllers of Volcano name it, in whatever order the objects come and go."""
    train = job_of(name="train", uid="new")
    owned = group("train", 1, owner=Owner("Job", "train", "new"), phase="Running")
    worker = pod("train-0", on="n1", holds=[0], group="train", phase="Running")
    rig = Rig(1)
    rig.step()
    client = Follower(rig.machine)

    def rows() -> list[tuple[str, str, str]]:
        rig.step()
        client.check()
        return [(row["kind"], row["name"], row["phase"]) for row in client.rows.jobs()]

    for events in ([train], [owned, worker]) if vcjob_first else ([owned, worker], [train]):
        rig.tell(*events)
        rows()
    assert rows() == [("vcjob", "train", "Pending")]
    rig.tell(replace(train, phase="Aborted"))
    assert rows() == [("vcjob", "train", "Aborted")]
    rig.tell(ev.PodGone(worker.uid), ev.PodGroupGone(owned.key), train)
    assert rows() == [("vcjob", "train", "Pending")]
    rig.tell(ev.VcJobGone(train.key))
    assert rows() == []


def test_a_turn_without_an_effect_is_no_change() -> None:
    client = followed(node("n1"), gang("big", 2, 8))
    client.scheduler.handle([], NOW + 1)
    assert client.follow() is None
    # The same object once more, as after a resync.
    client.scheduler.handle(seen(node("n1")), NOW + 2)
    assert client.follow() is None


def test_a_binding_changes_its_node_and_its_job_and_nothing_else() -> None:
    client = followed(*(node(f"n{number}") for number in range(5)))
    client.scheduler.handle(seen(gang("train", 1, 4)), NOW + 1)
    change = client.follow()
    assert change is not None
    assert [row["name"] for row in change["nodes"]] == ["n0"]
    assert change["nodes"][0]["holders"] == [0, 0, 0, 0, -1, -1, -1, -1]
    assert [(row["name"], row["reason_code"]) for row in change["jobs"]] == [("train", "")]
    chips = change["totals"]["resources"][CHIP]
    assert chips["used"] == 4
    assert chips["fragmentation"] == pytest.approx(4 / 36, abs=1e-4)


def test_a_job_that_waits_has_its_reason_in_its_row() -> None:
    client = followed(node("n1"))
    client.scheduler.handle(seen(gang("train", 2, 8)), NOW + 1)
    change = client.follow()
    assert change is not None
    (row,) = change["jobs"]
    assert row["reason_code"] == "cluster-too-small"
    assert "16" in row["reason_message"]
    assert row["state"] == "pending"
    assert change["totals"]["pending"] == 1


def test_a_job_that_runs_has_its_user_and_its_end_in_its_row() -> None:
    minute = 60 * SECOND
    settings = replace(default_configuration().settings, user_label="team/user")
    configuration = replace(default_configuration(), settings=settings)
    described = {"annotations": {EXPECTED_DURATION: "90m"}, "labels": {"team/user": "eve"}}
    scheduler = scheduler_told(node("n1"), gang("train", 1, 8, **described), configuration=configuration)
    (waiting,) = rows_of(scheduler).jobs()
    assert (waiting["user"], waiting["expected_end"]) == ("eve", None)
    scheduler.handle(seen(pod("train-0", 8, group="train", on="n1", holds=range(8))), NOW + minute)
    (row,) = rows_of(scheduler).jobs()
    started = scheduler.view.jobs["default/train"].started
    assert started is not None
    assert (row["user"], row["expected_end"]) == ("eve", started + 90 * minute)


def test_refused_jobs_are_counted_by_themselves_as_in_the_tables() -> None:
    client = followed(node("n1"), gang("waits", 2, 8), gang("refused", 1, 3))
    assert {row["name"]: row["state"] for row in client.rows.jobs()} == {
        "waits": "pending",
        "refused": "rejected",
    }
    for counts in (client.rows.totals(), client.rows.queues()[0]):
        assert (counts["pending"], counts["rejected"], counts["running"]) == (1, 1, 0)


def test_a_long_message_is_shortened() -> None:
    client = followed(*(node(f"n{number}") for number in range(2)))
    client.scheduler.handle(seen(gang("x" * 250, 1, 3, queue="y" * 250)), NOW + 1)
    change = client.follow()
    assert change is not None
    assert len(change["jobs"][0]["reason_message"]) <= 300


def test_health_letters() -> None:
    client = followed(
        node("n1", 4, faulty=1),
        DeviceReport(
            "n1",
            CHIP,
            free=0b1110,
            unhealthy=0b0001,
            network_unhealthy=0b0010,
            faults=(ReportedFault(2, "80C98000", "SubHealthFault"),),
        ),
        isolated(Isolation("n1", ("Ascend910-3",))),
    )
    assert client.mirror.nodes["n1"]["health"] == "fnsi"
    assert client.mirror.nodes["n1"]["states"][0]["message"]


def test_chips_that_no_list_names_are_unknown() -> None:
    scheduler = new_scheduler()
    scheduler.handle(seen(node("n1", 2, devices=None)), NOW)
    client = Follower(scheduler)
    row = client.mirror.nodes["n1"]
    assert (row["health"], row["state"]) == ("uu", "awaiting report")
    # A new pod may have them: the header counts as free what the rows do.
    assert (row["chip_states"], client.mirror.totals["resources"][CHIP]["free"]) == ("..", 2)


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([node("n1", ready=False)], "not ready"),
        ([node("n1", unschedulable=True)], "cordoned"),
        ([node("n1"), isolated(Isolation("n1"))], "isolated"),
        ([node("n1"), NodeReport("n1", "node", "UnHealthy")], "unhealthy"),
        ([node("n1"), pod("p", 2, on="n1", scheduler="another")], "unstable"),
        ([node("n1"), isolated(Isolation("n1", start=NOW + 1))], "draining"),
        ([node("n1")], "ready"),
    ],
)
def test_states_of_nodes(events: list[object], state: str) -> None:
    row = followed(*events).mirror.nodes["n1"]
    assert row["state"] == state
    assert bool(row["states"][0]["message"]) == (state != "ready")


def test_a_drain_begins_although_no_object_changes() -> None:
    start = NOW + 5
    client = followed(node("n1"), isolated(Isolation("n1", start=start)))
    row = client.mirror.nodes["n1"]
    assert (row["schedulable"], row["state"], row["chip_states"]) == (True, "draining", ".." * 4)
    assert [one["start"] for one in row["states"]] == [start]
    assert client.follow(start - 1) is None
    assert client.follow(start) is not None
    row = client.mirror.nodes["n1"]
    assert (row["schedulable"], row["chip_states"]) == (False, "cc" * 4)
    chips = client.mirror.totals["resources"][CHIP]
    assert (chips["free"], chips["unschedulable"]) == (0, 8)


@pytest.mark.parametrize(("number", "shown"), [(None, None), (-1, None), (0, 0), (7, 7)])
def test_a_superpod_of_minus_one_is_none(number: int | None, shown: int | None) -> None:
    assert followed(node("n1", superpod=number)).mirror.nodes["n1"]["superpod"] == shown


def test_another_topology_gives_nodes_other_switches() -> None:
    client = followed(node("n1", internal_ip="10.0.0.1"), node("n2", internal_ip="10.0.0.2"))
    topology = make_topology(
        [("leaf-1", [Server("10.0.0.1", 0, 0)]), ("leaf-2", [Server("10.0.0.2", 0, 0)])], 1
    )
    client.scheduler.handle(seen(topology), NOW + 1)
    client.check()
    assert [client.mirror.nodes[name]["switch"] for name in ("n1", "n2")] == ["leaf-1", "leaf-2"]


def test_a_new_board_needs_a_new_beginning() -> None:
    client = followed(node("n1"))
    other = Node(
        "n2",
        labels={"accelerator-type": "card"},
        chips_allocatable={CHIP: 2},
        chips_capacity={CHIP: 2},
        devices=(Device(0), Device(1)),
    )
    client.scheduler.handle(seen(other), NOW + 1)
    with pytest.raises(BoardsChangedError):
        client.follow()
    assert {row["name"] for row in rows_of(client.scheduler).nodes()} == {"n1", "n2"}


def test_what_happens_while_the_rows_are_filled_is_not_lost() -> None:
    scheduler = new_scheduler()
    scheduler.handle(seen([node(f"n{number}") for number in range(6)]), NOW)
    changes = Changes()
    scheduler.record_changes(changes)
    rows = DashboardRows(scheduler.view, changes)
    assert not rows.fill(3)
    scheduler.handle(seen(gang("train", 3, 8), ev.NodeGone("n5"), node("n6")), NOW + 1)
    mirror = Mirror.of_rows(filled(rows))
    change = rows.follow(1, NOW)
    assert change is not None
    mirror.apply(change)
    assert mirror.plain() == fresh(scheduler)


@pytest.mark.parametrize(
    ("queues", "shares"),
    [
        # Without a parent a queue is a child of the root, as one that names it.
        ([Queue("a", 3), Queue("b", 2, parent="root")], {"a": 24, "b": 16, "default": 8}),
        ([Queue("a", 5), Queue("b", 3, parent="a"), Queue("c", 1, parent="a")], {"a": 40, "b": 30, "c": 10}),
        ([Queue("a", 5, parent="none")], {"a": 40, "default": 8}),
        ([Queue("a", 1, deserved={CHIP: 20}), Queue("b", 1, parent="a")], {"a": 20, "b": 20}),
        ([Queue("a", 5), Queue("b", 1, parent="a", deserved={CHIP: 3})], {"a": 40, "b": 3}),
        # What the capability of a queue does not let it use is shared among its siblings.
        ([Queue("a", 5, capability={CHIP: 7})], {"a": 7, "default": 41}),
        (
            [Queue("a", 2, capability={CHIP: 8}), Queue("b", 3), Queue("c", 1, parent="a")],
            {"a": 8, "b": 30, "c": 8, "default": 10},
        ),
        ([Queue("a", 0)], {"a": 0, "default": 48}),
        ([Queue("a", 2, parent="b"), Queue("b", 1, parent="a")], {"a": 48, "b": 48, "default": 48}),
    ],
)
def test_shares_of_queues(queues: list[Queue], shares: dict[str, int]) -> None:
    """48 chips; the queue `default` has the weight 1."""
    client = followed(*(node(f"n{number}") for number in range(6)), *queues)
    found = {row["name"]: row["fair_share"] for row in client.rows.queues()}
    assert {name: found[name] for name in shares} == {name: {CHIP: share} for name, share in shares.items()}


def test_shares_of_very_many_queues_below_each_other() -> None:
    """The first queue that is asked for is the lowest one."""
    depth = 5_000
    queues = [Queue(f"q{number}", 1, parent=f"q{number + 1}") for number in range(depth)]
    assert QueueShares(queues, {CHIP: 48}).of("q0") == {CHIP: 48}


def test_the_limit_of_a_queue_follows_its_usage_limits() -> None:
    limit = UsageLimit("few", queue="a", hard={CHIP: 8, RUNNING_JOBS: 1})
    client = followed(node("n1"), Queue("a", 1), limit)
    assert {row["name"]: row["limit"] for row in client.rows.queues()} == {"a": {CHIP: 8}, "default": {}}
    client.scheduler.handle([ev.UsageLimitGone("few")], NOW + 1)
    client.follow()
    assert {row["name"]: row["limit"] for row in client.rows.queues()} == {"a": {}, "default": {}}


INFER = "huawei.com/Ascend310P"


def test_chips_of_different_resources_are_never_added() -> None:
    """48 chips for training and 128 for inference: a queue has a part of each."""
    client = followed(
        *(node(f"n{number}") for number in range(6)),
        node("i1", 64, resource=INFER),
        node("i2", 64, resource=INFER),
        Queue("a", 3, capability={INFER: 50, "cpu": 4}),
        Queue("b", 4, deserved={CHIP: 20}),
        gang("train", 1, 4, queue="a"),
        pod("infer", 16, resource=INFER),
    )
    rows = {row["name"]: row for row in client.rows.queues()}
    assert rows["a"]["fair_share"] == {CHIP: 18, INFER: 48}
    assert rows["a"]["capability"] == {INFER: 50}
    assert rows["a"]["used"] == {CHIP: 4, INFER: 0}
    # One that says what it deserves deserves nothing else.
    assert rows["b"]["fair_share"] == {CHIP: 20, INFER: 0}
    assert rows["b"]["capability"] == {}
    assert rows["default"]["used"] == {CHIP: 0, INFER: 16}
    totals = client.rows.totals()["resources"]
    assert {name: (one["chips"], one["used"], one["free"]) for name, one in totals.items()} == {
        CHIP: (48, 4, 44),
        INFER: (128, 16, 112),
    }
    assert totals[INFER]["fragmentation"] == pytest.approx(48 / 112, abs=1e-4)
    boards = {board["name"]: board["resource"] for board in client.rows.boards}
    assert boards == {"910-x8": CHIP, "310p": INFER}
    client.scheduler.handle([ev.NodeGone("i1"), ev.NodeGone("i2")], NOW + 1)
    client.follow()
    assert list(client.rows.totals()["resources"]) == [CHIP]


@pytest.mark.parametrize(
    ("mode", "board"), [("whole", "910-card"), ("soft", "910-card"), ("static", "310p"), ("dynamic", "310p")]
)
def test_nodes_of_every_allocation_mode_have_their_board(mode: str, board: str) -> None:
    scheduler, described = new_scheduler(), victim_node("n1", mode)
    described["labels"] = {**described["labels"], "accelerator-type": "card" if board == "910-card" else ""}
    events = events_of([node_object(described, None), report_object(described, None)])
    scheduler.handle(events, NOW)
    rows = rows_of(scheduler)
    (row,) = rows.nodes()
    assert rows.boards[row["board"] or 0]["name"].startswith(board)
    assert row.get("allocation_mode", "whole") == mode


def test_rows_name_all_jobs_of_a_chip_and_how_much_of_it_is_used() -> None:
    scheduler, described = new_scheduler(), victim_node("n1", "soft")
    pods = [running_share(name, chip) for name, chip in (("a", 0), ("b", 1), ("c", 0))]
    scheduler.handle(events_of([node_object(described, None), report_object(described, None), *pods]), NOW)
    rows = rows_of(scheduler)
    (row,) = rows.nodes()
    ids = {job["id"]: job["name"] for job in rows.jobs()}
    assert row["used_percent"] == [40, 20]
    assert [sorted(ids[one] for one in jobs) for jobs in row["jobs_on_chips"]] == [["a", "c"], ["b"]]
    document = node_document(rows, scheduler.view, NOW, "n1")
    assert document is not None
    assert [one["pod"] for one in document["chips"][0]["shares"]] == ["vcjob/a", "vcjob/c"]
    assert check_document(document)


def test_a_job_with_whole_chips_is_on_them_beside_soft_shares() -> None:
    """It started before the node got shares."""
    scheduler, described = new_scheduler(), victim_node("n1", "soft")
    whole = pod("whole", on="n1", holds=(1,), annotations={CHIP: "Ascend910-1", ASCEND_REAL: "Ascend910-1"})
    objects = [node_object(described, None), report_object(described, None), running_share("a", 0)]
    scheduler.handle([*events_of(objects), ev.PodSeen(whole)], NOW)
    rows = rows_of(scheduler)
    (row,) = rows.nodes()
    names = {job["id"]: job["name"] for job in rows.jobs()}
    assert [[names[one] for one in jobs] for jobs in row["jobs_on_chips"]] == [["a"], ["whole"]]
    assert row["used_percent"] == [20, 100]


def test_totals_of_samples_are_those_of_the_rows() -> None:
    client = followed(
        node("n1", faulty=1),
        report("n1", range(1, 8), unhealthy=1),
        node("n2", ready=False),
        node("n3", unschedulable=True),
        node("n4"),
        isolated(Isolation("n4", ("Ascend910-3",))),
        gang("runs", 1, 4),
        gang("waits", 4, 8),
    )
    assert cluster_totals(client.scheduler.view, client.scheduler.view.history.now) == client.rows.totals()
    # A decision that no Binding confirms is not a placement.
    assert (client.rows.totals()["pending"], client.rows.totals()["running"]) == (2, 0)


def test_nothing_is_recorded_while_nobody_looks() -> None:
    client = followed(node("n1"))
    client.scheduler.record_changes(None)
    client.scheduler.handle(seen(gang("train", 1, 4)), NOW + 1)
    assert client.follow() is None
