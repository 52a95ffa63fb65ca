"""The vcjob controller: turns jobs into PodGroups and pods and follows them to their end.

A pure state machine beside the scheduler. It is told the same events and answers with commands.
What it does follows from the objects alone: a new controller that is given all objects in its
first call goes on where the last one stopped. Therefore an intent is written into the job's status
before pods are deleted for it, and pods are created before the status counts them.

A policy's timeout counts from the time in the object, as far as there is one: pending pods from
their creation, failed pods from their end. For an evicted pod, a completed or failed task and an
Unknown gang it counts from when the controller noticed, and an eviction whose timeout runs is
forgotten with the controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

from ringwise.controller.job_plugins import Plugins
from ringwise.controller.job_record import (
    ASK_AGAIN,
    RUNNING,
    SUCCEEDED,
    JobBook,
    index_of,
    newer,
)
from ringwise.controller.phases import (
    EXPIRING,
    PARTIAL,
    act,
    allowed,
    must_go,
    next_phase,
)
from ringwise.controller.policies import next_order, targets
from ringwise.messages import events as told
from ringwise.messages.commands import (
    Command,
    CreateGroup,
    CreatePod,
    DeleteGroup,
    DeleteJob,
    DeletePod,
    Publish,
)
from ringwise.messages.job_expansion import group_name, pod_group_of, pods_of
from ringwise.state.model import Pod, PodGroup
from ringwise.state.vcjob import OVER, Task, VcJob
from ringwise.wellknown import JOB_NAME

_SECOND = 1_000_000_000
#: Deleted pods that are remembered, so that a late word of them does not bring them back.
_REMEMBERED = 100_000


class Controller:
    def __init__(self) -> None:
        self._books: dict[str, JobBook] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._job_of: dict[str, str] = {}
        self._groups: dict[str, PodGroup] = {}
        self._job_of_group: dict[str, str] = {}
        self._priorities: dict[str, int] = {}
        self._gone: dict[str, None] = {}
        self._published: dict[str, Publish] = {}
        self._alarms: list[tuple[int, str]] = []
        self._alarm_of: dict[str, int] = {}
        self._wishes: dict[str, list[str]] = {}
        self._dirty: dict[str, None] = {}
        self._first = True

    def handle(self, events: Iterable[told.Event], now: int) -> list[Command]:
        """Take in what happened and say what is to be done. The first call must carry every object."""
        for event in events:
            self._take_in(event, now)
        if self._first:
            self._first = False
            for known in self._books.values():
                known.note_losses(now)
        while self._alarms and self._alarms[0][0] <= now:
            due, key = heappop(self._alarms)
            if self._alarm_of.get(key) == due:
                del self._alarm_of[key]
                self._dirty[key] = None
        commands: list[Command] = []
        for key in self._dirty:
            book = self._books.get(key)
            if book is not None:
                self._sync(book, now, commands)
        self._dirty.clear()
        self._wishes.clear()
        return commands

    def next_deadline(self) -> int | None:
        """When time alone changes something."""
        while self._alarms:
            due, key = self._alarms[0]
            book = self._books.get(key)
            if book is not None and book.due == due:
                return due
            heappop(self._alarms)
            if self._alarm_of.get(key) == due:
                del self._alarm_of[key]
        return None

    # -- events --------------------------------------------------------------------------

    def _take_in(self, event: told.Event, now: int) -> None:
        match event:
            case told.VcJobSeen():
                self._job_seen(event.job)
            case told.VcJobGone():
                book = self._books.pop(event.key, None)
                if book is not None:
                    self._job_of_group.pop(_group_key(book.job), None)
                    self._published.pop(event.key, None)
            case told.PodSeen():
                self._pod_seen(event.pod, now)
            case told.PodGone():
                self._pod_gone(event.uid, now)
            case told.PodGroupSeen():
                self._groups[event.group.key] = event.group
                self._touch_group(event.group.key)
            case told.PodGroupGone():
                self._groups.pop(event.key, None)
                key = self._touch_group(event.key)
                if key is not None:
                    self._books[key].group_leaving = False
                    self._books[key].group_asked = None
            case told.PriorityClassSeen():
                self._priorities[event.priority_class.name] = event.priority_class.value
            case told.PriorityClassGone():
                self._priorities.pop(event.name, None)
            case told.JobCommand():
                self._wishes.setdefault(event.key, []).append(event.action)
                self._dirty[event.key] = None

    def _job_seen(self, job: VcJob) -> None:
        book = self._books.get(job.key)
        if book is None or book.job.uid != job.uid:
            book = JobBook.opened(job, self._pods.setdefault(job.key, {}))
            self._books[job.key] = book
            self._job_of_group[_group_key(job)] = job.key
        else:
            if _spec(job) != _spec(book.job):
                book.updated = True
                book.group_asked = None
            if not book.agrees(job):
                # Our last word was lost, or this one is late: saying it again settles both.
                book.told = None
            book.job = job
        self._dirty[job.key] = None

    def _pod_seen(self, pod: Pod, now: int) -> None:
        name = pod.annotations.get(JOB_NAME)
        if name is None or pod.uid in self._gone:
            return
        key = f"{pod.namespace}/{name}"
        known = self._pods.setdefault(key, {}).get(pod.uid)
        pod = newer(known, pod)
        self._pods[key][pod.uid] = pod
        self._job_of[pod.uid] = key
        self._dirty[key] = None
        book = self._books.get(key)
        if book is not None:
            book.coming.pop(pod.name, None)
            # In the first call every pod is new; there the counts of the status tell who is missing.
            before = self._first if known is None else known.deleting
            if pod.deleting and not before:
                book.note_eviction(pod, now)

    def _pod_gone(self, uid: str, now: int) -> None:
        if len(self._gone) >= _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        self._gone[uid] = None
        key = self._job_of.pop(uid, None)
        if key is None:
            return
        pod = self._pods[key].pop(uid)
        self._dirty[key] = None
        book = self._books.get(key)
        if book is not None:
            if not pod.deleting:
                book.note_eviction(pod, now)
            book.doomed.pop(uid, None)
        elif not self._pods[key]:
            del self._pods[key]

    def _touch_group(self, group: str) -> str | None:
        key = self._job_of_group.get(group)
        if key is not None and key in self._books:
            self._dirty[key] = None
            return key
        return None

    # -- one job -------------------------------------------------------------------------

    def _sync(self, book: JobBook, now: int, commands: list[Command]) -> None:
        book.sleep()
        job = book.job
        if job.deleting:
            return
        creates: list[Command] = []
        deletes: list[Command] = []
        if job.problems and book.phase in ("", "Pending"):
            book.move("Pending", now, "Invalid", "; ".join(job.problems))
        else:
            self._follow(book, now, creates, deletes)
        commands += creates
        status = book.status(book.counts())
        if status != book.told:
            book.told = status
            commands.append(status)
        commands += deletes
        self._expire(book, now, commands)
        if book.due is not None and self._alarm_of.get(job.key) != book.due:
            self._alarm_of[job.key] = book.due
            heappush(self._alarms, (book.due, job.key))

    def _follow(self, book: JobBook, now: int, creates: list[Command], deletes: list[Command]) -> None:
        for wish in self._wishes.get(book.job.key, ()):
            if allowed(book.phase or "Pending", wish) and wish not in PARTIAL:
                act(book, wish, now, "CommandIssued", f"{wish} was asked for")
                self._dismiss_group(book, deletes)
        self._obey_policies(book, now, deletes)
        self._clear_away(book, now, deletes)
        before = book.phase
        self._move_on(book, now)
        if book.phase != before:
            # A phase that was just reached may have no place for pods that had one before.
            self._clear_away(book, now, deletes)
        if book.phase in OVER:
            self._dismiss_group(book, deletes)
        elif book.phase in ("Pending", "Running"):
            self._provide(book, now, creates)
            if creates:
                self._move_on(book, now)

    def _obey_policies(self, book: JobBook, now: int, deletes: list[Command]) -> None:
        if book.phase not in ("Pending", "Running"):
            book.evicted.clear()
            return
        order = next_order(book, self._groups.get(_group_key(book.job)), now)
        if order is None or not allowed(book.phase, order.action):
            return
        target = targets(order)
        if order.action in PARTIAL and target is None:
            book.evicted.clear()
            return
        act(book, order.action, now, order.cause.event, f"{order.cause.sentence}: {order.action}")
        if target is None:
            self._dismiss_group(book, deletes)
            return
        for pod in book.current():
            if target(pod):
                _doom(book, pod, now, order.action, deletes)

    def _move_on(self, book: JobBook, now: int) -> None:
        for _ in range(8):
            following = next_phase(book, book.counts())
            if following is None:
                return
            book.move(following[0], now, following[1], following[2])

    def _clear_away(self, book: JobBook, now: int, deletes: list[Command]) -> None:
        active = book.phase in ("Pending", "Running")
        replicas = {task.name: task.replicas for task in book.job.tasks}
        for pod in list(book.own()):
            asked = book.doomed.get(pod.uid)
            if pod.deleting:
                continue
            if asked is not None:
                if asked + ASK_AGAIN <= now:
                    _doom(book, pod, now, "asked again", deletes)
                else:
                    book.wake_at(asked + ASK_AGAIN)
            elif must_go(book, pod):
                _doom(book, pod, now, book.message or f"the job is {book.phase}", deletes)
            elif active and index_of(pod) >= replicas.get(pod.task, 0):
                _doom(book, pod, now, f"task {pod.task} has {replicas.get(pod.task, 0)} pods now", deletes)
            if pod.uid in book.doomed:
                book.wake_at(book.doomed[pod.uid] + ASK_AGAIN)

    def _dismiss_group(self, book: JobBook, deletes: list[Command]) -> None:
        key = _group_key(book.job)
        if key in self._groups and not book.group_leaving:
            book.group_leaving = True
            deletes.append(DeleteGroup(key))

    def _provide(self, book: JobBook, now: int, creates: list[Command]) -> None:
        """The PodGroup first; pods only once the scheduler has let it in."""
        job = replace(book.job, phase=book.phase, version=book.version, retry_count=book.retries)
        key = _group_key(job)
        group = self._groups.get(key)
        if book.group_leaving:
            return
        if book.group_asked is None or (group is None and book.group_asked + ASK_AGAIN <= now):
            book.group_asked = now
            wanted = pod_group_of(job, self._priorities)
            if group is None or _group_spec(wanted) != _group_spec(group):
                creates.append(CreateGroup(wanted))
        if group is None:
            book.wake_at(book.group_asked + ASK_AGAIN)
            return
        if group.phase in ("", "Pending"):
            return
        late = [name for name, (_, asked) in book.coming.items() if asked + ASK_AGAIN <= now]
        for name in late:
            del book.coming[name]
        if sum(1 for _ in book.own()) + len(book.coming) < job.replicas:
            self._create_pods(book, job, now, creates)
        if book.coming:
            book.wake_at(min(asked for _, asked in book.coming.values()) + ASK_AGAIN)

    def _create_pods(self, book: JobBook, job: VcJob, now: int, creates: list[Command]) -> None:
        taken = {f"{job.namespace}/{name}" for name in book.coming}
        taken.update(pod.key for pod in book.pods.values())
        ready = {task.name for task in job.tasks if _may_start(book, task)}
        plugins = Plugins(job)
        hosts = plugins.host_lists()
        if hosts is not None and self._published.get(job.key) != hosts:
            self._published[job.key] = hosts
            creates.append(hosts)
        for pod in pods_of(job, taken):
            if pod.task in ready:
                book.coming[pod.name] = (pod.task, now)
                creates.append(CreatePod(pod, job.key, plugins.additions(pod)))

    def _expire(self, book: JobBook, now: int, commands: list[Command]) -> None:
        ttl = book.job.ttl_seconds
        if ttl is None or book.phase not in EXPIRING:
            return
        due = book.since + ttl * _SECOND
        if due <= now:
            commands.append(DeleteJob(book.job.key))
            book.wake_at(now + ASK_AGAIN)
        else:
            book.wake_at(due)


def _group_key(job: VcJob) -> str:
    return f"{job.namespace}/{group_name(job)}"


def _spec(job: VcJob) -> tuple[object, ...]:
    return job.tasks, job.min_available, job.priority_class


def _group_spec(group: PodGroup) -> tuple[object, ...]:
    return (
        group.min_member,
        dict(group.min_task_member),
        group.queue,
        group.priority_class,
        dict(group.min_resources),
    )


def _doom(book: JobBook, pod: Pod, now: int, why: str, deletes: list[Command]) -> None:
    book.doomed[pod.uid] = now
    deletes.append(DeletePod(pod.uid, pod.namespace, pod.name, why))


def _may_start(book: JobBook, task: Task) -> bool:
    """The tasks it depends on have their minimum of pods running or done."""
    if not task.depends_on:
        return True
    counts = book.counts()
    others = [other for other in book.job.tasks if other.name in task.depends_on]
    met = [counts.of(other.name, RUNNING, SUCCEEDED) >= other.min_available for other in others]
    return any(met) if task.depends_on_any else all(met)
