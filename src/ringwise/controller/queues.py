"""The queue controller: opens and closes queues, and lets queues follow the one above them.

Users ask with Command objects (`OpenQueue`, `CloseQueue`), in namespaces that are named: whoever may create
objects in another one need not have a right to queues. A queue that is closed is Closing until no PodGroup
names it, and no pod that is a job of its own, then Closed. A queue below one that is not open is closed with
it, is marked for that (`volcano.sh/closed-by-parent`), and is opened again with it. This follows from the
objects alone, so it also holds for a queue that is moved in the tree, and after a restart between.

`root` is always open. What a new Queue object leaves out, its state and its parent, is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from ringwise.controller.job_record import RETRY_AFTER
from ringwise.messages import events as ev
from ringwise.messages.commands import Command, RecordQueueEvent, UpdateQueue
from ringwise.messages.containment import Containment
from ringwise.messages.event_reasons import EventReason
from ringwise.records import dataclass
from ringwise.state.model import ROOT_QUEUE, Queue
from ringwise.state.queue_rules import ANY_NAMESPACE, QUEUE_COMMAND_NAMESPACES
from ringwise.wellknown import CLOSED_BY_PARENT

OPEN, CLOSING, CLOSED = "Open", "Closing", "Closed"
OPEN_QUEUE, CLOSE_QUEUE = EventReason.OPEN_QUEUE, EventReason.CLOSE_QUEUE
_REASONS = {str(action): action for action in (OPEN_QUEUE, CLOSE_QUEUE)}


@dataclass(frozen=True, slots=True)
class SentState:
    """A state that was sent; events that do not show it yet are late."""

    state: str
    closed_by_parent: bool
    at: int
    #: The event for the user who requested it, once it is done. Until then it is sent again and again.
    event: RecordQueueEvent | None = None

    def agrees(self, queue: Queue) -> bool:
        return not queue.missing and (queue.state, _is_marked(queue)) == (self.state, self.closed_by_parent)


class QueueController:
    """Part of the controller: it gets each event, and is asked for its commands after them."""

    def __init__(self, command_namespaces: Collection[str] = QUEUE_COMMAND_NAMESPACES) -> None:
        #: Where Commands are obeyed.
        self._command_namespaces = command_namespaces
        #: As the objects were seen last.
        self._seen: dict[str, Queue] = {}
        self._children: dict[str, dict[str, None]] = {}
        #: The queue of every PodGroup and of every pod that needs none, and how many there are in each.
        self._queue_of: dict[str, str] = {}
        self._groups: dict[str, int] = {}
        self._commands: list[ev.QueueCommand] = []
        self._requested: dict[str, SentState] = {}
        self._done: list[RecordQueueEvent] = []
        self._changed: dict[str, None] = {}

    # -- events --------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:
        match event:
            case ev.QueueSeen():
                self._queue_seen(event.queue)
            case ev.QueueGone():
                self._queue_gone(event.name)
            case ev.PodGroupSeen():
                self._put_group(event.group.key, event.group.queue)
            case ev.PodGroupGone():
                self._put_group(event.key, None)
            case ev.QueueCommand():
                self._commands.append(event)

    def _queue_seen(self, queue: Queue) -> None:
        name = queue.name
        sent = self._requested.get(name)
        if sent is not None and sent.agrees(queue):
            del self._requested[name]
            if sent.event is not None:
                self._done.append(sent.event)
        before = self._seen.get(name)
        self._seen[name] = queue
        if before is not None and before.parent != queue.parent:
            self._children.get(before.parent, {}).pop(name, None)
        self._children.setdefault(queue.parent, {})[name] = None
        self._touch(name)

    def _queue_gone(self, name: str) -> None:
        queue = self._seen.pop(name, None)
        self._requested.pop(name, None)
        if queue is not None:
            below = self._children.get(queue.parent, {})
            below.pop(name, None)
            if not below:
                self._children.pop(queue.parent, None)
            # Those right below it are below the root now.
            self._changed.update(self._children.get(name, {}))

    def _put_group(self, key: str, queue: str | None) -> None:
        before = self._queue_of.pop(key, None)
        if queue is not None:
            self._queue_of[key] = queue
        if before == queue:
            return
        if before is not None:
            self._groups[before] -= 1
            if not self._groups[before]:
                del self._groups[before]
                self._changed[before] = None
        if queue is not None:
            self._groups[queue] = self._groups.get(queue, 0) + 1

    def put_lone_pod(self, uid: str, queue: str | None) -> None:
        """A pod without owner and PodGroup is in this queue; None: it is gone, or has a PodGroup now."""
        self._put_group(f"pod {uid}", queue)

    def _touch(self, name: str) -> None:
        """Its state may have changed: those right below it follow."""
        self._changed[name] = None
        self._changed.update(self._children.get(name, {}))

    # -- commands ------------------------------------------------------------------------

    def sync(self, now: int, containment: Containment) -> list[Command]:
        """What follows from the events since the last call. A queue that raises affects no other one."""
        commands: list[Command] = [*self._done]
        self._done.clear()
        pending, self._commands = self._commands, []
        for command in pending:
            name = command.name
            commands += self._contained(name, partial(self._carry_out, command, now=now), containment)
        for name in [name for name, sent in self._requested.items() if sent.at + RETRY_AFTER <= now]:
            commands += self._contained(name, partial(self._not_confirmed, name, now=now), containment)
        while self._changed:
            name = next(iter(self._changed))
            del self._changed[name]
            commands += self._contained(name, partial(self._follow, name, now=now), containment)
        return commands

    def _contained(
        self, name: str, action: Callable[[list[Command]], None], containment: Containment
    ) -> list[Command]:
        commands: list[Command] = []
        queue = self._seen.get(name)
        uid = queue.uid if queue is not None else ""
        return commands if containment.attempt("Queue", name, partial(action, commands), uid) else []

    def next_deadline(self) -> int | None:
        return min((sent.at + RETRY_AFTER for sent in self._requested.values()), default=None)

    def _now(self, name: str) -> Queue | None:
        """The queue as it is when what was sent is done."""
        queue = self._seen.get(name)
        sent = self._requested.get(name)
        if queue is None or sent is None:
            return queue
        annotations = {**queue.annotations, CLOSED_BY_PARENT: _mark(sent.closed_by_parent)}
        return replace(queue, state=sent.state, annotations=annotations, missing=())

    def _not_confirmed(self, name: str, commands: list[Command], now: int) -> None:
        """What a user asked for is sent again. Otherwise what the object says counts again."""
        sent = self._requested.pop(name)
        if sent.event is not None:
            commands.append(UpdateQueue(name, sent.state, sent.closed_by_parent, uid=sent.event.uid))
            self._requested[name] = replace(sent, at=now)
        else:
            self._touch(name)

    def _carry_out(self, command: ev.QueueCommand, commands: list[Command], now: int) -> None:
        """Carry out a Command of a user. It gets an event even if it changes nothing."""
        name, action = command.name, command.action
        reason = _REASONS.get(action, EventReason.QUEUE_ERROR)
        if {ANY_NAMESPACE, command.namespace}.isdisjoint(self._command_namespaces):
            message = (
                f"Commands of namespace {command.namespace} do not open or close queues; "
                f"those of {', '.join(self._command_namespaces)} do"
            )
            commands.append(RecordQueueEvent(name, reason, message, warning=True, refused=command))
            return
        queue = self._now(name)
        problem = self._refusal(name, queue, action)
        if problem or queue is None:
            uid = queue.uid if queue is not None else ""
            commands.append(RecordQueueEvent(name, reason, problem, uid, warning=True))
        elif action == OPEN_QUEUE:
            self._update(queue, OPEN, False, commands, now)
            self._record_when_done(RecordQueueEvent(name, reason, "Open queue succeed", queue.uid), commands)
        else:
            # The queue itself was closed: opening its parent queue does not open it.
            self._update(queue, self._closed_state(name), False, commands, now)
            self._record_when_done(RecordQueueEvent(name, reason, "Close queue succeed", queue.uid), commands)

    def _record_when_done(self, event: RecordQueueEvent, commands: list[Command]) -> None:
        sent = self._requested.get(event.name)
        if sent is None:
            commands.append(event)
        else:
            self._requested[event.name] = replace(sent, event=event)

    def _refusal(self, name: str, queue: Queue | None, action: str) -> str:
        if action not in (OPEN_QUEUE, CLOSE_QUEUE):
            return f"unknown action {action}; allowed: {OPEN_QUEUE}, {CLOSE_QUEUE}"
        if queue is None:
            return f'queue "{name}" not found'
        if name == ROOT_QUEUE and action == CLOSE_QUEUE:
            return f"the queue {ROOT_QUEUE} cannot be closed"
        above = self._above(queue)
        if action == OPEN_QUEUE and above is not None and above.state in (CLOSING, CLOSED):
            return (
                f"queue {name} cannot be opened because its parent queue {above.name} is {above.state}; "
                f"open {above.name} first"
            )
        return ""

    def _follow(self, name: str, commands: list[Command], now: int) -> None:
        """What follows for one queue from the queue above it and from its PodGroups."""
        queue = self._now(name)
        if queue is None:
            return
        state, marked = queue.state, _is_marked(queue)
        above = self._above(queue)
        if above is not None and above.state in (CLOSING, CLOSED):
            if state not in (CLOSING, CLOSED):
                state, marked = self._closed_state(queue.name), True
                message = f"Close queue succeed: its parent queue {above.name} is {above.state}"
                commands.append(RecordQueueEvent(queue.name, CLOSE_QUEUE, message, queue.uid))
        elif marked and state in (CLOSING, CLOSED):
            state, marked = OPEN, False
            exists = queue.parent in self._seen or queue.parent == ROOT_QUEUE
            now_is = "is open" if exists else "no longer exists"
            message = f"Open queue succeed: its parent queue {queue.parent} {now_is}"
            commands.append(RecordQueueEvent(queue.name, OPEN_QUEUE, message, queue.uid))
        if state == CLOSING and queue.name not in self._groups:
            state = CLOSED
        self._update(queue, state, marked, commands, now)

    def _update(self, queue: Queue, state: str, marked: bool, commands: list[Command], now: int) -> None:
        new_state = state if state != queue.state or "state" in queue.missing else ""
        new_mark = marked if marked != _is_marked(queue) else None
        new_parent = queue.parent if "parent" in queue.missing else ""
        if not new_state and new_mark is None and not new_parent:
            return
        commands.append(UpdateQueue(queue.name, new_state, new_mark, new_parent, queue.uid))
        before = self._requested.get(queue.name)
        event = before.event if before is not None and state != OPEN and before.state != OPEN else None
        self._requested[queue.name] = SentState(state, marked, now, event)
        if state != queue.state:
            self._touch(queue.name)

    def _closed_state(self, name: str) -> str:
        return CLOSING if name in self._groups else CLOSED

    def _above(self, queue: Queue) -> Queue | None:
        """Its parent; None below the root, which is always open, and where there is none."""
        if queue.parent in ("", ROOT_QUEUE, queue.name):
            return None
        return self._now(queue.parent)


def _is_marked(queue: Queue) -> bool:
    return queue.annotations.get(CLOSED_BY_PARENT) == _mark(True)


def _mark(closed_by_parent: bool) -> str:
    return "true" if closed_by_parent else "false"
