"""Queues are opened and closed by commands, and follow the queue above them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringwise.controller.job_record import RETRY_AFTER
from ringwise.controller.machine import Controller
from ringwise.controller.pod_groups import PodGroupController
from ringwise.durations import SECOND
from ringwise.embed.loop import EmbeddedLoop
from ringwise.messages.commands import Command, RecordQueueEvent, UpdateQueue
from ringwise.messages.event_reasons import EventReason
from ringwise.messages.events import (
    Event,
    PodGone,
    PodGroupGone,
    PodSeen,
    QueueCommand,
    QueueGone,
    QueueSeen,
)
from ringwise.state.model import Queue
from ringwise.state.queue_rules import ANY_NAMESPACE, QUEUE_COMMAND_NAMESPACES
from ringwise.wellknown import SCHEDULING_QUEUE_NAME
from tests.builders.values import group, job_of, pod, seen, task_of
from tests.controller.controller_lab import FOREVER, lab_with
from tests.controller.turns import settle
from tests.examples import examples

MARK = "volcano.sh/closed-by-parent"


class World:
    """Queue objects, and a controller that changes them."""

    def __init__(self, **parents: str) -> None:
        self.queues = {name: Queue(name, parent=parent, uid=name) for name, parent in parents.items()}
        self.controller = Controller(PodGroupController())
        self.now = 0
        self.told: list[RecordQueueEvent] = []
        self.turn(*map(QueueSeen, self.queues.values()))

    def turn(self, *known: object) -> None:
        settle(self.controller, self.now, seen(*known), self.done)

    def done(self, command: Command) -> list[Event]:
        if isinstance(command, RecordQueueEvent):
            self.told.append(command)
            return []
        assert isinstance(command, UpdateQueue)
        queue = self.queues[command.name]
        annotations = dict(queue.annotations)
        if command.closed_by_parent is not None:
            annotations[MARK] = str(command.closed_by_parent).lower()
        state, parent = command.state or queue.state, command.parent or queue.parent
        changed = replace(queue, state=state, annotations=annotations, parent=parent, missing=())
        self.queues[command.name] = changed
        return [QueueSeen(changed)]

    def ask(self, name: str, action: str) -> None:
        self.turn(QueueCommand(name, action))

    @property
    def states(self) -> dict[str, str]:
        return {name: queue.state for name, queue in self.queues.items()}


def test_a_queue_that_is_its_own_parent_can_be_closed_and_opened() -> None:
    world = World(blue="blue")
    for action, state in (("CloseQueue", "Closed"), ("OpenQueue", "Open")):
        world.ask("blue", action)
        assert world.states == {"blue": state}


def test_a_queue_is_closing_until_no_pod_group_names_it() -> None:
    world = World(blue="root")
    world.turn(group("a", queue="blue"), group("b", queue="blue"))
    world.ask("blue", "CloseQueue")
    assert world.states == {"blue": "Closing"}
    world.turn(PodGroupGone("default/a"))
    assert world.states == {"blue": "Closing"}
    # A PodGroup that moves to another queue leaves it, too.
    world.turn(group("b", queue="green"))
    assert world.states == {"blue": "Closed"}
    world.ask("blue", "OpenQueue")
    assert world.states == {"blue": "Open"}
    assert [(one.reason, one.message, one.warning) for one in world.told] == [
        ("CloseQueue", "Close queue succeed", False),
        ("OpenQueue", "Open queue succeed", False),
    ]


def test_a_queue_is_closing_until_the_last_pod_that_is_a_job_of_its_own_is_gone() -> None:
    world = World(blue="root")
    pods = [
        pod(uid, 0, on="node-1", phase="Pending", annotations={SCHEDULING_QUEUE_NAME: "blue"})
        for uid in ("a", "b")
    ]
    world.turn(*map(PodSeen, pods))
    world.ask("blue", "CloseQueue")
    world.turn(PodGone("a"))
    assert world.states == {"blue": "Closing"}
    # Its PodGroup counts from now on.
    named = replace(pods[1], group="podgroup-b")
    world.turn(group("podgroup-b", queue="blue"), named)
    world.turn(PodGone("b"))
    assert world.states == {"blue": "Closing"}
    world.turn(PodGroupGone("default/podgroup-b"))
    assert world.states == {"blue": "Closed"}


def test_a_queue_without_pod_groups_is_closed_at_once_and_a_closing_one_can_be_opened() -> None:
    world = World(blue="root", green="root")
    world.turn(group("a", queue="green"))
    world.ask("blue", "CloseQueue")
    world.ask("green", "CloseQueue")
    assert world.states == {"blue": "Closed", "green": "Closing"}
    world.ask("green", "OpenQueue")
    assert world.states == {"blue": "Closed", "green": "Open"}


@pytest.mark.parametrize("state", ["Unknown", "Open", "Closing", "Closed"])
@pytest.mark.parametrize(("action", "after"), [("OpenQueue", "Open"), ("CloseQueue", "Closed")])
def test_every_state_can_be_opened_and_closed(state: str, action: str, after: str) -> None:
    world = World()
    world.queues["blue"] = Queue("blue", parent="root", state=state)
    world.turn(QueueSeen(world.queues["blue"]))
    # A closing queue without PodGroups is closed without a command.
    assert world.states == {"blue": "Closed" if state == "Closing" else state}
    world.ask("blue", action)
    assert world.states == {"blue": after}


def test_closing_descends_and_opening_opens_what_was_closed_with_it() -> None:
    world = World(dept="root", team="dept", deep="team", own="dept", other="root")
    world.turn(group("a", queue="deep"))
    world.ask("own", "CloseQueue")
    world.ask("dept", "CloseQueue")
    assert world.states == {
        "dept": "Closed",
        "team": "Closed",
        "deep": "Closing",
        "own": "Closed",
        "other": "Open",
    }
    marked = {name for name, queue in world.queues.items() if queue.annotations.get(MARK) == "true"}
    assert marked == {"team", "deep"}
    world.turn(PodGroupGone("default/a"))
    assert world.states["deep"] == "Closed"
    world.ask("dept", "OpenQueue")
    # What was closed for itself stays closed.
    assert world.states == {"dept": "Open", "team": "Open", "deep": "Open", "own": "Closed", "other": "Open"}
    assert {queue.annotations.get(MARK) for queue in world.queues.values()} == {"false", None}


def test_refusals_say_why() -> None:
    world = World(root="", dept="root", team="dept")
    world.ask("dept", "CloseQueue")
    world.told.clear()
    for name, action in (
        ("team", "OpenQueue"),
        ("root", "CloseQueue"),
        ("gone", "CloseQueue"),
        ("dept", "AbortJob"),
    ):
        world.ask(name, action)
    assert world.states == {"root": "Open", "dept": "Closed", "team": "Closed"}
    assert all(one.warning for one in world.told)
    assert [one.message for one in world.told] == [
        "queue team cannot be opened because its parent queue dept is Closed; open dept first",
        "the queue root cannot be closed",
        'queue "gone" not found',
        "unknown action AbortJob; allowed: OpenQueue, CloseQueue",
    ]


def test_a_queue_that_is_moved_follows_its_new_parent() -> None:
    world = World(closed="root", open="root", team="root")
    world.ask("closed", "CloseQueue")
    world.queues["team"] = replace(world.queues["team"], parent="closed")
    world.turn(QueueSeen(world.queues["team"]))
    assert world.states["team"] == "Closed"
    world.queues["team"] = replace(world.queues["team"], parent="open")
    world.turn(QueueSeen(world.queues["team"]))
    assert world.states["team"] == "Open"


def test_a_queue_that_users_close_in_the_object_closes_what_is_below_it() -> None:
    world = World(dept="root", team="dept")
    world.queues["dept"] = replace(world.queues["dept"], state="Closing")
    world.turn(QueueSeen(world.queues["dept"]))
    assert world.states == {"dept": "Closed", "team": "Closed"}


def test_what_a_new_object_leaves_out_is_written_once() -> None:
    controller = Controller()
    new = Queue("blue", parent="root", missing=("state", "parent"))
    assert controller.handle(seen(new), 0) == [UpdateQueue("blue", "Open", None, "root")]
    assert controller.handle(seen(new), 1) == []
    assert controller.handle(seen(replace(new, missing=())), 2) == []
    assert controller.next_deadline() is None


def test_a_late_event_does_not_undo_a_command_and_a_lost_write_is_repeated() -> None:
    controller = Controller()
    blue = Queue("blue", parent="root")
    controller.handle(seen(blue, group("a", queue="blue")), 0)
    closing = UpdateQueue("blue", "Closing")
    assert closing in controller.handle([QueueCommand("blue", "CloseQueue")], 1)
    # Written before the command: it must not open the queue again.
    assert controller.handle(seen(replace(blue, weight=2)), 2) == []
    assert controller.next_deadline() == 1 + RETRY_AFTER
    # Nobody has written it: it is sent again, for the Command that asked for it is deleted.
    assert controller.handle([], 1 + RETRY_AFTER) == [UpdateQueue("blue", "Closing", False)]
    assert controller.next_deadline() == 1 + 2 * RETRY_AFTER
    assert controller.handle([QueueGone("blue")], 2 * RETRY_AFTER) == []
    assert controller.next_deadline() is None


def test_a_lost_write_that_follows_from_the_parent_is_repeated() -> None:
    controller = Controller()
    dept = Queue("dept", parent="root")
    controller.handle(seen(dept, Queue("team", parent="dept")), 0)
    closed = UpdateQueue("team", "Closed", True)
    assert closed in controller.handle(seen(replace(dept, state="Closed")), 1)
    assert controller.handle([], RETRY_AFTER) == []
    assert closed in controller.handle([], 1 + RETRY_AFTER)
    # The parent is open meanwhile: nothing is left to do.
    controller.handle(seen(dept), 2 + RETRY_AFTER)
    assert UpdateQueue("team", "Closed", True) not in controller.handle([], 2 + 2 * RETRY_AFTER)


def test_the_root_queue_can_be_opened_and_not_closed() -> None:
    world = World(root="")
    world.ask("root", "OpenQueue")
    world.ask("root", "CloseQueue")
    assert world.states == {"root": "Open"}
    assert [(one.message, one.warning) for one in world.told] == [
        ("Open queue succeed", False),
        ("the queue root cannot be closed", True),
    ]


def test_a_new_controller_continues_from_the_objects() -> None:
    """The parent was closed, and the controller ended before it closed the queue below."""
    dept = Queue("dept", parent="root", state="Closed")
    team = Queue("team", parent="dept")
    first = Controller().handle(seen(team, dept, group("a", queue="team")), 0)
    assert UpdateQueue("team", "Closing", True) in first


def test_in_the_lab_a_job_of_a_closing_queue_ends_and_a_new_one_waits() -> None:
    lab: EmbeddedLoop = lab_with(job_of(task_of(annotations=FOREVER), queue="team"))
    lab.cluster.submit(Queue("dept", parent="root"))
    lab.cluster.submit(Queue("team", parent="dept"))
    lab.run_until(5 * SECOND)
    lab.inject(QueueCommand("dept", "CloseQueue"))
    lab.run_until(6 * SECOND)
    assert {queue.name: queue.state for queue in lab.cluster.all(Queue) if queue.parent} == {
        "dept": "Closed",
        "team": "Closing",
    }
    lab.cluster.delete("VcJob", "default/train")
    lab.run_until(20 * SECOND)
    team = lab.cluster.get(Queue, "team")
    assert team is not None
    assert team.state == "Closed"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["OpenQueue", "CloseQueue", "move", "join", "leave", "restart"]),
        st.sampled_from("abcd"),
        st.sampled_from(["root", "a", "b", "c", "d"]),
    ),
    max_size=30,
)


@settings(max_examples=examples(150))
@given(STEPS)
def test_whatever_is_done_no_queue_is_open_below_one_that_is_not(steps: list[tuple[str, str, str]]) -> None:
    world = World(a="root", b="root", c="root", d="root")
    groups: dict[str, str] = {}
    for what, name, other in steps:
        if what == "move":
            world.queues[name] = replace(world.queues[name], parent=other)
            world.turn(QueueSeen(world.queues[name]))
        elif what == "join":
            groups[name] = other
            world.turn(group(name, queue=other))
        elif what == "leave":
            groups.pop(name, None)
            world.turn(PodGroupGone(f"default/{name}"))
        elif what == "restart":
            world.controller = Controller()
            seen = [group(key, queue=queue) for key, queue in groups.items()]
            world.turn(*map(QueueSeen, world.queues.values()), *seen)
        else:
            world.ask(name, what)
        world.now += SECOND
        for queue in world.queues.values():
            above = world.queues.get(queue.parent)
            if above is not None and above is not queue and above.state != "Open":
                assert queue.state != "Open"
            if queue.state == "Closing":
                assert queue.name in groups.values()
        assert world.controller.next_deadline() is None


@pytest.mark.parametrize(("action", "state"), [("CloseQueue", "Closed"), ("OpenQueue", "Open")])
def test_what_a_user_asked_for_is_sent_until_it_is_done_and_told_then(action: str, state: str) -> None:
    """The Command object is deleted: when the write fails, nothing else would bring it back."""
    before = Queue("blue", uid="q1", state="Open" if state == "Closed" else "Closed")
    controller = Controller()
    controller.handle(seen(before), 0)
    commands = controller.handle([QueueCommand("blue", action)], 1)
    assert [(one.name, one.state) for one in commands if isinstance(one, UpdateQueue)] == [("blue", state)]
    assert not [one for one in commands if isinstance(one, RecordQueueEvent)]
    for round_ in (1, 2, 3):
        due = controller.next_deadline()
        assert due == 1 + round_ * RETRY_AFTER
        # An event with the old state is late, or shows that the write failed.
        again = controller.handle(seen(before), due)
        assert again == [UpdateQueue("blue", state, False, uid="q1")]
    done = controller.handle(seen(replace(before, state=state)), 5 * RETRY_AFTER)
    assert [(one.name, one.reason) for one in done if isinstance(one, RecordQueueEvent)] == [("blue", action)]
    assert controller.next_deadline() is None


def test_the_last_of_two_wishes_counts_while_none_of_them_is_written() -> None:
    blue = Queue("blue", uid="q1")
    controller = Controller()
    controller.handle(seen(blue, group("a", queue="blue")), 0)
    controller.handle([QueueCommand("blue", "CloseQueue")], 1)
    controller.handle([QueueCommand("blue", "OpenQueue")], 2)
    later = controller.handle([], 2 + RETRY_AFTER)
    assert [one.state for one in later if isinstance(one, UpdateQueue)] == ["Open"]


def test_a_closing_queue_that_becomes_empty_before_it_is_written_is_told_when_it_is_closed() -> None:
    blue = Queue("blue", uid="q1")
    controller = Controller()
    controller.handle(seen(blue, group("a", queue="blue")), 0)
    controller.handle([QueueCommand("blue", "CloseQueue")], 1)
    controller.handle([PodGroupGone("default/a")], 2)
    done = controller.handle(seen(replace(blue, state="Closed", annotations={MARK: "false"})), 3)
    assert [one.message for one in done if isinstance(one, RecordQueueEvent)] == ["Close queue succeed"]


def test_no_event_says_that_a_queue_was_opened_that_its_parent_closed_before_that_was_written() -> None:
    blue, above = Queue("blue", parent="above", state="Closed", uid="q1"), Queue("above", uid="q2")
    controller = Controller()
    controller.handle(seen(above, blue), 0)
    controller.handle([QueueCommand("blue", "OpenQueue")], 1)
    controller.handle(seen(replace(above, state="Closed")), 2)
    done = controller.handle(seen(replace(blue, annotations={MARK: "true"})), 3)
    assert [one.message for one in done if isinstance(one, RecordQueueEvent)] == []
    assert controller.next_deadline() is None


def test_a_queue_that_is_gone_is_not_asked_for_again() -> None:
    controller = Controller()
    controller.handle(seen(Queue("blue", uid="q1")), 0)
    controller.handle([QueueCommand("blue", "CloseQueue")], 1)
    assert controller.handle([QueueGone("blue")], 2) == []
    assert controller.next_deadline() is None


def test_queues_that_their_parent_closed_are_opened_when_it_is_deleted() -> None:
    """As the next leader opens them: a queue whose parent does not exist is below the root."""
    closed = Queue("above", state="Closed", uid="q1")
    child = Queue("blue", parent="above", state="Closed", uid="q2", annotations={MARK: "true"})
    by_itself = replace(child, name="red", uid="q3", annotations={})
    controller = Controller()
    assert controller.handle(seen(closed, child, by_itself), 0) == []
    message = "Open queue succeed: its parent queue above no longer exists"
    opening = [
        RecordQueueEvent("blue", EventReason.OPEN_QUEUE, message, "q2"),
        UpdateQueue("blue", "Open", False, uid="q2"),
    ]
    assert controller.handle([QueueGone("above")], 1) == opening
    assert Controller().handle(seen(child, by_itself), 1) == opening


def test_commands_are_obeyed_in_named_namespaces_alone() -> None:
    """Queues have no namespace, so a right in one's own says nothing about them."""
    blue = Queue("blue", uid="q1")
    asked = QueueCommand("blue", "CloseQueue", "team", "mine", "c1")
    for namespaces, obeyed in (
        (QUEUE_COMMAND_NAMESPACES, ("default", "kube-system", "volcano-system")),
        (("team",), ("team",)),
        ((ANY_NAMESPACE,), ("team", "default", "anything")),
    ):
        for namespace in obeyed:
            controller = Controller(queue_command_namespaces=namespaces)
            controller.handle(seen(blue), 0)
            commands = controller.handle([replace(asked, namespace=namespace)], 1)
            assert [one.state for one in commands if isinstance(one, UpdateQueue)] == ["Closed"]
    controller = Controller()
    controller.handle(seen(blue), 0)
    # Before anything else is looked at: what exists is not told to a stranger.
    for command in (asked, replace(asked, name="unknown"), replace(asked, action="Dance")):
        (told,) = controller.handle([command], 1)
        assert isinstance(told, RecordQueueEvent)
        reason = "QueueError" if command.action == "Dance" else command.action
        assert (told.refused, told.warning, told.reason) == (command, True, reason)
        assert told.message == (
            "Commands of namespace team do not open or close queues; "
            "those of default, kube-system, volcano-system do"
        )
    assert controller.next_deadline() is None
