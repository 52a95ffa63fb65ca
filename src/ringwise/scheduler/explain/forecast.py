"""When waiting jobs can be expected to start: the queues are played forward, for all jobs at once.

Running jobs end one after the other in virtual time, on the live state, which is restored at the end. After
each end the waiting jobs are tried in the order in which a cycle serves them; a job that starts ends after
its own duration. Twice where durations are not known exactly: with all ends as late as they may be, which
gives the latest start, and as early as they may be, which gives the earliest. A job that does not say how
long it runs, and of which nothing can be guessed, may end at any moment and may never end.

What is not played: jobs that come later, new reservations for jobs that wait long, evictions, faults. Plans
of moves that are carried out (M1) are taken to have come to their end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from ringwise.durations import SECOND
from ringwise.framework.budget import NamespaceSteps, StepBudget, TooCostly
from ringwise.framework.evictions.eviction import evicting_reservation
from ringwise.framework.evictions.recently_faulty_chips import chips_excluded, withheld_chips
from ringwise.framework.gangs.gang_count import is_complete
from ringwise.framework.gangs.gang_placement import FurtherPods, missing_pods, place_gang
from ringwise.framework.job import Job
from ringwise.framework.limits import WaitingCounts
from ringwise.framework.queue_discipline import blocks, equivalence_class, lacks_room, line_of
from ringwise.framework.queue_heads import Line
from ringwise.framework.reasons import (
    GANG_INCOMPLETE,
    INTERNAL_ERROR,
    NO_NODE_FITS,
    VOLUMES_AWAITED,
    WAITING_LIMIT_REACHED,
)
from ringwise.framework.session import Session
from ringwise.framework.shares.backfill_reservations import lending_owners, reserved_free
from ringwise.framework.statement import Allocation, Eviction, Statement
from ringwise.grammar import agrees, counted
from ringwise.messages.containment import describe
from ringwise.messages.expected_start import TOO_MUCH_AHEAD, ExpectedStart, StartKind, unknown_start
from ringwise.plugins.predicates.reasons import (
    ANTI_AFFINITY_OF_OTHERS,
    POD_AFFINITY_UNMET,
    POD_ANTI_AFFINITY,
)
from ringwise.reasons import Reason, Stage
from ringwise.records import dataclass
from ringwise.scheduler.cache.running_jobs import JobRun, RunLength, run_length, running_jobs
from ringwise.scheduler.defragment.live_plan import LivePlan
from ringwise.scheduler.explain.what_if import NO_JOB, waits_for_one_more
from ringwise.scheduler.view import SchedulerView
from ringwise.state.cluster import ClusterState
from ringwise.topology.chips import chips_of, mask_of

#: Pods that may be placed or released in one direction; an attempt counts like some of them. What starts
#: later starts not before that moment.
STEPS = 60_000
#: The same where one job is asked about.
STEPS_OF_ONE = 3_500
#: What an attempt costs besides its pods.
_ATTEMPT = 10
#: Waiting jobs that are counted in a step.
_JOBS_A_STEP = 200
#: Waiting jobs of different kinds that are looked at in a step.
_GROUPS_A_STEP = 10
#: Ends that an answer names.
_NAMED = 5
#: Codes of reasons that depend on the pods of other nodes.
_OF_NEIGHBORS = tuple(kind.code for kind in (POD_AFFINITY_UNMET, POD_ANTI_AFFINITY, ANTI_AFFINITY_OF_OTHERS))
_MOVED = "jobs are moved so that it can start"
#: What else than the end of jobs is waited for.
GATED = "its pods are gated"
AWAITS_VOLUMES = "the volumes of its claims are being bound"


def estimates(view: SchedulerView, now: int) -> dict[str, ExpectedStart]:
    """When each waiting job starts, by its key; without those that are refused.

    In the order in which the jobs of a queue are served. The state is the same before and after.
    """
    reported = view.expected_starts
    if reported is not None:
        return dict(reported)
    with view.what_if.question():
        return forecast(view, now)


def forecast(view: SchedulerView, now: int, until: Job | None = None) -> dict[str, ExpectedStart]:
    """The same inside a question. With `until` only what that job needs, and with fewer steps."""
    result: dict[str, ExpectedStart] = {}
    waiting: list[Job] = []
    for job in view.jobs.values():
        why = _waits_for_more(view, job)
        if why:
            result[job.key] = unknown_start(why)
        elif why is not None:
            waiting.append(job)
    if waiting:
        result.update(_played(view, now, waiting, until))
    for key, live in view.history.moves.under_way().items():
        if key in result:
            result[key] = _start_by_plan(view, live, now)
    return result


def planned_start(view: SchedulerView, job: Job, now: int) -> ExpectedStart | None:
    """M1: when it starts by the plan of moves that is carried out for it; None: there is none."""
    live = view.history.moves.under_way().get(job.key)
    return None if live is None else _start_by_plan(view, live, now)


def _start_by_plan(view: SchedulerView, live: LivePlan, now: int) -> ExpectedStart:
    """When the pods that are in the way have had the time that they have to end."""
    pods, gone = view.cluster.pods, live.since
    for _, uid, pod in live.moving_pods():
        record = pods.get(uid)
        if not pod.gone and record is not None:
            gone = max(gone, live.since + record.pod.grace * SECOND)
    if not live.is_leaving:
        return ExpectedStart(StartKind.KNOWN, now, now, why=_MOVED)
    if gone <= now:
        return unknown_start(f"{_MOVED}, and pods of them do not end in their time")
    return ExpectedStart(StartKind.KNOWN, now, gone, why=_MOVED)


def waits(view: SchedulerView, job: Job) -> bool:
    """Whether it waits for nodes. The pods of a vcjob are created when it is admitted to its queue."""
    return view.has_pending_pods(job) or (not job.pods and bool(job.prospective) and job.reason is not None)


def is_evicting(view: SchedulerView, job: Job) -> bool:
    """Until the pods that are evicted for it are gone, they are what the job waits for."""
    return evicting_reservation(view.cluster, view.reservations, job.key) is not None


def _waits_for_more(view: SchedulerView, job: Job) -> str | None:
    """What else than the end of jobs a waiting job waits for, or empty; None: it does not wait."""
    if job.defects or (job.reason is not None and job.reason.kind.stage is Stage.VALIDATE):
        return None
    if job.reason is not None and job.reason.code == VOLUMES_AWAITED.code:
        return AWAITS_VOLUMES
    if not waits(view, job):
        gated = any(pod.gated and pod.phase == "Pending" for pod in job.pods.values())
        return GATED if gated and view.serves(job) else None
    return "pods are evicted for it, and it starts when they are gone" if is_evicting(view, job) else ""


# -- what runs -----------------------------------------------------------------------------------


def all_runs(view: SchedulerView, now: int, began: Collection[str] = ()) -> list[JobRun]:
    """Everything that holds chips, or belongs to a job. Other pods are taken not to end.

    `began`: jobs that start again at this moment.
    """
    guess = view.what_if.starts.guess
    runs = running_jobs(view.jobs, view.cluster, view.limits, view.settings, now, guess, began)
    for uid, placement in view.cluster.pods.items():
        if placement.node >= 0 and placement.chips and view.job_of(uid) is None:
            runs.append(JobRun(NO_JOB, (uid,), now, None))
    return runs


def _reserved(view: SchedulerView, now: int) -> list[JobRun]:
    """Nodes are free for all when a reservation of them ends: that is the end of something, too."""
    ids = view.cluster.node_id
    reservations = [one for one in view.cluster.node_reservations.entries if one.end > now]
    return [
        _window(one.end, f"reservation {one.name}", [ids[node] for node in one.nodes if node in ids])
        for one in reservations
    ]


def _window(end: int, name: str, nodes: Sequence[int]) -> JobRun:
    return JobRun(NO_JOB, (), end, end, name=name, nodes=nodes)


def _cooldowns(session: Session, waiting: Iterable[Job]) -> Iterator[JobRun]:
    """F3: a job gets the chips that are withheld from it when their cooldown ends."""
    for job in waiting:
        nodes = list(withheld_chips(session, job))
        ends = {one.until for one in job.cooling.values() if one.broke_again and one.until > session.now}
        for end in sorted(ends if nodes else ()):
            yield _window(end, f"cooldown of {job.full_name}", nodes)


# -- the answer --------------------------------------------------------------------------------------


def _suppose_moves(view: SchedulerView, now: int, supposed: ExitStack) -> Collection[str]:
    """Suppose that the plans of moves that are carried out are done (M1). Return the jobs that start again.

    Pods that are gone already wait, and get their places when the queues are simulated.
    """
    state, began = view.cluster, set()
    for live in view.history.moves.plans.values():
        leaving = {uid: pod for _, uid, pod in live.moving_pods() if not pod.gone and uid in state.pods}
        if live.failed or not leaving:
            continue
        session = view.what_if.open_session(now)
        supposed.enter_context(view.what_if.restarted(session, leaving))
        targets = [
            Allocation(job, job.pods[uid], state.node_id[pod.target.node], chips_of(pod.target.chips))
            for uid, pod in leaving.items()
            if (job := view.job_of(uid)) is not None and pod.target.node in state.node_id
        ]
        free = [one for one in targets if _is_free(state, one)]
        supposed.enter_context(view.what_if.placed(session, free))
        began |= {one.job.key for one in free if all(uid in leaving for uid in one.job.pods)}
    return began


def _is_free(state: ClusterState, wanted: Allocation) -> bool:
    fleet = state.fleets.get(wanted.pod.cls.resource or "")
    return not wanted.chips or (fleet is not None and not fleet.held[wanted.node] & mask_of(wanted.chips))


def _lacks_pods(view: SchedulerView, job: Job) -> bool:
    """Whether it is a gang of which pods run and too few are placed."""
    return not is_complete(view.cluster, job) and not any(pod.deleting for pod in job.pods.values())


def _played(
    view: SchedulerView, now: int, waiting: Sequence[Job], until: Job | None
) -> Mapping[str, ExpectedStart]:
    with ExitStack() as supposed:
        runs = all_runs(view, now, _suppose_moves(view, now, supposed))
        guess = view.what_if.starts.guess
        lengths = {job.key: run_length(job, view.limits.longest(job), guess=guess) for job in waiting}
        finite = sum(run.latest is not None for run in runs)
        exact = all(length.least == length.most for length in lengths.values())
        exact = exact and all(run.earliest == run.latest for run in runs)
        for job in waiting:
            supposed.enter_context(view.what_if.with_pods(job))
        session = view.what_if.open_session(now, waiting)
        # A job that costs too much is backed off here as it is in a cycle.
        session.budget = StepBudget(NamespaceSteps(), now)
        valid = sorted(
            (job for job in waiting if session.job_valid(job) is None),
            key=lambda job: (job.queue, session.job_key(job)),
        )
        # All jobs have been read, too.
        steps = (STEPS if until is None else STEPS_OF_ONE) - len(view.jobs)
        late = _Play(view, session, lengths, steps, late=True)
        groups = _line_up(session, valid)
        windows = [(run.earliest, run) for run in [*_reserved(view, now), *_cooldowns(session, valid)]]
        late.run(groups, [*((run.latest, run) for run in runs if run.latest is not None), *windows], until)
        early: _Play | None = late
        # Who asks about one job has no steps left for an earliest time where those for the latest did not
        # suffice.
        if not exact and until is not None and late.stopped_at(until) is not None:
            early = None
        elif not exact:
            early = _Play(view, session, lengths, steps, late=False)
            # A gang that waits for pods makes no progress without them.
            partial = {job.key for job in valid if _lacks_pods(view, job)}
            last = [run for run in runs if run.job.key in partial]
            others = [(run.earliest, run) for run in runs if run.job.key not in partial]
            early.run(groups, [*others, *windows], until, last)
    endless = len(runs) - finite
    return {job.key: _answer(now, late, early, job, endless, finite) for job in valid}


def _answer(now: int, late: _Play, early: _Play | None, job: Job, endless: int, finite: int) -> ExpectedStart:
    first, last = None if early is None else early.started.get(job.key), late.started.get(job.key)
    earliest = first.time if first is not None else None if early is None else early.stopped_at(job)
    guess = (first is not None and first.guess) or (last is not None and last.guess)
    if last is not None:
        least = last.time if earliest is None else min(earliest, last.time)
        return ExpectedStart(StartKind.KNOWN, least, last.time, last.after, guess=guess)
    if late.stopped_at(job) is not None:
        why = TOO_MUCH_AHEAD
    elif earliest is None:
        why = "it could not start even after all running jobs have finished"
    elif not finite:
        why = "no running job has an expected duration"
    else:
        silent = endless + late.silent
        says = agrees(silent, "has no expected duration", "have no expected duration")
        why = f"{counted(silent, 'job')} before it {says}"
    if earliest is None or earliest <= now:
        return unknown_start(why)
    return ExpectedStart(StartKind.NOT_BEFORE, earliest, why=why, guess=guess)


# -- playing the queues forward ------------------------------------------------------------------------


class _StartedJob(NamedTuple):
    time: int
    #: The jobs that ended on its chips, or just before it started.
    after: tuple[str, ...]
    guess: bool


@dataclass(slots=True, eq=False)
class _Group:
    """Waiting jobs that all start or all do not: of these the first is tried."""

    #: With their sort keys, the first to be served first.
    jobs: deque[tuple[tuple[Any, ...], Job]]
    line: Line
    #: Resource, chips and pods of a gang of equal pods; None: nothing is known without an attempt.
    need: tuple[str, int, int] | None
    #: Why the first one lacked room when it was tried last, and how many nodes had been freed before.
    lack: Reason | None = None
    freed_count: int = 0

    @property
    def namespace(self) -> str:
        return self.jobs[0][1].namespace


def _line_up(session: Session, waiting: Iterable[Job]) -> list[_Group]:
    """`waiting` are in the order in which they are served."""
    groups: dict[Hashable, _Group] = {}
    for job in waiting:
        if job.queue not in session.queues:
            continue
        kind = equivalence_class(session, job)
        group = groups.get(kind)
        if group is None:
            group = groups[kind] = _Group(deque(), line_of(session, job), _need(session, job))
        group.jobs.append((session.job_key(job), job))
    return list(groups.values())


class _Play:
    """All waiting jobs, and the ends of all others, in one direction of uncertainty."""

    def __init__(
        self,
        view: SchedulerView,
        session: Session,
        lengths: Mapping[str, RunLength],
        steps: int,
        *,
        late: bool,
    ) -> None:
        self._what_if = view.what_if
        self._session = session
        self._late = late
        self._now = session.now
        self._lengths = lengths
        self._steps = steps
        self._undo = ExitStack()
        #: Time of the end, number, what ends, whether that is a guess.
        self._ends: list[tuple[int, int, JobRun]] = []
        self._numbers = count()
        self._queues: dict[str, list[_Group]] = {}
        self._room = _Room(session)
        self._empty = _Room(session, empty=True)
        #: By node and chip: the number of the end that freed it last.
        self._freed: dict[tuple[int, int], int] = {}
        #: Names of what ended, in its order.
        self._names: list[str] = []
        self._guesses = False
        #: By key: what may end at any time, but is taken to end after everything else.
        self._last: dict[str, JobRun] = {}
        #: Whether what started last may have started at any time.
        self._any_time = False
        #: Whether queues share what there is. Then it is counted at each end who still waits.
        self._shares = len({job.queue for job in view.jobs.values()}) > 1
        #: Nodes on which something was freed, in that order.
        self._freed_nodes: list[int] = []
        #: By namespace: what it has used of the steps. Half of them are for all namespaces alike.
        self._used = Counter[str]()
        self._share = 0
        #: By namespace: how many groups it has.
        self._sizes: Counter[str] = Counter()
        self.started: dict[str, _StartedJob] = {}
        #: Jobs that started and are taken not to end.
        self.silent = 0
        #: The time up to which was looked, where that is not all.
        self.stopped: int | None = None
        #: The same for jobs of a namespace that has used its part of the steps.
        self._backed_off: dict[str, int] = {}

    def stopped_at(self, job: Job) -> int | None:
        """The time up to which was looked for the job, where that is not all."""
        return self._backed_off.get(job.key, self.stopped)

    def run(
        self,
        groups: Iterable[_Group],
        ends: Iterable[tuple[int, JobRun]],
        until: Job | None,
        last: Sequence[JobRun] = (),
    ) -> None:
        """`last`: gangs that lack pods; they end after everything else, or once they have their pods."""
        session = self._session
        self._last = {run.job.key: run for run in last}
        for group in groups:
            own = _Group(deque(group.jobs), group.line, group.need)
            self._queues.setdefault(group.line.queue, []).append(own)
            self._used[own.namespace] = 0
            self._sizes[own.namespace] += 1
        self._share = self._steps // (2 * max(1, len(self._used)))
        self._ends = [(time, next(self._numbers), run) for time, run in ends]
        heapify(self._ends)
        time = self._now
        session.waiting_counts = WaitingCounts(session.limits, session.jobs)
        try:
            with self._undo:
                self._serve(time, 0)
                while self._queues and (until is None or until.key not in self.started):
                    if not self._ends:
                        if not self._last:
                            break
                        self._ends = [(time, next(self._numbers), run) for run in self._last.values()]
                        self._last, self._any_time = {}, True
                    if self._steps <= 0:
                        self.stopped = time
                        return
                    time, before = self._ends[0][0], len(self._names)
                    self._end_all(time)
                    session.now = time
                    self._serve(time, before)
        finally:
            session.now = self._now
            session.waiting_counts = WaitingCounts(session.limits, session.jobs)

    def _end_all(self, time: int) -> None:
        """Everything ends that ends at this moment."""
        if self._shares:
            self._steps -= len(self._lengths) // _JOBS_A_STEP
        session, placements = self._session, self._session.state.pods
        statement = session.statement()
        self._undo.callback(statement.discard)
        while self._ends and self._ends[0][0] == time:
            run = heappop(self._ends)[2]
            self._freed_nodes += run.nodes
            for uid in run.pods:
                placement = placements[uid]
                if placement.node >= 0:
                    for chip in chips_of(placement.chips):
                        self._freed[placement.node, chip] = len(self._names)
                    node = placement.node
                    statement.evict(Eviction(run.job, placement.pod, "supposed to end", run.job))
                    self._room.changed(node)
                    self._freed_nodes.append(node)
                    self._steps -= 1
            if self._shares and run.job.key:
                # Shares of queues follow what their jobs ask for.
                self._undo.enter_context(self._what_if.without_pods(run.job))
            self._guesses = self._guesses or run.guessed
            self._names.append(run.title)

    def _serve(self, time: int, before: int) -> None:
        while self._serve_once(time, before):
            pass

    def _serve_once(self, time: int, before: int) -> bool:
        """Try the first job of each group, best queue and best job first, until none of them starts.

        Whether one started after another that may not be tried while so many wait: then that one may.
        """
        session = self._session
        held_out = again = False
        for namespace, size in list(self._sizes.items()):
            self._spend(namespace, 1 + size // _GROUPS_A_STEP)
            if not self._may_try(namespace):
                self._leave_out(namespace, time)
        ready = {name: self._first_of_groups(groups) for name, groups in self._queues.items()}
        blocked: set[Line] = set()
        while ready:
            name = next(iter(ready))
            if len(ready) > 1:
                name = min(ready, key=lambda name: session.queue_key(session.queues[name]))
            heap = ready[name]
            if not heap or self._steps <= 0:
                del ready[name]
                continue
            _, _, group = heappop(heap)
            if group.line in blocked or group.jobs[0][1].key in self._backed_off:
                continue
            job = group.jobs[0][1]
            lacks = not self._room.may_hold(group.need) or self._still_lacks(group, job)
            if not lacks:
                if not self._may_try(group.namespace):
                    self._leave_out(group.namespace, time)
                    continue
                reason = self._try_to_start(job, time, before)
                group.freed_count = len(self._freed_nodes)
                group.lack = reason if _is_of_nodes(reason) else None
                held_out = held_out or (reason is not None and reason.code == WAITING_LIMIT_REACHED.code)
                if reason is None:
                    again = held_out
                    self._leave(name, group)
                    if group.jobs:
                        heappush(heap, (group.jobs[0][0], next(self._numbers), group))
                    continue
                lacks = lacks_room(reason)
            if lacks and group.jobs and blocks(session, job) and self._empty.may_hold(group.need):
                blocked.add(group.line)
        return again and self._steps > 0

    def _still_lacks(self, group: _Group, job: Job) -> bool:
        """Whether nothing was freed on nodes that it selects since it did not fit."""
        if group.lack is None or group.need is None or not job.in_order:
            # A job whose pods do not exist yet selects no nodes by itself.
            return False
        freed, group.freed_count = self._freed_nodes[group.freed_count :], len(self._freed_nodes)
        selection = self._session.node_selection(job, job.in_order[0])
        if any(map(selection.selects, freed)):
            group.lack = None
        return group.lack is not None

    def _may_try(self, namespace: str) -> bool:
        """Whether the namespace has steps left: its own, or some that no other has a right to."""
        if self._used[namespace] < self._share:
            return True
        return self._steps > sum(max(0, self._share - used) for used in self._used.values())

    def _leave_out(self, namespace: str, time: int) -> None:
        """Continue as if the jobs of this namespace that are still waiting did not exist."""
        del self._sizes[namespace]
        for name, groups in list(self._queues.items()):
            for group in groups:
                if group.namespace == namespace:
                    self._backed_off.update((job.key, time) for _, job in group.jobs)
            self._queues[name] = [group for group in groups if group.namespace != namespace]
            if not self._queues[name]:
                del self._queues[name]

    def _spend(self, namespace: str, steps: int) -> None:
        self._steps -= steps
        self._used[namespace] += steps

    def _leave(self, name: str, group: _Group) -> None:
        """The first of the group has started."""
        _, first = group.jobs.popleft()
        started = self.started[first.key]
        while group.jobs and self._ends_at_once(first) and self._ends_at_once(group.jobs[0][1]):
            # It has taken nothing from the next.
            _, job = group.jobs.popleft()
            self.started[job.key] = started
            self._session.waiting_counts.started(job)
        if not group.jobs:
            self._sizes[first.namespace] -= 1
            self._queues[name].remove(group)
            if not self._queues[name]:
                del self._queues[name]

    def _ends_at_once(self, job: Job) -> bool:
        """Whether it may: nothing is known of how long it runs."""
        return not self._late and self._lengths[job.key].least <= 0

    def _first_of_groups(self, groups: Sequence[_Group]) -> list[tuple[tuple[Any, ...], int, _Group]]:
        # Where jobs may pass others, those need not be looked at for which there is no room.
        tried = [group for group in groups if self._session.is_strict or self._room.may_hold(group.need)]
        heap = [(group.jobs[0][0], next(self._numbers), group) for group in tried]
        heapify(heap)
        return heap

    def _try_to_start(self, job: Job, time: int, before: int) -> Reason | None:
        """The reason, where it does not start."""
        session = self._session
        steps = _ATTEMPT + len(job.pods)
        if job.policy is not None and (job.policy.block_nodes or job.policy.switch_class):
            # Planning reads every node.
            steps += session.state.node_count // 20
        self._spend(job.namespace, steps)
        try:
            session.budget.begin(job.namespace, len(job.pods))
            statements, reason = self._place(job, ())
            if reason is not None and (owners := lending_owners(session, job)):
                statements, reason = self._place(job, owners)
        except TooCostly as error:
            return error.reason
        except Exception as error:
            return INTERNAL_ERROR(where="the forecast", error=describe(error))
        if reason is None:
            self._has_started(job, time, before, statements)
        return reason

    def _place(self, job: Job, owners: Iterable[str]) -> tuple[list[Statement], Reason | None]:
        session = self._session
        placed: list[Statement] = []
        with reserved_free(session, job, owners), chips_excluded(session, job, withheld_chips(session, job)):
            reason = self._what_if.own_obstacle(session, job)
            if reason is not None:
                return placed, reason
            # A job whose gang is complete waits for the next of its pods.
            further = FurtherPods(session)
            reason = self._add(job, placed, further if waits_for_one_more(session, job) else None)
            if reason is not None:
                return placed, reason
            while further.wait(job) and self._add(job, placed, further) is None:
                pass
        return placed, None

    def _add(self, job: Job, placed: list[Statement], further: FurtherPods | None) -> Reason | None:
        """Place its gang, or the next of its further pods."""
        session = self._session
        statement = session.statement()
        pods = further.of(job) if further is not None else None
        try:
            reason = place_gang(session, job, statement, beyond_gang=further is not None, further=pods)
        except Exception:
            statement.discard()
            for one in reversed(placed):
                one.discard()
            raise
        if reason is not None:
            statement.discard()
        else:
            placed.append(statement)
        return reason

    def _has_started(self, job: Job, time: int, before: int, statements: Sequence[Statement]) -> None:
        session = self._session
        allocations = [one for statement in statements for one in statement.allocations]
        ends = {
            self._freed[one.node, chip]
            for one in allocations
            for chip in one.chips
            if (one.node, chip) in self._freed
        }
        numbers = sorted(ends or range(before, len(self._names)))[-_NAMED:]
        after = tuple(self._names[number] for number in numbers)
        self.started[job.key] = _StartedJob(self._now if self._any_time else time, after, self._guesses)
        session.waiting_counts.started(job)
        length = self._lengths[job.key]
        added = {one.pod.uid for one in allocations}
        runs = any(session.state.pods[uid].node >= 0 for uid in job.pods if uid not in added)
        if not runs and self._ends_at_once(job):
            for statement in reversed(statements):
                statement.discard()
            return
        for statement in statements:
            self._undo.callback(statement.discard)
        self._room.changed(*(one.node for one in allocations))
        # What is left of its reservation is free for others.
        reservation = session.reservations.of(job.key)
        self._freed_nodes += () if reservation is None else reservation.nodes
        self._undo.enter_context(session.reservations.open_to(job.key))
        if runs:
            # It ends with its other pods; a gang that lacked pods may do so from now on.
            if (own := self._last.pop(job.key, None)) is not None:
                heappush(self._ends, (max(time, own.earliest), next(self._numbers), own))
            return
        end = length.most if self._late else length.least
        if end is None:
            self.silent += 1
            return
        run = JobRun(job, tuple(job.pods), time + length.least, time + end, length.guessed)
        heappush(self._ends, (time + end, next(self._numbers), run))


def _is_of_nodes(reason: Reason | None) -> bool:
    """Whether only something that is freed on a node which the job selects could help."""
    if reason is None or reason.code not in (NO_NODE_FITS.code, GANG_INCOMPLETE.code):
        return False
    refusals = reason.details.get("refusals")
    return isinstance(refusals, Mapping) and not any(code in refusals for code in _OF_NEIGHBORS)


class _Room:
    """How many nodes have how many free chips: where that is too little, nothing has to be tried."""

    def __init__(self, session: Session, *, empty: bool = False) -> None:
        """`empty`: those of the cluster on which nothing runs."""
        self._session = session
        self._is_empty = empty
        self._nodes: dict[str, list[int]] = {}
        self._counts: dict[str, list[int]] = {}
        self._verdicts: dict[tuple[str, int, int], bool] = {}

    def changed(self, *nodes: int) -> None:
        self._verdicts.clear()
        fleets = self._session.state.fleets
        for resource, free in self._nodes.items():
            masks, counts = fleets[resource].free_mask, self._counts[resource]
            for node in nodes:
                counts[free[node]] -= 1
                free[node] = masks[node].bit_count()
                counts[free[node]] += 1

    def may_hold(self, need: tuple[str, int, int] | None) -> bool:
        if need is None or (len(self._session.reservations) and not self._is_empty):
            return True
        result = self._verdicts.get(need)
        if result is None:
            resource, chips, pods = need
            if resource not in self._nodes:
                self._count(resource)
            counts = self._counts[resource]
            places = sum(counts[free] * (free // chips) for free in range(chips, len(counts)))
            result = self._verdicts[need] = places >= pods
        return result

    def _count(self, resource: str) -> None:
        fleet = self._session.state.fleets[resource]
        nodes = range(len(fleet.free_mask))
        masks = (fleet.free_if_empty(node) for node in nodes) if self._is_empty else fleet.free_mask
        free = [mask.bit_count() for mask in masks]
        counts = [0] * 65
        for number in free:
            counts[number] += 1
        self._nodes[resource], self._counts[resource] = free, counts


def _need(session: Session, job: Job) -> tuple[str, int, int] | None:
    classes = {pod.cls for pod in job.pods.values()}
    if len(classes) != 1 or job.policy is None:
        return None
    (cls,) = classes
    if not cls.chips or cls.resource is None or cls.resource not in session.state.fleets:
        return None
    return cls.resource, cls.chips, max(1, missing_pods(session, job))
